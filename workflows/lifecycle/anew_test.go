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
func TestABindAfterAProviderMadeAnew(t *testing.T) {
	for name, ask := range map[string]func(w *world, in contract.BindInput){
		"bound": func(w *world, in contract.BindInput) { w.send(contract.UpdateBind, "", in).wait() },
		"claimed, looked at, given up": func(w *world, in contract.BindInput) {
			ok[contract.BindResult](w.send(contract.UpdateClaim, "", in))
			w.sweepHint()
			w.pass(time.Minute)
			ok[contract.Result](w.send(contract.UpdateUnclaim, "", in))
		},
		"claimed, looked at, burned": func(w *world, in contract.BindInput) {
			ok[contract.BindResult](w.send(contract.UpdateClaim, "", in))
			w.sweepHint()
			w.pass(time.Minute)
			w.send(contract.UpdateBurn, "", in).wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := novas(t)
			w.offered()
			w.remade(true)
			w.remade(false) // free again, and nobody has looked
			require.False(t, w.host.clean())
			in := contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
			ask(w, in)
			require.Nil(t, w.view().InstanceUUID, "what another left is given to nobody")
			w.reach(device.Available)
			w.quiet()
			require.True(t, w.host.clean(), w.describe())
			require.Zero(t, w.shelf.reserved)
			// It is given out as ever.
			in.Request = "r2"
			ok[contract.BindResult](w.send(contract.UpdateBind, "", in))
			w.noDefect()
		})
	}
}
