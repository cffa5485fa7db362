package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// remakes tells how another provider takes the place of the one that is imported.
type remakes struct {
	name string
	// lead imports the device; anew makes the other provider meanwhile.
	lead func(w *world, anew func(id string))
}

// beforeTheLook has something happen once, when the import's own look is answered.
func (w *world) beforeTheLook(do func()) {
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

var remade = []remakes{
	{"missing at the first look", func(w *world, anew func(string)) { // seed 1585 of TestWalk
		ok[contract.Result](w.takeOver(1))
		w.lookedInVain()
		anew("nova-2")
	}},
	{"missing, and back under its own UUID", func(w *world, anew func(string)) {
		ok[contract.Result](w.takeOver(1))
		w.lookedInVain()
		anew("nova-1")
	}},
	{"between the import and the first look", func(w *world, anew func(string)) {
		w.beforeTheLook(func() { anew("nova-2") })
		ok[contract.Result](w.takeOver(1))
	}},
	{"between the import and the first look, both free", func(w *world, anew func(string)) {
		w.beforeTheLook(func() { anew("nova-2") })
		ok[contract.Result](w.takeOver(0))
	}},
	{"between the listing and the import", func(w *world, anew func(string)) {
		anew("nova-2")
		ok[contract.Result](w.takeOverListed("nova-1"))
	}},
}

// lookedInVain has the import look while there is no provider.
func (w *world) lookedInVain() {
	w.t.Helper()
	w.shelf.vanished = true
	w.until("a look", func() bool { return w.view().LastError != "" })
	require.Equal(w.t, device.Unknown, w.view().DeviceState)
}

// takeOverListed imports the device as it is, by the provider that was listed.
func (w *world) takeOverListed(provider string) *call {
	return w.send(contract.UpdateEnroll, "", contract.EnrollInput{Enrollment: w.enrolment(), Import: true, Provider: provider})
}

// dirtyIsBurned fails the test where somebody may take the device, and Burnish offers it,
// before it is clean.
func (w *world) dirtyIsBurned() {
	w.shelf.wrote = func(what string) {
		if what == "put" && w.shelf.reserved == 0 && !w.host.clean() {
			w.Errorf("lowered with blocks %q", w.host.blocks)
		}
	}
	w.seen = func() {
		if w.view().DeviceState == device.Available && !w.host.clean() {
			w.Errorf("available with blocks %q", w.host.blocks)
		}
	}
}

// Nova makes a provider anew as free, whoever had the device before.
// Only the one that was imported is believed; the device of another is burned and cleaned.
//
// D8, S2.40, S2.84
func TestOnlyTheImportedProviderIsBelieved(t *testing.T) {
	for _, r := range remade {
		t.Run(r.name, func(t *testing.T) {
			w := novas(t)
			w.host.scribble("past")
			w.dirtyIsBurned()
			r.lead(w, w.shelf.makeNovas)
			w.within(2*time.Minute, "burned again", func() bool { return w.shelf.reserved == 1 })
			w.reach(device.Available)
			w.quiet()
			require.True(t, w.host.clean())
			require.Len(t, w.view().Cleans, 1)
			require.Zero(t, w.shelf.reserved)
			w.noDefect()
		})
	}
}

// With automated cleaning off it is burned all the same, and waits for the operator.
//
// D8, S2.40
func TestAnotherProviderWaitsBurned(t *testing.T) {
	for _, r := range remade {
		t.Run(r.name, func(t *testing.T) {
			policy := safePolicy()
			policy.Automated = false
			w := newWorld(t, policy)
			w.owner, w.oneTimeUse = device.OwnerNova, true
			w.host.scribble("past")
			w.dirtyIsBurned()
			r.lead(w, w.shelf.makeNovas)
			v := w.reach(device.PendingCleaning)
			require.Equal(t, string(device.CodeAutomatedCleanOff), v.Fault)
			w.within(2*time.Minute, "burned again", func() bool { return w.shelf.reserved == 1 })
			w.pass(time.Hour)
			require.Equal(t, device.PendingCleaning, w.view().DeviceState)
			require.Equal(t, "past", w.host.blocks[0])
			w.noDefect()
		})
	}
}

// That somebody has it is believed of any provider.
//
// D8, S2.85
func TestAnotherProviderInUse(t *testing.T) {
	for _, r := range remade {
		t.Run(r.name, func(t *testing.T) {
			w := novas(t)
			r.lead(w, func(id string) {
				w.shelf.makeNovas(id)
				w.shelf.force("c1")
				w.host.scribble("c1")
			})
			v := w.reach(device.Allocated)
			require.Equal(t, "c1", *v.InstanceUUID)
			w.until("burned", func() bool { return w.shelf.reserved == 1 })
			w.pass(time.Hour)
			require.Equal(t, "c1", w.host.blocks[0])
			w.shelf.free("c1")
			w.sweepHint()
			w.reach(device.Available)
			require.True(t, w.host.clean())
			w.noDefect()
		})
	}
}

// The same provider, free: available at once, listed or not, and whatever else
// kept the inventory from answering.
//
// S2.84, D8
func TestTheImportedProviderIsBelieved(t *testing.T) {
	for _, listed := range []string{"", "nova-1"} {
		for _, trouble := range []bool{false, true} {
			w := novas(t)
			w.shelf.makeNovas("nova-1")
			if trouble {
				w.beforeTheLook(func() {
					w.shelf.meddle = times(1, "Usages", false, fault(device.NeedsOperator, device.CodeInventoryInvalid))
				})
			}
			ok[contract.Result](w.takeOverListed(listed))
			w.reach(device.Available)
			w.pass(time.Hour)
			require.Empty(t, w.view().Cleans)
			require.Zero(t, w.shelf.reserved)
			w.noDefect()
		}
	}
}
