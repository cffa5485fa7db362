package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// atRelease runs do when the first write that lowers is about to be sent, or has been.
func (w *deviceEnv) atUnreserve(after bool, do func() error) {
	done := false
	w.inventory.injectFault = func(call string, isAfter bool) error {
		if call != "PutReserved" || isAfter != after || done || len(w.host.inputs) < 4 || w.host.journal.step != "verify" || !w.host.journal.done {
			return nil
		}
		done = true
		return do()
	}
}

// returning brings a device to the end of its second clean, with do at its release.
func returnWith(t *testing.T, owner device.Owner, after bool, do func(*deviceEnv) error) *deviceEnv {
	w := newDeviceEnv(t, standardPolicy())
	w.owner = owner
	w.makeBound("i1")
	w.atUnreserve(after, func() error { return do(w) })
	w.inventory.writes = nil
	ok[contract.Result](w.unbind("i1"))
	return w
}

// F5
func TestLostAnswerOfUnreserveIsReadBack(t *testing.T) {
	for _, owner := range owners {
		w := returnWith(t, owner, true, func(*deviceEnv) error { return lostAnswer() })
		w.reach(device.Available)
		w.idle()
		require.Len(t, w.inventory.unreserves(), 1, "it had worked: nothing is written again")
		require.Zero(t, w.inventory.reserved)
		require.Len(t, w.host.inputs, 4)
		w.requireNoDefect()
	}
}

// F5
func TestLostUnreserveIsRepeatedWithTheSameGeneration(t *testing.T) {
	for _, owner := range owners {
		w := returnWith(t, owner, false, func(*deviceEnv) error { return lostAnswer() })
		w.reach(device.Available)
		w.idle()
		require.Zero(t, w.inventory.reserved)
		require.Len(t, w.host.inputs, 4)
		require.Len(t, w.inventory.unreserves(), 1) // the first never reached the store
		require.Equal(t, 2, count(w.scheduledActivities, "Unreserve")-1)
		w.requireNoDefect()
	}
}

// An attempt that hangs is given up after a minute; when it comes through in the end
// its generation is spent.
//
// F5
func TestLateUnreserveHasNoEffect(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeBound("i1")
	slow := true
	w.lag = func(activity string) (time.Duration, time.Duration) {
		if activity == contract.ActivityUnreserve && slow {
			slow = false
			return time.Hour, time.Millisecond
		}
		return time.Millisecond, time.Millisecond
	}
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	w.idle()
	w.makeBound("i2")
	w.pass(2 * time.Hour)
	require.Equal(t, 1, w.inventory.reserved, "the late release lowered a bound device")
	last := w.inventory.writes[len(w.inventory.writes)-1]
	require.Zero(t, last.reserved)
	require.False(t, last.done)
	w.requireNoDefect()
}

// Somebody wrote the provider meanwhile: no generation that a look shows is ever used
// to lower, and the device is cleaned again.
//
// F5
func TestReservationChangedIsCleanedAgain(t *testing.T) {
	for _, owner := range owners {
		for name, meddle := range map[string]func(*deviceEnv){
			"burned anew": func(w *deviceEnv) { w.inventory.writeByOther(1) },
			"lowered, used, left, burned": func(w *deviceEnv) {
				w.inventory.writeByOther(0)
				w.inventory.allocate("c")
				w.inventory.free("c")
				w.inventory.writeByOther(1)
			},
			"lowered, used, left, not more": func(w *deviceEnv) {
				w.inventory.writeByOther(0)
				w.inventory.allocate("c")
				w.inventory.free("c")
				w.inventory.reserved = 1
			},
		} {
			t.Run(string(owner)+" "+name, func(t *testing.T) {
				var spent int64
				w := returnWith(t, owner, false, func(w *deviceEnv) error {
					spent = w.inventory.generation
					meddle(w)
					w.host.writeAsTenant("c")
					return nil
				})
				w.until("a third clean", func() bool { return len(w.host.inputs) > 4 })
				w.reach(device.Available)
				w.idle()
				require.True(t, w.host.clean())
				require.Len(t, w.host.inputs, 6)
				lowerings := w.inventory.unreserves()
				require.Len(t, lowerings, 2)
				require.Equal(t, write{generation: spent, done: false}, lowerings[0])
				require.True(t, lowerings[1].done)
				w.requireMatchingGenerations()
				w.requireNoDefect()
			})
		}
	}
}

