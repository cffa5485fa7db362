package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// requireWait checks what the device waits for, and whether the operator was called.
func (w *deviceEnv) requireWait(code device.Code, called bool) contract.DeviceStatus {
	w.t.Helper()
	v := w.view()
	require.NotNil(w.t, v.Waiting, w.describe())
	require.Equal(w.t, code, v.Waiting.Code)
	require.Equal(w.t, called, v.NeedsOperator, w.describe())
	require.Equal(w.t, string(code), v.Fault)
	require.NotEmpty(w.t, v.LastError)
	return v
}

// requireNoWait checks that nothing is left of a wait.
func (w *deviceEnv) requireNoWait() {
	w.t.Helper()
	v := w.view()
	require.Nil(w.t, v.Waiting, w.describe())
	require.Empty(w.t, v.Fault)
	require.False(w.t, v.NeedsOperator)
}

// Whatever is tried again shows its cause at once, calls the operator when it has lasted, and
// ends by itself; the wait of a day costs little history.
//
// F29
func TestWaitsShowTheirCause(t *testing.T) {
	away := func(call string, after bool) error {
		if after {
			return nil
		}
		return inventorysim.Fails(device.Transient, device.CodeInventoryUnavailable)()
	}
	for name, tt := range map[string]struct {
		lead func(*deviceEnv)
		heal func(*deviceEnv)
		code device.Code
		ends device.State
	}{
		"the inventory at the start of a clean": {
			lead: func(w *deviceEnv) {
				w.makeBound("i1")
				w.inventory.InjectFault = away
				ok[contract.Result](w.unbind("i1"))
			},
			heal: func(w *deviceEnv) { w.inventory.InjectFault = nil },
			code: device.CodeInventoryUnavailable, ends: device.Available,
		},
		"the state directory of the host": {
			lead: func(w *deviceEnv) {
				w.makeBound("i1")
				w.host.injectFault = func(string, int) error { return refuse(device.Transient, device.CodeStateDirError) }
				ok[contract.Result](w.unbind("i1"))
			},
			heal: func(w *deviceEnv) {
				w.host.injectFault = nil
				w.until("the next step", func() bool { return w.host.running == "verify" })
				w.requireNoWait() // it ends with the step, not with the clean
			},
			code: device.CodeStateDirError, ends: device.Available,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			tt.lead(w)
			w.pass(5 * time.Second)
			since := w.requireWait(tt.code, false).Waiting.Since
			w.pass(4 * time.Minute)
			w.requireWait(tt.code, false)
			w.pass(2 * time.Minute)
			require.Equal(t, since, w.requireWait(tt.code, true).Waiting.Since)
			upserts := w.upserts
			w.pass(5 * time.Hour)
			w.requireWait(tt.code, true)
			require.Less(t, w.upserts-upserts, 10, "the same wait is published once")
			tt.heal(w)
			w.pass(2 * time.Minute)
			w.reach(tt.ends)
			w.idle()
			w.requireNoWait()
		})
	}
}
