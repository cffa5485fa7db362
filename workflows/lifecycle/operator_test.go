package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Maintenance reserves the device first; its end unreserves it.
//
// S2.51
func TestMaintenanceReservesAndItsEndUnreserves(t *testing.T) {
	for _, owner := range owners {
		w := newDeviceEnv(t, standardPolicy())
		w.owner = owner
		w.makeAvailable()
		w.inventory.writes = nil
		w.requireMaintenanceReserved()
		ok[contract.Result](w.maintain(false))
		v := w.view()
		require.True(t, v.Maintenance)
		require.Equal(t, device.Maintaining, v.Status)
		require.Contains(t, v.MaintenanceReason, "test")
		require.True(t, ok[contract.Result](w.maintain(false)).Already)
		w.bind("i1", "r1").refused(device.CodeRefused)
		w.pass(24 * time.Hour)
		w.nextRun()
		require.Equal(t, 1, w.inventory.reserved)
		ok[contract.Result](w.maintain(true))
		require.True(t, ok[contract.Result](w.maintain(true)).Already)
		require.Zero(t, w.inventory.reserved)
		require.Equal(t, device.Available, w.view().DeviceState)
		require.Len(t, w.host.inputs, 2, "unused meanwhile: not cleaned")
		w.requireMatchingGenerations()
		w.idle()
		w.makeBound("i2")
	}
}

// requireMaintenanceReserved checks after every event: outside of the offer a device is
// reserved.
func (w *deviceEnv) requireMaintenanceReserved() {
	w.onChange = func() {
		v := w.view()
		out := v.DeviceState == device.Manageable || v.DeviceState == device.Retired ||
			v.DeviceState == device.Available && v.Maintenance
		if out && w.inventory.exists && w.inventory.reserved == 0 {
			w.Errorf("%s (maintenance %v) and free in the inventory", v.DeviceState, v.Maintenance)
			w.onChange = nil
		}
	}
}

// In use when maintenance ends: it is allocated to its consumer.
func TestInUseWhenMaintenanceEnds(t *testing.T) {
	for _, owner := range owners {
		w := newDeviceEnv(t, standardPolicy())
		w.owner = owner
		w.makeAvailable()
		ok[contract.Result](w.maintain(false))
		w.idle()
		w.inventory.allocateUnchecked("c1")
		w.host.writeAsTenant("c1")
		w.maintain(true).wait()
		v := w.settled()
		require.Equal(t, device.Allocated, v.DeviceState, "owner %s", owner)
		require.Equal(t, "c1", *v.InstanceUUID)
		require.Equal(t, 1, w.inventory.reserved)
		require.Len(t, w.host.inputs, 2)
	}
}

// It was used and freed during maintenance in spite of the reservation: it is cleaned before it
// is unreserved.
func TestUsedDuringMaintenanceIsCleaned(t *testing.T) {
	for _, owner := range owners {
		t.Run(string(owner), func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.owner = owner
			w.makeAvailable()
			ok[contract.Result](w.maintain(false))
			w.idle()
			w.inventory.allocateUnchecked("c1")
			w.host.writeAsTenant("c1")
			w.inventory.free("c1")
			w.requireCleansBeforeOffer(1)
			w.maintain(true).wait()
			w.settled()
			if w.view().Maintenance { // the first request was refused
				ok[contract.Result](w.maintain(true))
			}
			w.pass(24 * time.Hour)
			v := w.view()
			require.Equal(t, []any{device.Manageable, true}, []any{v.DeviceState, v.Dirty},
				"its operator lets it go, nothing else (F43)")
			require.Equal(t, 1, w.inventory.reserved)
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			w.requireReturned()
		})
	}
}

// Maintenance may begin at any time, and keeps the device out of the offer at the end of its
// clean.
func TestMaintenanceDuringAClean(t *testing.T) {
	w := newBound(t)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	ok[contract.Result](w.maintain(false))
	v := w.reach(device.Available)
	require.True(t, v.Maintenance)
	w.idle()
	require.Equal(t, 1, w.inventory.reserved)
	require.True(t, w.host.clean())
	ok[contract.Result](w.maintain(true))
	require.Zero(t, w.inventory.reserved)
}

