package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// newer is a host's record that knows more than the workflow.
func (w *deviceEnv) hintFromNewerHost(change func(*contract.HostDeviceRecord)) contract.Hint {
	h := w.host.hint(w.clock())
	change(h.Host)
	return h
}

// recovered is an environment whose device's workflow was ended from outside; its host starts
// and remembers it.
func recovered(t *testing.T, before func(*deviceEnv)) *deviceEnv {
	old := newDeviceEnv(t, standardPolicy())
	before(old)
	old.idle()
	record := old.host.record
	w := newDeviceEnvOf(t, standardPolicy(), contract.DeviceInput{Name: "d1", Recovered: &record})
	w.inventory, w.host = old.inventory, old.host
	w.calls.Store = w.inventory
	w.signal(contract.SignalObserved, w.host.hint(w.clock()))
	return w
}

// DESIGN, Recovery: terminated with nobody on it: unknown, burned, Dirty, cleaned.
func TestRecovery_UnusedIsCleaned(t *testing.T) {
	w := recovered(t, (*deviceEnv).makeAvailable)
	w.previousRun = contract.PreviousRun{RunID: "ended"}
	w.requireMaintenanceReserved()
	v := w.settled()
	require.Equal(t, device.Available, v.DeviceState, "%s", w.describe())
	w.idle()
	require.Len(t, v.Cleans, 1)
	require.True(t, w.host.clean())
	require.Zero(t, w.inventory.reserved)
	w.requireNoDefect()
}

// Terminated with a tenant on it: the ended run tells who, and nothing is wiped.
func TestRecovery_InstanceOfThePreviousRun(t *testing.T) {
	w := recovered(t, func(w *deviceEnv) { w.makeBound("i1") })
	w.previousRun = contract.PreviousRun{RunID: "ended", Instance: "i1"}
	v := w.settled()
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.True(t, v.Dirty)
	require.Equal(t, 1, w.inventory.reserved)
	w.pass(time.Hour)
	require.Equal(t, "i1", w.host.blocks[0])
	w.unbind("i2").refused(device.CodeRefused)
	ok[contract.Result](w.unbind("i1"))
	v = w.reach(device.Available)
	require.False(t, v.NotSanitized)
	require.True(t, w.host.clean())
	w.requireNoDefect()
}

