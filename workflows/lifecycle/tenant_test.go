package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// recorded is who has the device by its provider's record.
func (w *deviceEnv) recorded() string {
	if w.inventory.tenant == nil {
		return "no record"
	}
	return *w.inventory.tenant
}

// The bind's write records the instance, and the clean's first write that no instance has the
// device; no other write changes that.
//
// F24
func TestTheProviderRecordsWhoHasTheDevice(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	var writes []string
	w.inventory.onWrite = func(what string) {
		if what == "put" {
			writes = append(writes, w.recorded())
		}
	}
	w.makeAvailable()
	require.Equal(t, []string{"no record", "", ""}, writes, "enrolled, cleaned, returned")
	writes = nil
	w.makeBound("i1")
	require.Equal(t, []string{"i1"}, writes)
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	require.Equal(t, []string{"i1", "", ""}, writes)
	w.makeBound("i2")
	require.Equal(t, "i2", w.recorded())
}

// A burn whose effect is not known may have recorded its instance, which
// never got the device: the clean after it clears the record.
//
// F24
func TestTheRecordOfABurnThatFailedIsCleared(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeBound("i0")
	ok[contract.Result](w.unbind("i0"))
	w.reach(device.Available)
	gone := false
	w.inventory.injectFault = func(call string, after bool) error {
		if gone = gone || call == "PutReserved" && after; gone {
			return lostAnswer()
		}
		return nil
	}
	bind := w.bind("i1", "r1")
	bind.wait()
	bind.refused(device.CodeInventoryUnavailable)
	require.Equal(t, "i1", w.recorded())
	w.pass(time.Minute)
	w.inventory.injectFault = nil
	w.reach(device.Available)
	require.Empty(t, w.recorded())
	require.Equal(t, 2, w.makeBound("i2"))
}
