package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// hintFromNewerHost is a hint whose record is newer than the workflow's.
func (w *deviceEnv) hintFromNewerHost(change func(*contract.HostDeviceRecord)) contract.Hint {
	h := w.host.hint(w.clock())
	change(h.Host)
	return h
}

// awaitNoRecord waits until the device waits for its operator, because nothing records who has
// it.
func (w *deviceEnv) awaitNoRecord() {
	w.until("no record", func() bool {
		v := w.view()
		return v.DeviceState == device.Unknown && v.Fault == string(device.CodeTenantUnrecorded) && v.NeedsOperator
	})
}

// recovered is an environment whose device's workflow was terminated; its host starts and has a
// record of it.
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

// Terminated while unused: it becomes unknown, reserved and Dirty, and is cleaned.
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
}

// Terminated while bound: the previous run shows the instance, and nothing is erased.
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
}

// The same while discovery fails: a device whose operation is not known does not count as one
// that nothing can clean (D4).
func TestRecovery_UnknownOperationIsNotUncleanable(t *testing.T) {
	for name, c := range map[string]struct {
		lead func(*deviceEnv)
	}{
		"host unreachable": {func(w *deviceEnv) { w.host.crash() }},
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
					w.Errorf("returned with the tenant's data")
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
			w.requireReturned()
		})
	}
}

// Terminated again before the first recovery was complete: the run before that recovery counts,
// not the recovery's own run.
func TestRecovery_TerminatedAgainWhileUnknown(t *testing.T) {
	w := newBound(t)
	w.idle()
	w.inventory.injectFault = func(string, bool) error { return lostAnswer() } // the recovery cannot go on
	for range 3 {
		w.terminate()
		w.pass(2 * time.Minute)
		require.Equal(t, device.Unknown, w.view().DeviceState)
	}
	w.inventory.injectFault = nil
	v := w.settled()
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.Equal(t, "i1", w.host.blocks[0], "a bound tenant's data was erased")
}

// Reset to before its enrollment: the workflow knows nothing, and its host has a record.
func TestRecovery_ResetToBeforeTheEnrollment(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.record = contract.HostDeviceRecord{Enrollment: w.enrollment(), Identity: w.host.discovery.Identity, Binding: 3,
		Clean: 4, Seq: 9}
	w.host.writeAsTenant("i1")
	w.signal(contract.SignalObserved, w.host.hint(w.clock()))
	w.previousRun = contract.PreviousRun{RunID: "reset", Instance: "i1"}
	v := w.reach(device.Allocated)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.GreaterOrEqual(t, v.Binding, 3)
	w.turnOver("i1")
	require.Greater(t, w.host.inputs[0].Seq, int64(9))
	require.True(t, w.host.clean())
}

// Listings are eventually consistent: that there is no previous run counts only after three
// listings.
func TestRecovery_ListingLagsBehind(t *testing.T) {
	w := recovered(t, func(w *deviceEnv) { w.makeBound("i1") })
	w.until("the first listing", func() bool {
		return count(w.scheduledActivities, "FindPreviousRun") == 1 &&
			w.activitiesInFlight == 0
	})
	w.previousRun = contract.PreviousRun{RunID: "ended", Instance: "i1"}
	v := w.reach(device.Allocated)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.Equal(t, "i1", w.host.blocks[0])
}

// Terminated during a clean: the step may still run; the next clean starts from its first step.
func TestRecovery_TerminatedDuringAClean(t *testing.T) {
	w := recovered(t, func(w *deviceEnv) {
		w.makeBound("i1")
		ok[contract.Result](w.unbind("i1"))
		w.stepRuns("zero")
		w.host.running = "" // the server ends its attempt
	})
	v := w.settled()
	require.Equal(t, device.Available, v.DeviceState, "%s", w.describe())
	require.True(t, w.host.clean())
}

