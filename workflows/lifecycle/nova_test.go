package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// newNovaDevice is an environment whose device is Nova's, one-time-use.
func newNovaDevice(t *testing.T) *deviceEnv {
	w := newDeviceEnv(t, standardPolicy())
	w.owner, w.oneTimeUse = device.OwnerNova, true
	return w
}

func (w *deviceEnv) hintReconcile() {
	w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
}

// allocatedByNova makes Nova allocate and reserve the device, and the workflow observe it.
func (w *deviceEnv) allocatedByNova(consumer string) {
	w.t.Helper()
	require.True(w.t, w.inventory.allocate(consumer))
	w.inventory.writeByOther(1)
	w.host.writeAsTenant(consumer)
	w.hintReconcile()
	v := w.reach(device.Allocated)
	require.Equal(w.t, consumer, *v.InstanceUUID)
	w.idle()
}

// recreateProvider makes Nova re-create the provider with the same generation; used adds an
// allocation that ends again.
func (w *deviceEnv) recreateProvider(used bool) {
	generation := w.inventory.generation
	w.inventory.recreate(w.inventory.novaProvider + "+")
	if used {
		w.inventory.allocate("c-used")
		w.inventory.writeByOther(1)
		w.host.writeAsTenant("c-used")
		w.inventory.free("c-used")
	}
	w.inventory.generation = generation
}

// Nova re-creates the provider at any time during a clean and the return, by coincidence with
// the same generation: Burnish does not unreserve it for the clean under the old provider.
//
// F5
func TestProviderRecreatedDuringAClean(t *testing.T) {
	for _, used := range []bool{false, true} {
		for _, when := range []string{"EnsureReserved", "FindBySerial", "zero", "verify", "before", "after"} {
			t.Run(fmt.Sprintf("%s, used %v", when, used), func(t *testing.T) {
				w := newNovaDevice(t).available()
				w.allocatedByNova("c1")
				w.inventory.writes = nil
				w.inventory.free("c1")
				done := false
				w.inventory.injectFault = func(call string, after bool) error {
					lowering := call == "PutReserved" && w.host.journal.step == "verify" && w.host.journal.done &&
						len(w.host.inputs) == 4
					if !done && (when == "EnsureReserved" && call == "PutReserved" && after || lowering &&
						after == (when == "after")) {
						done = true
						w.recreateProvider(used)
						if after {
							return lostAnswer()
						}
					}
					return nil
				}
				w.hintReconcile()
				if when == "zero" || when == "verify" {
					done = true
					w.stepRuns(when)
					w.recreateProvider(used)
				}
				seen := w.inventory.onWrite
				w.inventory.onWrite = func(what string) {
					if seen != nil {
						seen(what)
					}
					if what == "put" && w.inventory.reserved == 0 && !w.host.clean() {
						w.Errorf("unreserved with blocks %q", w.host.blocks)
					}
				}
				w.until("the re-creation", func() bool { return done })
				if when == "verify" && used { // it reads the other instance's data
					require.Equal(t, string(device.CodeVerifyFailed), w.reach(device.Error).Fault)
					ok[contract.Result](w.cleanUp())
				}
				w.returned()
				w.pass(time.Hour)
				require.True(t, w.host.clean())
				require.Zero(t, w.inventory.reserved)
			})
		}
	}
}

// cleanAndReserved brings a device of Nova's to each state in which it is clean and reserved.
var cleanAndReserved = []struct {
	name     string
	lead     func(*deviceEnv)
	back     func(*deviceEnv) *call
	backInto device.State
}{
	{"in maintenance", func(w *deviceEnv) { ok[contract.Result](w.maintain(false)) }, func(w *deviceEnv) *call { return w.maintain(true) }, device.Available},
	{"manageable", func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbManage.Update())) }, func(w *deviceEnv) *call { return w.ask(contract.VerbProvide.Update()) }, device.Available},
	{"manageable, named steps", func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbManage.Update())) },
		func(w *deviceEnv) *call {
			if w.view().DeviceState != device.Manageable {
				return w.ask(contract.VerbProvide.Update())
			}
			ok[contract.Result](w.cleanUp("verify"))
			w.until("an end of the steps", func() bool {
				s := w.view().DeviceState
				return s == device.Manageable || s == device.Error || s == device.Available && w.activitiesInFlight == 0
			})
			return w.ask(contract.VerbProvide.Update())
		}, device.Available},
}

