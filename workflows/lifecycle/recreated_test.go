package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A use of an available device under its former provider does not show in the new one. Bind and
// claim take that into account.
//
// D9
func TestBindAfterProviderRecreated(t *testing.T) {
	for name, ask := range map[string]func(w *deviceEnv, in contract.BindInput){
		"bound": func(w *deviceEnv, in contract.BindInput) { w.send(contract.VerbBind.Update(), "", in).wait() },
		"claimed, checked, unclaimed": func(w *deviceEnv, in contract.BindInput) {
			ok[contract.Result](w.send(contract.VerbClaim.Update(), "", in))
			w.hintReconcile()
			w.pass(time.Minute)
			ok[contract.Result](w.send(contract.VerbUnclaim.Update(), "", in))
		},
		"claimed, checked, burned": func(w *deviceEnv, in contract.BindInput) {
			ok[contract.Result](w.send(contract.VerbClaim.Update(), "", in))
			w.hintReconcile()
			w.pass(time.Minute)
			w.send(contract.VerbBurn.Update(), "", in).wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNovaDevice(t).available()
			w.recreateProvider(true)
			w.recreateProvider(false) // free again, and not checked
			require.False(t, w.host.clean())
			in := contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
			ask(w, in)
			require.Nil(t, w.view().InstanceUUID, "a device with another instance's data is not bound")
			w.returned()
			require.True(t, w.host.clean(), w.describe())
			require.Zero(t, w.inventory.reserved)
			// It can be bound again.
			in.Request = "r2"
			ok[contract.Result](w.send(contract.VerbBind.Update(), "", in))
		})
	}
}

// A read shows that a clean's reservation is gone, and the inventory takes no write: the step
// stops, also one that waits for its host, because a scheduler may allocate the device now. What
// an instance writes there stays.
//
// F4, F5
func TestACleanStopsWhenItsReservationIsGone(t *testing.T) {
	for _, crashed := range []bool{true, false} {
		t.Run(fmt.Sprintf("its host is away %v", crashed), func(t *testing.T) {
			w := newNovaDevice(t).available()
			w.allocatedByNova("c1")
			w.inventory.free("c1")
			w.hintReconcile()
			w.stepRuns("zero")
			if crashed {
				w.host.crash()
			}
			w.inventory.recreate("again")
			w.inventory.injectFault = func(call string, _ bool) error {
				if call == "PutReserved" {
					return lostAnswer()
				}
				return nil
			}
			w.hintReconcile()
			w.pass(2 * time.Second)
			w.allocateUnseen("c2")
			w.host.restart()
			w.pass(time.Minute)
			w.requireDataOf("c2")
			w.inventory.injectFault = nil
			w.hintReconcile()
			require.Equal(t, "c2", *w.reach(device.Allocated).InstanceUUID)
			w.idle()
			w.requireDataOf("c2")
			w.inventory.free("c2")
			w.hintReconcile()
			w.requireReturned()
		})
	}
}

// allocateUnseen has Nova allocate and reserve the device, and an instance fill it with data.
func (w *deviceEnv) allocateUnseen(consumer string) {
	require.True(w.t, w.inventory.allocate(consumer), w.describe())
	w.inventory.writeByOther(1)
	w.host.writeAsTenant(consumer)
}

func (w *deviceEnv) requireDataOf(consumer string) {
	w.t.Helper()
	for block, of := range w.host.blocks {
		require.Equal(w.t, consumer, of, "block %d; %s", block, w.describe())
	}
}

// A clean whose reservation is gone begins again with it, whoever owns the provider: it returns
// the device after one full plan.
//
// F4, F5
func TestACleanBeginsAgainWithItsReservation(t *testing.T) {
	for _, owner := range owners {
		t.Run(string(owner), func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = owner
			ok[contract.Result](w.enroll(true))
			w.stepRuns("zero")
			w.inventory.writeByOther(0)
			w.hintReconcile()
			w.requireReturned()
			require.Len(t, w.host.inputs, 3, "zero, stopped; zero; verify")
			require.NotEqual(t, w.host.inputs[0].Clean, w.host.inputs[1].Clean)
			w.requireMatchingGenerations()
		})
	}
}