// A host's record that is newer than a running workflow invalidates the device.
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
				w.host.writeAsTenant("unknown data")
				hint := w.hintFromNewerHost(change)
				w.signal(contract.SignalObserved, hint)
				w.until("the invalidation", func() bool { return w.view().Dirty })
				w.requireCleansBeforeOffer(1)
				discoveries := count(w.scheduledActivities, "Discover")
				switch at { // its operator lets it go, nothing else (F43)
				case "error":
					w.pass(24 * time.Hour)
					require.Equal(t, device.Error, w.view().DeviceState)
					ok[contract.Result](w.cleanUp())
				case "manageable", "held":
					w.pass(24 * time.Hour)
					require.Equal(t, device.Manageable, w.view().DeviceState)
					require.Equal(t, 1, w.inventory.reserved)
					if at == "held" {
						ok[contract.Result](w.maintain(true))
					}
					ok[contract.Result](w.ask(contract.VerbProvide.Update()))
				}
				w.requireReturned()
				require.Greater(t, count(w.scheduledActivities, "Discover"), discoveries, "its host discovered it again")
				w.bindAgain("i9")
				require.Greater(t, w.view().Binding, hint.Host.Binding)
				w.signal(contract.SignalObserved, w.host.hint(w.clock())) // nothing new any more
				w.pass(time.Hour)
				require.Equal(t, "i9", *w.view().InstanceUUID)
			})
		}
	}
}

// Invalidated while bound: the instance of a previous run counts if that run ended after the
// binding began, as by a reset; without one the recorded binding stays. A run that ended
// earlier, and that the listing shows late, says nothing about the binding.
//
// F10, F25
func TestInvalidatedKeepsTheInstance(t *testing.T) {
	for name, c := range map[string]struct {
		previous contract.PreviousRun
		ended    time.Duration // after the binding
		want     string
	}{
		"no previous run":                      {contract.PreviousRun{}, 0, "i1"},
		"the same instance":                    {contract.PreviousRun{RunID: "reset", Instance: "i1"}, time.Second, "i1"},
		"a later one, by a reset":              {contract.PreviousRun{RunID: "reset", Instance: "i7"}, time.Second, "i7"},
		"an earlier one, listed late":          {contract.PreviousRun{RunID: "r0", Instance: "i0"}, -time.Hour, "i1"},
		"an earlier one, unbound, listed late": {contract.PreviousRun{RunID: "r0"}, -time.Hour, "i1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBound(t)
			w.pass(time.Second)
			c.previous.EndedAt = w.clock().Add(c.ended)
			w.previousRun = c.previous
			w.inventory.tenant = &c.want // a bind that a reset lost has recorded its instance
			if c.ended < 0 {
				w.inventory.tenant = nil // only the order of run and binding speaks for the binding
			}
			w.signal(contract.SignalObserved, w.hintFromNewerHost(func(r *contract.HostDeviceRecord) { r.Binding += 3 }))
			w.pass(time.Minute)
			v := w.settled()
			require.Equal(t, device.Allocated, v.DeviceState)
			require.Equal(t, c.want, *v.InstanceUUID)
			require.Len(t, w.host.inputs, 2, "nothing was erased")
		})
	}
}

// Enrolled again after a previous run: the device is unknown, and the instance of that run
// counts.
func TestRecovery_EnrolledAgainByHand(t *testing.T) {
	for _, instance := range []string{"", "i0"} {
		w := newDeviceEnv(t, standardPolicy())
		w.previousRun = contract.PreviousRun{RunID: "ended", Instance: instance}
		w.host.writeAsTenant("i0")
		ok[contract.Result](w.enroll(true))
		if instance == "" {
			w.awaitNoRecord()
			w.pass(time.Hour)
			require.Equal(t, "i0", w.host.blocks[0], "it was cleaned without a record")
			ok[contract.Result](w.cleanUp())
			w.requireReturned()
			continue
		}
		v := w.settled()
		require.Equal(t, device.Allocated, v.DeviceState)
		require.Equal(t, instance, *v.InstanceUUID)
		require.Equal(t, "i0", w.host.blocks[0], "a tenant's data was erased")
		w.turnOver("i0")
	}
}

