package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/workflows/contract"
)

// The first step counts, not the discovery before it, nor what came before the
// notification.
func TestFirstStep(t *testing.T) {
	sent := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var events []*historypb.HistoryEvent
	add := func(at time.Duration, e *historypb.HistoryEvent) int64 {
		e.EventId, e.EventTime = int64(len(events)+1), timestamppb.New(sent.Add(at))
		events = append(events, e)
		return e.GetEventId()
	}
	signaled := func(at time.Duration) {
		add(at, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{
				SignalName: contract.SignalObserved,
			},
		}})
	}
	activity := func(at, wait time.Duration, name, queue string, attempt int32) {
		id := add(at, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
			ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
				ActivityType: &commonpb.ActivityType{Name: name}, TaskQueue: &taskqueuepb.TaskQueue{Name: queue},
			},
		}})
		add(at+wait, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
			ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: id,
				Attempt: attempt},
		}})
	}
	host := contract.HostQueue("h")
	signaled(-4 * time.Second)
	activity(-3*time.Second, time.Millisecond, "zero", host, 1)
	signaled(10 * time.Millisecond)
	activity(20*time.Millisecond, time.Millisecond, contract.ActivityReadReservation, contract.Queue, 1)
	activity(30*time.Millisecond, time.Millisecond, contract.ActivityDiscover, host, 1)
	require.Zero(t, firstStep(events, host, sent), "no step yet")
	before := len(events)
	activity(40*time.Millisecond, 5*time.Millisecond, "zero", host, 1)
	activity(60*time.Millisecond, 5*time.Millisecond, "verify", host, 1)
	require.Equal(t, 45*time.Millisecond, firstStep(events, host, sent))
	events = events[:before]
	activity(40*time.Millisecond, time.Minute, "zero", host, 2)
	require.Zero(t, firstStep(events, host, sent), "the start of the first attempt is not in the history")
}
