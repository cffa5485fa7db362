package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (w *deviceEnv) retire(instance string, lost bool) *call {
	return w.send(contract.VerbRetire.Update(), "",
		contract.RetireInput{Reason: "worn", Lost: lost, Instance: instance, Caller: contract.Caller{By: "op@h1"}})
}

// A device that somebody has is retired only by naming the instance, and the history says
// who did it. Its provider is deleted only by naming the instance again.
//
// F31
func TestRetireNamesTheTenant(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, owner := range owners {
			t.Run(string(owner), func(t *testing.T) {
				w := newDeviceEnv(t, standardPolicy())
				w.owner = owner
				w.makeAvailable()
				if owner == device.OwnerNova {
					w.allocatedByNova("i1")
				} else {
					w.makeBound("i1")
				}
				before := w.host.blocks
				for _, named := range []string{"", "i2"} {
					f := w.retire(named, lost).refused(device.CodeInUse).Fault
					require.Contains(t, f.Message, "i1")
					require.Contains(t, f.Remedy, "--instance i1")
				}
				v := w.view()
				require.Equal(t, device.Allocated, v.DeviceState)
				require.Equal(t, "i1", *v.InstanceUUID)

				ok[contract.Result](w.retire("i1", lost))
				w.idle()
				v = w.view()
				require.Equal(t, []any{device.Retired, 1}, []any{v.DeviceState, w.inventory.reserved})
				require.Equal(t, "retired by op@h1: worn", v.Bindings[len(v.Bindings)-1].Ended)
				f := w.send(contract.VerbForget.Update(), "", contract.ReasonInput{}).refused(device.CodeInUse).Fault
				require.Contains(t, f.Remedy, "forget d1 --instance i1")
				require.Equal(t, before, w.host.blocks, "nothing was written")
				ok[contract.Result](w.send(contract.VerbForget.Update(), "", contract.TenantInput{Instance: "i1"}))
				w.until("its end", func() bool { return !w.live })
			})
		}
	}
}

// The inventory's record counts too: other hardware and another slot would destroy it.
//
// F31
func TestReplaceAndMoveNameTheRecordedTenant(t *testing.T) {
	for name, try := range map[string]func(w *deviceEnv, instance string) *call{
		"replace": func(w *deviceEnv, instance string) *call { return w.replace(contract.ReplaceInput{Instance: instance}) },
		"move": func(w *deviceEnv, instance string) *call {
			e := w.enrollment()
			e.Name = "d2"
			return w.send(contract.VerbMove.Update(), "", contract.MoveInput{Enrollment: e, Instance: instance})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = device.OwnerNova
			ok[contract.Result](w.enroll(false))
			w.idle()
			w.inventory.allocateUnchecked("i1") // not seen yet
			if name == "replace" {
				w.replaceHardware("S2")
			}
			f := try(w, "").refused(device.CodeInUse).Fault
			require.Contains(t, f.Remedy, ": "+map[string]string{"replace": "replace d1", "move": "move d1 NEW"}[name]+
				" --instance i1")
			require.True(t, w.live)
			require.Empty(t, w.children)
			ok[contract.Result](try(w, "i1"))
		})
	}
}

// An instance that only the inventory's record names is no less a tenant: the device is
// not taken from it in silence, whatever state the workflow has.
//
// F31
func TestManageAndRetireNameTheRecordedTenant(t *testing.T) {
	for _, verb := range []string{contract.VerbManage.Update(), contract.VerbRetire.Update()} {
		// Placement records a name that is no UUID by a UUID made of it.
		for _, tenant := range []string{"i1", device.TenantUUID("i1")} {
			t.Run(verb+" "+tenant, func(t *testing.T) {
				var in contract.RetireInput
				w := newDeviceEnv(t, standardPolicy())
				w.makeBound("i0")
				w.failStep("verify", 0, device.CodeIO)
				ok[contract.Result](w.unbind("i0"))
				w.reach(device.Error)
				w.idle()
				w.inventory.tenant = &tenant
				f := w.send(verb, "", in).refused(device.CodeInUse).Fault
				require.Contains(t, f.Remedy, verb+" d1 --instance "+tenant)
				in.Instance = "i2"
				w.send(verb, "", in).refused(device.CodeInUse)
				require.Equal(t, device.Error, w.view().DeviceState)
				in.Instance = "i1"
				ok[contract.Result](w.send(verb, "", in))
				require.NotEqual(t, device.Error, w.view().DeviceState)
				require.Equal(t, tenant, *w.inventory.tenant, "the record is kept")
			})
		}
	}
}

