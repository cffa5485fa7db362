package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

var owners = []device.Owner{device.OwnerSelf, device.OwnerNova}

// Every clean reads the inventory first; a device in use is not erased.
//
// F4
func TestUseFoundAtTheStartOfAClean(t *testing.T) {
	for _, owner := range owners {
		t.Run(string(owner), func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = owner
			w.makeBound("i1")
			w.inventory.allocateUnchecked("c1")
			runs := len(w.host.inputs)
			ok[contract.Result](w.unbind("i1"))
			w.host.writeAsTenant("c1")
			v := w.settled()
			require.Equal(t, device.Allocated, v.DeviceState)
			require.Equal(t, "c1", *v.InstanceUUID)
			require.True(t, v.Dirty)
			require.Len(t, w.host.inputs, runs, "nothing destructive")
			require.Equal(t, 1, w.inventory.reserved)
		})
	}
}

// Every clean reserves the device before its first step.
//
// F4
func TestReservedBeforeAnyStep(t *testing.T) {
	w := newBound(t)
	names, writes := len(w.scheduledActivities), len(w.inventory.writes)
	ok[contract.Result](w.unbind("i1"))
	w.returned()
	require.Equal(t, []string{"EnsureReserved", "FindBySerial", "zero", "verify", "Unreserve"},
		w.scheduledActivities[names:])
	// The clean's own write comes first: earlier writes that are still on their way then conflict.
	require.Len(t, w.inventory.writes[writes:], 2)
	require.Equal(t, 1, w.inventory.writes[writes].reserved, "burned before the first step")
	require.Equal(t, 0, w.inventory.writes[writes+1].reserved)
}

// A use is found during a clean: the step is canceled and waited for, and only then is the
// device allocated to the consumer.
//
// F4
func TestUseFoundDuringAClean(t *testing.T) {
	for _, owner := range owners {
		for _, step := range []string{"zero", "verify"} {
			t.Run(string(owner)+" "+step, func(t *testing.T) {
				w := newDeviceEnv(t, standardPolicy())
				w.owner = owner
				w.makeBound("i1")
				w.host.cancelDelay = 30 * time.Second
				ok[contract.Result](w.unbind("i1"))
				w.stepRuns(step)
				w.inventory.allocateUnchecked("c1")
				w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
				w.onChange = func() {
					if w.view().DeviceState == device.Allocated && w.host.running != "" {
						w.Errorf("allocated while %s still runs", w.host.running)
					}
				}
				v := w.reach(device.Allocated)
				require.Equal(t, "c1", *v.InstanceUUID)
				require.True(t, v.Dirty)
				require.Equal(t, "in_use", v.Cleans[len(v.Cleans)-1].Outcome)
				runs := len(w.host.inputs)
				w.pass(time.Hour)
				require.Len(t, w.host.inputs, runs)
				require.Equal(t, 1, w.inventory.reserved)
			})
		}
	}
}

// The use begins while a clean whose plan is outdated discovers its device again.
//
// F4
func TestUseFoundWhileReplanning(t *testing.T) {
	w := newBound(t)
	w.host.steps["verify"] = 2
	ok[contract.Result](w.unbind("i1"))
	discovers := count(w.scheduledActivities, "Discover")
	w.until("discover again", func() bool { return count(w.scheduledActivities, "Discover") > discovers })
	w.inventory.allocateUnchecked("c1")
	w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
	v := w.settled()
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, "c1", *v.InstanceUUID)
}

// A binding by Nova ends when its consumer is gone, whichever hint made the device check.
//
// F6, S0.19
func TestNovasBindingEndsWhenItsConsumerIsGone(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.owner = device.OwnerNova
	w.makeAvailable()
	w.inventory.allocate("c1")
	w.host.writeAsTenant("c1")
	w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
	v := w.reach(device.Allocated)
	require.Equal(t, "c1", *v.InstanceUUID)
	w.until("burned", func() bool { return w.inventory.reserved == 1 })
	w.signal(contract.SignalReleased, contract.Hint{Source: "nova"})
	w.pass(time.Hour)
	require.Equal(t, device.Allocated, w.view().DeviceState, "a hint alone ends nothing")
	w.inventory.free("c1")
	w.signal(contract.SignalReleased, contract.Hint{Source: "nova"})
	w.requireReturned()
}

