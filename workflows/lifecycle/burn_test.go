package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// requireCleansBeforeOffer fails the test if the device is available before n more cleans.
func (w *deviceEnv) requireCleansBeforeOffer(n int) {
	cleans := len(w.view().Cleans)
	w.onChange = func() {
		v := w.view()
		offered := v.DeviceState == device.Available && !v.Maintenance && v.ClaimedBy == ""
		if offered && len(v.Cleans) < cleans+n {
			w.Errorf("offered again after %d cleans, not %d", len(v.Cleans), cleans+n)
			w.onChange = nil
		}
	}
}

// Each code of an inventory at each request of a burn, before it had effect and with its answer
// lost.
//
// S0.6, S2.96
func TestFailedBurnIsCleanedNeverOffered(t *testing.T) {
	codes := []struct {
		class device.Class
		code  device.Code
	}{
		{device.NeedsOperator, device.CodeInventoryInvalid}, {device.Permanent, device.CodeInUse},
		{device.Permanent, device.CodeAlreadyBurned}, {device.NeedsOperator, device.CodeInventoryGenerationAhead},
		{device.Permanent, device.CodeNoProvider}, {device.Permanent, device.CodeConflict},
		{device.Permanent, device.CodeInternal}, {device.NeedsOperator, device.CodeRefused},
	}
	for _, at := range []string{"Usages", "Reservation", "PutReserved"} {
		for _, after := range []bool{false, true} {
			for _, c := range codes {
				if after && c.code == device.CodeConflict {
					continue // a conflict had no effect
				}
				t.Run(fmt.Sprintf("%s after=%v %s", at, after, c.code), func(t *testing.T) {
					w := newAvailable(t)
					w.inventory.injectFault = times(1, at, after, fault(c.class, c.code))
					if c.code == device.CodeConflict { // the inventory package itself starts over five times
						w.inventory.injectFault = times(5, at, after, fault(device.Permanent, c.code))
					}
					bind := w.bind("i1", "r1")
					w.until("burning", func() bool { return w.view().ClaimedBy == "i1" || bind.done })
					w.host.writeAsTenant("i1") // the burn may have succeeded
					w.requireCleansBeforeOffer(1)
					bind.wait()
					if c.code == device.CodeConflict && bind.err == nil {
						require.Equal(t, device.Allocated, w.view().DeviceState, "started over, and won")
						return
					}
					if after && at == "PutReserved" &&
						(c.code == device.CodeAlreadyBurned || c.code == device.CodeInventoryGenerationAhead) {
						// The workflow is older than the inventory, which records the instance: it has
						// the device (F24), and its bind is granted (F42).
						require.Equal(t, 1, ok[contract.Result](bind).Binding)
						v := w.reach(device.Allocated)
						require.Equal(t, "i1", *v.InstanceUUID)
						require.Equal(t, "i1", w.host.blocks[0])
						w.turnOver("i1")
						return
					}
					bind.refused(c.code)
					require.NotEqual(t, device.Available, w.view().DeviceState)
					w.requireReturned()
					require.Equal(t, 1, count(w.scheduledActivities, "ReserveForBind"))
					require.Empty(t, w.view().LastError, "cleared by the clean")
					require.Empty(t, w.view().Fault)
					w.makeBound("i2")
				})
			}
		}
	}
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// A call whose answer is lost once is repeated, and the second attempt recognizes its own write.
func TestLostAnswersAreRetried(t *testing.T) {
	for _, at := range []string{"Usages", "Reservation", "PutReserved"} {
		for _, after := range []bool{false, true} {
			w := newAvailable(t)
			w.inventory.injectFault = times(1, at, after, lostAnswer)
			require.Equal(t, 1, w.makeBound("i1"), "%s after=%v", at, after)
			w.inventory.injectFault = nil
			ok[contract.Result](w.unbind("i1"))
			w.returned()
			require.Len(t, w.view().Cleans, 2, "one clean, not two")
		}
	}
}

// The inventory does not answer while the bind waits: the bind fails, and the device is cleaned
// when the inventory answers again.
func TestUnavailableInventoryFailsTheBind(t *testing.T) {
	for _, after := range []bool{false, true} {
		w := newAvailable(t)
		gone := false
		w.inventory.injectFault = func(call string, isAfter bool) error {
			if gone = gone || call == "PutReserved" && isAfter == after; gone {
				return lostAnswer()
			}
			return nil
		}
		bind := w.bind("i1", "r1")
		bind.wait()
		bind.refused(device.CodeInventoryUnavailable)
		require.Less(t, w.clock().Sub(w.view().UpdatedAt), 2*time.Minute)
		w.host.writeAsTenant("i1")
		w.requireCleansBeforeOffer(1)
		w.pass(10 * time.Minute)
		require.Equal(t, device.PendingCleaning, w.view().DeviceState)
		require.Empty(t, w.host.inputs[2:], "nothing destructive before the inventory was read")
		w.inventory.injectFault = nil
		w.requireReturned()
	}
}

// The call hangs: it is unknown whether it will have effect, and when.
//
// S0.6
func TestUnknownOutcomeOfABurnIsReported(t *testing.T) {
	for _, late := range []time.Duration{90 * time.Second, time.Hour} {
		w := newAvailable(t)
		w.slow(contract.ActivityReserveForBind, late, time.Millisecond) // has its effect after the time-out
		bind := w.bind("i1", "r1")
		bind.refused(device.CodeReservationUnknown)
		w.host.writeAsTenant("i1")
		w.requireCleansBeforeOffer(1)
		w.requireReturned()
		w.pass(2 * time.Hour)
		ok[contract.Result](w.maintain(false)) // the device accepts requests regardless of the late write
		v := w.settled()
		require.Contains(t, []device.State{device.Available}, v.DeviceState)
	}
}

// The worker that burned dies before it answers; the next attempt finds its write.
func TestReserveAttemptThatDied(t *testing.T) {
	w := newAvailable(t)
	first := true
	w.lag = func(activity string) (time.Duration, time.Duration) {
		if activity == contract.ActivityReserveForBind && first {
			first = false
			return time.Millisecond, 365 * 24 * time.Hour
		}
		return time.Millisecond, time.Millisecond
	}
	require.Equal(t, 1, ok[contract.Result](w.bind("i1", "r1")).Binding)
	require.Len(t, w.inventory.writes, 4, "burned once, after three earlier writes")
}

// An inventory that takes three seconds a request answers a bind after four of them.
//
// S0.4
func TestASlowInventoryGetsThrough(t *testing.T) {
	w := newAvailable(t)
	w.slow("", 12*time.Second, time.Millisecond)
	before := len(w.scheduledActivities)
	require.Equal(t, 1, ok[contract.Result](w.bind("i1", "r1")).Binding)
	require.Equal(t, []string{"ReserveForBind", "ReserveForBind"}, w.scheduledActivities[before:],
		"in the task for a second, then as an activity")
	require.Len(t, w.inventory.writes, 4, "burned once, after three earlier writes")
	w.turnOver("i1")
}

// Burned by another client between two readings.
//
// S0.27
func TestAlreadyBurnedIsRefused(t *testing.T) {
	w := newAvailable(t)
	w.inventory.writeByOther(1)
	w.host.writeAsTenant("c-unknown")
	w.requireCleansBeforeOffer(1)
	w.bind("i1", "r1").refused(device.CodeAlreadyBurned)
	w.requireReturned()
	w.makeBound("i2")
}

// Nova's consumer is there before the bind.
func TestInUseIsRefusedAndLeftAlone(t *testing.T) {
	w := newAvailable(t)
	w.inventory.allocate("c1")
	w.host.writeAsTenant("c1")
	runs := len(w.host.inputs)
	w.bind("i1", "r1").refused(device.CodeInUse)
	v := w.settled()
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, "c1", *v.InstanceUUID)
	require.Len(t, w.host.inputs, runs, "nothing destructive")
	require.Equal(t, 1, w.inventory.reserved)
}

