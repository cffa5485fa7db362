package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A host that nobody polls for is told to the operator; when it comes back the clean
// goes on by itself.
func TestSilentHost_IsToldAndWaitedFor(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeBound("i1")
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
	zeroes := count(w.names, "zero")
	w.pass(30 * 24 * time.Hour)
	require.Equal(t, zeroes, count(w.names, "zero"), "scheduled once more, without limit")
	w.host.restart()
	v = w.reach(device.Available)
	require.False(t, v.NeedsOperator)
	require.Empty(t, v.Fault)
	require.True(t, w.host.clean())
	w.noDefect()
}

// A host that says that it started is silent no more, though its step takes hours.
func TestSilentHost_IsNotToldAnyMoreOnceItSpeaks(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeBound("i1")
	w.host.crash()
	ok[contract.Result](w.unbind("i1"))
	w.until("silent", func() bool { return w.view().NeedsOperator })
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
	w.noDefect()
}

// What the last heartbeat told is handed to the next scheduling.
func TestSilentHost_ResumeIsHandedOver(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.pass(2*pace + pace/2)
	w.host.crash()
	require.Equal(t, 2, w.host.journal.offset)
	w.until("silent", func() bool { return w.view().NeedsOperator })
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
	require.Nil(t, w.host.inputs[len(w.host.inputs)-1].Resume, "not handed to the next step")
	w.noDefect()
}

// The scheduling's number rises with each, so that the host can tell which is newest.
//
// F1
func TestEachSchedulingHasANumberOfItsOwn(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeBound("i1")
	w.host.crash()
	ok[contract.Result](w.unbind("i1"))
	w.until("silent", func() bool { return w.view().NeedsOperator })
	w.host.restart()
	w.reach(device.Available)
	w.nextRun()
	w.onward("i2")
	ok[contract.Result](w.unbind("i2"))
	w.reach(device.Available)
	var last int64
	for _, in := range w.host.inputs {
		require.Greater(t, in.Seq, last)
		last = in.Seq
	}
	w.noDefect()
}

// A worker that is killed in mid-step is followed by one that goes on.
//
// D1
func TestCrashResumes(t *testing.T) {
	for _, back := range []time.Duration{time.Second, 2 * time.Minute, time.Hour} {
		w := newDeviceEnv(t, safePolicy())
		w.makeBound("i1")
		ok[contract.Result](w.unbind("i1"))
		w.stepRuns("zero")
		w.pass(2 * pace)
		w.host.crash()
		w.pass(back)
		w.host.restart()
		zeroed := 0
		w.host.zeroed = func(int) { zeroed++ }
		w.reach(device.Available)
		require.True(t, w.host.clean())
		require.LessOrEqual(t, zeroed, 3, "not from the beginning")
		w.noDefect()
	}
}

// D1
func TestCrashEndsInErrorWhereSoSet(t *testing.T) {
	p := safePolicy()
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
	w.noDefect()
}

// The clean keeps the settings of the worker that planned it.
//
// D1
func TestSettingsAreTheCleansOwn(t *testing.T) {
	p := safePolicy()
	p.OnInterrupt, p.Verify, p.HostSilentAfter = device.InterruptError, "sample:4", 7*time.Minute
	w := newDeviceEnv(t, p)
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	for _, in := range w.host.inputs {
		require.Equal(t, p.StepSettings, in.Settings)
	}
	w.setPolicy(safePolicy())
	w.nextRun()
	w.onward("i2")
	ok[contract.Result](w.unbind("i2"))
	w.reach(device.Available)
	last := w.host.inputs[len(w.host.inputs)-1]
	require.Empty(t, last.Settings.OnInterrupt)
	require.Equal(t, "full", last.Settings.Verify)
	w.noDefect()
}

// A host worker that does not know the step is told as such, at once.
//
// S2.87, S2.75
func TestHostWorkerTooOld(t *testing.T) {
	for _, step := range []string{"zero", "verify"} {
		w := newDeviceEnv(t, safePolicy())
		w.makeBound("i1")
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
		w.noDefect()
	}
}