// A device that is kept clean and reserved has a new provider: it may have been used, so it is
// cleaned before it is offered, once its operator provides it.
//
// F5, F43
func TestProviderRecreatedWhileKeptClean(t *testing.T) {
	for _, k := range cleanAndReserved {
		for _, hinted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hinted %v", k.name, hinted), func(t *testing.T) {
				w := newNovaDevice(t).available()
				k.lead(w)
				w.idle()
				w.recreateProvider(true)
				w.inventory.onWrite = func(what string) {
					if w.inventory.reserved == 0 && !w.host.clean() {
						w.Errorf("%s: unreserved with blocks %q", what, w.host.blocks)
					}
				}
				if hinted {
					w.hintReconcile()
					w.pass(time.Hour)
					v := w.view()
					require.True(t, v.Dirty, "it is not clean any more: %s", w.describe())
					require.NotEqual(t, device.Available, v.DeviceState, "its operator lets it go, nothing else (F43)")
				}
				k.back(w).wait()
				w.pass(time.Hour)
				if w.view().Maintenance {
					ok[contract.Result](w.maintain(true))
				}
				switch w.view().DeviceState {
				case device.Manageable:
					ok[contract.Result](w.ask(contract.VerbProvide.Update()))
				case device.Error: // the steps found what the instance left
					ok[contract.Result](w.cleanUp())
				}
				w.reach(k.backInto)
				w.idle()
				require.True(t, w.host.clean())
				require.Zero(t, w.inventory.reserved)
			})
		}
	}
}

// Maintenance that begins during the return reserves the device again; a use in between is
// found.
//
// F5
func TestUsedBetweenTheReturnAndMaintenance(t *testing.T) {
	w := newNovaDevice(t).available()
	w.allocatedByNova("c1")
	w.slow(contract.ActivityUnreserve, time.Millisecond, 4*time.Second)
	w.inventory.free("c1")
	w.hintReconcile()
	w.until("unreserved", func() bool { return w.inventory.reserved == 0 })
	ok[contract.Result](w.maintain(false))
	require.True(t, w.inventory.allocate("c2"))
	w.inventory.writeByOther(1)
	w.host.writeAsTenant("c2")
	w.inventory.free("c2")
	w.inventory.onWrite = func(what string) {
		if w.inventory.reserved == 0 && !w.host.clean() {
			w.Errorf("%s: unreserved with blocks %q", what, w.host.blocks)
		}
	}
	w.pass(time.Hour)
	require.True(t, w.host.clean(), w.describe())
	ok[contract.Result](w.maintain(true))
	w.reach(device.Available)
	require.Zero(t, w.inventory.reserved)
}

// An allocated device that is not reserved is reserved at the next check, and stays allocated.
//
// S0.15
func TestReservedAtTheNextCheck(t *testing.T) {
	w := newNovaDevice(t).available()
	require.True(t, w.inventory.allocate("c1"))
	w.host.writeAsTenant("c1")
	w.hintReconcile()
	w.until("burned", func() bool { return w.inventory.reserved == 1 })
	v := w.reach(device.Allocated)
	require.Equal(t, "c1", *v.InstanceUUID)
	w.idle()
	// Re-created while it is in use: reserved again.
	w.inventory.recreate("nova-2")
	w.inventory.allocateUnchecked("c1")
	w.hintReconcile()
	w.until("burned again", func() bool { return w.inventory.reserved == 1 })
	require.Equal(t, device.Allocated, w.view().DeviceState)
	require.Equal(t, "c1", w.host.blocks[0])
}

// A migration changes the allocation's consumer, with both for a while, or back. The data belong
// to the same instance, and nothing is erased.
//
// S0.21, S0.22
func TestConsumerChangesDuringAMigration(t *testing.T) {
	w := newNovaDevice(t).available()
	w.allocatedByNova("vm")
	for _, hands := range [][]string{{"vm", "migration"}, {"migration"}, {"migration", "vm"}, {"vm"}} {
		w.inventory.consumers = hands
		w.inventory.generation++
		w.hintReconcile()
		w.pass(time.Minute)
		v := w.view()
		require.Equal(t, device.Allocated, v.DeviceState)
		require.Contains(t, hands, *v.InstanceUUID)
		require.Equal(t, "vm", w.host.blocks[0])
	}
	w.inventory.consumers = nil
	w.hintReconcile()
	w.requireReturned()
}

// importWith imports the device with this state of its provider.
func (w *deviceEnv) importWith(reserved int, consumers ...string) *call {
	w.inventory.recreate("nova-1")
	w.inventory.reserved, w.inventory.consumers, w.inventory.generation = reserved, consumers, 7
	return w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: w.enrollment(), Import: true})
}

