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
