package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A host without a polling worker is reported to the operator; when the worker polls again the
// clean goes on automatically.
func TestUnreachableHost_IsReportedAndWaitedFor(t *testing.T) {
	w := newBound(t)
	w.host.crash()
	ok[contract.Result](w.unbind("i1"))
	w.pass(4 * time.Minute)
	require.False(t, w.view().NeedsOperator)
	w.pass(2 * time.Minute)
	v := w.view()
	require.True(t, v.NeedsOperator)
	require.Equal(t, string(device.CodeHostUnreachable), v.Fault)
	require.NotEmpty(t, v.Remedy)
	require.Equal(t, device.Cleaning, v.DeviceState)
	zeroes := count(w.scheduledActivities, "zero")
	w.pass(30 * 24 * time.Hour)
	require.LessOrEqual(t, count(w.scheduledActivities, "zero")-zeroes, 30*24+5,
		"a host that is away for long costs little history")
	require.True(t, w.view().NeedsOperator)
	w.host.restart()
	v = w.reach(device.Available)
	require.False(t, v.NeedsOperator)
	require.Empty(t, v.Fault)
	require.True(t, w.host.clean())
}

// When a host reports its start it does not count as unreachable any more, even while its step
// takes hours.
func TestUnreachableHost_IsClearedWhenItStarts(t *testing.T) {
	w := newBound(t)
	w.host.crash()
	ok[contract.Result](w.unbind("i1"))
	w.until("the report", func() bool { return w.view().NeedsOperator })
	w.host.restart()
	w.signal(contract.SignalObserved, w.host.hint(w.clock()))
	w.stepRuns("zero")
	w.pass(100 * time.Millisecond)
	v := w.view()
	require.Equal(t, device.Cleaning, v.DeviceState)
	require.False(t, v.NeedsOperator)
	require.Empty(t, v.Fault)
	w.reach(device.Available)
	require.Len(t, w.host.inputs, 4)
}

// The last heartbeat's progress is passed to the next scheduling of the step.
func TestUnreachableHost_ResumePointIsPassedOn(t *testing.T) {
	w := newBound(t)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.pass(2*pace + pace/2)
	w.host.crash()
	require.Equal(t, 2, w.host.journal.offset)
	w.until("the report", func() bool { return w.view().NeedsOperator })
	w.host.restart()
	w.reach(device.Available)
	var resumed []contract.StepInput
	for _, in := range w.host.inputs[2:] {
		if in.Resume != nil {
			resumed = append(resumed, in)
		}
	}
	require.Len(t, resumed, 1)
	require.Equal(t, "zero", resumed[0].Step)
	require.EqualValues(t, 2*blockSize, resumed[0].Resume.Offset)
	require.Equal(t, "zero", resumed[0].Resume.Step)
	require.Nil(t, w.host.inputs[len(w.host.inputs)-1].Resume, "not passed to the next step")
}

// The scheduling's number rises with each, so that the host knows which is newest.
//
// F1
func TestEachSchedulingHasANumberOfItsOwn(t *testing.T) {
	w := newBound(t)
	w.host.crash()
	ok[contract.Result](w.unbind("i1"))
	w.until("the report", func() bool { return w.view().NeedsOperator })
	w.host.restart()
	w.reach(device.Available)
	w.nextRun()
	w.bindAgain("i2")
	w.turnOver("i2")
	var last int64
	for _, in := range w.host.inputs {
		require.Greater(t, in.Seq, last)
		last = in.Seq
	}
}

// The worker after one that was killed during a step resumes the step.
//
// D1
func TestCrashResumes(t *testing.T) {
	for _, back := range []time.Duration{time.Second, 2 * time.Minute, time.Hour} {
		w := newBound(t)
		ok[contract.Result](w.unbind("i1"))
		w.stepRuns("zero")
		w.pass(2 * pace)
		w.host.crash()
		w.pass(back)
		w.host.restart()
		zeroed := 0
		w.host.zeroed = func(int) { zeroed++ }
		w.requireReturned()
		require.LessOrEqual(t, zeroed, 3, "not from the beginning")
	}
}

// D1
func TestCrashEndsInErrorIfConfigured(t *testing.T) {
	p := standardPolicy()
	p.OnInterrupt = device.InterruptError
	w := newDeviceEnv(t, p)
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	require.Equal(t, device.InterruptError, w.host.inputs[2].Settings.OnInterrupt)
	w.pass(2 * pace)
	w.host.crash()
	w.host.restart()
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeInterrupted), v.Fault)
	ok[contract.Result](w.cleanUp())
	w.reach(device.Available)
}

// The clean keeps the settings of the worker that planned it.
//
// D1
func TestSettingsAreTheCleansOwn(t *testing.T) {
	p := standardPolicy()
	p.OnInterrupt, p.Verify, p.HostSilentAfter = device.InterruptError, "sample:4", 7*time.Minute
	w := newDeviceEnv(t, p)
	w.makeBound("i1")
	w.turnOver("i1")
	for _, in := range w.host.inputs {
		require.Equal(t, p.StepSettings, in.Settings)
	}
	w.setPolicy(standardPolicy())
	w.nextRun()
	w.bindAgain("i2")
	w.turnOver("i2")
	last := w.host.inputs[len(w.host.inputs)-1]
	require.Empty(t, last.Settings.OnInterrupt)
	require.Equal(t, "full", last.Settings.Verify)
}

