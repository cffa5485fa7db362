package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Who had an available device while it had another provider left no trace in this one.
// Neither a bind nor a claim passes that by.
//
// D9
func TestBindAfterProviderRecreated(t *testing.T) {
	for name, ask := range map[string]func(w *deviceEnv, in contract.BindInput){
		"bound": func(w *deviceEnv, in contract.BindInput) { w.send(contract.UpdateBind, "", in).wait() },
		"claimed, looked at, given up": func(w *deviceEnv, in contract.BindInput) {
			ok[contract.BindResult](w.send(contract.UpdateClaim, "", in))
			w.hintReconcile()
			w.pass(time.Minute)
			ok[contract.Result](w.send(contract.UpdateUnclaim, "", in))
		},
		"claimed, looked at, burned": func(w *deviceEnv, in contract.BindInput) {
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
			w.recreateProvider(false) // free again, and nobody has looked
			require.False(t, w.host.clean())
			in := contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
			ask(w, in)
			require.Nil(t, w.view().InstanceUUID, "what another left is given to nobody")
			w.reach(device.Available)
			w.idle()
			require.True(t, w.host.clean(), w.describe())
			require.Zero(t, w.inventory.reserved)
			// It is given out as ever.
			in.Request = "r2"
			ok[contract.BindResult](w.send(contract.UpdateBind, "", in))
			w.requireNoDefect()
		})
	}
}