// With owner self, used = 0 does not end a binding.
//
// F6
func TestSelfOwnedBindingOutlivesEveryHint(t *testing.T) {
	w := newBound(t)
	for _, name := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh} {
		for range 3 {
			w.signal(name, contract.Hint{Source: "sweep"})
		}
	}
	w.signal(contract.SignalObserved, w.host.hint(w.clock()))
	w.pass(time.Hour)
	v := w.view()
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.Len(t, w.host.inputs, 2, "the first clean's alone")
}

// A hint for another binding, or from before this binding began, does not cause a read.
//
// F6
func TestOldHintsAreDropped(t *testing.T) {
	w := newBound(t)
	old := w.clock().UTC().Format(time.RFC3339Nano)
	w.turnOver("i1")
	w.makeBound("i2")
	w.idle()
	names := len(w.scheduledActivities)
	for _, h := range []contract.Hint{
		{Binding: 1}, {Binding: 3}, {ObservedAt: old}, {ObservedAt: old, Binding: 2}, {ObservedAt: "yesterday"},
	} {
		w.signal(contract.SignalReleased, h)
		w.signal(contract.SignalReleased, h)
	}
	w.pass(time.Hour)
	require.Len(t, w.scheduledActivities, names)
	require.Equal(t, "i2", *w.view().InstanceUUID)
	w.signal(contract.SignalReleased, contract.Hint{Binding: 2, ObservedAt: w.clock().UTC().Format(time.RFC3339Nano)})
	w.pass(time.Minute)
	require.Len(t, w.scheduledActivities, names+1)
	require.Equal(t, "i2", *w.view().InstanceUUID)
}

// Available, reserved and unused: it was used between two readings.
//
// D9
func TestReservedAndUnusedIsCleaned(t *testing.T) {
	for _, owner := range owners {
		t.Run(string(owner), func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = owner
			w.makeAvailable()
			w.inventory.allocate("c1")
			w.inventory.writeByOther(1)
			w.host.writeAsTenant("c1")
			w.inventory.free("c1")
			w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
			w.until("a clean", func() bool { return len(w.host.inputs) > 2 })
			w.requireReturned()
			require.Len(t, w.host.inputs, 4, "cleaned once, not twice")
		})
	}
}

// A device that is not allocatable does not stay free in the inventory.
func TestUnreservedByOthersIsReservedAgain(t *testing.T) {
	for _, owner := range owners {
		w := newDeviceEnv(t, standardPolicy())
		w.owner = owner
		w.makeBound("i1")
		w.inventory.writeByOther(0)
		w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
		w.until("burned again", func() bool { return w.inventory.reserved == 1 })
		v := w.settled()
		require.Equal(t, device.Allocated, v.DeviceState)
		require.Equal(t, "i1", *v.InstanceUUID)
	}
}

// An inventory that fails for hours is read every half minute, and nothing else happens.
func TestFailingReadsAreSpaced(t *testing.T) {
	w := newAvailable(t)
	w.inventory.injectFault = func(string, bool) error {
		return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
	}
	names := len(w.scheduledActivities)
	w.signal(contract.SignalRefresh, contract.Hint{Source: "operator"})
	w.pass(time.Hour)
	reads := len(w.scheduledActivities) - names
	require.LessOrEqual(t, reads, 125)
	require.Equal(t, device.Available, w.view().DeviceState)
	w.inventory.injectFault = nil
	w.pass(5 * time.Minute)
	names = len(w.scheduledActivities)
	w.pass(time.Hour)
	require.Len(t, w.scheduledActivities, names, "it was read, and the device is idle")
}

// What a read found while the device was claimed counts at once: the claim ends.
//
// D9
func TestReservedWhileItWasClaimed(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.owner = device.OwnerNova
	w.makeAvailable()
	in := contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
	ok[contract.Result](w.send(contract.VerbClaim.Update(), "", in))
	w.inventory.writeByOther(1)
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.until("another clean", func() bool { v := w.view(); return len(v.Cleans) == 2 && v.DeviceState == device.Available })
	require.Zero(t, w.inventory.reserved)
}
