package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// failStep makes a step fail before a block, until injectFault is reset.
func (w *deviceEnv) failStep(step string, block int, code device.Code) {
	w.host.injectFault = func(what string, at int) error {
		if what == step && at == block {
			return refuse(device.NeedsOperator, code)
		}
		return nil
	}
}

// A step that fails ends the clean, and is no error of the one who released the device.
//
// S3.11, S3.23, S3.48
func TestFailedStepNeedsTheOperator(t *testing.T) {
	for _, step := range []string{"zero", "verify"} {
		for block := range blocks {
			w := newBound(t)
			w.failStep(step, block, device.CodeIO)
			ok[contract.Result](w.unbind("i1"))
			v := w.reach(device.Error)
			require.Equal(t, string(device.CodeIO), v.Fault)
			require.NotEmpty(t, v.LastError)
			require.NotEmpty(t, v.Remedy)
			require.True(t, v.NeedsOperator)
			require.True(t, v.Maintenance)
			require.Equal(t, string(device.MaintenanceCleanFailed), v.MaintenanceReason)
			require.True(t, v.Dirty)
			require.Equal(t, "failed", v.Cleans[1].Outcome)
			require.Equal(t, device.CodeIO, v.Cleans[1].Fault)
			runs := len(w.host.inputs)
			w.pass(24 * time.Hour)
			require.Len(t, w.host.inputs, runs, "nothing is retried without the operator")
			require.Equal(t, 1, w.inventory.reserved)

			w.host.injectFault = nil
			w.nextRun()
			ok[contract.Result](w.cleanUp())
			v = w.reach(device.Available)
			require.False(t, v.Maintenance)
			require.False(t, v.NeedsOperator)
			require.Empty(t, v.Fault)
			require.Empty(t, v.LastError)
			require.True(t, w.host.clean())
			w.makeBound("i2")
		}
	}
}

// A verify that finds the tenant's data fails the clean, although zero succeeded.
//
// F19
func TestVerifyThatFindsData(t *testing.T) {
	w := newBound(t)
	w.host.read = func(block int) {
		if block == 1 {
			w.host.blocks[1] = "i1"
		}
	}
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeVerifyFailed), v.Fault)
	require.Equal(t, 1, w.inventory.reserved)
}

// Steps that an operator named do not make a device clean.
//
// F7
func TestNamedStepsNeverClearDirty(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	ok[contract.Result](w.enroll(false))
	ok[contract.Result](w.cleanUp("zero", "verify"))
	v := w.reach(device.Manageable)
	require.Equal(t, "steps_done", v.Cleans[0].Outcome)
	require.True(t, v.Dirty)
	require.True(t, w.host.clean())
	require.Equal(t, 1, w.inventory.reserved)
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	w.reach(device.Available)
	require.Len(t, w.host.inputs, 4, "the full plan runs all the same")
}

// S3.22
func TestNamedStepsRunInTheOrderGiven(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	ok[contract.Result](w.enroll(false))
	w.host.blocks = [blocks]string{}
	ok[contract.Result](w.cleanUp("verify", "zero"))
	w.reach(device.Manageable)
	require.Equal(t, "verify", w.host.inputs[0].Step)
	require.Equal(t, "zero", w.host.inputs[1].Step)
	w.cleanUp("polish").refused(device.CodeNoSuchStep)
	w.cleanUp("zero", " ").refused(device.CodeInvalid)
	require.Equal(t, device.Manageable, w.view().DeviceState)
}

// A step that the host supports but that does not apply to this device is refused, and nothing
// changes.
func TestAnUnplannedStepIsRefused(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.steps["sanitize"] = 1
	ok[contract.Result](w.enroll(false))
	before := w.view()
	r := w.cleanUp("zero", "sanitize").refused(device.CodeNoSuchStep)
	require.Contains(t, r.Fault.Remedy, "zero, verify")
	w.pass(time.Hour)
	require.Equal(t, before, w.view())
	require.Empty(t, w.host.inputs)
	ok[contract.Result](w.cleanUp("zero"))
	w.reach(device.Manageable)
}

