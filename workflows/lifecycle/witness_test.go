package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// putBack is an environment whose workflow has the memory of an earlier moment, while its
// inventory, its host and its tenant went on: the database was put back.
func putBack(t *testing.T, before, since func(*deviceEnv)) *deviceEnv {
	old := newDeviceEnv(t, standardPolicy())
	before(old)
	old.idle()
	old.nextRun()
	memory := *old.handedOver
	since(old)
	old.idle()
	w := newDeviceEnvOf(t, standardPolicy(), contract.DeviceInput{Name: "d1", State: &memory})
	w.inventory, w.host = old.inventory, old.host
	w.calls.Store = w.inventory
	w.owner, w.oneTimeUse = old.owner, old.oneTimeUse
	return w
}

// The database is put back to before a bind: the inventory records the instance that has the
// device, so that it is neither cleaned nor given to another one, whatever asks first.
//
// F24, S0.39
func TestPutBackToBeforeTheBind(t *testing.T) {
	unbound := func(w *deviceEnv) { ok[contract.Result](w.unbind("i0")); w.reach(device.Available) }
	for from, before := range map[string]func(*deviceEnv){
		"available":   (*deviceEnv).makeAvailable,
		"manageable":  func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.ask(contract.VerbManage.Update())) },
		"maintenance": func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.maintain(false)) },
		"allocated":   func(w *deviceEnv) { w.makeBound("i0") },
		"unbound":     func(w *deviceEnv) { w.makeBound("i0"); unbound(w) },
	} {
		for by, asks := range map[string]func(*deviceEnv){
			"a hint":      func(w *deviceEnv) { w.signal(contract.SignalReleased, contract.Hint{}) },
			"a bind":      func(w *deviceEnv) { w.bind("i9", "r9").wait() },
			"provide":     func(w *deviceEnv) { w.send(contract.VerbProvide.Update(), "", contract.ReasonInput{}).wait() },
			"manage":      func(w *deviceEnv) { w.ask(contract.VerbManage.Update()).wait() },
			"maintenance": func(w *deviceEnv) { w.maintain(true).wait() },
			"an unbind":   func(w *deviceEnv) { w.unbind("i0").wait() },
		} {
			t.Run(from+", "+by, func(t *testing.T) {
				w := putBack(t, before, func(w *deviceEnv) { w.bindAgain("i1") })
				w.host.writeAsTenant("i1")
				asks(w)
				w.pass(time.Minute)
				w.signal(contract.SignalReleased, contract.Hint{})
				w.pass(time.Hour)
				require.Equal(t, "i1", w.host.blocks[0], "a bound tenant's data was erased")
				require.Equal(t, 1, w.inventory.reserved)
				v := w.settled()
				require.Equal(t, device.Allocated, v.DeviceState)
				require.Equal(t, "i1", *v.InstanceUUID)
				ok[contract.Result](w.unbind("i1"))
				w.makeAllocatable()
				require.True(t, w.host.clean())
			})
		}
	}
}

// A bound device whose record was removed, or says that no instance has the device, gets it written
// again.
//
// F24
func TestTheRecordOfABoundDeviceIsWrittenAgain(t *testing.T) {
	noTenant := ""
	for name, record := range map[string]*string{"removed": nil, "no instance": &noTenant} {
		t.Run(name, func(t *testing.T) {
			w := newBound(t)
			w.inventory.tenant = record
			w.signal(contract.SignalReleased, contract.Hint{})
			w.until("the record", func() bool { return w.inventory.tenant != nil && *w.inventory.tenant == "i1" })
			w.idle()
			require.Equal(t, device.Allocated, w.view().DeviceState)
			writes := len(w.inventory.writes)
			w.signal(contract.SignalReleased, contract.Hint{})
			w.idle()
			require.Len(t, w.inventory.writes, writes, "once is enough")
			ok[contract.Result](w.unbind("i1"))
			w.reach(device.Available)
		})
	}
}