// The plan itself knows what the host's worker can do, from its last look.
//
// S2.87
func TestPlanNeedsTheHostsSteps(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	delete(w.host.steps, "verify")
	w.host.blocks = [blocks]string{}
	ok[contract.Result](w.enroll(true))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeHostWorkerTooOld), v.Fault)
	require.Empty(t, w.host.inputs, "nothing destructive without a whole plan")
	w.host.steps["verify"] = 1
	w.signal(contract.SignalObserved, w.host.hint(w.clock())) // its worker starts
	w.pass(time.Minute)
	ok[contract.Result](w.cleanUp())
	w.reach(device.Available)
	w.noDefect()
}

// A step's version changed in mid-clean: again from the first step, with the
// same operation, whatever the host would choose now.
//
// S3.16
func TestPlanOutdatedBeginsAgain(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.host.steps["verify"] = 2
	w.host.facts.Operation = device.WriteZeroes
	v := w.reach(device.Available)
	var steps []string
	for _, in := range w.host.inputs[2:] {
		steps = append(steps, in.Step)
		require.Equal(t, device.Shred, in.Operation, "S2.28")
	}
	require.Equal(t, []string{"zero", "verify", "zero", "verify"}, steps)
	require.Equal(t, device.Shred, v.Cleans[1].Operation)
	require.Equal(t, 2, w.host.inputs[5].Version)
	require.Len(t, v.Cleans, 2, "one clean, not two")
	w.noDefect()
}

// A host whose versions never settle ends in error after five times.
//
// S3.16
func TestPlanningAgainIsBounded(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeBound("i1")
	version := 2
	ok[contract.Result](w.unbind("i1"))
	w.host.trouble = func(what string, block int) error {
		if what == "zero" && block == 3 {
			version++
			w.host.steps["verify"] = version
		}
		return nil
	}
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodePlanOutdated), v.Fault)
	require.Equal(t, 1, w.inventory.reserved)
	w.host.trouble = nil
	w.noDefect()
}

// A second host start's look does not replace what was locked in while it is in use,
// and does where nothing is under way (S2.28, S2.29).
//
// S2.28
func TestOperationIsReplacedOnlyAtRest(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeBound("i1")
	w.host.facts.Operation = device.WriteZeroes
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	require.Equal(t, device.Shred, w.view().Operation)
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	require.Equal(t, device.WriteZeroes, w.view().Operation)
	w.noDefect()
}

// Another device in the same place stops everything.
//
// F11
func TestChangedIdentity(t *testing.T) {
	for name, lead := range map[string]func(*deviceEnv){
		"available": func(w *deviceEnv) { w.makeAvailable() },
		"allocated": func(w *deviceEnv) { w.makeBound("i1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, safePolicy())
			lead(w)
			w.host.facts.Identity.Serial = "S2"
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
			w.noDefect()
		})
	}
}

// A host whose looks fail over and over does not keep a tenant from being served.
func TestHostTrouble_DoesNotBlockBinds(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeAvailable()
	w.host.trouble = func(what string, _ int) error {
		if what == contract.ActivityDiscover {
			return refuse(device.Transient, device.CodeStateDirError)
		}
		return nil
	}
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	asked := w.clock()
	w.makeBound("i1")
	require.Less(t, w.clock().Sub(asked), 5*time.Minute)
	w.noDefect()
}

// What the host said of a device can be asked for, without touching anything.
func TestTheHostsFactsCanBeAsked(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeAvailable()
	value, err := w.env.QueryWorkflow(contract.QueryDiscovery)
	require.NoError(t, err)
	var facts contract.DiscoveryResult
	require.NoError(t, value.Get(&facts))
	require.Equal(t, w.host.facts.Identity, facts.Identity)
	require.Equal(t, device.Shred, facts.Operation)
	require.Equal(t, w.host.steps, facts.Steps)
	w.noDefect()
}
