package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// suggestContinueAsNew makes the server suggest continue-as-new from now on.
func (w *deviceEnv) suggestContinueAsNew() {
	w.after(1, func() { w.env.SetContinueAsNewSuggested(true) })
}

// A run does not continue as new while anything is under way, although the server suggests it all
// the time; checkHandover checks each run's end.
func TestContinueAsNew_SuggestedAllTheTime(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.suggestAfter = 20 * time.Millisecond
	w.makeAvailable()
	for i := range 5 {
		instance := fmt.Sprintf("i%d", i)
		w.makeBound(instance)
		w.signal(contract.SignalRefresh, contract.Hint{})
		ok[contract.Result](w.unbind(instance))
		w.signal(contract.SignalRefresh, contract.Hint{})
		w.returned()
	}
	require.Greater(t, w.runs, 6)
	require.Len(t, w.view().Cleans, 6)
}

// While anything is under way, the run goes on: a handler that waits for its activity, a check for
// which no update waits, a clean.
func TestContinueAsNew_NotWhileAnythingRuns(t *testing.T) {
	for name, begin := range map[string]func(*deviceEnv){
		"a bind":                   func(w *deviceEnv) { w.bind("i1", "r1") },
		"a check of the inventory": func(w *deviceEnv) { w.signal(contract.SignalReleased, contract.Hint{}) },
		"a check of the host": func(w *deviceEnv) {
			w.signal(contract.SignalRefresh, contract.Hint{})
			n := count(w.scheduledActivities, "Discover")
			w.until("discover", func() bool { return count(w.scheduledActivities, "Discover") > n })
		},
		"a clean": func(w *deviceEnv) {
			w.makeBound("i1")
			ok[contract.Result](w.unbind("i1"))
			w.stepRuns("zero")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAvailable(t)
			if name != "a clean" {
				w.slow("", 4*time.Second, 4*time.Second)
			}
			begin(w)
			w.pass(time.Millisecond)
			runs := w.runs
			w.suggestContinueAsNew()
			w.pass(500 * time.Millisecond)
			require.Equal(t, runs, w.runs)
			w.pass(20 * time.Second)
			require.Equal(t, runs+1, w.runs)
		})
	}
}

// An idle device does not continue as new for nothing, and does past 200 events.
func TestContinueAsNew_ByHistoryLength(t *testing.T) {
	for length, more := range map[int]int{0: 0, 100: 0, 200: 0, 201: 1, 5000: 1} {
		w := newAvailable(t)
		runs := w.runs
		w.after(1, func() { w.env.SetCurrentHistoryLength(length) })
		w.pass(24 * time.Hour)
		require.Equal(t, runs+more, w.runs, "%d events", length)
	}
}

// A signal that arrives just before the task that continues as new is read first: with a listener
// that blocks in Select, or without a check for pending signals, the device would stay in error.
func TestContinueAsNew_SignalInItsTask(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeFailed()
	w.idle()
	runs := w.runs
	w.signalThen(contract.SignalClean, contract.CleanInput{Reason: "late"},
		func() { w.env.SetContinueAsNewSuggested(true) })
	w.requireReturned()
	w.pass(time.Second)
	require.Equal(t, runs+1, w.runs)
	cleans := w.view().Cleans
	require.Equal(t, "late", cleans[len(cleans)-1].Reason)
}

// The same with hints: none is lost.
func TestContinueAsNew_HintInItsTask(t *testing.T) {
	for _, name := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh} {
		w := newAvailable(t)
		w.inventory.Allocate("c1") // found by reading the inventory only
		names := len(w.scheduledActivities)
		w.signalThen(name, contract.Hint{Source: "late"}, func() { w.env.SetContinueAsNewSuggested(true) })
		w.pass(time.Minute)
		require.Greater(t, len(w.scheduledActivities), names, "%s was lost", name)
		require.Equal(t, device.Allocated, w.view().DeviceState)
	}
}

// The same with an update and a signal.
func TestContinueAsNew_UpdateInItsTask(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeFailed()
	w.idle()
	var clean *call
	w.signalThen(contract.SignalRefresh, contract.Hint{}, func() {
		w.env.SetContinueAsNewSuggested(true)
		clean = w.cleanUp()
	})
	w.until("the update", func() bool { return clean != nil && clean.done })
	require.NoError(t, clean.err)
	w.reach(device.Available)
}

// What a turnover costs: five activities, at most five upserts of search attributes,
// no memo.
func TestCost_OfATurnover(t *testing.T) {
	for _, next := range []bool{false, true} {
		w := newAvailable(t)
		if next {
			w.nextRun()
		}
		for i := range 3 {
			w.idle()
			names, upserts, memos, writes := len(w.scheduledActivities), w.upserts, w.memos, len(w.inventory.Writes)
			instance := fmt.Sprintf("i%d", i)
			w.makeBound(instance)
			ok[contract.Result](w.unbind(instance))
			w.returned()
			require.Equal(t, []string{"ReserveForBind", "EnsureReserved", "FindBySerial", "zero", "verify", "Unreserve"},
				w.scheduledActivities[names:])
			require.LessOrEqual(t, w.upserts-upserts, 5, "3 + the number of steps")
			require.Zero(t, w.memos-memos)
			require.Equal(t, 3, len(w.inventory.Writes)-writes, "burn, reservation of the clean, unreserve")
		}
	}
}

// Maintenance of an idle device costs three activities and a look of its host.
func TestCost_OfMaintenance(t *testing.T) {
	w := newAvailable(t)
	names := len(w.scheduledActivities)
	ok[contract.Result](w.maintain(false))
	ok[contract.Result](w.maintain(true))
	w.idle()
	require.Equal(t, []string{"EnsureReserved", "Discover", "EnsureReserved", "Unreserve"}, w.scheduledActivities[names:])
}

// The state that is passed on stays small after many bindings and cleans.
func TestCost_StateIsBounded(t *testing.T) {
	w := newAvailable(t)
	reason := strings.Repeat("because ", 200)
	for i := range 30 {
		instance := fmt.Sprintf("instance-%032d", i)
		w.makeBound(instance)
		ok[contract.Result](w.unbind(instance))
		w.stepRuns("zero")
		ok[contract.Result](w.ask(contract.VerbAbort.Update()))
		w.reach(device.Error)
		ok[contract.Result](w.send(contract.VerbClean.Update(), "", contract.CleanInput{Reason: reason}))
		w.returned()
	}
	s := w.state() // checkHandover checks its bounds
	require.Len(t, s.History, 20)
	require.Len(t, s.Recent, 40)
	cleans, err := s.Archive.Cleans()
	require.NoError(t, err)
	require.LessOrEqual(t, len(cleans), 20)
	archive, err := json.Marshal(cleans)
	require.NoError(t, err)
	require.LessOrEqual(t, len(archive), 16<<10)
	require.Equal(t, 61, s.Cleans)
	require.Equal(t, 30, s.Device.Bindings)
}

// A worker does not go on from a state of a newer schema, and does not end the workflow: a
// panic fails the workflow task alone, which the server repeats until a newer worker has it.
//
// F25
func TestState_OfANewerSchemaWaits(t *testing.T) {
	w := newDeviceEnvOf(t, standardPolicy(),
		contract.DeviceInput{Name: "d1", State: &contract.DeviceState{Schema: contract.Schema + 1, Name: "d1"}})
	w.until("the end", func() bool { return !w.live })
	require.ErrorContains(t, w.finishErr, "upgrade the control workers")
	require.ErrorAs(t, w.finishErr, new(*temporal.PanicError))
}
