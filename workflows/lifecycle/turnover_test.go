package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The end of a binding writes nothing to the inventory; only the clean that follows does.
//
// S0.7, S3.18
func TestUnbindLeavesTheReservationAndReturnsAtOnce(t *testing.T) {
	w := newBound(t)
	w.host.cancelDelay = time.Hour
	writes, at := len(w.inventory.Writes), w.clock()
	r := ok[contract.Result](w.unbind("i1"))
	require.Equal(t, device.PendingCleaning, r.Device.DeviceState, "the answer does not wait for the clean")
	require.Less(t, w.clock().Sub(at), time.Second)
	for _, write := range w.inventory.Writes[writes:] {
		require.NotZero(t, write.Reserved, "only a completed clean unreserves it")
	}
	require.Equal(t, 1, w.inventory.Reserved)
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
		s := fmt.Sprintf("%s %d", w.view().DeviceState, w.inventory.Reserved)
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
	require.Equal(t, 1, w.inventory.Snapshot().Total)
	for _, write := range w.inventory.Writes {
		require.Contains(t, []int{0, 1}, write.Reserved)
	}
	for _, uuid := range w.inventory.UUIDs {
		require.Equal(t, contract.DeviceUUID("d1"), uuid)
	}
}