// The same, and the host does not answer when it is asked what the device is: not
// knowing how to erase it must not make it "nothing can clean it" (D4).
func TestRecovery_UnknownOperationIsNotUncleanable(t *testing.T) {
	for name, c := range map[string]struct {
		lead func(*deviceEnv)
	}{
		"host silent": {func(w *deviceEnv) { w.host.crash() }},
		"host fails": {func(w *deviceEnv) {
			w.host.injectFault = func(what string, _ int) error {
				if what == contract.ActivityDiscover {
					return refuse(device.NeedsOperator, device.CodeIO)
				}
				return nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := recovered(t, func(w *deviceEnv) { w.makeBound("i1") })
			c.lead(w)
			w.previousRun = contract.PreviousRun{RunID: "ended", Instance: "i1"}
			w.settled()
			w.pass(time.Minute)
			ok[contract.Result](w.unbind("i1"))
			w.onChange = func() {
				if w.inventory.reserved == 0 && !w.host.clean() {
					w.Errorf("returned with the tenant's bytes on it")
					w.onChange = nil
				}
			}
			w.pass(time.Minute)
			w.host.injectFault = nil
			w.host.restart()
			w.pass(time.Hour)
			if w.view().DeviceState == device.Error {
				w.signal(contract.SignalObserved, w.host.hint(w.clock()))
				w.pass(time.Minute)
				ok[contract.Result](w.cleanUp())
			}
			w.reach(device.Available)
			require.True(t, w.host.clean())
			w.requireNoDefect()
		})
	}
}

// Terminated again before the first recovery had found out anything: the run that knew
// nothing is no witness, the one before it is.
func TestRecovery_TerminatedAgainWhileUnknown(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeBound("i1")
	w.idle()
	w.inventory.injectFault = func(string, bool) error { return lostAnswer() } // nothing can be found out
	for range 3 {
		w.terminate()
		w.pass(2 * time.Minute)
		require.Equal(t, device.Unknown, w.view().DeviceState)
	}
	w.inventory.injectFault = nil
	v := w.settled()
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.Equal(t, "i1", w.host.blocks[0], "a bound tenant's data was wiped")
	w.requireNoDefect()
}

// Reset to before its enrolment: the workflow knows nothing, its host remembers.
func TestRecovery_ResetToBeforeTheEnrollment(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.record = contract.HostDeviceRecord{Enrollment: w.enrollment(), Identity: w.host.discovery.Identity, Binding: 3, Clean: 4, Seq: 9}
	w.host.writeAsTenant("i1")
	w.signal(contract.SignalObserved, w.host.hint(w.clock()))
	w.previousRun = contract.PreviousRun{RunID: "reset", Instance: "i1"}
	v := w.reach(device.Allocated)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.GreaterOrEqual(t, v.Binding, 3)
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	require.Greater(t, w.host.inputs[0].Seq, int64(9))
	require.True(t, w.host.clean())
	w.requireNoDefect()
}

// A listing lags behind: no ended run is believed only after a second look, and a
// third.
func TestRecovery_ListingLagsBehind(t *testing.T) {
	w := recovered(t, func(w *deviceEnv) { w.makeBound("i1") })
	w.until("the first look", func() bool { return count(w.scheduledActivities, "FindPreviousRun") == 1 && w.activitiesInFlight == 0 })
	w.previousRun = contract.PreviousRun{RunID: "ended", Instance: "i1"}
	v := w.reach(device.Allocated)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.Equal(t, "i1", w.host.blocks[0])
	w.requireNoDefect()
}

// Terminated in mid-clean: the step may still run; the next clean begins anew.
func TestRecovery_TerminatedDuringAClean(t *testing.T) {
	w := recovered(t, func(w *deviceEnv) {
		w.makeBound("i1")
		ok[contract.Result](w.unbind("i1"))
		w.stepRuns("zero")
		w.host.running = "" // its attempt is told by the server that it is over
	})
	v := w.settled()
	require.Equal(t, device.Available, v.DeviceState, "%s", w.describe())
	require.True(t, w.host.clean())
	w.requireNoDefect()
}

// A host that knows newer than a running workflow makes it doubt itself.
//
// F10
func TestHostIsAhead(t *testing.T) {
	for name, change := range map[string]func(*contract.HostDeviceRecord){
		"binding": func(r *contract.HostDeviceRecord) { r.Binding += 2 },
		"clean":   func(r *contract.HostDeviceRecord) { r.Clean += 2 },
		"seq":     func(r *contract.HostDeviceRecord) { r.Seq += 2 },
	} {
		for at, lead := range map[string]func(*deviceEnv){
			"manageable": func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) },
			"available":  func(w *deviceEnv) { w.makeAvailable() },
			"cleaning":   func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") },
			"error":      func(w *deviceEnv) { w.makeFailed() },
			"held":       func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.maintain(false)); w.idle() },
		} {
			t.Run(name+" "+at, func(t *testing.T) {
				w := newDeviceEnv(t, standardPolicy())
				lead(w)
				w.host.writeAsTenant("nobody knows")
				hint := w.hintFromNewerHost(change)
				w.signal(contract.SignalObserved, hint)
				w.until("doubt", func() bool { return w.view().Dirty })
				w.requireCleansBeforeOffer(1)
				looks := count(w.scheduledActivities, "Discover")
				w.reach(device.Available)
				w.idle()
				require.True(t, w.host.clean())
				require.Greater(t, count(w.scheduledActivities, "Discover"), looks, "its host was asked what it is")
				w.bindAgain("i9")
				require.Greater(t, w.view().Binding, hint.Host.Binding)
				w.signal(contract.SignalObserved, w.host.hint(w.clock())) // nothing new any more
				w.pass(time.Hour)
				require.Equal(t, "i9", *w.view().InstanceUUID)
				w.requireNoDefect()
			})
		}
	}
}

// In doubt and in use: whoever an ended run says had it, has it; where none says
// anything, the binding that is recorded stands.
//
// F10
func TestInvalidatedKeepsTheInstance(t *testing.T) {
	for name, c := range map[string]struct {
		recalled contract.PreviousRun
		want     string
	}{
		"no ended run":            {contract.PreviousRun{}, "i1"},
		"the same tenant":         {contract.PreviousRun{RunID: "reset", Instance: "i1"}, "i1"},
		"a later one, by a reset": {contract.PreviousRun{RunID: "reset", Instance: "i7"}, "i7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.makeBound("i1")
			w.previousRun = c.recalled
			w.signal(contract.SignalObserved, w.hintFromNewerHost(func(r *contract.HostDeviceRecord) { r.Binding += 3 }))
			w.pass(time.Minute)
			v := w.settled()
			require.Equal(t, device.Allocated, v.DeviceState)
			require.Equal(t, c.want, *v.InstanceUUID)
			require.Len(t, w.host.inputs, 2, "nothing was wiped")
			w.requireNoDefect()
		})
	}
}

// Enrolled again although an ended run tells of it: the device comes back as unknown,
// and what that run knew of a tenant counts.
func TestRecovery_EnrolledAgainByHand(t *testing.T) {
	for _, instance := range []string{"", "i0"} {
		w := newDeviceEnv(t, standardPolicy())
		w.previousRun = contract.PreviousRun{RunID: "ended", Instance: instance}
		w.host.writeAsTenant("i0")
		ok[contract.Result](w.enroll(true))
		v := w.settled()
		if instance == "" {
			require.Equal(t, device.Available, v.DeviceState)
			require.True(t, w.host.clean())
			continue
		}
		require.Equal(t, device.Allocated, v.DeviceState)
		require.Equal(t, instance, *v.InstanceUUID)
		require.Equal(t, "i0", w.host.blocks[0], "a tenant's data was wiped")
		ok[contract.Result](w.unbind("i0"))
		w.reach(device.Available)
		w.requireNoDefect()
	}
}

