package client

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// installed is a server with devices.
type installed struct {
	*mocks.Client
	open, closed []*workflowpb.WorkflowExecutionInfo
	polls        map[string]time.Time // of hosts
	last         map[string]*workflowpb.WorkflowExecutionInfo
	away         string // the call that the server does not answer
}

func (s *installed) answers(call string) error {
	if s.away == call {
		return serviceerror.NewUnavailable("closing")
	}
	return nil
}

func (s *installed) ListWorkflow(_ context.Context,
	in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if err := s.answers("list"); err != nil {
		return nil, err
	}
	if strings.Contains(in.GetQuery(), "'Running'") {
		return &workflowservice.ListWorkflowExecutionsResponse{Executions: s.open}, nil
	}
	for _, status := range []string{"'Terminated'", "'Failed'", "'TimedOut'"} {
		if !strings.Contains(in.GetQuery(), status) {
			return nil, serviceerror.NewInvalidArgument(in.GetQuery())
		}
	}
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: s.closed}, nil
}

func (s *installed) DescribeTaskQueue(_ context.Context, queue string,
	_ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	at, ok := s.polls[strings.TrimPrefix(queue, contract.HostQueue(""))]
	if err := s.answers("describe queue"); err != nil || !ok {
		return &workflowservice.DescribeTaskQueueResponse{}, err
	}
	return &workflowservice.DescribeTaskQueueResponse{
		Pollers: []*taskqueuepb.PollerInfo{
			{Identity: "burnish-worker host h1@two/7/1/b", LastAccessTime: timestamppb.New(at)},
			{Identity: "burnish-worker host h1@one/8/1/b", LastAccessTime: timestamppb.New(at.Add(-time.Minute))},
			{Identity: "burnish-worker host h1@two/6/1/b", LastAccessTime: timestamppb.New(at.Add(-time.Hour))},
		}}, nil
}

func (s *installed) DescribeWorkflowExecution(_ context.Context, id,
	_ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if err := s.answers("describe run"); err != nil {
		return nil, err
	}
	found, ok := s.last[strings.TrimPrefix(id, contract.WorkflowID(""))]
	if !ok {
		return nil, serviceerror.NewNotFound(id)
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: found}, nil
}

// closing is the history of a run that was terminated.
type closing struct{ events []*historypb.HistoryEvent }

func (c *closing) HasNext() bool { return len(c.events) > 0 }

func (c *closing) Next() (*historypb.HistoryEvent, error) {
	next := c.events[0]
	c.events = c.events[1:]
	return next, nil
}

func (s *installed) GetWorkflowHistory(context.Context, string, string, bool,
	enumspb.HistoryEventFilterType) sdkclient.HistoryEventIterator {
	return &closing{events: []*historypb.HistoryEvent{{
		EventTime: timestamppb.New(clock), EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Identity: "ann@ops", Reason: "a test"}},
	}}}
}

// The diagnosis has each host of a device in service with its worker's last poll and what waits
// for it, and each device whose last run did not end by itself.
func TestDiagnosis(t *testing.T) {
	of := func(name, host string, state device.State, status enumspb.WorkflowExecutionStatus, memo contract.StatusMemo,
		fault string) *workflowpb.WorkflowExecutionInfo {
		memo.Name = name
		i := info(name, map[string]*commonpb.Payload{
			"DeviceState": payload(t, string(state)), "DeviceHost": payload(t, host), "DeviceFault": payload(t, fault),
		}, map[string]*commonpb.Payload{contract.MemoStatus: payload(t, memo)})
		i.Status = status
		return i
	}
	const (
		running    = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		terminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
		completed  = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		failed     = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	)
	none := contract.StatusMemo{}
	waits := func(what string) contract.StatusMemo {
		return contract.StatusMemo{Waiting: &contract.StatusWait{For: what}}
	}
	s := &installed{Client: &mocks.Client{}, polls: map[string]time.Time{"h1": clock}}
	s.open = []*workflowpb.WorkflowExecutionInfo{
		of("d1", "h1", device.Available, running, none, ""),
		of("d2", "h2", device.Available, running, waits(contract.WaitHost), ""),
		of("d3", "h2", device.Cleaning, running, none, ""),
		of("d4", "h2", device.Error, running, none, string(device.CodeHostUnreachable)),
		of("d5", "h2", device.Cleaning, running, waits("hold"), ""), // for a person
		of("d6", "h2", device.Available, running, none, ""),
		of("d7", "h3", device.Retired, running, none, ""), // out of service: its host need not be there
		of("d8", "h4", device.Absent, running, none, ""),
	}
	s.closed = []*workflowpb.WorkflowExecutionInfo{
		of("lost", "h1", device.Allocated, terminated, none, ""),
		of("d1", "h1", device.Available, terminated, none, ""),          // runs again
		of("forgotten", "h1", device.Retired, terminated, none, ""),     // and forgotten since
		of("refused", "h1", device.Absent, failed, none, ""),            // was never enrolled
		of("late", "h1", device.Available, terminated, none, ""),        // runs again, as the listing does not know yet
		of("gone", "h1", device.Available, terminated, none, "expired"), // the server has deleted it since
	}
	s.last = map[string]*workflowpb.WorkflowExecutionInfo{
		"lost": s.closed[0], "forgotten": of("forgotten", "h1", device.Retired, completed, none, ""), "late": of("late",
			"h1", device.Available, running, none, ""),
		"refused": s.closed[3],
	}
	d, err := New(s).Diagnosis(t.Context())
	require.NoError(t, err)
	require.Equal(t, Diagnosis{
		Hosts: []HostDiagnosis{
			{Host: "h1", LastPoll: clock, Machines: []string{"one", "two"}, Devices: 1},
			{Host: "h2", Devices: 5, Waiting: 3, Names: []string{"d2", "d3", "d4"}},
		},
		Lost: []LostWorkflow{{Device: "lost", HowEnded: "terminated at 2026-03-01T12:00:00Z by ann@ops (a test)"}},
	}, d)

	for range maxNamed {
		s.open = append(s.open, of(strings.Repeat("x", len(s.open)), "h2", device.Cleaning, running, none, ""))
	}
	for range maxLost {
		name := strings.Repeat("y", len(s.closed))
		s.closed = append(s.closed, of(name, "h1", device.Allocated, terminated, none, ""))
		s.last[name] = s.closed[len(s.closed)-1]
	}
	d, err = New(s).Diagnosis(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3+maxNamed, d.Hosts[1].Waiting)
	require.Len(t, d.Hosts[1].Names, maxNamed)
	require.True(t, d.MoreLost)
	require.LessOrEqual(t, len(d.Lost), maxLost)

	for _, call := range []string{"list", "describe queue", "describe run"} { // no installation without hosts
		s.away = call
		_, err = New(s).Diagnosis(t.Context())
		require.ErrorContains(t, err, "closing", call)
	}
}