// The import follows Placement's record; after a previous run a free provider does not show that
// the device is clean.
//
// S0.10, S2.84, D8, S2.85
func TestImportFollowsTheInventory(t *testing.T) {
	for _, c := range []struct {
		name        string
		reserved    int
		consumer    []string
		previous    string
		unreachable bool
		cleans      int
		ends        device.State
		burned      int
	}{
		{name: "in use and burned", reserved: 1, consumer: []string{"c1"}, ends: device.Allocated, burned: 1},
		{name: "in use, not burned yet", consumer: []string{"c1"}, ends: device.Allocated, burned: 1},
		{name: "burned and unused", reserved: 1, cleans: 1, ends: device.Available},
		{name: "free", ends: device.Available},
		{name: "free, its host is unreachable for a while", unreachable: true, ends: device.Available},
		{name: "free, a previous run", previous: "r", cleans: 1, ends: device.Available},
		{name: "in use, a previous run", reserved: 1, consumer: []string{"c1"}, previous: "r", ends: device.Allocated, burned: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNovaDevice(t)
			w.host.up = !c.unreachable
			w.host.writeAsTenant("past")
			w.previousRun = contract.PreviousRun{RunID: c.previous}
			imported := w.importWith(c.reserved, c.consumer...)
			w.hintReconcile() // a hint during the import changes nothing
			r := ok[contract.Result](imported)
			require.Equal(t, device.Unknown, r.Device.DeviceState)
			w.hintReconcile()
			if c.unreachable { // nothing is offered unseen
				w.until("it needs the operator", func() bool { return w.view().NeedsOperator })
				writes := len(w.inventory.writes)
				w.pass(time.Hour)
				v := w.view()
				require.Equal(t, []any{device.Cleaning, string(device.CodeHostUnreachable), 1},
					[]any{v.DeviceState, v.Fault, w.inventory.reserved})
				require.Equal(t, writes, len(w.inventory.writes), "it is reserved, and waits")
				w.host.restart()
			}
			w.reach(c.ends)
			w.until("burned or free", func() bool { return w.inventory.reserved == c.burned })
			w.pass(time.Hour)
			v := w.view()
			require.Equal(t, c.ends, v.DeviceState)
			require.Len(t, v.Cleans, c.cleans)
			if c.burned == 1 {
				require.Equal(t, "past", w.host.blocks[0])
			}
		})
	}
}

// A use between the import and the return is found, however long that takes.
func TestUsedBetweenTheImportAndTheReturn(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		w := newNovaDevice(t)
		down := false
		w.lag = func(activity string) (time.Duration, time.Duration) {
			if activity == contract.ActivityEnsureReserved && w.view().DeviceState == device.Cleaning && !down {
				down = true
				return time.Hour, time.Millisecond
			}
			return time.Millisecond, time.Millisecond
		}
		r := ok[contract.Result](w.importWith(0))
		require.Equal(t, device.Unknown, r.Device.DeviceState)
		w.until("being returned", func() bool { return down })
		if recreated {
			w.recreateProvider(true)
		} else {
			w.inventory.allocate("c1")
			w.inventory.writeByOther(1)
			w.host.writeAsTenant("c1")
			w.inventory.free("c1")
		}
		w.returned()
		require.True(t, w.host.clean(), w.describe())
		require.Len(t, w.view().Cleans, 1)
	}
}

// A device without a provider reads the inventory once for each hint, and not periodically.
//
// F6
func TestWithoutAProviderItReadsOncePerHint(t *testing.T) {
	w := newNovaDevice(t).available()
	w.allocatedByNova("c1")
	w.inventory.providerGone = true
	names := len(w.scheduledActivities)
	w.hintReconcile()
	w.pass(6 * time.Hour)
	require.Equal(t, names+1, len(w.scheduledActivities))
	v := w.requireWait(device.CodeNoProvider, true)
	require.Contains(t, v.LastError, "Nova has no provider")
	w.inventory.recreate("nova-2")
	w.hintReconcile()
	w.reach(device.Available)
	w.requireNoWait()
	require.True(t, w.host.clean())
}

// Forget does not delete Nova's provider, and leaves it reserved.
//
// S0.17
func TestForgetKeepsNovasProvider(t *testing.T) {
	w := newNovaDevice(t).available()
	ok[contract.Result](w.ask(contract.VerbRetire.Update()))
	ok[contract.Result](w.ask(contract.VerbForget.Update()))
	require.True(t, w.inventory.exists)
	require.Equal(t, 1, w.inventory.reserved)
}

