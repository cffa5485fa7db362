package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// requireWait checks what the device waits for, and whether the operator was called.
func (w *deviceEnv) requireWait(code device.Code, called bool) contract.DeviceStatus {
	w.t.Helper()
	v := w.view()
	require.NotNil(w.t, v.Waiting, w.describe())
	require.Equal(w.t, code, v.Waiting.Code)
	require.Equal(w.t, called, v.NeedsOperator, w.describe())
	require.Equal(w.t, string(code), v.Fault)
	require.NotEmpty(w.t, v.LastError)
	return v
}

// requireNoWait checks that nothing is left of a wait.
func (w *deviceEnv) requireNoWait() {
	w.t.Helper()
	v := w.view()
	require.Nil(w.t, v.Waiting, w.describe())
	require.Empty(w.t, v.Fault)
	require.False(w.t, v.NeedsOperator)
}

// Whatever is tried again shows its cause at once, calls the operator when it has lasted, and
// ends by itself; the wait of a day costs little history.
//
// F29
func TestWaitsShowTheirCause(t *testing.T) {
	away := func(call string, after bool) error {
		if after {
			return nil
		}
		return fault(device.Transient, device.CodeInventoryUnavailable)()
	}
	for name, tt := range map[string]struct {
		lead func(*deviceEnv)
		heal func(*deviceEnv)
		code device.Code
		ends device.State
	}{
		"the inventory at the start of a clean": {
			lead: func(w *deviceEnv) {
				w.makeBound("i1")
				w.inventory.injectFault = away
				ok[contract.Result](w.unbind("i1"))
			},
			heal: func(w *deviceEnv) { w.inventory.injectFault = nil },
			code: device.CodeInventoryUnavailable, ends: device.Available,
		},
		"the inventory at the return": {
			lead: func(w *deviceEnv) {
				w.makeBound("i1")
				ok[contract.Result](w.unbind("i1"))
				w.stepRuns("verify")
				w.inventory.injectFault = away
				w.until("the return", func() bool { return count(w.scheduledActivities, "Unreserve") == 2 })
			},
			heal: func(w *deviceEnv) { w.inventory.injectFault = nil },
			code: device.CodeInventoryUnavailable, ends: device.Available,
		},
		"the inventory at a re-check": {
			lead: func(w *deviceEnv) {
				w.makeBound("i1")
				w.inventory.injectFault = away
				w.signal(contract.SignalObserved, contract.Hint{Source: "test"})
			},
			heal: func(w *deviceEnv) { w.inventory.injectFault = nil },
			code: device.CodeInventoryUnavailable, ends: device.Allocated,
		},
		"the state directory of the host": {
			lead: func(w *deviceEnv) {
				w.makeBound("i1")
				w.host.injectFault = func(string, int) error { return refuse(device.Transient, device.CodeStateDirError) }
				ok[contract.Result](w.unbind("i1"))
			},
			heal: func(w *deviceEnv) {
				w.host.injectFault = nil
				w.until("the next step", func() bool { return w.host.running == "verify" })
				w.requireNoWait() // it ends with the step, not with the clean
			},
			code: device.CodeStateDirError, ends: device.Available,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			tt.lead(w)
			w.pass(5 * time.Second)
			since := w.requireWait(tt.code, false).Waiting.Since
			w.pass(4 * time.Minute)
			w.requireWait(tt.code, false)
			w.pass(2 * time.Minute)
			require.Equal(t, since, w.requireWait(tt.code, true).Waiting.Since)
			upserts := w.upserts
			w.pass(5 * time.Hour)
			w.requireWait(tt.code, true)
			require.Less(t, w.upserts-upserts, 10, "the same wait is published once")
			tt.heal(w)
			w.pass(2 * time.Minute)
			w.reach(tt.ends)
			w.idle()
			w.requireNoWait()
		})
	}
}

// A host that no worker polls for shows that soon, long before it calls the operator.
//
// F29
func TestUnreachableHost_IsShownSoon(t *testing.T) {
	w := newBound(t)
	w.host.crash()
	ok[contract.Result](w.unbind("i1"))
	w.pass(30 * time.Second)
	w.requireWait(device.CodeHostUnreachable, false)
	w.pass(5 * time.Minute)
	w.requireWait(device.CodeHostUnreachable, true)
	w.host.restart()
	w.reach(device.Available)
	w.requireNoWait()
}

// A report of a step that has ended, or of an earlier scheduling, is dropped; one of a step
// without progress calls the operator at once and ends with its progress.
//
// F29
func TestReportsOfSteps(t *testing.T) {
	w := newBound(t)
	report := contract.WaitReport{For: contract.WaitHost, Stalled: true,
		Fault: device.Fault{Code: device.CodeNoProgress, Message: "m", Remedy: "r"}}
	send := func(seq int64, over bool) {
		in := report
		if in.Seq = seq; over {
			in.Fault = device.Fault{}
		}
		w.signal(contract.SignalObserved, contract.Hint{Wait: &in})
		w.pass(100 * time.Millisecond)
	}
	send(2, false)
	w.requireNoWait()
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	seq := w.host.inputs[len(w.host.inputs)-1].Seq
	send(seq-1, false)
	w.requireNoWait()
	send(seq, false)
	w.requireWait(device.CodeNoProgress, true)
	send(seq, true)
	w.requireNoWait()
	send(seq, false)
	w.reach(device.Available)
	w.requireNoWait()
}

