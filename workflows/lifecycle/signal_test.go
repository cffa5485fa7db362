package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// startStates brings a device to each state in which it may receive a signal; ends is the state
// after a clean, or empty if a clean is refused.
var startStates = []struct {
	name string
	lead func(*deviceEnv)
	ends device.State
}{
	{"manageable", func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) }, ""},
	{"available", func(w *deviceEnv) { w.makeAvailable() }, ""},
	{"claimed", func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.claim("i1", 1000*time.Hour)) }, ""},
	{"held", func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.maintain(false)); w.idle() }, ""},
	{"allocated", func(w *deviceEnv) { w.makeBound("i1") }, ""},
	{"pending_cleaning", func(w *deviceEnv) {
		w.makeBound("i1")
		w.slow("", 4*time.Second, 4*time.Second)
		ok[contract.Result](w.unbind("i1"))
	}, ""},
	{"cleaning", func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") }, ""},
	{"error", (*deviceEnv).makeFailed, device.Available},
	{"retired", func(w *deviceEnv) {
		w.makeAvailable()
		ok[contract.Result](w.ask(contract.VerbRetire.Update()))
		w.idle()
	}, ""},
}

// Any Temporal client may send `clean`; what the state refuses changes nothing and is
// shown (CONTRACTS). What cannot be read changes nothing either, and stops nothing.
func TestSignalClean_InEveryState(t *testing.T) {
	inputs := map[string]any{
		"nil": nil, "struct": contract.CleanInput{Reason: "test"}, "object": map[string]any{"reason": "test", "more": 1},
		"text": "now", "number": 7, "list": []string{"zero"}, "wrong type": map[string]any{"steps": "zero"},
	}
	corrupt := map[string]bool{"text": true, "number": true, "list": true, "wrong type": true}
	for _, p := range startStates {
		for name, in := range inputs {
			t.Run(p.name+" "+name, func(t *testing.T) {
				w := newDeviceEnv(t, standardPolicy())
				p.lead(w)
				before := w.view()
				cleans := len(before.Cleans)
				w.signal(contract.SignalClean, in)
				w.pass(time.Second)
				v := w.view()
				if p.ends != "" && !corrupt[name] {
					w.reach(p.ends)
					require.True(t, w.host.clean())
					return
				}
				require.Equal(t, before.DeviceState, v.DeviceState)
				require.Len(t, v.Cleans, cleans)
				if !corrupt[name] {
					require.Contains(t, v.LastRefusal, "clean")
				}
				before.LastRefusal, v.LastRefusal = "", ""
				before.UpdatedAt, v.UpdatedAt = time.Time{}, time.Time{}
				require.Equal(t, before, v)
				// The workflow still handles signals.
				w.signal(contract.SignalRefresh, contract.Hint{})
				w.pass(time.Hour)
				require.True(t, w.live)
				w.bindAgainUnlessRetired("i9")
			})
		}
	}
}

func (w *deviceEnv) bindAgainUnlessRetired(instance string) {
	w.t.Helper()
	if w.view().DeviceState != device.Retired {
		w.bindAgain(instance)
	}
}

// What would fill the state past what Temporal carries is refused, by update and by
// signal, and the workflow goes on.
func TestSignals_TooLong(t *testing.T) {
	long := strings.Repeat("x", 16<<10)
	w := newDeviceEnv(t, standardPolicy())
	w.makeFailed()
	before := w.view()
	w.signal(contract.SignalClean, contract.CleanInput{Reason: long})
	w.signal(contract.SignalObserved, contract.Hint{DuplicateAt: long})
	w.pass(time.Minute)
	v := w.view()
	require.Contains(t, v.LastRefusal, "longer than 16 KiB")
	v.LastRefusal, v.UpdatedAt = before.LastRefusal, before.UpdatedAt
	require.Equal(t, before, v)
	for verb, in := range map[string]any{
		contract.VerbBind.Update():     contract.BindInput{Instance: "i1", Request: long},
		contract.VerbClean.Update():    contract.CleanInput{Reason: long},
		contract.VerbMaintain.Update(): contract.MaintenanceInput{Reason: long},
		contract.VerbRetire.Update():   contract.ReasonInput{Reason: long},
	} {
		require.Contains(t, w.send(verb, "", in).refused(device.CodeInvalid).Fault.Message, "longer than 16 KiB", verb)
	}
	w.signal(contract.SignalClean, contract.CleanInput{Reason: long[:15<<10]})
	w.reach(device.Available)
}

// Hints that cannot be read change nothing and stop nothing.
func TestSignals_CorruptHints(t *testing.T) {
	w := newBound(t)
	for _, name := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh} {
		for _, in := range []any{7, "x", []int{1}, map[string]any{"binding": "one"}, map[string]any{"host": 3}} {
			w.signal(name, in)
		}
	}
	w.signal("unknown_signal", 1)
	w.pass(time.Minute)
	names := len(w.scheduledActivities)
	w.signal(contract.SignalRefresh, nil)
	w.pass(time.Minute)
	require.Greater(t, len(w.scheduledActivities), names, "the next valid one is handled")
	require.Equal(t, "i1", *w.view().InstanceUUID)
}