// An abort is not lost while a clean waits to begin again.
//
// F9
func TestAbortWhileACleanWaitsToBeginAgain(t *testing.T) {
	w := newNovaDevice(t)
	ok[contract.Result](w.enroll(true))
	w.stepRuns("zero")
	w.inventory.recreate("again")
	w.inventory.injectFault = func(call string, _ bool) error {
		if call == "PutReserved" {
			w.inventory.providerGone = true
			return lostAnswer()
		}
		return nil
	}
	w.hintReconcile()
	w.until("the clean to stop", func() bool { return w.inventory.providerGone && w.host.running == "" })
	w.pass(5 * time.Minute)
	ok[contract.Result](w.send(contract.VerbAbort.Update(), "", contract.ReasonInput{}))
	w.inventory.injectFault, w.inventory.providerGone = nil, false
	w.hintReconcile()
	require.Equal(t, string(device.CodeAborted), w.reach(device.Error).Fault)
	w.pass(time.Minute)
	require.Equal(t, 1, w.inventory.reserved)
	require.Len(t, w.host.inputs, 1)
}

// A client that lowers the reservation during each clean has it begin again after a growing pause,
// in which the device is reserved; the operator is called. The clean is not begun twice meanwhile.
//
// F5, F29
func TestACleanThatBeginsAgainIsPaused(t *testing.T) {
	for _, owner := range owners {
		t.Run(string(owner), func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = owner
			ok[contract.Result](w.enroll(true))
			lowers := true
			var lower func()
			lower = func() {
				if lowers && w.host.running != "" {
					w.inventory.writeByOther(0)
					w.hintReconcile()
				}
				w.after(time.Second, lower)
			}
			w.after(1, lower)
			w.pass(2 * time.Hour)
			require.Less(t, len(w.host.inputs), 25, "at least ten minutes between two")
			require.Greater(t, len(w.host.inputs), 10)
			w.until("the call", func() bool { return w.view().Waiting != nil && w.view().Waiting.For == contract.WaitPause })
			w.requireWait(device.CodeReservationChanged, true)
			require.Equal(t, 1, w.inventory.reserved)
			lowers = false
			w.requireReturned()
			w.requireNoWait()
		})
	}
}

// The provider of a manageable, clean device was re-created, and an instance uses it, or did so. What
// a refused request reads does not explain that: the device is not offered with the instance's data.
//
// D9, F34
func TestReadOfARefusedRequestExplainsNothing(t *testing.T) {
	for _, left := range []bool{true, false} {
		t.Run(fmt.Sprintf("the instance has left %v", left), func(t *testing.T) {
			w := newNovaDevice(t).available()
			ok[contract.Result](w.ask(contract.VerbManage.Update()))
			w.inventory.recreate("again")
			w.allocateUnseen("c2")
			w.requireNotOfferedAfterUse("c2")
			if left {
				w.inventory.free("c2")
				w.lag = func(activity string) (before, after time.Duration) {
					if activity == contract.ActivityReadReservation {
						return 20 * time.Second, time.Millisecond
					}
					return time.Millisecond, time.Millisecond
				}
				retire := w.ask(contract.VerbRetire.Update())
				w.until("the read", func() bool { return w.activitiesInFlight > 0 })
				ok[contract.Result](w.ask(contract.VerbProvide.Update()))
				retire.refused(device.CodeRefused)
			} else {
				w.ask(contract.VerbRetire.Update()).refused(device.CodeInUse)
				w.inventory.free("c2")
				w.pass(time.Minute)
				ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			}
			w.returned()
			require.True(t, w.host.clean(), w.describe())
		})
	}
}

// An instance used an available device of Nova's, and left it as free as before. An operator who takes it
// out of the offer before a re-check does not get it as clean, and does not give it back so.
//
// D9, F28, F34
func TestAUseBeforeTheDeviceLeavesTheOfferIsSeen(t *testing.T) {
	for name, leave := range map[string]func(*deviceEnv) *call{
		"manage":   func(w *deviceEnv) *call { return w.ask(contract.VerbManage.Update()) },
		"maintain": func(w *deviceEnv) *call { return w.maintain(false) },
	} {
		for provider, another := range map[string]bool{"the same provider": false, "another provider": true} {
			t.Run(name+", "+provider, func(t *testing.T) {
				w := newNovaDevice(t).available()
				if another {
					w.inventory.recreate("again")
				}
				require.True(t, w.inventory.allocate("c2"))
				w.host.writeAsTenant("c2")
				w.inventory.free("c2")
				w.requireNotOfferedAfterUse("c2")
				leave(w).refused(device.CodeInUse)
				w.returned()
				require.True(t, w.host.clean(), w.describe())
			})
		}
	}
}