// A queue that moves never calls the operator by itself.
//
// F29
func TestAQueueThatMovesDoesNotCallTheOperator(t *testing.T) {
	w := newBound(t)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.host.injectFault = func(string, int) error { return refuse(device.Transient, device.CodeWaitingForSlot) }
	seq := w.host.inputs[len(w.host.inputs)-1].Seq
	w.signal(contract.SignalObserved,
		contract.Hint{Wait: &contract.WaitReport{For: contract.WaitHost, Seq: seq, Moving: true,
			Fault: device.Fault{Code: device.CodeWaitingForSlot, Message: "m", Remedy: "r"}}})
	w.pass(time.Second)
	w.requireWait(device.CodeWaitingForSlot, false)
	w.host.injectFault = nil
	w.reach(device.Available)
	w.requireNoWait()
}

// Nova's provider is away for a moment, as while Nova re-creates it: the clean waits for it,
// also for hours, and goes on with the new one once it is burned.
//
// F29
func TestCleanWaitsForItsProvider(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, time.Hour} {
		w := newNovaDevice(t)
		w.makeBound("i1")
		w.inventory.providerGone = true
		ok[contract.Result](w.unbind("i1"))
		w.pass(2 * time.Second)
		w.requireWait(device.CodeNoProvider, false)
		require.Equal(t, device.PendingCleaning, w.view().DeviceState)
		w.pass(away)
		require.Equal(t, away > time.Minute, w.view().NeedsOperator)
		w.recreateProvider(false)
		require.Zero(t, w.inventory.reserved, "as Nova makes it")
		w.within(time.Minute, "burned", func() bool { return w.inventory.reserved == 1 })
		w.requireReturned()
		require.Len(t, w.view().Cleans, 2)
		w.requireNoWait()
	}
}

// A clean that waits for its provider can be aborted.
func TestACleanThatWaitsForItsProviderIsAborted(t *testing.T) {
	w := newNovaDevice(t)
	w.makeBound("i1")
	w.inventory.providerGone = true
	ok[contract.Result](w.unbind("i1"))
	w.pass(2 * time.Minute)
	ok[contract.Result](w.ask(contract.VerbAbort.Update()))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeAborted), v.Fault)
}

// Failed work is tried again after a second, and at once after a hint.
func TestFailedWorkIsTriedAgainSoon(t *testing.T) {
	w := newBound(t)
	w.inventory.injectFault = func(string, bool) error {
		return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
	}
	reads := func() int { return count(w.scheduledActivities, contract.ActivityReadReservation) }
	before := reads()
	w.signal(contract.SignalObserved, contract.Hint{Source: "test"})
	w.pass(500 * time.Millisecond)
	require.Equal(t, 1, reads()-before)
	w.pass(time.Second)
	require.Equal(t, 2, reads()-before, "after a second")
	w.pass(10 * time.Minute)
	require.Less(t, reads()-before, 30, "longer pauses the longer it fails")
	before = reads()
	w.signal(contract.SignalObserved, contract.Hint{Source: "test"})
	w.pass(500 * time.Millisecond)
	require.Equal(t, 1, reads()-before, "a hint ends the pause")
	w.inventory.injectFault = nil
	w.pass(time.Minute)
	w.requireNoWait()
}

// A client that writes the provider all the time has the device cleaned again each time, with
// a growing pause in which it stays reserved; the operator is called. After a quiet time
// nothing is left of it.
//
// F5, F29
func TestForeignWritesArePaused(t *testing.T) {
	for _, owner := range owners {
		t.Run(string(owner), func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = owner
			w.makeBound("i1")
			writing := true
			var write func()
			write = func() {
				if writing {
					w.inventory.writeByOther(1)
					w.after(500*time.Millisecond, write)
				}
			}
			ok[contract.Result](w.unbind("i1"))
			w.stepRuns("zero") // from here on the record says that no instance has it
			w.after(1, write)
			// A provider of Burnish's own that has been written to is looked into before the clean.
			tries := func() int {
				return count(w.scheduledActivities, "zero") + count(w.scheduledActivities, contract.ActivityEnsureProvider)
			}
			w.pass(10 * time.Minute)
			early := tries()
			require.Greater(t, early, 4, "each foreign write means cleaned again")
			require.Less(t, early, 16)
			w.pass(2 * time.Hour)
			require.Less(t, tries()-early, 16, "at least ten minutes between two")
			require.Equal(t, 1, w.inventory.reserved)
			w.until("the call", func() bool { return w.view().Waiting != nil && w.view().Waiting.For == contract.WaitPause })
			w.requireWait(device.CodeReservationChanged, true)
			writing = false
			w.requireReturned()
			w.requireNoWait()
		})
	}
}
