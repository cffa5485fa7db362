package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// cancel cancels the present run, as the Web UI does.
func (w *deviceEnv) cancel() { w.after(1, func() { w.env.CancelWorkflow() }) }

func TestCancel_IsAnAbortInEveryRun(t *testing.T) {
	w := newBound(t)
	for range 3 {
		runs := w.runs
		if v := w.view(); v.InstanceUUID != nil {
			ok[contract.Result](w.unbind(*v.InstanceUUID))
		} else {
			ok[contract.Result](w.cleanUp())
		}
		w.stepRuns("zero")
		w.host.cancelDelay = time.Minute
		w.cancel()
		w.pass(time.Second)
		require.Equal(t, device.Cleaning, w.view().DeviceState, "the step is waited for")
		require.Contains(t, w.view().LastRefusal, "Cancel")
		w.cancel() // Temporal ignores a second cancel of one run
		v := w.reach(device.Error)
		require.Equal(t, string(device.CodeAborted), v.Fault)
		w.until("the next run", func() bool { return w.runs == runs+1 })
		require.Equal(t, device.Error, w.view().DeviceState)
		require.Equal(t, 1, w.inventory.reserved)
	}
	w.host.cancelDelay = 0
	ok[contract.Result](w.cleanUp())
	w.reach(device.Available)
}

// While no step runs, a cancel changes nothing, is recorded as refused, and does not end the
// device's workflow.
func TestCancel_ChangesNothingWhereNothingRuns(t *testing.T) {
	for _, p := range startStates {
		if p.name == "cleaning" || p.name == "pending_cleaning" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			p.lead(w)
			before := w.view()
			runs := w.runs
			for i := range 3 {
				w.cancel()
				w.until("the next run", func() bool { return w.runs == runs+1+i || !w.live })
				require.True(t, w.live, "%v", w.finishErr)
				require.Contains(t, w.view().LastRefusal, "Cancel")
			}
			w.pass(time.Hour)
			require.Equal(t, before.DeviceState, w.view().DeviceState)
			require.Equal(t, before.InstanceUUID, w.view().InstanceUUID)
			require.Equal(t, before.ClaimedBy, w.view().ClaimedBy)
			w.bindAgainUnlessRetired("i9")
		})
	}
}

// A cancel does not interrupt a bind.
func TestCancel_DuringABind(t *testing.T) {
	w := newAvailable(t)
	w.slow("", 4*time.Second, 4*time.Second)
	bind := w.bind("i1", "r1")
	w.pass(time.Second)
	w.cancel()
	require.Equal(t, 1, ok[contract.Result](bind).Binding)
	w.until("the next run", func() bool { return w.runs == 2 })
	require.Equal(t, "i1", *w.view().InstanceUUID)
}

func TestCancel_DuringEnrollmentAndReturn(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.slow("", 2*time.Second, 2*time.Second)
	enroll := w.enroll(true)
	w.pass(time.Second)
	w.cancel()
	ok[contract.Result](enroll)
	w.reach(device.Available)
	w.idle()
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	n := count(w.scheduledActivities, "Unreserve")
	w.until("Unreserve", func() bool { return count(w.scheduledActivities, "Unreserve") > n })
	w.cancel()
	w.reach(device.Available)
	w.idle()
	require.Zero(t, w.inventory.reserved)
	w.bindAgain("i2")
}

// While a clean waits for the operator (D7), a cancel either leads to error, as abort does, or
// is refused. What it reports is what it did.
func TestCancel_WhileACleanAwaitsTheOperator(t *testing.T) {
	w := newDeviceEnv(t, notAutomated())
	w.oneTimeUse = true
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	require.True(t, w.view().NeedsOperator)
	runs := w.runs
	w.cancel()
	w.until("the next run", func() bool { return w.runs > runs })
	v := w.view()
	if v.DeviceState == device.Error {
		require.Equal(t, string(device.CodeAborted), v.Fault)
	} else {
		require.NotContains(t, v.LastRefusal, "ends in error")
	}
	ok[contract.Result](w.cleanUp())
	w.reach(device.Available)
}

// A clean that must stop does not end the next one: the device is provided while its step still stops.
//
// F9
func TestAStoppedCleanDoesNotEndTheNextOne(t *testing.T) {
	for name, next := range map[string]func(*deviceEnv){
		"named steps, and its provider was re-created": func(w *deviceEnv) {
			ok[contract.Result](w.ask(contract.VerbManage.Update()))
			ok[contract.Result](w.cleanUp("verify"))
			w.stepRuns("verify")
			w.inventory.recreate("again")
			w.hintReconcile()
			w.until("its end", func() bool { return w.view().DeviceState == device.Manageable })
		},
		"retired as lost, and replaced": func(w *deviceEnv) {
			w.allocatedByNova("c1")
			w.inventory.free("c1")
			w.hintReconcile()
			w.stepRuns("verify")
			ok[contract.Result](w.send(contract.VerbRetire.Update(), "", contract.RetireInput{Reason: "lost", Lost: true}))
			w.host.discovery.Identity.Serial = "S2"
			ok[contract.Result](w.replace(contract.ReplaceInput{Reason: "another drive"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNovaDevice(t)
			w.makeAvailable()
			w.host.cancelDelay = time.Minute
			next(w)
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			require.NotEmpty(t, w.host.running, "its step stops")
			w.until("its end", func() bool {
				state := w.view().DeviceState
				return state == device.Available || state == device.Error
			})
			require.Equal(t, device.Available, w.view().DeviceState)
			w.idle()
			require.True(t, w.host.clean())
		})
	}
}