// A run that ended before this one began knows nothing of its tenants.
//
// F10
func TestRunBeforeTheEnrollmentIsIgnored(t *testing.T) {
	for _, instance := range []string{"", "i0"} {
		w := newDeviceEnv(t, standardPolicy())
		w.previousRun = contract.PreviousRun{RunID: "an earlier life's", Instance: instance}
		ok[contract.Result](w.enroll(true))
		w.bindAgain("i1")
		w.inventory.writeByOther(1) // the inventory is newer: doubt
		w.signal(contract.SignalRefresh, contract.Hint{})
		w.pass(time.Minute)
		v := w.settled()
		require.Equal(t, device.Allocated, v.DeviceState, "recalled %q", instance)
		require.Equal(t, "i1", *v.InstanceUUID)
		require.Equal(t, "i1", w.host.blocks[0], "a bound tenant's data was wiped")
		w.requireNoDefect()
	}
}

// The inventory is newer than the workflow: doubt, cleaned, once.
//
// F10
func TestInventoryGenerationIsAhead(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeAvailable()
	w.inventory.allocate("c1")
	w.host.writeAsTenant("c1")
	w.inventory.free("c1") // and reserved is 0 as if nothing had been
	w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
	w.until("doubt", func() bool { return w.view().Dirty })
	w.reach(device.Available)
	require.True(t, w.host.clean())
	require.Len(t, w.host.inputs, 4)
	w.requireNoDefect()
}

// The inventory is away while an unknown device is looked into: the operator is told,
// and it goes on by itself.
//
// F10
func TestUnknownWaitsForItsInventory(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeAvailable()
	w.inventory.injectFault = func(string, bool) error { return fault(device.NeedsOperator, device.CodeInventoryInvalid)() }
	w.signal(contract.SignalObserved, w.hintFromNewerHost(func(r *contract.HostDeviceRecord) { r.Seq += 2 }))
	w.pass(10 * time.Minute)
	v := w.view()
	require.Equal(t, device.Unknown, v.DeviceState)
	require.True(t, v.NeedsOperator)
	require.Equal(t, string(device.CodeInventoryInvalid), v.Fault)
	w.nextRun()
	w.inventory.injectFault = nil
	v = w.reach(device.Available)
	require.False(t, v.NeedsOperator)
	w.requireNoDefect()
}

// A duplicate of the hint that made the device doubt itself does nothing more.
//
// F10
func TestRepeatedHintInvalidatesOnce(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeAvailable()
	hint := w.hintFromNewerHost(func(r *contract.HostDeviceRecord) { r.Seq += 2; r.Clean += 2 })
	w.signal(contract.SignalObserved, hint)
	w.reach(device.PendingCleaning)
	w.reach(device.Available)
	require.Greater(t, w.host.inputs[2].Seq, hint.Host.Seq)
	require.Greater(t, w.host.inputs[2].Number, hint.Host.Clean)
	w.makeBound("i1")
	w.nextRun()
	doubts := count(w.scheduledActivities, "FindPreviousRun")
	for range 3 {
		w.signal(contract.SignalObserved, hint)
	}
	w.pass(time.Hour)
	require.Equal(t, doubts, count(w.scheduledActivities, "FindPreviousRun"))
	require.Equal(t, "i1", *w.view().InstanceUUID)
	require.Len(t, w.host.inputs, 4)
	w.requireNoDefect()
}

// A look that burns, and the clean that begins beside it: the new generation is the
// workflow's own, not another's.
//
// F10
func TestReservingReadDuringAClean(t *testing.T) {
	record := newFakeHost().record
	record.Enrollment = contract.Enrollment{Name: "d1", Host: "h1", Driver: "rig", Owner: device.OwnerSelf}
	w := newDeviceEnvOf(t, standardPolicy(), contract.DeviceInput{Name: "d1", Recovered: &record})
	w.inventory.exists, w.inventory.generation = true, 5 // it was available
	w.previousRun = contract.PreviousRun{RunID: "r0"}
	w.inventory.injectFault = times(1, "Create", false, fault(device.Permanent, device.CodeInventoryInvalid))
	w.until("its rest", func() bool { return w.view().Fault == string(device.CodeInventoryInvalid) })
	w.signal(contract.SignalObserved, contract.Hint{Source: "host start", Host: &record})
	w.reach(device.Available)
	require.Equal(t, []string{contract.ActivityEnsureProvider, contract.ActivityReadReservation, contract.ActivityEnsureProvider}, w.scheduledActivities[:3], "the look comes first, and sees it free")
	cleans := w.view().Cleans
	require.Len(t, cleans, 1)
	require.Equal(t, "cleaned", cleans[0].Outcome)
	w.requireNoDefect()
}