// The provider is re-created, used and freed while Unreserve is on its way.
//
// F5
func TestProviderRecreatedBeforeUnreserve(t *testing.T) {
	w := newNovaDevice(t).available()
	w.allocatedByNova("c1")
	releases := count(w.scheduledActivities, contract.ActivityUnreserve)
	w.slow(contract.ActivityUnreserve, 4*time.Second, time.Millisecond)
	w.inventory.free("c1")
	w.hintReconcile()
	w.until("Unreserve", func() bool { return count(w.scheduledActivities, contract.ActivityUnreserve) > releases })
	w.recreateProvider(true)
	w.inventory.onWrite = func(what string) {
		if w.inventory.reserved == 0 && !w.host.clean() {
			w.Errorf("%s: unreserved with blocks %q", what, w.host.blocks)
		}
	}
	w.until("a clean under the new provider", func() bool { return w.host.clean() })
	w.reach(device.Available)
}

// A hint while the import waits for its inventory does not reserve the device: a reservation
// would count as a use.
//
// D8
func TestHintDuringAnImport(t *testing.T) {
	w := newNovaDevice(t)
	w.inventory.injectFault = func(string, bool) error {
		if w.view().DeviceState == device.Unknown {
			return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
		}
		return nil
	}
	ok[contract.Result](w.importWith(0))
	w.pass(time.Second)
	w.hintReconcile()
	w.pass(time.Second)
	w.inventory.injectFault = nil
	w.reach(device.Available)
	w.pass(time.Hour)
	require.Empty(t, w.view().Cleans)
	require.Zero(t, w.inventory.reserved)
}

// An available device's provider is re-created: the new provider does not show earlier uses.
//
// D9
func TestProviderRecreatedWhileAvailable(t *testing.T) {
	w := newNovaDevice(t).available()
	require.True(t, w.inventory.allocate("c1"))
	w.host.writeAsTenant("c1")
	w.recreateProvider(false)
	w.hintReconcile()
	w.until("a clean", func() bool { return w.host.clean() })
	w.reach(device.Available)
}

// A use is found even if it happened among many attempts to reserve the device.
//
// F5
func TestUseAmongManyAttemptsIsDetected(t *testing.T) {
	w := newNovaDevice(t)
	n := 0
	w.inventory.injectFault = func(call string, after bool) error {
		if call != "Usages" || after || w.view().DeviceState != device.Cleaning || n > 50 {
			return nil
		}
		if n++; n == 50 {
			w.inventory.allocate("c1")
			w.inventory.writeByOther(1)
			w.host.writeAsTenant("c1")
			w.inventory.free("c1")
			return nil
		}
		return lostAnswer()
	}
	ok[contract.Result](w.importWith(0))
	w.until("a clean", func() bool { return len(w.view().Cleans) == 1 })
	w.requireReturned()
}

// Nova allocates a device that its operator holds: it is that consumer's, and the operator's again when it has left,
// dirty and reserved, until the operator provides it.
//
// F43
func TestAnOperatorsDeviceIsTheOperatorsAgainAfterAUse(t *testing.T) {
	for _, during := range []string{"manageable", "named steps", "error"} {
		t.Run(during, func(t *testing.T) {
			w := newNovaDevice(t)
			ok[contract.Result](w.enroll(false))
			w.reach(device.Manageable)
			switch during {
			case "named steps":
				ok[contract.Result](w.cleanUp("verify"))
				w.reach(device.Cleaning)
			case "error":
				w.failStep("verify", 1, device.CodeVerifyFailed)
				ok[contract.Result](w.cleanUp("verify"))
				w.reach(device.Error)
			}
			w.idle()
			w.inventory.reserved = 0 // as its host's nova-compute does that starts anew
			w.allocatedByNova("c1")
			w.inventory.free("c1")
			w.hintReconcile()
			w.reach(device.Manageable)
			w.pass(time.Hour)
			v := w.settled()
			require.Equal(t, device.Manageable, v.DeviceState)
			require.True(t, v.Dirty)
			require.Equal(t, 1, w.inventory.reserved)
			require.Zero(t, w.zeroed())
			require.False(t, w.host.clean())
			w.host.injectFault = nil
			ok[contract.Result](w.send(contract.VerbProvide.Update(), "", contract.ReasonInput{}))
			w.reach(device.Available)
			require.True(t, w.host.clean())
		})
	}
}
