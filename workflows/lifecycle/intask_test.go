package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// A turnover makes its four calls of the inventory in workflow tasks; only steps are activities. A
// listing is written when the state changes, and not for a step that takes a moment.
func TestATurnoverCallsTheInventoryInItsTasks(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.brief = true
	w.makeAvailable()
	calls, local, upserts := len(w.scheduledActivities), len(w.localCalls), w.upserts
	w.makeBound("i1")
	require.Equal(t, upserts+1, w.upserts)
	ok[contract.Result](w.unbind("i1"))
	w.returned()
	require.Equal(t, []string{"ReserveForBind", "EnsureReserved", "FindBySerial", "zero", "verify", "Unreserve"},
		w.scheduledActivities[calls:])
	require.Equal(t, []string{"ReserveForBind", "EnsureReserved", "FindBySerial", "Unreserve"}, w.localCalls[local:])
	require.Equal(t, upserts+3, w.upserts, "allocated, cleaning, available")
}

// The step that the listing shows is the present one if that lasts; the details show it at once.
//
// S3.32
func TestTheListingShowsAStepThatLasts(t *testing.T) {
	w := newBound(t)
	w.host.cancelDelay = time.Hour
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	require.Equal(t, "zero", w.publishedStep)
	w.stepRuns("verify")
	require.Equal(t, "zero", w.publishedStep)
	require.Equal(t, "verify", w.view().CleanStep.Step)
	upserts := w.upserts
	w.until("the listing shows it", func() bool { return w.publishedStep == "verify" })
	require.Equal(t, upserts+1, w.upserts)
	require.Equal(t, string(device.Cleaning), w.publishedState)
	w.reach(device.Available)
}

// A task that is lost after its call of the inventory is made again, with the call: it finds
// what the call wrote, and ends as if nothing had happened.
//
// F4, F5, F24
func TestATaskIsLostAfterItsCall(t *testing.T) {
	for _, activity := range []string{contract.ActivityReserveForBind, contract.ActivityEnsureReserved,
		contract.ActivityUnreserve} {
		t.Run(activity, func(t *testing.T) {
			w := newAvailable(t)
			cleans, lost := len(w.view().Cleans), 0
			w.loseTask = func(name string) bool {
				if name != activity || lost > 0 {
					return false
				}
				lost++
				return true
			}
			require.Equal(t, 1, ok[contract.Result](w.bind("i1", "r1")).Binding)
			require.Equal(t, "i1", w.recorded())
			ok[contract.Result](w.unbind("i1"))
			v := w.reach(device.Available)
			w.idle()
			require.Equal(t, 1, lost)
			require.Len(t, v.Cleans, cleans+1)
			require.Equal(t, "cleaned", v.Cleans[cleans].Outcome)
			require.Zero(t, w.inventory.Reserved)
			require.Empty(t, w.recorded())
			require.True(t, w.host.clean())
			w.requireMatchingGenerations()
		})
	}
}

// A call in the task that fails or is slow is made as an activity, which is retried and seen as
// pending; while the inventory is away, no task waits for it.
//
// F29
func TestAnInventoryThatIsAwayHoldsUpNoTask(t *testing.T) {
	w := newBound(t)
	away := true
	w.inventory.InjectFault = func(string, bool) error {
		if away {
			return inventorysim.LostAnswer()
		}
		return nil
	}
	local := len(w.localCalls)
	ok[contract.Result](w.unbind("i1"))
	w.until("the wait is shown", func() bool { return w.view().Waiting != nil })
	require.Equal(t, local+1, len(w.localCalls))
	w.pass(time.Hour)
	require.Equal(t, local+1, len(w.localCalls))
	require.True(t, w.view().NeedsOperator)
	away = false
	w.reach(device.Available)
	away = true
	w.signal(contract.SignalReleased, contract.Hint{})
	w.until("it waits for the inventory", func() bool { return w.view().Waiting != nil })
	local = len(w.localCalls)
	require.Error(t, w.bind("i2", "r2").wait().err)
	require.Len(t, w.localCalls, local, "known to be away")
	away = false
	w.reach(device.Available)
}

// Nova's providers do not record the instance of a bind: its call is an activity alone, whose
// attempts are counted.
func TestABindOfNovasProviderIsAnActivity(t *testing.T) {
	w := newNovaDevice(t).available()
	local := len(w.localCalls)
	w.bind("i1", "r1").wait()
	require.NotContains(t, w.localCalls[local:], contract.ActivityReserveForBind)
}

// An inventory that takes three seconds a request answers a bind after four of them.
//
// S0.4
func TestASlowInventoryGetsThrough(t *testing.T) {
	w := newAvailable(t)
	w.slow("", 12*time.Second, time.Millisecond)
	before := len(w.scheduledActivities)
	require.Equal(t, 1, ok[contract.Result](w.bind("i1", "r1")).Binding)
	require.Equal(t, []string{"ReserveForBind", "ReserveForBind"}, w.scheduledActivities[before:],
		"in the task for a second, then as an activity")
	require.Len(t, w.inventory.Writes, 4, "burned once, after three earlier writes")
	w.turnOver("i1")
}
