package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