// A device for which no record speaks waits for its operator, who may clean, manage or retire
// it; automated cleaning does not decide.
//
// F24, D16
func TestWithoutARecordTheOperatorDecides(t *testing.T) {
	for name, act := range map[string]func(*deviceEnv){
		"clean":  func(w *deviceEnv) { ok[contract.Result](w.cleanUp()); w.reach(device.Available) },
		"signal": func(w *deviceEnv) { w.signal(contract.SignalClean, contract.CleanInput{}); w.reach(device.Available) },
		"manage": func(w *deviceEnv) {
			ok[contract.Result](w.ask(contract.VerbManage.Update()))
			w.reach(device.Manageable)
		},
		"retire": func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbRetire.Update())); w.reach(device.Retired) },
	} {
		t.Run(name, func(t *testing.T) {
			w := recovered(t, func(w *deviceEnv) { w.makeBound("i1"); w.inventory.tenant = nil })
			w.awaitNoRecord()
			w.signal(contract.SignalObserved, w.host.hint(w.clock()))
			w.signal(contract.SignalRefresh, contract.Hint{})
			w.pass(24 * time.Hour)
			require.Equal(t, "i1", w.host.blocks[0], "it was cleaned without a record")
			require.Equal(t, 1, w.inventory.reserved)
			require.Contains(t, w.view().LastError, "does not record who has the device")
			w.bind("i2", "").refused(device.CodeRefused)
			act(w)
			require.Empty(t, w.view().Fault)
		})
	}
}

// A device is forgotten while its host is away: its name is left for the host.
//
// F25
func TestForgottenWhileItsHostIsAway(t *testing.T) {
	for name, away := range map[string]bool{"there": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			w := newAvailable(t)
			ok[contract.Result](w.ask(contract.VerbRetire.Update()))
			if away {
				w.host.crash()
			}
			ok[contract.Result](w.ask(contract.VerbForget.Update()))
			w.until("the end", func() bool { return !w.live })
			require.NoError(t, w.finishErr)
			if away {
				require.Equal(t, []string{"h1 d1"}, w.forgetLater)
			} else {
				require.Empty(t, w.forgetLater)
				require.False(t, w.host.known)
			}
		})
	}
}

// Another client's write between an unbind and the clean hides which binding the record is of:
// the device stays its former instance's, and the operator is called until that unbinds again.
//
// F24, F29
func TestAFormerInstanceThatMayBeBackCallsTheOperator(t *testing.T) {
	w := newBound(t)
	w.slow("", 2*time.Second, time.Millisecond)
	ok[contract.Result](w.unbind("i1"))
	w.pass(time.Second)
	w.inventory.writeByOther(1)
	w.pass(time.Minute)
	v := w.settled()
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, "i1", *v.InstanceUUID)
	require.True(t, v.NeedsOperator)
	require.Contains(t, v.Remedy, "--instance i1")
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	require.True(t, w.host.clean())
	require.False(t, w.view().NeedsOperator)
}

// The database is put back to the middle of a clean, and another instance has the device since. Its
// unbind is answered once the clean's step has stopped: it is its own by the record, with its number.
//
// F36
func TestATenantUnbindsDuringTheCleanThatForgotIt(t *testing.T) {
	w := newBound(t)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("verify")
	w.host.cancelDelay = 10 * time.Second
	tenant := "i2"
	w.inventory.tenant = &tenant
	w.inventory.rest = device.Record{Witness: device.WitnessBound, Tenant: tenant, Bindings: 7, Cleans: 9}
	w.inventory.generation += 5
	w.host.writeAsTenant(tenant)
	require.False(t, ok[contract.Result](w.unbind(tenant)).Already)
	require.Equal(t, tenant, w.host.blocks[0], "it was erased before its instance left")
	v := w.reach(device.Available)
	require.Equal(t, 7, v.Bindings[len(v.Bindings)-1].Number)
	require.Contains(t, v.Acts[len(v.Acts)-2].Reason, "the inventory records binding 7 of i2")
	w.idle()
	require.True(t, w.host.clean())
	require.Empty(t, w.recorded())
}