// A host worker that does not support the step is reported at once.
func TestHostWorkerTooOld(t *testing.T) {
	for _, step := range []string{"zero", "verify"} {
		w := newBound(t)
		delete(w.host.steps, step)
		w.host.steps["other"] = 1
		ok[contract.Result](w.unbind("i1"))
		v := w.reach(device.Error)
		require.Equal(t, string(device.CodeHostWorkerTooOld), v.Fault)
		require.Contains(t, v.Remedy, "upgrade")
		require.Equal(t, 1, w.inventory.reserved)
		require.Less(t, w.clock().Sub(v.UpdatedAt), time.Minute)
		w.host.steps = map[string]int{"zero": 1, "verify": 1}
		ok[contract.Result](w.cleanUp())
		w.reach(device.Available)
	}
}

// The plan uses the steps of the last discovery.
//
// S2.87
func TestPlanNeedsTheHostsSteps(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	delete(w.host.steps, "verify")
	w.host.blocks = [blocks]string{}
	ok[contract.Result](w.enroll(true))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeHostWorkerTooOld), v.Fault)
	require.Empty(t, w.host.inputs, "nothing destructive without a complete plan")
	w.cleanUp().refused(device.CodeHostWorkerTooOld)
	w.host.steps["verify"] = 1
	w.signal(contract.SignalObserved, w.host.hint(w.clock())) // its worker starts
	w.pass(time.Minute)
	ok[contract.Result](w.cleanUp())
	w.reach(device.Available)
}

// A step's version changed during a clean: it starts again from the first step, with the same
// operation, also if discovery now finds another one.
//
// S3.16
func TestPlanOutdatedStartsOver(t *testing.T) {
	w := newBound(t)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.host.steps["verify"] = 2
	w.host.discovery.Operation = device.WriteZeroes
	v := w.reach(device.Available)
	var steps []string
	for _, in := range w.host.inputs[2:] {
		steps = append(steps, in.Step)
		require.Equal(t, device.Shred, in.Operation)
	}
	require.Equal(t, []string{"zero", "verify", "zero", "verify"}, steps)
	require.Equal(t, device.Shred, v.Cleans[1].Operation)
	require.Equal(t, 2, w.host.inputs[5].Version)
	require.Len(t, v.Cleans, 2, "one clean, not two")
}

// A new build, that has another version of a step which the plan does not have, and a new policy
// restart nothing: the clean goes on as it was planned.
//
// S3.16
func TestANewBuildOrPolicyRestartsNothing(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.steps["sanitize"] = 1
	w.makeBound("i1")
	began := len(w.host.inputs)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	p := standardPolicy()
	p.Priorities, p.Verify = map[string]float64{"zero": 71}, "sample:2"
	running := w.planner
	w.setPolicy(p)
	*running = *w.planner // as on another control worker, which replays the workflow
	w.host.crash()
	w.host.steps["sanitize"] = 2
	w.host.restart()
	w.signal(contract.SignalObserved, w.host.hint(w.clock()))
	v := w.reach(device.Available)
	inputs := w.host.inputs[began:]
	first := inputs[0]
	require.Greater(t, len(inputs), 2, "an attempt of zero for each build")
	for i, in := range inputs {
		require.Equal(t, first.Clean, in.Clean)
		require.Equal(t, first.Settings, in.Settings)
		require.True(t, in.Step == "zero" || i == len(inputs)-1, "%s", in.Step)
	}
	require.Len(t, v.Cleans[1].Steps, 2)
	require.Len(t, v.Cleans, 2)
}

// A host whose versions never settle ends in error after five times.
func TestReplanningIsBounded(t *testing.T) {
	w := newBound(t)
	version := 2
	ok[contract.Result](w.unbind("i1"))
	w.host.injectFault = func(what string, block int) error {
		if what == "zero" && block == 3 {
			version++
			w.host.steps["verify"] = version
		}
		return nil
	}
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodePlanOutdated), v.Fault)
	require.Equal(t, 1, w.inventory.reserved)
	w.host.injectFault = nil
}

// Discovery does not replace the recorded operation while the device is in use, and does when the
// device is idle.
//
// S2.28
func TestOperationIsReplacedOnlyWhenIdle(t *testing.T) {
	w := newBound(t)
	w.host.discovery.Operation = device.WriteZeroes
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	require.Equal(t, device.Shred, w.view().Operation)
	w.turnOver("i1")
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	require.Equal(t, device.WriteZeroes, w.view().Operation)
}

// Another device in the same slot stops everything.
//
// F11
func TestChangedIdentity(t *testing.T) {
	for name, lead := range map[string]func(*deviceEnv){
		"available": func(w *deviceEnv) { w.makeAvailable() },
		"allocated": func(w *deviceEnv) { w.makeBound("i1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			lead(w)
			w.host.discovery.Identity.Serial = "S2"
			w.signal(contract.SignalRefresh, contract.Hint{})
			w.pass(time.Minute)
			w.idle()
			v := w.view()
			require.Equal(t, string(device.CodeIdentityChanged), v.Fault)
			require.True(t, v.Dirty)
			require.Equal(t, 1, w.inventory.reserved)
			if name == "available" {
				require.Equal(t, device.Error, v.DeviceState)
			}
			require.Equal(t, "S1", v.Serial)
		})
	}
}

// The last discovery result can be queried, without a call to the host.
func TestDiscoveryResultCanBeQueried(t *testing.T) {
	w := newAvailable(t)
	value, err := w.env.QueryWorkflow(contract.QueryDiscovery)
	require.NoError(t, err)
	var facts contract.DiscoveryResult
	require.NoError(t, value.Get(&facts))
	require.Equal(t, w.host.discovery.Identity, facts.Identity)
	require.Equal(t, device.Shred, facts.Operation)
	require.Equal(t, w.host.steps, facts.Steps)
}
