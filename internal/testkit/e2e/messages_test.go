package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// awaitIdle is the newest run's history once nothing is under way in it.
func (s *Site) awaitIdle(t testing.TB, name string) []*historypb.HistoryEvent {
	t.Helper()
	var events []*historypb.HistoryEvent
	Await(t, 20*time.Second, "the history to settle", func() (bool, string) {
		before := s.Describe(t, name)
		events = s.History(t, name, before.GetWorkflowExecutionInfo().GetExecution().GetRunId())
		after := s.Describe(t, name)
		idle := after.GetPendingWorkflowTask() == nil && len(after.GetPendingActivities()) == 0
		same := before.GetWorkflowExecutionInfo().GetHistoryLength() == after.GetWorkflowExecutionInfo().GetHistoryLength() &&
			before.GetWorkflowExecutionInfo().GetExecution().GetRunId() == after.GetWorkflowExecutionInfo().
				GetExecution().GetRunId()
		return idle && same && int64(len(events)) == after.GetWorkflowExecutionInfo().GetHistoryLength(), after.String()
	})
	return events
}

// bursts, each of so many signals of which one counts.
const (
	bursts = 8
	burst  = 60
)

// Signals that arrive while the workflow continues as new are all received. Each burst
// holds one signal that must move the device, at a place that chance picks; the
// others are hints about a past binding, which change nothing but the history's
// length.
func TestSignalsInABurst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all", "BURNISH_AUTOMATED_CLEAN=false")
	d := s.Device(t, "fake", "d1", 64<<10, 0)
	s.Enroll(t, d, "--provide", "--one-time-use")
	s.AwaitReturned(t, d, 20*time.Second)
	old := contract.Hint{Source: "test", ObservedAt: "2001-01-01T00:00:00Z"}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range bursts {
		s.Bind(t, "d1", fmt.Sprint("tenant", i))
		d.Stamp(t, uint64(i+2))
		s.Unbind(t, "d1", fmt.Sprint("tenant", i))
		require.Equal(t, device.PendingCleaning, s.Show(t, "d1").DeviceState)
		counts := random.IntN(burst)
		var senders sync.WaitGroup
		failed := make([]error, burst)
		next := make(chan int)
		for range 4 {
			senders.Go(func() {
				for n := range next {
					signal, input := contract.SignalObserved, any(old)
					if n == counts {
						signal, input = contract.SignalClean, contract.CleanInput{Reason: fmt.Sprint("burst ", i)}
					}
					failed[n] = s.Client.SignalWorkflow(t.Context(), contract.WorkflowID("d1"), "", signal, input)
				}
			})
		}
		for n := range burst {
			next <- n
		}
		close(next)
		senders.Wait()
		for n, err := range failed {
			require.NoError(t, err, "signal %d", n)
		}
		v := s.AwaitReturned(t, d, 30*time.Second)
		require.Equal(t, fmt.Sprint("burst ", i), v.Cleans[len(v.Cleans)-1].Reason)
	}
	s.awaitIdle(t, "d1")
	runs := s.chain(t.Context(), t, "d1")
	received := 0
	for _, events := range runs {
		received += CountEvents(events)[enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED]
		// A run that continues as new has read every signal of its history: the one
		// that arrived last stands before its last task began.
		last, started := int64(0), int64(0)
		for _, e := range events {
			switch e.GetEventType() {
			case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
				last = e.GetEventId()
			case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
				started = e.GetEventId()
			}
		}
		require.Less(t, last, started)
	}
	require.Equal(t, bursts*burst, received)
	require.Greater(t, len(runs), 3, "the bursts never met a continue-as-new")
	t.Logf("%d signals over %d runs", received, len(runs))
}
