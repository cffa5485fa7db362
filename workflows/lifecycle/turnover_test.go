package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A device is one-time-use only if its enrollment says so; then its provider has the trait.
//
// S0.2, S0.10
func TestOneTimeUseIsOptIn(t *testing.T) {
	for _, oneTime := range []bool{false, true} {
		w := newDeviceEnv(t, standardPolicy())
		w.oneTimeUse = oneTime
		r := ok[contract.Result](w.enroll(true))
		require.Equal(t, oneTime, r.Device.OneTimeUse)
		w.reach(device.Available) // the trait does not mean dirty
		require.Equal(t, oneTime, slices.Contains(w.inventory.created.Traits, "HW_PCI_ONE_TIME_USE"))
	}
}

// The end of a binding writes nothing to the inventory; only the clean that follows does.
//
// S0.7, S3.18
func TestUnbindLeavesTheReservationAndReturnsAtOnce(t *testing.T) {
	w := newBound(t)
	w.host.cancelDelay = time.Hour
	writes, at := len(w.inventory.writes), w.clock()
	r := ok[contract.Result](w.unbind("i1"))
	require.Equal(t, device.PendingCleaning, r.Device.DeviceState, "the answer does not wait for the clean")
	require.Less(t, w.clock().Sub(at), time.Second)
	for _, write := range w.inventory.writes[writes:] {
		require.NotZero(t, write.reserved, "only a completed clean unreserves it")
	}
	require.Equal(t, 1, w.inventory.reserved)
	w.reach(device.Available)
}

// A turnover has the documented states in the documented order, and only its end lowers the
// reservation. The device has one provider with total 1, no other one is called, and reserved is 0
// or that total: the total while the device is allocated, waits for cleaning or is in maintenance.
//
// S0.8, S0.16, S0.17, S0.28, S2.39, S2.43, S3.1, S3.17
func TestStatesOfATurnover(t *testing.T) {
	w := newBound(t)
	var states []string
	w.onChange = func() {
		s := fmt.Sprintf("%s %d", w.view().DeviceState, w.inventory.reserved)
		if len(states) == 0 || states[len(states)-1] != s {
			states = append(states, s)
		}
	}
	w.turnOver("i1")
	want := "pending_cleaning 1 cleaning 1 cleaning 0 available 0"
	require.Equal(t, want, strings.TrimPrefix(strings.Join(states, " "), "allocated 1 "))
	require.True(t, w.host.clean())
	w.idle()
	v := w.view()
	require.False(t, v.Dirty)
	w.onChange = nil
	ok[contract.Result](w.maintain(false))
	ok[contract.Result](w.maintain(true))
	require.Equal(t, 2, w.makeBound("i2"), "the next tenant's")
	require.Equal(t, 1, w.inventory.snapshot().Total)
	for _, write := range w.inventory.writes {
		require.Contains(t, []int{0, 1}, write.reserved)
	}
	for _, uuid := range w.inventory.uuids {
		require.Equal(t, contract.DeviceUUID("d1"), uuid)
	}
}

// A step succeeds only when it reports its completion: without a result, by an error, a device
// that is gone or an unreachable host, the device never becomes available.
//
// S2.68
func TestAStepWithoutAResultIsNoSuccess(t *testing.T) {
	for want, prevent := range map[device.Code]func(*deviceEnv){
		device.CodeHostUnreachable: func(w *deviceEnv) { w.host.up = false },
		device.CodeIO:              func(w *deviceEnv) { w.failStep("verify", 0, device.CodeIO) },
		// it was detached
		device.CodeTargetMissing: func(w *deviceEnv) { w.failStep("zero", blocks-1, device.CodeTargetMissing) },
	} {
		t.Run(string(want), func(t *testing.T) {
			w := newBound(t)
			prevent(w)
			ok[contract.Result](w.unbind("i1"))
			w.pass(24 * time.Hour)
			v := w.view()
			require.Contains(t, []device.State{device.Cleaning, device.Error}, v.DeviceState)
			require.True(t, v.Dirty)
			require.Equal(t, string(want), v.Fault)
			require.Equal(t, 1, w.inventory.reserved)
		})
	}
}

// pending_cleaning → cleaning → error when a step fails; there the device stays reserved, and nothing
// makes it available without a clean. The operator's clean leads to pending_cleaning again, with the
// recorded operation, and then to available.
//
// S2.45, S2.46, S2.47, S2.48, S3.21, S3.24
func TestErrorAllowsOnlyARetry(t *testing.T) {
	w := newBound(t)
	w.failStep("zero", 0, device.CodeIO)
	ok[contract.Result](w.unbind("i1"))
	failed := w.reach(device.Error)
	require.True(t, failed.Dirty)
	require.Equal(t, 1, w.inventory.reserved)
	w.idle()
	last := w.scheduledActivities[len(w.scheduledActivities)-2:]
	require.Equal(t, []string{"zero", contract.ActivityEnsureReserved}, last,
		"after the step that failed, the inventory records the operator's hold")
	ended := len(w.scheduledActivities)
	w.bind("i2", "r-i2").refused(device.CodeRefused)
	w.ask(contract.VerbProvide.Update()).refused(device.CodeRefused)
	w.pass(48 * time.Hour)
	require.Empty(t, w.scheduledActivities[ended:], "it is left as it is: neither powered off, nor reset, nor written to")
	w.host.injectFault = nil
	r := ok[contract.Result](w.cleanUp())
	require.Equal(t, device.PendingCleaning, r.Device.DeviceState)
	require.Equal(t, failed.Operation, r.Device.Operation)
	w.reach(device.Available)
	require.Zero(t, w.inventory.reserved)
}

// An allocated device without a recorded binding, because the inventory names no consumer, is
// cleaned automatically when its host starts and it is not in use any more, not before.
//
// S2.69
func TestAllocatedWithoutABindingAtHostStart(t *testing.T) {
	for _, owner := range owners {
		t.Run(string(owner), func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = owner
			w.makeAvailable()
			w.inventory.allocateUnchecked("")
			w.host.writeAsTenant("c1")
			w.signal(contract.SignalObserved, w.host.hint(w.clock()))
			v := w.reach(device.Allocated)
			require.Nil(t, v.InstanceUUID)
			w.until("burned", func() bool { return w.inventory.reserved == 1 })
			runs := len(w.host.inputs)
			w.signal(contract.SignalRefresh, w.host.hint(w.clock()))
			w.pass(time.Hour)
			require.Equal(t, device.Allocated, w.view().DeviceState, "it is in use")
			require.Len(t, w.host.inputs, runs)
			w.inventory.free("")
			w.signal(contract.SignalRefresh, w.host.hint(w.clock()))
			w.requireReturned()
		})
	}
}

// Maintenance changes the status and not the device state; a clean changes the state and not the
// status.
//
// S2.50
func TestStatusAndStateAreIndependent(t *testing.T) {
	w := newBound(t)
	ok[contract.Result](w.maintain(false))
	v := w.view()
	require.Equal(t, device.Maintaining, v.Status)
	require.Equal(t, device.Allocated, v.DeviceState)
	ok[contract.Result](w.unbind("i1"))
	v = w.reach(device.Available)
	require.Equal(t, device.Maintaining, v.Status, "a clean does not end maintenance")
	w.bind("i2", "r-i2").refused(device.CodeRefused)
	require.Equal(t, 1, w.inventory.reserved)
	ok[contract.Result](w.maintain(true))
	v = w.view()
	require.Equal(t, device.Enabled, v.Status)
	require.Equal(t, device.Available, v.DeviceState)
	require.Zero(t, w.inventory.reserved)
}
