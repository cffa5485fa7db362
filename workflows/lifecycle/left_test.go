package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// bindManaged binds the device as an instance's own workflow does.
func (w *deviceEnv) bindManaged(instance string) {
	w.t.Helper()
	in := contract.BindInput{Instance: instance, Request: "r-" + instance, Managed: true,
		Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
	ok[contract.Result](w.send(contract.VerbClaim.Update(), "", in))
	ok[contract.Result](w.send(contract.VerbBurn.Update(), "", in))
	w.host.writeAsTenant(instance)
}

func (w *deviceEnv) unbindByInstance(instance string) *call {
	return w.send(contract.VerbUnbind.Update(), "", contract.UnbindInput{Instance: instance, ByInstance: true})
}

// left are the signals that instances got.
func (w *deviceEnv) left() []notified {
	var all []notified
	for _, n := range w.notifications {
		if n.signal == contract.SignalDeviceLeft {
			all = append(all, n)
		}
	}
	return all
}

// A binding that an instance's workflow holds ends otherwise than by that workflow: the device
// signals it, once. No other binding's end is signaled.
func TestInstanceIsSignaledThatADeviceLeftIt(t *testing.T) {
	managed, raw := (*deviceEnv).bindManaged, func(w *deviceEnv, instance string) { w.makeBound(instance) }
	i0 := []notified{{"instance/i0", contract.SignalDeviceLeft, contract.DeviceLeft{Device: "d1", Binding: 1}}}
	returned := func(w *deviceEnv) { ok[contract.Result](w.unbindByInstance("i0")); w.reach(device.Available) }
	for name, c := range map[string]struct {
		bind func(*deviceEnv, string)
		// meanwhile happened after the moment that the database is put back to; nil: it is not.
		meanwhile, end func(*deviceEnv)
		reach          device.State
		want           []notified
	}{
		"unbind by a client":    {managed, nil, func(w *deviceEnv) { ok[contract.Result](w.unbind("i0")) }, device.Available, i0},
		"unbind by itself":      {managed, nil, func(w *deviceEnv) { ok[contract.Result](w.unbindByInstance("i0")) }, device.Available, nil},
		"retire":                {managed, nil, func(w *deviceEnv) { ok[contract.Result](w.retire("i0", false)) }, device.Retired, i0},
		"lost":                  {managed, nil, func(w *deviceEnv) { ok[contract.Result](w.retire("i0", true)) }, device.Retired, i0},
		"invalidated, released": {managed, returned, func(w *deviceEnv) { w.signal(contract.SignalReleased, contract.Hint{}) }, device.Available, i0},
		"another instance":      {managed, func(w *deviceEnv) { returned(w); w.makeBound("i1") }, func(w *deviceEnv) { w.signal(contract.SignalReleased, contract.Hint{}) }, device.Allocated, i0},
		"not managed":           {raw, nil, func(w *deviceEnv) { ok[contract.Result](w.unbind("i0")) }, device.Available, nil},
		"not managed, retired":  {raw, nil, func(w *deviceEnv) { ok[contract.Result](w.retire("i0", false)) }, device.Retired, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := func(w *deviceEnv) { w.makeAvailable(); c.bind(w, "i0") }
			var w *deviceEnv
			if c.meanwhile != nil {
				w = putBack(t, before, c.meanwhile)
			} else {
				w = newDeviceEnv(t, standardPolicy())
				before(w)
			}
			c.end(w)
			w.until("its end", func() bool {
				v := w.view()
				return v.DeviceState == c.reach && (v.InstanceUUID == nil || *v.InstanceUUID != "i0")
			})
			w.idle()
			require.Equal(t, c.want, w.left())
		})
	}
}

// A run does not end while such a signal is under way: the server would drop it.
func TestRunWaitsForTheSignalToItsInstance(t *testing.T) {
	w := newAvailable(t)
	w.bindManaged("i0")
	w.signalDelay = time.Hour
	w.turnOver("i0")
	runs := w.runs
	w.after(1, func() { w.env.SetContinueAsNewSuggested(true) })
	w.pass(50 * time.Minute)
	require.Equal(t, runs, w.runs, "continued as new before the signal was sent")
	w.until("continue-as-new", func() bool { return w.runs > runs })
	require.Len(t, w.left(), 1)
}

// Unclaim ends the claim of its own request, and no other one of the same instance.
func TestUnclaimEndsTheClaimOfItsRequest(t *testing.T) {
	w := newAvailable(t)
	ok[contract.Result](w.claim("i1", time.Hour))
	other := contract.BindInput{Instance: "i1", Request: "another"}
	require.True(t, ok[contract.Result](w.send(contract.VerbUnclaim.Update(), "", other)).Already)
	require.Equal(t, "i1", w.view().ClaimedBy)
	require.False(t, ok[contract.Result](w.unclaim("i1")).Already)
	require.Empty(t, w.view().ClaimedBy)
}

// S1.35: a tag has 1 to 60 characters, whatever their bytes, and neither comma nor slash.
func TestTagCountsCharacters(t *testing.T) {
	for tag, legal := range map[string]bool{
		strings.Repeat("ä", 60): true, strings.Repeat("ä", 61): false, strings.Repeat("x", 60): true,
		"a,b": false, "a/b": false, "a\nb=\"c d\"": true,
	} {
		w := newAvailable(t)
		c := w.send(contract.VerbBind.Update(), "", contract.BindInput{Instance: "i1", Tag: tag})
		if legal {
			ok[contract.Result](c)
		} else {
			c.refused(device.CodeInvalid)
		}
	}
}
