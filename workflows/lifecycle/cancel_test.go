package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// cancel cancels the present run, as the Web UI does.
func (w *deviceEnv) cancel() { w.after(1, func() { w.env.CancelWorkflow() }) }

func TestCancel_IsAnAbortInEveryRun(t *testing.T) {
	w := newBound(t)
	for range 3 {
		runs := w.runs
		if v := w.view(); v.InstanceUUID != nil {
			ok[contract.Result](w.unbind(*v.InstanceUUID))
		} else {
			ok[contract.Result](w.cleanUp())
		}
		w.stepRuns("zero")
		w.host.cancelDelay = time.Minute
		w.cancel()
		w.pass(time.Second)
		require.Equal(t, device.Cleaning, w.view().DeviceState, "the step is waited for")
		require.Contains(t, w.view().LastRefusal, "Cancel")
		w.cancel() // Temporal ignores a second cancel of one run
		v := w.reach(device.Error)
		require.Equal(t, string(device.CodeAborted), v.Fault)
		w.until("the next run", func() bool { return w.runs == runs+1 })
		require.Equal(t, device.Error, w.view().DeviceState)
		require.Equal(t, 1, w.inventory.Reserved)
	}
	w.host.cancelDelay = 0
	ok[contract.Result](w.cleanUp())
	w.reach(device.Available)
}

// A cancel does not interrupt a bind.
func TestCancel_DuringABind(t *testing.T) {
	w := newAvailable(t)
	w.slow("", 4*time.Second, 4*time.Second)
	bind := w.bind("i1", "r1")
	w.pass(time.Second)
	w.cancel()
	require.Equal(t, 1, ok[contract.Result](bind).Binding)
	w.until("the next run", func() bool { return w.runs == 2 })
	require.Equal(t, "i1", *w.view().InstanceUUID)
}
