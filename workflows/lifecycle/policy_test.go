package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

func notAutomated() clean.Policy {
	p := standardPolicy()
	p.Automated = false
	return p
}

// Nothing can clean it, and it is one-time-use: it needs the operator.
//
// D4
func TestOneTimeUseWithoutAnErasePath(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.oneTimeUse = true
	w.makeAvailable()
	w.host.discovery.Operation = ""
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeNoErasePath), v.Fault)
	require.True(t, v.NeedsOperator)
	require.True(t, v.Dirty)
	w.cleanUp().refused(device.CodeNoErasePath)
	w.pass(24 * time.Hour)
	require.Equal(t, 1, w.inventory.reserved)
	require.Equal(t, "i1", w.host.blocks[0])
	ok[contract.Result](w.ask(contract.VerbRetire.Update()))
}

// D4
func TestOneTimeUseWithoutAnErasePathIsNeverProvided(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.oneTimeUse = true
	w.host.discovery.Operation = ""
	ok[contract.Result](w.enroll(true))
	v := w.settled()
	require.Equal(t, device.Error, v.DeviceState)
	require.Equal(t, string(device.CodeNoErasePath), v.Fault)
	require.Equal(t, 1, w.inventory.reserved)
}

// Nothing can clean it, and it is not one-time-use: it is returned and marked not sanitized.
//
// D4
func TestReusableWithoutAnErasePath(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.discovery.Operation = ""
	ok[contract.Result](w.enroll(true))
	v := w.reach(device.Available)
	require.True(t, v.NotSanitized)
	w.idle()
	require.Zero(t, w.inventory.reserved)
	ok[contract.Result](w.bind("i1", "r1"))
	ok[contract.Result](w.unbind("i1"))
	v = w.reach(device.Available)
	require.True(t, v.NotSanitized)
	require.Empty(t, w.host.inputs)
	w.requireMatchingGenerations()
}

// Automated cleaning is off. A one-time-use device waits for the operator, by
// update or by signal, whatever happens meanwhile.
//
// D7
func TestOneTimeUseWaitsForTheOperator(t *testing.T) {
	for name, free := range map[string]func(*deviceEnv){
		"update":        func(w *deviceEnv) { ok[contract.Result](w.cleanUp()) },
		"signal":        func(w *deviceEnv) { w.signal(contract.SignalClean, contract.CleanInput{Reason: "test"}) },
		"signal of nil": func(w *deviceEnv) { w.signal(contract.SignalClean, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, notAutomated())
			w.oneTimeUse = true
			w.makeBound("i1")
			ok[contract.Result](w.unbind("i1"))
			v := w.view()
			require.Equal(t, device.PendingCleaning, v.DeviceState)
			require.True(t, v.NeedsOperator)
			require.Equal(t, string(device.CodeAutomatedCleanOff), v.Fault)
			require.NotEmpty(t, v.Remedy)
			runs := len(w.host.inputs)
			w.pass(24 * time.Hour)
			w.nextRun()
			w.signal(contract.SignalRefresh, contract.Hint{})
			w.pass(24 * time.Hour)
			require.Len(t, w.host.inputs, runs)
			require.Equal(t, 1, w.inventory.reserved)
			require.True(t, w.view().NeedsOperator)
			free(w)
			v = w.reach(device.Available)
			require.False(t, v.NeedsOperator)
			require.Empty(t, v.Fault)
			require.False(t, v.NotSanitized)
			require.True(t, w.host.clean())
		})
	}
}

// Other devices return at once, marked not sanitized until the next full clean.
//
// D7, S3.6
func TestReusableReturnsNotSanitized(t *testing.T) {
	w := newDeviceEnv(t, notAutomated())
	w.makeBound("i1")
	runs := len(w.host.inputs)
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Available)
	require.True(t, v.NotSanitized)
	w.idle()
	require.Len(t, w.host.inputs, runs)
	require.Zero(t, w.inventory.reserved)
	w.requireMatchingGenerations()
	w.setPolicy(standardPolicy())
	w.nextRun()
	w.makeBound("i2")
	ok[contract.Result](w.unbind("i2"))
	w.reach(device.Available)
	require.False(t, w.view().NotSanitized)
}

// After a failed burn or an invalidation a device waits for the operator, too.
//
// D7
func TestInvalidatedDevicesWaitToo(t *testing.T) {
	for name, invalidate := range map[string]func(*deviceEnv){
		"failed burn": func(w *deviceEnv) {
			w.inventory.injectFault = times(1, "PutReserved", true, fault(device.NeedsOperator, device.CodeInventoryInvalid))
			w.bind("i1", "r1").refused(device.CodeInventoryInvalid)
		},
		"reserved and unused": func(w *deviceEnv) {
			w.inventory.writeByOther(1)
			w.owner = device.OwnerNova
			w.signal(contract.SignalObserved, contract.Hint{})
		},
		"unknown": func(w *deviceEnv) {
			h := w.host.hint(w.clock())
			h.Host.Clean += 7
			w.signal(contract.SignalObserved, h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, notAutomated())
			w.oneTimeUse = true
			w.makeAvailable()
			runs := len(w.host.inputs)
			invalidate(w)
			w.until("waiting for the operator", func() bool {
				return w.view().DeviceState == device.PendingCleaning && w.view().NeedsOperator
			})
			w.pass(time.Hour)
			require.Len(t, w.host.inputs, runs)
			require.Equal(t, 1, w.inventory.reserved)
			require.Equal(t, string(device.CodeAutomatedCleanOff), w.view().Fault, "the reason is shown")
			ok[contract.Result](w.cleanUp())
			w.reach(device.Available)
		})
	}
}

// A device is cleaned on enrollment, unless that is off and the operator asserts that it is clean.
//
// S3.2
func TestCleanOnEnrollment(t *testing.T) {
	for _, c := range []struct {
		onEnroll, assertedClean, cleaned bool
	}{{true, false, true}, {true, true, true}, {false, false, true}, {false, true, false}} {
		p := standardPolicy()
		p.OnEnroll = c.onEnroll
		w := newDeviceEnv(t, p)
		e := w.enrollment()
		e.OperatorAssertsClean = c.assertedClean
		r := ok[contract.Result](w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e}))
		require.Equal(t, c.cleaned, r.Device.Dirty)
		require.Equal(t, device.Manageable, r.Device.DeviceState)
		require.Equal(t, 1, w.inventory.reserved, "burned in each case")
		ok[contract.Result](w.ask(contract.VerbProvide.Update()))
		w.reach(device.Available)
		w.idle()
		require.Equal(t, c.cleaned, len(w.host.inputs) > 0, "%+v", c)
		require.Zero(t, w.inventory.reserved)
		if c.assertedClean && c.onEnroll {
			require.Equal(t, "--clean was not accepted: cleaning on enrollment is on", r.Device.LastRefusal)
		}
	}
}
