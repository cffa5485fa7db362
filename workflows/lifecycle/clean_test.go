package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// failStep makes a step fail before a block, until injectFault is reset.
func (w *deviceEnv) failStep(step string, block int, code device.Code) {
	w.host.injectFault = func(what string, at int) error {
		if what == step && at == block {
			return refuse(device.NeedsOperator, code)
		}
		return nil
	}
}

// An abort is answered at once, and the step is waited for.
//
// F9
func TestAbortInEachPhase(t *testing.T) {
	for _, phase := range []struct {
		name string
		lead func(*deviceEnv)
		busy string
	}{
		{"reading the inventory", func(w *deviceEnv) {
			w.slow("", 4*time.Second, 4*time.Second)
			ok[contract.Result](w.unbind("i1"))
			w.pass(time.Second)
		}, ""},
		{"zero", func(w *deviceEnv) { ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") }, "zero"},
		{"verify", func(w *deviceEnv) { ok[contract.Result](w.unbind("i1")); w.stepRuns("verify") }, "verify"},
		{"crashed during a step", func(w *deviceEnv) {
			ok[contract.Result](w.unbind("i1"))
			w.stepRuns("zero")
			w.host.crash()
			w.pass(time.Second)
		}, ""},
	} {
		t.Run(phase.name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.oneTimeUse = true
			w.makeBound("i1")
			w.host.cancelDelay = 10 * time.Minute
			phase.lead(w)
			asked := w.clock()
			r := ok[contract.Result](w.ask(contract.VerbAbort.Update()))
			require.NotEmpty(t, r.Note)
			require.Less(t, w.clock().Sub(asked), time.Second, "answered at once")
			if phase.busy != "" {
				require.Contains(t, r.Note, phase.busy)
				require.Equal(t, phase.busy, w.host.running)
				require.Equal(t, device.Cleaning, w.view().DeviceState, "until the step has stopped")
				require.True(t, ok[contract.Result](w.ask(contract.VerbAbort.Update())).Already)
			}
			w.onChange = func() {
				if w.view().DeviceState == device.Error && w.host.running != "" {
					w.Errorf("in error while %s still runs", w.host.running)
				}
			}
			v := w.reach(device.Error)
			require.Equal(t, string(device.CodeAborted), v.Fault)
			require.True(t, v.Maintenance)
			require.True(t, v.NeedsOperator)
			w.idle()
			w.ask(contract.VerbAbort.Update()).refused(device.CodeRefused)
			require.Equal(t, 1, w.inventory.Reserved)
			w.host.restart()
			w.slow("", time.Millisecond, time.Millisecond)
			w.pass(time.Minute)
			require.Equal(t, device.Error, w.view().DeviceState, "no automatic second clean")
			ok[contract.Result](w.cleanUp())
			w.requireReturned()
		})
	}
}