// An abort is answered at once, and the step is waited for.
//
// F9
func TestAbortInEachPhase(t *testing.T) {
	for _, phase := range []struct {
		name string
		lead func(*deviceEnv)
		busy string
	}{
		{"reading the inventory", func(w *deviceEnv) {
			w.slow("", 4*time.Second, 4*time.Second)
			ok[contract.Result](w.unbind("i1"))
			w.pass(time.Second)
		}, ""},
		{"zero", func(w *deviceEnv) { ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") }, "zero"},
		{"verify", func(w *deviceEnv) { ok[contract.Result](w.unbind("i1")); w.stepRuns("verify") }, "verify"},
		{"replanning", func(w *deviceEnv) {
			w.host.steps["verify"] = 2
			n := count(w.scheduledActivities, "Discover")
			ok[contract.Result](w.unbind("i1"))
			w.until("discover again", func() bool { return count(w.scheduledActivities, "Discover") > n })
		}, ""},
		{"host unreachable", func(w *deviceEnv) {
			w.host.crash()
			ok[contract.Result](w.unbind("i1"))
			w.until("the report", func() bool { return w.view().NeedsOperator })
		}, ""},
		{"before the host counts as unreachable", func(w *deviceEnv) {
			w.host.crash()
			ok[contract.Result](w.unbind("i1"))
			w.pass(time.Minute)
		}, ""},
		{"crashed during a step", func(w *deviceEnv) {
			ok[contract.Result](w.unbind("i1"))
			w.stepRuns("zero")
			w.host.crash()
			w.pass(time.Second)
		}, ""},
		{"waiting for the operator", func(w *deviceEnv) {
			p := standardPolicy()
			p.Automated = false
			w.setPolicy(p)
			w.nextRun()
			ok[contract.Result](w.unbind("i1"))
			w.until("waiting for the operator", func() bool { return w.view().NeedsOperator })
		}, ""},
	} {
		t.Run(phase.name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.oneTimeUse = true
			w.makeBound("i1")
			w.host.cancelDelay = 10 * time.Minute
			phase.lead(w)
			asked := w.clock()
			r := ok[contract.Result](w.ask(contract.VerbAbort.Update()))
			require.NotEmpty(t, r.Note)
			require.Less(t, w.clock().Sub(asked), time.Second, "answered at once")
			if phase.busy != "" {
				require.Contains(t, r.Note, phase.busy)
				require.Equal(t, phase.busy, w.host.running)
				require.Equal(t, device.Cleaning, w.view().DeviceState, "until the step has stopped")
				require.True(t, ok[contract.Result](w.ask(contract.VerbAbort.Update())).Already)
			}
			w.onChange = func() {
				if w.view().DeviceState == device.Error && w.host.running != "" {
					w.Errorf("in error while %s still runs", w.host.running)
				}
			}
			v := w.reach(device.Error)
			require.Equal(t, string(device.CodeAborted), v.Fault)
			require.True(t, v.Maintenance)
			require.True(t, v.NeedsOperator)
			w.idle()
			w.ask(contract.VerbAbort.Update()).refused(device.CodeRefused)
			require.Equal(t, 1, w.inventory.reserved)
			w.host.restart()
			w.slow("", time.Millisecond, time.Millisecond)
			w.pass(time.Minute)
			require.Equal(t, device.Error, w.view().DeviceState, "no automatic second clean")
			ok[contract.Result](w.cleanUp())
			w.reach(device.Available)
			require.True(t, w.host.clean())
		})
	}
}

// F9
func TestNothingToAbort(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	ok[contract.Result](w.enroll(false))
	w.ask(contract.VerbAbort.Update()).refused(device.CodeRefused)
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	w.reach(device.Available)
	w.idle()
	w.ask(contract.VerbAbort.Update()).refused(device.CodeRefused)
	w.makeBound("i1")
	w.ask(contract.VerbAbort.Update()).refused(device.CodeRefused)
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	require.Len(t, w.host.inputs, 4, "a refused abort does not end a later clean")
}

// A configured budget limits the running time of the whole clean.
//
// F8, S2.62, S2.63
func TestBudgetOfTheWholeClean(t *testing.T) {
	p := standardPolicy()
	p.CleanupTimeout = 6 * pace
	w := newDeviceEnv(t, p)
	ok[contract.Result](w.enroll(true))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeTimeout), v.Fault)
	require.Equal(t, 6*pace, w.host.inputs[0].Budget)
	require.Equal(t, 2*pace, w.host.inputs[1].Budget, "what zero left of it")
}

// Waiting for an unreachable host does not count.
//
// F8
func TestWaitingForTheHostSpendsNoBudget(t *testing.T) {
	p := standardPolicy()
	p.CleanupTimeout = time.Minute
	w := newDeviceEnv(t, p)
	w.makeBound("i1")
	w.host.crash()
	ok[contract.Result](w.unbind("i1"))
	w.pass(3 * time.Hour)
	require.Equal(t, device.Cleaning, w.view().DeviceState)
	w.host.restart()
	w.reach(device.Available)
}

// Without a configured budget each step has its own.
//
// D5
func TestBudgetOfEachStep(t *testing.T) {
	w := newAvailable(t)
	require.Equal(t, 900*time.Second, w.host.inputs[0].Budget)
	require.Equal(t, 900*time.Second, w.host.inputs[1].Budget)
}

// The running step is shown.
//
// S3.14
func TestCurrentStepIsShown(t *testing.T) {
	w := newBound(t)
	require.Nil(t, w.view().CleanStep)
	ok[contract.Result](w.unbind("i1"))
	for _, step := range []string{"zero", "verify"} {
		w.stepRuns(step)
		require.Equal(t, step, w.view().CleanStep.Step)
		require.Equal(t, "deploy", w.view().CleanStep.Interface)
	}
	w.reach(device.Available)
	require.Nil(t, w.view().CleanStep)
}
