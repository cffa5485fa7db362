package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A use of an available device under its former provider does not show in the new one. Bind and
// claim take that into account.
//
// D9
func TestBindAfterProviderRecreated(t *testing.T) {
	for name, ask := range map[string]func(w *deviceEnv, in contract.BindInput){
		"bound": func(w *deviceEnv, in contract.BindInput) { w.send(contract.UpdateBind, "", in).wait() },
		"claimed, checked, unclaimed": func(w *deviceEnv, in contract.BindInput) {
			ok[contract.BindResult](w.send(contract.UpdateClaim, "", in))
			w.hintReconcile()
			w.pass(time.Minute)
			ok[contract.Result](w.send(contract.UpdateUnclaim, "", in))
		},
		"claimed, checked, burned": func(w *deviceEnv, in contract.BindInput) {
			ok[contract.BindResult](w.send(contract.UpdateClaim, "", in))
			w.hintReconcile()
			w.pass(time.Minute)
			w.send(contract.UpdateBurn, "", in).wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNovaDevice(t)
			w.makeAvailable()
			w.recreateProvider(true)
			w.recreateProvider(false) // free again, and not checked
			require.False(t, w.host.clean())
			in := contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
			ask(w, in)
			require.Nil(t, w.view().InstanceUUID, "a device with another instance's data is not bound")
			w.reach(device.Available)
			w.idle()
			require.True(t, w.host.clean(), w.describe())
			require.Zero(t, w.inventory.reserved)
			// It can be bound again.
			in.Request = "r2"
			ok[contract.BindResult](w.send(contract.UpdateBind, "", in))
			w.requireNoDefect()
		})
	}
}