// The device is invalidated or lost while the burn waits for its answer: the bind is refused, and
// the workflow goes on.
func TestStateChangesWhileTheBurnWaits(t *testing.T) {
	for name, meanwhile := range map[string]func(*deviceEnv){
		"host is ahead": func(w *deviceEnv) {
			hint := w.host.hint(w.clock())
			hint.Host.Seq += 5
			w.signal(contract.SignalObserved, hint)
		},
		"retire --lost": func(w *deviceEnv) {
			w.send(contract.VerbRetire.Update(), "", contract.RetireInput{Reason: "burnt out", Lost: true, Instance: "i1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAvailable(t)
			w.slow("", 4*time.Second, 4*time.Second)
			bind := w.bind("i1", "r1")
			w.pass(time.Second)
			meanwhile(w)
			bind.wait()
			require.True(t, w.live, "%v", w.finishErr)
			require.Equal(t, name == "host is ahead", bind.err == nil, "what its record says it is granted (F42)")
			w.requireCleansBeforeOffer(1)
			v := w.settled()
			if name == "host is ahead" { // the burn has recorded its instance (F24)
				require.Equal(t, "i1", *v.InstanceUUID)
				ok[contract.Result](w.unbind("i1"))
				v = w.reach(device.Available)
			}
			require.Nil(t, v.InstanceUUID)
			w.idle()
		})
	}
}

// A bind that waits while the device is lost or invalidated burns nothing.
func TestStateChangesWhileTheBurnWaitsForItsTurn(t *testing.T) {
	w := newAvailable(t)
	w.slow("", 4*time.Second, 4*time.Second)
	w.signal(contract.SignalReleased, contract.Hint{}) // a read is under way
	w.pass(time.Second)
	bind := w.bind("i1", "r1")
	w.pass(time.Second)
	ok[contract.Result](w.send(contract.VerbRetire.Update(), "", contract.RetireInput{Lost: true, Instance: "i1"}))
	bind.refused(device.CodeConflict)
	require.Zero(t, count(w.scheduledActivities, "ReserveForBind"))
	w.idle()
}

// A read that is under way recognizes the burn's write as Burnish's own.
func TestBindDuringACheck(t *testing.T) {
	w := newAvailable(t)
	w.slow(contract.ActivityReadReservation, 3*time.Second, time.Second)
	before := count(w.scheduledActivities, "FindPreviousRun")
	w.signal(contract.SignalReleased, contract.Hint{})
	w.pass(time.Millisecond)
	require.Equal(t, 1, ok[contract.Result](w.bind("i1", "r1")).Binding)
	w.pass(time.Minute)
	require.Equal(t, before, count(w.scheduledActivities, "FindPreviousRun"), "it was invalidated")
	require.Equal(t, "i1", *w.view().InstanceUUID)
}

// The inventory's generation is ahead of a workflow that was reset: the previous run is read
// before anything is erased.
//
// F10
func TestBindFindsANewerInventory(t *testing.T) {
	for code, newer := range map[device.Code]func(*fakeInventory){
		device.CodeInventoryGenerationAhead: func(s *fakeInventory) { s.allocate("c"); s.free("c") },
		device.CodeAlreadyBurned:            func(s *fakeInventory) { s.writeByOther(1) },
	} {
		w := newAvailable(t)
		newer(w.inventory)
		i7 := "i7"
		w.inventory.tenant = &i7
		w.host.writeAsTenant(i7)
		w.previousRun = contract.PreviousRun{RunID: "reset", Instance: "i7"}
		w.bind("i1", "r1").refused(code)
		v := w.settled()
		require.Equal(t, device.Allocated, v.DeviceState)
		require.Equal(t, "i7", *v.InstanceUUID)
		require.Equal(t, "i7", w.host.blocks[0], "a tenant's data was erased")
	}
}
