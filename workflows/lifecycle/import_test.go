package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// providerChange is a way in which another provider replaces the imported one.
type providerChange struct {
	name string
	// lead imports the device; recreate creates the other provider meanwhile.
	lead func(w *deviceEnv, recreate func(id string))
}

// beforeImportRead calls do once, before the import reads the reservation.
func (w *deviceEnv) beforeImportRead(do func()) {
	seen := 0
	w.lag = func(activity string) (time.Duration, time.Duration) {
		if activity == contract.ActivityReadReservation {
			if seen++; seen == 2 {
				do()
			}
		}
		return time.Millisecond, time.Millisecond
	}
}

var providerChanges = []providerChange{
	{"missing at the first read", func(w *deviceEnv, recreate func(string)) { // seed 1585 of TestWalk
		ok[contract.Result](w.importWith(1))
		w.readWithoutProvider()
		recreate("nova-2")
	}},
	{"missing, and back under its own UUID", func(w *deviceEnv, recreate func(string)) {
		ok[contract.Result](w.importWith(1))
		w.readWithoutProvider()
		recreate("nova-1")
	}},
	{"between the import and the first read", func(w *deviceEnv, recreate func(string)) {
		w.beforeImportRead(func() { recreate("nova-2") })
		ok[contract.Result](w.importWith(1))
	}},
	{"between the import and the first read, both free", func(w *deviceEnv, recreate func(string)) {
		w.beforeImportRead(func() { recreate("nova-2") })
		ok[contract.Result](w.importWith(0))
	}},
	{"between the listing and the import", func(w *deviceEnv, recreate func(string)) {
		recreate("nova-2")
		ok[contract.Result](w.importListed("nova-1"))
	}},
}

// readWithoutProvider lets the import read while there is no provider.
func (w *deviceEnv) readWithoutProvider() {
	w.t.Helper()
	w.inventory.providerGone = true
	w.until("a failed read", func() bool { return w.view().LastError != "" })
	require.Equal(w.t, device.Unknown, w.view().DeviceState)
}

// takeOverListed imports the device as it is, by the provider that was listed.
func (w *deviceEnv) importListed(provider string) *call {
	return w.send(contract.VerbEnroll.Update(), "",
		contract.EnrollInput{Enrollment: w.enrollment(), Import: true, Provider: provider})
}

// requireDirtyReserved fails the test if Burnish unreserves or offers the device before it is
// clean.
func (w *deviceEnv) requireDirtyReserved() {
	w.inventory.onWrite = func(what string) {
		if what == "put" && w.inventory.reserved == 0 && !w.host.clean() {
			w.Errorf("unreserved with blocks %q", w.host.blocks)
		}
	}
	w.onChange = func() {
		if w.view().DeviceState == device.Available && !w.host.clean() {
			w.Errorf("available with blocks %q", w.host.blocks)
		}
	}
}

// Nova re-creates a provider as free, regardless of earlier use. Only the provider that was
// imported shows that the device is clean; with another one it is reserved and cleaned.
//
// D8
func TestOnlyTheImportedProviderIsKnownClean(t *testing.T) {
	for _, r := range providerChanges {
		t.Run(r.name, func(t *testing.T) {
			w := newNovaDevice(t)
			w.host.writeAsTenant("past")
			w.requireDirtyReserved()
			r.lead(w, w.inventory.recreate)
			w.within(2*time.Minute, "burned again", func() bool { return w.inventory.reserved == 1 })
			w.requireReturned()
			require.Len(t, w.view().Cleans, 1)
			require.Zero(t, w.inventory.reserved)
		})
	}
}

// With automated cleaning off it is reserved too, and waits for the operator.
//
// D8
func TestAnotherProviderWaitsReserved(t *testing.T) {
	for _, r := range providerChanges {
		t.Run(r.name, func(t *testing.T) {
			policy := standardPolicy()
			policy.Automated = false
			w := newDeviceEnv(t, policy)
			w.owner, w.oneTimeUse = device.OwnerNova, true
			w.host.writeAsTenant("past")
			w.requireDirtyReserved()
			r.lead(w, w.inventory.recreate)
			v := w.reach(device.PendingCleaning)
			require.Equal(t, string(device.CodeAutomatedCleanOff), v.Fault)
			w.within(2*time.Minute, "burned again", func() bool { return w.inventory.reserved == 1 })
			w.pass(time.Hour)
			require.Equal(t, device.PendingCleaning, w.view().DeviceState)
			require.Equal(t, "past", w.host.blocks[0])
		})
	}
}

// A use counts for any provider.
//
// D8, S2.85
func TestAnotherProviderInUse(t *testing.T) {
	for _, r := range providerChanges {
		t.Run(r.name, func(t *testing.T) {
			w := newNovaDevice(t)
			r.lead(w, func(id string) {
				w.inventory.recreate(id)
				w.inventory.allocateUnchecked("c1")
				w.host.writeAsTenant("c1")
			})
			v := w.reach(device.Allocated)
			require.Equal(t, "c1", *v.InstanceUUID)
			w.until("burned", func() bool { return w.inventory.reserved == 1 })
			w.pass(time.Hour)
			require.Equal(t, "c1", w.host.blocks[0])
			w.inventory.free("c1")
			w.hintReconcile()
			w.requireReturned()
		})
	}
}

// The same provider, free: available at once, listed or not, and whatever else
// kept the inventory from answering.
//
// D8
func TestTheImportedProviderIsKnownClean(t *testing.T) {
	for _, listed := range []string{"", "nova-1"} {
		for _, trouble := range []bool{false, true} {
			w := newNovaDevice(t)
			w.inventory.recreate("nova-1")
			if trouble {
				w.beforeImportRead(func() {
					w.inventory.injectFault = times(1, "Usages", false, fault(device.NeedsOperator, device.CodeInventoryInvalid))
				})
			}
			ok[contract.Result](w.importListed(listed))
			w.reach(device.Available)
			w.pass(time.Hour)
			require.Empty(t, w.view().Cleans)
			require.Zero(t, w.inventory.reserved)
		}
	}
}
