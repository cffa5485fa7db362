package lifecycle_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// updates brings a device to a state in which each update is legal, and sends it.
var updates = []struct {
	name string
	lead func(*deviceEnv)
	send func(*deviceEnv) *call
	// last: no tenant can follow.
	last bool
}{
	{"enroll", func(w *deviceEnv) {}, func(w *deviceEnv) *call { return w.enroll(false) }, false},
	{"enroll and provide", func(w *deviceEnv) {}, func(w *deviceEnv) *call { return w.enroll(true) }, false},
	{"provide", func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) },
		func(w *deviceEnv) *call { return w.ask(contract.VerbProvide.Update()) }, false},
	{"claim", (*deviceEnv).makeAvailable, func(w *deviceEnv) *call { return w.claim("i1", 1000*time.Hour) }, false},
	{"burn", func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.claim("i1", 1000*time.Hour)) },
		func(w *deviceEnv) *call { return w.burn("i1") }, false},
	{"unclaim", func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.claim("i1", 1000*time.Hour)) },
		func(w *deviceEnv) *call { return w.unclaim("i1") }, false},
	{"bind", (*deviceEnv).makeAvailable, func(w *deviceEnv) *call { return w.bind("i1", "r1") }, false},
	{"bind without a request", (*deviceEnv).makeAvailable, func(w *deviceEnv) *call { return w.bind("i1", "") }, false},
	{"unbind", func(w *deviceEnv) { w.makeBound("i1") }, func(w *deviceEnv) *call { return w.unbind("i1") }, false},
	{"rebuild", func(w *deviceEnv) { w.makeBound("i1") }, func(w *deviceEnv) *call {
		return w.send(contract.VerbRebuild.Update(), "", contract.UnbindInput{Instance: "i1"})
	}, false},
	{"clean", (*deviceEnv).makeFailed, func(w *deviceEnv) *call { return w.cleanUp() }, false},
	{"clean with steps", func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) },
		func(w *deviceEnv) *call { return w.cleanUp("verify", "zero") }, false},
	{"clean by a runbook", (*deviceEnv).makeRunbook, func(w *deviceEnv) *call { return w.runbook("erase") }, false},
	{"release a hold", func(w *deviceEnv) { w.makeRunbook(); ok[contract.Result](w.runbook("held")); w.onHold() },
		(*deviceEnv).releaseHold, false},
	{"abort", func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") },
		func(w *deviceEnv) *call { return w.ask(contract.VerbAbort.Update()) }, false},
	{"manage", (*deviceEnv).makeAvailable, func(w *deviceEnv) *call { return w.ask(contract.VerbManage.Update()) }, false},
	{"maintain", (*deviceEnv).makeAvailable, func(w *deviceEnv) *call { return w.maintain(false) }, false},
	{"maintain --off", func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.maintain(false)) },
		func(w *deviceEnv) *call { return w.maintain(true) }, false},
	{"power", func(w *deviceEnv) { w.makePowered(); w.makeAvailable() }, func(w *deviceEnv) *call { return w.setPower("reset", "") }, false},
	{"override", func(w *deviceEnv) { w.makeUncleanable(); w.requestOverride("x1") },
		func(w *deviceEnv) *call { return w.override(w.signed("bob", contract.OverrideInput{Approve: "x1"})) }, false},
	{"retire", (*deviceEnv).makeAvailable, func(w *deviceEnv) *call { return w.ask(contract.VerbRetire.Update()) }, true},
}

// bindAgain brings a device from any state to a binding of a new instance.
func (w *deviceEnv) bindAgain(instance string) {
	w.t.Helper()
	w.makeAllocatable()
	w.makeBound(instance)
}

// makeAllocatable brings a device from any state to available.
func (w *deviceEnv) makeAllocatable() {
	w.t.Helper()
	for range 10 {
		switch v := w.settled(); {
		case v.InstanceUUID != nil:
			ok[contract.Result](w.unbind(*v.InstanceUUID))
		case v.Maintenance && v.DeviceState != device.Error:
			ok[contract.Result](w.maintain(true))
		case v.ClaimedBy != "":
			ok[contract.Result](w.unclaim(v.ClaimedBy))
		case v.DeviceState == device.Error && v.Operation == "" && v.OneTimeUse: // D2
			w.overrideNow()
		case v.DeviceState == device.Error && v.Operation == "": // D4
			ok[contract.Result](w.ask(contract.VerbManage.Update()))
		case v.DeviceState == device.Error, v.DeviceState == device.PendingCleaning:
			ok[contract.Result](w.cleanUp())
		case v.DeviceState == device.Manageable:
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
		case v.DeviceState == device.Available:
			w.idle()
			return
		}
	}
	w.t.Fatal("it did not become available: " + w.describe())
}

// requireSame compares two states, apart from their recent messages.
func (w *deviceEnv) requireSame(before, after contract.DeviceState) {
	w.t.Helper()
	for _, s := range []*contract.DeviceState{&before, &after} {
		s.Recent, s.UpdatedAt, s.LastRefusal = nil, time.Time{}, ""
	}
	require.Equal(w.t, before, after)
}

// repeatInLaterRun sends an update a second time under its own ID, in a later run.
func (w *deviceEnv) repeatInLaterRun(c *call) *call {
	w.t.Helper()
	before, names, writes := w.state(), len(w.scheduledActivities), len(w.inventory.Writes)
	second := w.send(c.verb, c.id, c.in).wait()
	w.pass(time.Hour)
	repeated := slices.DeleteFunc(slices.Clone(w.scheduledActivities[names:]), func(name string) bool {
		return name == contract.ActivityReadReservation // who has it is asked before it is answered (F36)
	})
	require.Empty(w.t, repeated, "the repetition did something")
	require.Len(w.t, w.inventory.Writes, writes)
	w.requireSame(before, w.state())
	return second
}

// A failed update is recorded with its failure, and is not tried again.
func TestRepeated_FailedBindFailsAgain(t *testing.T) {
	w := newAvailable(t)
	w.inventory.InjectFault = inventorysim.Times(1, "PutReserved", true,
		inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
	c := w.bind("i1", "r1")
	c.refused(device.CodeInventoryInvalid)
	w.reach(device.Available)
	w.repeatInLaterRun(c).refused(device.CodeInventoryInvalid)
	w.bindAgain("i9")
	w.repeatInLaterRun(c).refused(device.CodeInventoryInvalid)
}

// 40 updates are remembered, not more.
func TestRepeated_MemoryIsBounded(t *testing.T) {
	w := newAvailable(t)
	for range 30 {
		ok[contract.Result](w.maintain(false))
		ok[contract.Result](w.maintain(true))
	}
	require.Len(t, w.state().Recent, 40)
}
