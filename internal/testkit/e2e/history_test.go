package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/workflows/contract"
)

// Describe is what the server itself knows of a device's newest run.
func (s *Site) Describe(t testing.TB, name string) *workflowservice.DescribeWorkflowExecutionResponse {
	t.Helper()
	answer, err := s.Client.DescribeWorkflowExecution(t.Context(), contract.WorkflowID(name), "")
	require.NoError(t, err)
	return answer
}

// Pending is the running or waiting attempt of a step, nil where there is none.
func (s *Site) Pending(t testing.TB, name, step string) *workflowpb.PendingActivityInfo {
	t.Helper()
	for _, a := range s.Describe(t, name).GetPendingActivities() {
		if a.GetActivityType().GetName() == step {
			return a
		}
	}
	return nil
}

// Execution is the newest run of a device's workflow.
func (s *Site) Execution(t testing.TB, name string) *commonpb.WorkflowExecution {
	t.Helper()
	return s.Describe(t, name).GetWorkflowExecutionInfo().GetExecution()
}

// History is one run's; an empty run is the newest.
func (s *Site) History(t testing.TB, name, run string) []*historypb.HistoryEvent {
	t.Helper()
	return s.historyOf(t, contract.WorkflowID(name), run)
}

// historyOf is History of any workflow.
func (s *Site) historyOf(t testing.TB, workflow, run string) []*historypb.HistoryEvent {
	t.Helper()
	var events []*historypb.HistoryEvent
	all := s.Client.GetWorkflowHistory(t.Context(), workflow, run, false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for all.HasNext() {
		event, err := all.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

// CountEvents counts a history by the kind of its events.
func CountEvents(events []*historypb.HistoryEvent) map[enumspb.EventType]int {
	count := map[enumspb.EventType]int{}
	for _, e := range events {
		count[e.GetEventType()]++
	}
	return count
}

// chain lists the runs of a device's workflow from the oldest to the newest, as far
// as each continued as another.
func (s *Site) chain(ctx context.Context, t testing.TB, name string) [][]*historypb.HistoryEvent {
	t.Helper()
	first := s.Describe(t, name).GetWorkflowExecutionInfo().GetFirstRunId()
	var runs [][]*historypb.HistoryEvent
	for run := first; run != ""; {
		require.NoError(t, ctx.Err())
		events := s.History(t, name, run)
		runs = append(runs, events)
		run = events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return runs
}