// Of a bind and a request to take the device out of the offer at the same time, exactly one
// succeeds.
func TestMaintenanceAndBindAtOnce(t *testing.T) {
	for name, verb := range map[string]func(*deviceEnv) *call{
		"maintain": func(w *deviceEnv) *call { return w.maintain(false) },
		"manage":   func(w *deviceEnv) *call { return w.ask(contract.VerbManage.Update()) },
		"retire":   func(w *deviceEnv) *call { return w.ask(contract.VerbRetire.Update()) },
	} {
		for _, between := range []time.Duration{1, time.Second, 3 * time.Second} {
			t.Run(name+" "+between.String(), func(t *testing.T) {
				w := newAvailable(t)
				w.slow("", 2*time.Second, 2*time.Second)
				out := verb(w)
				w.pass(between)
				bind := w.bind("i1", "r1")
				out.wait()
				bind.wait()
				require.True(t, (out.err == nil) != (bind.err == nil), "%s: %v, bind: %v", name, out.err, bind.err)
				require.Equal(t, 1, w.inventory.reserved)
				w.pass(time.Hour)
				require.Len(t, w.host.inputs, 2, "nothing was used, nothing is cleaned")
			})
		}
	}
}

// The inventory does not answer: maintenance is refused, and the device re-checks.
func TestMaintenanceThatCouldNotReserve(t *testing.T) {
	for _, after := range []bool{false, true} {
		w := newAvailable(t)
		w.inventory.injectFault = times(1, "PutReserved", after, fault(device.NeedsOperator, device.CodeInventoryInvalid))
		w.maintain(false).refused(device.CodeInventoryInvalid)
		w.pass(time.Minute)
		v := w.settled()
		if after { // what was written says that it is the operator's (F43)
			require.Equal(t, []any{device.Manageable, true, true}, []any{v.DeviceState, v.Maintenance, v.Dirty})
		} else {
			require.Equal(t, []any{device.Available, false}, []any{v.DeviceState, v.Maintenance})
			require.Zero(t, w.inventory.reserved)
		}
		ok[contract.Result](w.maintain(false))
		require.Equal(t, 1, w.inventory.reserved)
	}
}

// A device that leaves the offer is reserved before its state changes.
//
// S2.40
func TestLeavingTheOfferReservesFirst(t *testing.T) {
	for name, verb := range map[string]func(*deviceEnv) *call{
		"manage": func(w *deviceEnv) *call { return w.ask(contract.VerbManage.Update()) },
		"retire": func(w *deviceEnv) *call { return w.ask(contract.VerbRetire.Update()) },
	} {
		w := newAvailable(t)
		w.requireMaintenanceReserved()
		w.slow("", 3*time.Second, 3*time.Second)
		ok[contract.Result](verb(w))
		require.Equal(t, 1, w.inventory.reserved, name)
		require.True(t, ok[contract.Result](verb(w)).Already)
		w.idle()
	}
}

// In use when the operator asks: the request is refused, and the consumer keeps the device.
func TestLeavingTheOfferFindsUse(t *testing.T) {
	for _, verb := range []string{contract.VerbManage.Update(), contract.VerbRetire.Update()} {
		w := newDeviceEnv(t, standardPolicy())
		w.owner = device.OwnerNova
		w.makeAvailable()
		w.inventory.allocate("c1")
		w.ask(verb).refused(device.CodeInUse)
		v := w.settled()
		require.Equal(t, device.Allocated, v.DeviceState)
		require.Equal(t, "c1", *v.InstanceUUID)
	}
}