// A run that ended before this one began does not count for the bindings of this one.
//
// F10
func TestRunBeforeTheEnrollmentIsIgnored(t *testing.T) {
	for _, instance := range []string{"", "i0"} {
		w := newDeviceEnv(t, standardPolicy())
		w.previousRun = contract.PreviousRun{RunID: "earlier", Instance: instance}
		ok[contract.Result](w.enroll(true))
		if instance == "" {
			w.awaitNoRecord()
			ok[contract.Result](w.cleanUp())
		}
		w.bindAgain("i1")
		w.inventory.writeByOther(1) // the inventory's generation is ahead: invalidated
		w.signal(contract.SignalRefresh, contract.Hint{})
		w.pass(time.Minute)
		v := w.settled()
		require.Equal(t, device.Allocated, v.DeviceState, "previous instance %q", instance)
		require.Equal(t, "i1", *v.InstanceUUID)
		require.Equal(t, "i1", w.host.blocks[0], "a bound tenant's data was erased")
	}
}

// The inventory's generation is ahead of the workflow: invalidated and cleaned, once.
//
// F10
func TestInventoryGenerationIsAhead(t *testing.T) {
	w := newAvailable(t)
	w.inventory.allocate("c1")
	w.host.writeAsTenant("c1")
	w.inventory.free("c1") // and reserved is 0 as if nothing had been
	w.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
	w.until("the invalidation", func() bool { return w.view().Dirty })
	w.requireReturned()
	require.Len(t, w.host.inputs, 4)
}

// The inventory is unavailable while an unknown device is resolved: it needs the operator, and
// goes on when the inventory answers.
//
// F10
func TestUnknownWaitsForItsInventory(t *testing.T) {
	w := newAvailable(t)
	w.inventory.injectFault = func(string, bool) error {
		return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
	}
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
}

// A repeated hint from a newer host invalidates the device once.
//
// F10
func TestRepeatedHintInvalidatesOnce(t *testing.T) {
	w := newAvailable(t)
	hint := w.hintFromNewerHost(func(r *contract.HostDeviceRecord) { r.Seq += 2; r.Clean += 2 })
	w.signal(contract.SignalObserved, hint)
	w.reach(device.PendingCleaning)
	w.reach(device.Available)
	require.Greater(t, w.host.inputs[2].Seq, hint.Host.Seq)
	require.Greater(t, w.host.inputs[2].Number, hint.Host.Clean)
	w.makeBound("i1")
	w.nextRun()
	before := count(w.scheduledActivities, "FindPreviousRun")
	for range 3 {
		w.signal(contract.SignalObserved, hint)
	}
	w.pass(time.Hour)
	require.Equal(t, before, count(w.scheduledActivities, "FindPreviousRun"))
	require.Equal(t, "i1", *w.view().InstanceUUID)
	require.Len(t, w.host.inputs, 4)
}

// A read that reserves the device while a clean begins: the new generation is the workflow's
// own write.
//
// F10
func TestReservingReadDuringAClean(t *testing.T) {
	record := newFakeHost().record
	record.Enrollment = contract.Enrollment{Name: "d1", Host: "h1", Driver: "testdriver", Owner: device.OwnerSelf}
	w := newDeviceEnvOf(t, standardPolicy(), contract.DeviceInput{Name: "d1", Recovered: &record})
	noTenant := ""
	w.inventory.exists, w.inventory.generation, w.inventory.tenant = true, 5, &noTenant // it was available
	w.previousRun = contract.PreviousRun{RunID: "r0"}
	w.inventory.injectFault = times(1, "Create", false, fault(device.Permanent, device.CodeInventoryInvalid))
	w.until("its backoff", func() bool { return w.view().Fault == string(device.CodeInventoryInvalid) })
	w.signal(contract.SignalObserved, contract.Hint{Source: "host start", Host: &record})
	w.reach(device.Available)
	require.Equal(t, []string{contract.ActivityEnsureProvider, contract.ActivityReadReservation,
		contract.ActivityEnsureProvider}, w.scheduledActivities[:3], "the read comes first, and finds it free")
	cleans := w.view().Cleans
	require.Len(t, cleans, 1)
	require.Equal(t, "cleaned", cleans[0].Outcome)
}