// generationsAreTheLooks insists that each lowering that worked used the generation
// that the raise before it made: nothing else was written in between.
func (w *deviceEnv) requireMatchingGenerations() {
	w.t.Helper()
	for i, low := range w.inventory.writes {
		if low.reserved != 0 || !low.done {
			continue
		}
		raised := false
		for _, up := range w.inventory.writes[:i] {
			raised = raised || up.reserved == 1 && up.done && up.generation+1 == low.generation
		}
		require.True(w.t, raised, "F5: lowered with generation %d, which no raise made", low.generation)
	}
}

// Used at the very moment of the return: the release is not sent again, nothing is
// wiped, the consumer has it.
//
// F5
func TestUsedDuringTheReturn(t *testing.T) {
	for _, owner := range owners {
		w := returnWith(t, owner, false, func(w *deviceEnv) error {
			w.inventory.writeByOther(0)
			w.inventory.allocate("c1")
			w.host.writeAsTenant("c1")
			return nil
		})
		v := w.reach(device.Allocated)
		require.Equal(t, "c1", *v.InstanceUUID)
		w.pass(time.Hour)
		require.Equal(t, "c1", w.host.blocks[0])
		w.requireNoDefect()
	}
}

// An inventory that refuses the release for good: error, burned, and cleaned again by
// the operator.
//
// F5
func TestRefusedUnreserveNeedsTheOperator(t *testing.T) {
	for _, owner := range owners {
		w := returnWith(t, owner, false, func(*deviceEnv) error {
			return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
		})
		v := w.reach(device.Error)
		require.True(t, v.NeedsOperator)
		require.True(t, v.Dirty)
		require.Equal(t, string(device.CodeInventoryInvalid), v.Fault)
		require.Equal(t, 1, w.inventory.reserved)
		ok[contract.Result](w.cleanUp())
		w.reach(device.Available)
		w.requireMatchingGenerations()
		w.requireNoDefect()
	}
}

// The look after a lost answer fails for good while the release is still on its way.
// Whatever becomes of that, a device in error must not stay free in the inventory.
//
// F5, S2.40
func TestLateUnreserveDoesNotFreeADeviceInError(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeBound("i1")
	w.lag = func(activity string) (time.Duration, time.Duration) {
		if activity == contract.ActivityUnreserve {
			return 5 * time.Minute, time.Millisecond
		}
		return time.Millisecond, time.Millisecond
	}
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("verify")
	w.until("the release", func() bool { return count(w.scheduledActivities, "Unreserve") == 2 })
	w.inventory.injectFault = times(1, "Usages", false, fault(device.NeedsOperator, device.CodeInventoryInvalid))
	w.reach(device.Error)
	w.pass(time.Hour)
	require.Equal(t, device.Error, w.view().DeviceState)
	require.Equal(t, 1, w.inventory.reserved, "in error, and free in the inventory")
	w.requireNoDefect()
}

// The device is clean and being returned: abort comes too late, a hold does not.
//
// S2.51
func TestMaintenanceDuringTheReturn(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeBound("i1")
	w.lag = func(activity string) (time.Duration, time.Duration) {
		if activity == contract.ActivityUnreserve {
			return 4 * time.Second, 4 * time.Second
		}
		return time.Millisecond, time.Millisecond
	}
	ok[contract.Result](w.unbind("i1"))
	w.until("the release", func() bool { return count(w.scheduledActivities, "Unreserve") == 2 })
	w.ask(contract.UpdateAbort).refused(device.CodeRefused)
	ok[contract.Result](w.maintain(false))
	v := w.reach(device.Available)
	require.True(t, v.Maintenance)
	w.until("burned for the hold", func() bool { return w.inventory.reserved == 1 && w.activitiesInFlight == 0 })
	w.pass(time.Minute)
	require.Equal(t, 1, w.inventory.reserved)
	w.lag = func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond }
	ok[contract.Result](w.maintain(true))
	require.Zero(t, w.inventory.reserved)
	w.requireMatchingGenerations()
	w.requireNoDefect()
}
