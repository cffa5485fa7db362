package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// recordedElsewhere is a record of the hardware in d1's slot under the name d7.
func (w *deviceEnv) recordedElsewhere(change func(*inventory.HardwareRecord)) {
	r := inventory.HardwareRecord{Provider: inventory.Provider{UUID: contract.DeviceUUID("d7"), Name: "d7"}}
	r.Hardware = w.host.discovery.Identity.Hardware()
	change(&r)
	w.inventory.Elsewhere = []inventory.HardwareRecord{r}
}

func recordedTenant(r *inventory.HardwareRecord) {
	r.Witness, r.Tenant = device.WitnessBound, "alice"
}

func recordedUse(r *inventory.HardwareRecord) { r.Used, r.Consumers = 1, []string{"bob"} }

func recordedNobody(r *inventory.HardwareRecord) { r.Witness = device.WitnessFree }

// requireUntouched checks that no step was sent and nothing in the inventory lowered.
func (w *deviceEnv) requireUntouched(who string) {
	w.t.Helper()
	require.Equal(w.t, who, w.host.blocks[0])
	require.NotContains(w.t, w.scheduledActivities, "zero")
	require.NotContains(w.t, w.scheduledActivities, contract.ActivityUnreserve)
}

// Hardware that the inventory records under another name is not enrolled: not while an instance
// is recorded, whatever became of that device, and not if nobody gave it up.
//
// F35
func TestHardwareThatIsRecordedElsewhereIsNotEnrolled(t *testing.T) {
	const notGivenUp = "neither retired nor forgotten"
	for name, c := range map[string]struct {
		record func(*inventory.HardwareRecord)
		other  device.State // of d7's workflow; "": there is none
		says   string
		serial string
	}{
		"its instance is recorded":                 {record: recordedTenant, says: "alice has this hardware, as d7"},
		"it is in use":                             {record: recordedUse, says: "bob has this hardware"},
		"it was retired as lost":                   {record: recordedTenant, other: device.Retired, says: "alice has this hardware"},
		"nobody is recorded, its workflow is gone": {record: recordedNobody, says: notGivenUp},
		"who has it was never recorded":            {record: func(*inventory.HardwareRecord) {}, says: notGivenUp},
		"it is in service":                         {record: recordedNobody, other: device.Available, says: notGivenUp},
		"its serial is written in another way":     {record: recordedTenant, serial: " s_1\x00", says: "alice"},
	} {
		for _, asserted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				policy := standardPolicy()
				policy.OnEnroll = !asserted
				w := newDeviceEnv(t, policy)
				w.recordedElsewhere(c.record)
				if c.other != "" {
					w.others = map[string]device.State{"device/d7": c.other}
				}
				if c.serial != "" {
					w.host.discovery.Identity.Serial = c.serial
				}
				e := w.enrollment()
				e.OperatorAssertsClean = asserted
				in := contract.EnrollInput{Enrollment: e, Provide: true}
				r := w.send(contract.VerbEnroll.Update(), "", in).refused(device.CodeDuplicateSerial)
				require.Contains(t, r.Fault.Message, c.says)
				require.Contains(t, r.Fault.Remedy, "move d7 d1")
				require.Contains(t, r.Fault.Remedy, contract.DeviceUUID("d7"))
				w.until("its end", func() bool { return !w.live })
				require.False(t, w.inventory.Exists)
				require.False(t, w.host.known)
				w.requireUntouched("enrolled")
			})
		}
	}
}

// A retired device keeps its provider until it is forgotten; its hardware may be enrolled again,
// and is found by its new name from then on.
//
// F35
func TestRetiredHardwareIsEnrolledAgain(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.recordedElsewhere(recordedNobody)
	w.others = map[string]device.State{"device/d7": device.Retired}
	w.makeAvailable()
	require.Equal(t, []string{w.host.discovery.Identity.Hardware()}, w.inventory.Hardware)
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.requireReturned()
}

// An inventory that does not answer is waited for, visibly, before the first step.
//
// F29, F35
func TestACleanWaitsForTheRecordsOfItsHardware(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	ok[contract.Result](w.enroll(false))
	w.inventory.InjectFault = func(call string, _ bool) error {
		if call == "OfHardware" {
			return inventorysim.LostAnswer()
		}
		return nil
	}
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	w.until("the operator to be called", func() bool {
		v := w.view()
		return v.NeedsOperator && v.Fault == string(device.CodeInventoryUnavailable)
	})
	w.requireUntouched("enrolled")
	w.inventory.InjectFault = nil
	w.requireReturned()
}

// Hardware that comes into a slot is asked for like that of an enrollment, and the record then
// follows it: what was replaced may be enrolled elsewhere.
//
// D10, F35
func TestReplacingHardwareIsAskedForAndRecorded(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeSerialMismatch()
	w.recordedElsewhere(recordedTenant)
	require.Contains(t, w.replace(contract.ReplaceInput{}).refused(device.CodeDuplicateSerial).Fault.Message, "alice")
	require.Equal(t, device.Error, w.view().DeviceState)
	require.Equal(t, []string{device.Identity{Serial: "S1"}.Hardware()}, w.inventory.Hardware)
	w.inventory.Elsewhere = nil
	ok[contract.Result](w.replace(contract.ReplaceInput{Provide: true}))
	require.Equal(t, []string{device.Identity{Serial: "S2"}.Hardware()}, w.inventory.Hardware)
	w.reach(device.Available)
}

// What a moved device still has under its former name is its own, until another device has that name.
//
// D10, F35
func TestAMovedDeviceIsNotHeldByItsFormerName(t *testing.T) {
	for state, own := range map[device.State]bool{device.Error: true, device.Retired: true, device.Allocated: false} {
		w := newDeviceEnv(t, standardPolicy())
		ok[contract.Result](w.enroll(false))
		ok[contract.Result](w.move("d2"))
		moved := newDeviceEnvOf(t, standardPolicy(), w.children[0].in)
		moved.updatesSent, moved.host = w.updatesSent, w.host
		moved.others = map[string]device.State{"device/d1": state}
		moved.recordedElsewhere(func(r *inventory.HardwareRecord) {
			recordedTenant(r)
			r.UUID, r.Name = contract.DeviceUUID("d1"), "d1"
		})
		ok[contract.Result](moved.ask(contract.VerbProvide.Update()))
		if own {
			moved.reach(device.Available)
			continue
		}
		moved.reach(device.Error)
		require.Equal(t, string(device.CodeDuplicateSerial), moved.view().Fault)
		moved.requireUntouched("enrolled")
	}
}
