package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// atUnreserve calls do before or after the first write that sets reserved to 0.
func (w *deviceEnv) atUnreserve(after bool, do func() error) {
	done := false
	w.inventory.injectFault = func(call string, isAfter bool) error {
		if call != "PutReserved" || isAfter != after || done || len(w.host.inputs) < 4 || w.host.journal.step != "verify" ||
			!w.host.journal.done {
			return nil
		}
		done = true
		return do()
	}
}

// returnWith brings a device to the end of its second clean, and calls do at its Unreserve.
func returnWith(t *testing.T, owner device.Owner, after bool, do func(*deviceEnv) error) *deviceEnv {
	w := newDeviceEnv(t, standardPolicy())
	w.owner = owner
	w.makeBound("i1")
	w.atUnreserve(after, func() error { return do(w) })
	w.inventory.writes = nil
	ok[contract.Result](w.unbind("i1"))
	return w
}

// The end of the clean is recorded before the write that returns the device: whoever reads the
// device's state after that write, as a later run does, finds it on its way back, and clean.
//
// F5
func TestReturningIsRecordedBeforeTheWrite(t *testing.T) {
	for _, owner := range owners {
		var at []contract.DeviceStatus
		w := returnWith(t, owner, false, func(w *deviceEnv) error { at = append(at, w.view()); return nil })
		w.reach(device.Available)
		require.Len(t, at, 1)
		v := at[0]
		require.Equal(t, []any{device.Cleaning, false, "cleaned"},
			[]any{v.DeviceState, v.Dirty, v.Cleans[len(v.Cleans)-1].Outcome})
		require.Len(t, v.Cleans, 2)
		require.Len(t, w.inventory.unreserves(), 1)
	}
}

// F5
func TestLostAnswerOfUnreserveIsReadBack(t *testing.T) {
	for _, owner := range owners {
		w := returnWith(t, owner, true, func(*deviceEnv) error { return lostAnswer() })
		w.returned()
		require.Len(t, w.inventory.unreserves(), 1, "the write had effect: it is not repeated")
		require.Zero(t, w.inventory.reserved)
		require.Len(t, w.host.inputs, 4)
	}
}

// F5
func TestLostUnreserveIsRepeatedWithTheSameGeneration(t *testing.T) {
	for _, owner := range owners {
		w := returnWith(t, owner, false, func(*deviceEnv) error { return lostAnswer() })
		w.returned()
		require.Zero(t, w.inventory.reserved)
		require.Len(t, w.host.inputs, 4)
		require.Len(t, w.inventory.unreserves(), 1) // the first never reached the store
		require.Equal(t, 2, count(w.scheduledActivities, "Unreserve")-1)
	}
}

// An attempt that hangs times out after a minute; when its write arrives later, its generation
// is outdated.
//
// F5
func TestLateUnreserveHasNoEffect(t *testing.T) {
	w := newBound(t)
	w.noLocalCalls = true // one in the task calls no more after its second
	slow := true
	w.lag = func(activity string) (time.Duration, time.Duration) {
		if activity == contract.ActivityUnreserve && slow {
			slow = false
			return time.Hour, time.Millisecond
		}
		return time.Millisecond, time.Millisecond
	}
	ok[contract.Result](w.unbind("i1"))
	w.returned()
	w.makeBound("i2")
	w.pass(2 * time.Hour)
	require.Equal(t, 1, w.inventory.reserved, "the late write unreserved a bound device")
	last := w.inventory.writes[len(w.inventory.writes)-1]
	require.Zero(t, last.reserved)
	require.False(t, last.done)
}

// Another client wrote the provider meanwhile: a generation that was only read is never used to
// unreserve, and the device is cleaned again.
//
// F5
func TestReservationChangedIsCleanedAgain(t *testing.T) {
	for _, owner := range owners {
		for name, interfere := range map[string]func(*deviceEnv){
			"reserved again": func(w *deviceEnv) { w.inventory.writeByOther(1) },
			"unreserved, used, freed, reserved": func(w *deviceEnv) {
				w.inventory.writeByOther(0)
				w.inventory.allocate("c")
				w.inventory.free("c")
				w.inventory.writeByOther(1)
			},
			"unreserved, used, freed, same generation": func(w *deviceEnv) {
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
					interfere(w)
					w.host.writeAsTenant("c")
					return nil
				})
				w.until("a third clean", func() bool { return len(w.host.inputs) > 4 })
				w.requireReturned()
				require.Len(t, w.host.inputs, 6)
				lowerings := w.inventory.unreserves()
				require.Len(t, lowerings, 2)
				require.Equal(t, write{generation: spent, done: false}, lowerings[0])
				require.True(t, lowerings[1].done)
				w.requireMatchingGenerations()
			})
		}
	}
}

// requireMatchingGenerations checks that each successful write of reserved = 0 used the
// generation of the reservation before it: nothing else was written in between.
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
		require.True(w.t, raised, "unreserved with generation %d, which no reservation produced", low.generation)
	}
}

// Used during the return: Unreserve is not repeated, nothing is erased, and the consumer keeps
// the device.
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
	}
}

// The inventory refuses Unreserve permanently: the device is in error and reserved until the
// operator cleans it again.
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
	}
}

// The read after a lost answer fails permanently while Unreserve is still on its way: a device in
// error does not stay free in the inventory.
//
// F5
func TestLateUnreserveDoesNotFreeADeviceInError(t *testing.T) {
	w := newBound(t)
	w.slow(contract.ActivityUnreserve, 5*time.Minute, time.Millisecond)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("verify")
	w.until("Unreserve", func() bool { return count(w.scheduledActivities, "Unreserve") == 2 })
	w.inventory.injectFault = times(1, "Usages", false, fault(device.NeedsOperator, device.CodeInventoryInvalid))
	w.reach(device.Error)
	w.pass(time.Hour)
	require.Equal(t, device.Error, w.view().DeviceState)
	require.Equal(t, 1, w.inventory.reserved, "in error, and free in the inventory")
}

// The device is clean and being returned: abort is refused, maintenance is accepted.
func TestMaintenanceDuringTheReturn(t *testing.T) {
	w := newBound(t)
	w.slow(contract.ActivityUnreserve, 4*time.Second, 4*time.Second)
	ok[contract.Result](w.unbind("i1"))
	w.until("Unreserve", func() bool { return count(w.scheduledActivities, "Unreserve") == 2 })
	w.ask(contract.VerbAbort.Update()).refused(device.CodeRefused)
	ok[contract.Result](w.maintain(false))
	v := w.reach(device.Available)
	require.True(t, v.Maintenance)
	w.until("reserved for maintenance", func() bool { return w.inventory.reserved == 1 && w.activitiesInFlight == 0 })
	w.pass(time.Minute)
	require.Equal(t, 1, w.inventory.reserved)
	w.slow("", time.Millisecond, time.Millisecond)
	ok[contract.Result](w.maintain(true))
	require.Zero(t, w.inventory.reserved)
	w.requireMatchingGenerations()
}