// The hardware is gone: neither host nor inventory is asked, and the reservation
// follows when the inventory answers.
//
// D10
func TestRetireLostWithoutHostAndInventory(t *testing.T) {
	for name, lead := range map[string]func(*deviceEnv){
		"available": func(w *deviceEnv) { w.makeAvailable() },
		"allocated": func(w *deviceEnv) { w.makeBound("i1") },
		"cleaning":  func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") },
		"error":     func(w *deviceEnv) { w.makeFailed() },
		"held":      func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.maintain(false)); w.idle() },
		"rediscovering": func(w *deviceEnv) {
			w.makeBound("i1")
			n := count(w.scheduledActivities, "Discover")
			w.host.steps["verify"] = 2
			ok[contract.Result](w.unbind("i1"))
			w.until("discover", func() bool { return count(w.scheduledActivities, "Discover") > n })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			lead(w)
			w.host.crash()
			w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
			asked := w.clock()
			r := ok[contract.Result](w.send(contract.VerbRetire.Update(), "",
				contract.RetireInput{Reason: "burnt", Lost: true, Instance: "i1"}))
			require.Equal(t, device.Retired, r.Device.DeviceState)
			require.Less(t, w.clock().Sub(asked), time.Second)
			w.pass(time.Hour)
			w.inventory.injectFault = nil
			w.pass(time.Hour)
			require.Equal(t, device.Retired, w.view().DeviceState)
			require.Equal(t, 1, w.inventory.reserved)
			require.Empty(t, w.view().Fault)
			w.idle()
			w.nextRun()
		})
	}
}

// D10
func TestForgetEndsARetiredDevice(t *testing.T) {
	for name, before := range map[string]func(*deviceEnv){
		"at once":                 func(*deviceEnv) {},
		"with a hint":             func(w *deviceEnv) { w.signal(contract.SignalRefresh, contract.Hint{}); w.pass(time.Minute) },
		"with a hint of its host": func(w *deviceEnv) { w.signal(contract.SignalObserved, w.host.hint(w.clock())); w.pass(time.Minute) },
		"after a hint from a newer host": func(w *deviceEnv) {
			h := w.host.hint(w.clock())
			h.Host.Seq += 3
			w.signal(contract.SignalObserved, h)
			w.pass(time.Minute)
		},
		"with its host unreachable": func(w *deviceEnv) { w.host.crash() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newAvailable(t)
			w.ask(contract.VerbForget.Update()).refused(device.CodeRefused)
			ok[contract.Result](w.ask(contract.VerbRetire.Update()))
			w.idle()
			before(w)
			require.Equal(t, device.Retired, w.view().DeviceState)
			forget := w.ask(contract.VerbForget.Update())
			w.within(2*time.Hour, "the end", func() bool { return !w.live })
			require.NoError(t, forget.err)
			require.True(t, forget.done)
			require.NoError(t, w.finishErr)
			require.False(t, w.inventory.exists, "its provider is deleted")
			if name != "with its host unreachable" {
				require.False(t, w.host.known)
			}
		})
	}
}

// Forget is refused while the inventory shows a consumer.
//
// D10
func TestForgetIsRefusedWhileInUse(t *testing.T) {
	w := newAvailable(t)
	ok[contract.Result](w.ask(contract.VerbRetire.Update()))
	w.idle()
	w.inventory.allocateUnchecked("c1")
	w.ask(contract.VerbForget.Update()).refused(device.CodeInUse)
	require.Equal(t, device.Retired, w.view().DeviceState)
	w.inventory.free("c1")
	w.ask(contract.VerbForget.Update())
	w.until("the end", func() bool { return !w.live })
	require.NoError(t, w.finishErr)
}

// The inventory was unavailable when the device was retired, and is asked again by forget.
//
// D10
func TestForgetAfterALoss(t *testing.T) {
	w := newAvailable(t)
	w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
	ok[contract.Result](w.send(contract.VerbRetire.Update(), "", contract.RetireInput{Lost: true}))
	w.pass(10 * time.Minute)
	w.ask(contract.VerbForget.Update()).wait()
	require.Equal(t, device.Retired, w.view().DeviceState)
	w.inventory.injectFault = nil
	w.ask(contract.VerbForget.Update())
	w.within(2*time.Hour, "the end", func() bool { return !w.live })
	require.NoError(t, w.finishErr)
	require.False(t, w.inventory.exists)
}