// A retired device is permanently reserved, also if it was not reserved before, and again when
// Nova re-creates its provider.
func TestRetiredIsReserved(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, consumers := range [][]string{nil, {"c1"}} {
			w := newNovaDevice(t)
			w.inventory.injectFault = func(call string, after bool) error {
				if w.view().DeviceState == device.Unknown {
					return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
				}
				return nil
			}
			w.importWith(0, consumers...).wait()
			require.Equal(t, device.Unknown, w.view().DeviceState)
			in := contract.RetireInput{Lost: lost}
			if !lost { // it asks whom the inventory records
				require.Error(t, w.send(contract.VerbRetire.Update(), "", in).wait().err)
				w.inventory.injectFault, in.Instance = nil, strings.Join(consumers, "")
			}
			ok[contract.Result](w.send(contract.VerbRetire.Update(), "", in))
			w.inventory.injectFault = nil
			w.until("burned", func() bool { return w.inventory.reserved == 1 })
			w.inventory.recreate("nova-2")
			w.hintReconcile()
			w.until("burned again", func() bool { return w.inventory.reserved == 1 })
			require.Equal(t, device.Retired, w.view().DeviceState)
		}
	}
}

// A device whose workflow was lost while it was offered is retired before its inventory answers:
// it is reserved as soon as that does.
//
// F30
func TestRetiredWhileUnknownIsReserved(t *testing.T) {
	w := newAvailable(t)
	require.Zero(t, w.inventory.reserved)
	w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
	w.terminate()
	w.until("it is unknown", func() bool { return w.view().DeviceState == device.Unknown })
	ok[contract.Result](w.retire("", true))
	w.pass(time.Hour)
	require.Zero(t, w.inventory.reserved)
	w.inventory.injectFault = nil
	w.until("it is reserved", func() bool { return w.inventory.reserved == 1 })
	require.Equal(t, device.Retired, w.view().DeviceState)
}

// An unbind during the instance's own burn waits for it and ends the binding that it made,
// also where an earlier binding of that instance has ended.
//
// F30
func TestUnbindDuringItsOwnBurn(t *testing.T) {
	for name, earlier := range map[string]bool{"its first": false, "its second": true} {
		for what, fail := range map[string]bool{"succeeds": false, "fails": true} {
			t.Run(name+" "+what, func(t *testing.T) {
				w := newAvailable(t)
				if earlier {
					w.makeBound("i1")
					ok[contract.Result](w.unbind("i1"))
					w.returned()
				}
				w.noLocalCalls = true
				w.slow(contract.ActivityReserveForBind, 3*time.Second, 3*time.Second)
				if fail {
					w.inventory.injectFault = times(1, "PutReserved", false, fault(device.NeedsOperator, device.CodeInventoryInvalid))
				}
				bind := w.bind("i1", "r2")
				w.pass(time.Second)
				require.Equal(t, "i1", w.view().ClaimedBy)
				unbind := w.unbind("i1")
				w.pass(time.Second)
				require.False(t, unbind.done, "it waits for the burn")
				bind.wait()
				require.Equal(t, fail, bind.err != nil)
				require.Equal(t, fail, ok[contract.Result](unbind).Already)
				v := w.reach(device.Available)
				require.Nil(t, v.InstanceUUID)
				w.idle()
				require.Zero(t, w.inventory.reserved)
				require.True(t, w.host.clean())
			})
		}
	}
}

// An unbind ends the instance's claim.
//
// F30
func TestUnbindEndsAClaim(t *testing.T) {
	w := newAvailable(t)
	in := contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
	ok[contract.Result](w.send(contract.VerbClaim.Update(), "", in))
	w.unbind("i2").refused(device.CodeRefused)
	ok[contract.Result](w.unbind("i1"))
	require.Empty(t, w.view().ClaimedBy)
	w.bind("i2", "r2").wait()
	require.Equal(t, "i2", *w.view().InstanceUUID)
}
