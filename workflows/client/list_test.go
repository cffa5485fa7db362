package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// clock is the time of all tests.
var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const someInstance = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"

func payload(t *testing.T, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return p
}

func info(name string, fields map[string]*commonpb.Payload,
	memo map[string]*commonpb.Payload) *workflowpb.WorkflowExecutionInfo {
	return &workflowpb.WorkflowExecutionInfo{
		Execution:        &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID(name), RunId: "run"},
		Status:           enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		StartTime:        timestamppb.New(clock),
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
		Memo:             &commonpb.Memo{Fields: memo},
	}
}

// Every search attribute and every memo field ends up in its field, and the pending
// activity's heartbeat in the progress.
func TestExecutionOf(t *testing.T) {
	steps := []contract.CleanStep{{Step: "zero", Priority: 70, Interface: "deploy"}}
	facts := contract.StatusMemo{
		Name: "d1", Vendor: "Acme", Model: "X", StdBoardInfo: contract.BoardInfo{ProductID: "a808"}, Path: "/dev/x",
		Firmware: "F1", SizeBytes: 7,
		MAC: "52:54:00:00:00:01", LiveMigratable: true,
		Status: device.Maintaining, Maintenance: true, MaintenanceReason: "operator", LastError: "E",
		LastRefusal: "F", Remedy: "R",
		CreatedAt: clock, Driver: "fake", Owner: device.OwnerNova, OneTimeUse: true, NotSanitized: true,
		Operation: device.Shred, Steps: steps,
	}
	beats, err := converter.GetDefaultDataConverter().
		ToPayloads(contract.Progress{Step: "zero", Offset: 5, Size: 10, Waiting: "a slot"})
	require.NoError(t, err)
	e := executionOf(info("d1", map[string]*commonpb.Payload{
		"DeviceState": payload(t, "cleaning"), "DeviceUuid": payload(t, "U"), "DeviceSerial": payload(t, "S"),
		"DeviceType": payload(t, "FAKE"),
		"DeviceHost": payload(t, "h1"), "InstanceId": payload(t, someInstance), "CleanStep": payload(t, "zero"),
		"DeviceFault":   payload(t, "host_unreachable"),
		"NeedsOperator": payload(t, true), "DeviceDirty": payload(t, true), "DeviceUpdated": payload(t, clock),
	}, map[string]*commonpb.Payload{contract.MemoStatus: payload(t, facts)}), []*workflowpb.PendingActivityInfo{{
		ActivityType:            &commonpb.ActivityType{Name: "zero"},
		State:                   enumspb.PENDING_ACTIVITY_STATE_SCHEDULED,
		HeartbeatDetails:        beats,
		Attempt:                 2,
		LastFailure:             &failurepb.Failure{Message: "lost\ncontact"},
		NextAttemptScheduleTime: timestamppb.New(clock.Add(time.Minute)),
	}, {
		ActivityType:     &commonpb.ActivityType{Name: "EnsureReserved"},
		HeartbeatDetails: &commonpb.Payloads{Payloads: []*commonpb.Payload{payload(t, "no progress")}},
	}})
	require.NoError(t, e.Err)
	instance := someInstance
	require.Equal(t, contract.DeviceStatus{
		UUID: "U", Name: "d1", Type: "FAKE", Vendor: "Acme", Model: "X", Serial: "S", Hostname: "h1",
		StdBoardInfo: contract.BoardInfo{ProductID: "a808"}, Path: "/dev/x", Firmware: "F1", SizeBytes: 7,
		MAC: "52:54:00:00:00:01", LiveMigratable: true,
		Status: device.Maintaining, DeviceState: device.Cleaning, Dirty: true, Maintenance: true,
		MaintenanceReason: "operator",
		CleanStep:         &steps[0], InstanceUUID: &instance, LastError: "E", LastRefusal: "F", NeedsOperator: true,
		Fault: "host_unreachable", Remedy: "R", CreatedAt: clock, UpdatedAt: clock, Driver: "fake", Owner: device.OwnerNova,
		OneTimeUse: true, NotSanitized: true, Operation: device.Shred, Steps: steps,
	}, e.Status)
	require.True(t, e.Running)
	require.Equal(t, &contract.StatusProgress{
		Percent: 50, Done: 5, Total: 10, Attempt: 2,
		Waiting: "next attempt at 2026-03-01T12:01:00Z, after: lost contact",
	}, e.Progress(e.Status, clock))
	require.Equal(t, "waiting for a worker of host h1", e.Progress(e.Status, clock.Add(2*time.Minute)).Waiting)
	require.Nil(t, e.Pending["EnsureReserved"].Progress)

	e = executionOf(info("d1", map[string]*commonpb.Payload{"DeviceState": payload(t, 7)}, nil), nil)
	require.ErrorContains(t, e.Err, "DeviceState")
}

func TestListReadsEveryPage(t *testing.T) {
	c := &mocks.Client{}
	page := func(token, next string, names ...string) {
		answer := &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: []byte(next)}
		for _, name := range names {
			answer.Executions = append(answer.Executions, info(name, nil, nil))
		}
		c.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
			return string(r.GetNextPageToken()) == token && r.GetQuery() == allRunning
		})).Return(answer, nil).Once()
	}
	page("", "1", "c", "b")
	page("1", "2")
	page("2", "", "a", "b") // b continued as new meanwhile
	found, err := New(c).List(t.Context(), Filter{})
	require.NoError(t, err)
	require.Len(t, found, 3)
	for i, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, found[i].Name, "by name")
	}
	c.AssertExpectations(t)
}

// Another worker's polls of a queue are not this one's, nor are those for activities its polls for workflows. A control
// worker polls its queue for workflows: the last poll is the latest of those.
func TestAWorkersOwnPolls(t *testing.T) {
	c := &mocks.Client{}
	pollers := []*taskqueuepb.PollerInfo{{Identity: "h1@m/1", LastAccessTime: timestamppb.New(clock)},
		{Identity: "h2@m/2", LastAccessTime: timestamppb.New(clock.Add(-time.Hour))}}
	c.On("DescribeTaskQueue", mock.Anything, contract.Queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW).
		Return(&workflowservice.DescribeTaskQueueResponse{Pollers: pollers}, nil).Once()
	last, err := New(c).LastPoll(t.Context(), contract.Queue)
	require.NoError(t, err)
	require.Equal(t, clock, last)
	c.On("DescribeTaskQueue", mock.Anything, "q", enumspb.TASK_QUEUE_TYPE_WORKFLOW).
		Return(&workflowservice.DescribeTaskQueueResponse{Pollers: pollers}, nil)
	c.On("DescribeTaskQueue", mock.Anything, "q", enumspb.TASK_QUEUE_TYPE_ACTIVITY).
		Return(&workflowservice.DescribeTaskQueueResponse{Pollers: pollers[1:]}, nil)
	for identity, want := range map[string][2]bool{"h1@m/1": {true, false}, "h2@m/2": {true, true}, "h1@m/11": {}} {
		for i, workflows := range []bool{true, false} {
			polls, err := New(c).Polls(t.Context(), identity, "q", workflows)
			require.NoError(t, err)
			require.Equal(t, want[i], polls, "%s %t", identity, workflows)
		}
	}
}

// Two calls are two updates; the device decides what a repeated request means.
func TestUpdateIDsAreUnique(t *testing.T) {
	a, b := updateOptions(t.Context(), "device/d1", contract.VerbBind.Update(), nil),
		updateOptions(t.Context(), "device/d1", contract.VerbBind.Update(), nil)
	require.NotEqual(t, a.UpdateID, b.UpdateID)
	request := WithRequest(t.Context(), "r1")
	require.Equal(t, "r1", updateOptions(request, "device/d1", contract.VerbBind.Update(), nil).UpdateID,
		"the sender gave the ID")
	require.Equal(t, "device/d1", a.WorkflowID)
	require.Equal(t, sdkclient.WorkflowUpdateStageAccepted, a.WaitForStage)
}

// S2.49
func TestEnrollStartsOrJoins(t *testing.T) {
	c, handle := &mocks.Client{}, &mocks.WorkflowUpdateHandle{}
	c.On("NewWithStartWorkflowOperation", mock.MatchedBy(func(o sdkclient.StartWorkflowOptions) bool {
		return o.ID == "device/d1" && o.TaskQueue == "burnish" &&
			o.WorkflowIDConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	}), contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: "d1"}).Return(nil).Once()
	c.On("UpdateWithStartWorkflow", mock.Anything, mock.MatchedBy(func(o sdkclient.UpdateWithStartWorkflowOptions) bool {
		return o.UpdateOptions.UpdateName == "enroll"
	})).Return(handle, nil).Once()
	handle.On("Get", mock.Anything, mock.Anything).Return(nil).Once()
	_, err := New(c).Do(t.Context(), "d1", contract.VerbEnroll,
		contract.EnrollInput{Enrollment: contract.Enrollment{Name: "d1"}})
	require.NoError(t, err)
	c.AssertExpectations(t)
	handle.AssertExpectations(t)
}

// Times are the same listed and queried, in whole seconds: a script may compare the two.
func TestTimesAreTheSameListedAndQueried(t *testing.T) {
	created, updated := clock.Add(123456789*time.Nanosecond), clock.Add(time.Minute+999*time.Millisecond)
	queried := normalize(contract.DeviceStatus{Name: "d1", CreatedAt: created, UpdatedAt: updated})
	listed, err := statusOf("d1", map[string]*commonpb.Payload{"DeviceUpdated": payload(t, updated)},
		contract.StatusMemo{CreatedAt: created.Truncate(time.Second)})
	require.NoError(t, err)
	require.Equal(t, clock, queried.CreatedAt)
	require.Equal(t, clock.Add(time.Minute), queried.UpdatedAt)
	require.Equal(t, queried.CreatedAt, listed.CreatedAt)
	require.Equal(t, queried.UpdatedAt, listed.UpdatedAt)
	step :=
		Execution{Pending: map[string]Pending{"zero": {Started: true, Progress: &contract.Progress{ProgressAt: updated, BudgetEnds: updated}}}}
	progress := step.Progress(contract.DeviceStatus{CleanStep: &contract.CleanStep{Step: "zero"}}, clock)
	require.Equal(t, queried.UpdatedAt, progress.ProgressAt)
	require.Equal(t, queried.UpdatedAt, progress.BudgetEnds)
}

// slowServer answers a listing after a while, when the SDK has given up its first requests.
type slowServer struct {
	sdkclient.Client
	listed []*workflowpb.WorkflowExecutionInfo
	late   int // requests that are given up
}

func (s *slowServer) ListWorkflow(ctx context.Context,
	_ *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if s.late--; s.late >= 0 {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		<-ctx.Done()
		return nil, serviceerror.NewDeadlineExceeded("context deadline exceeded")
	}
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: s.listed}, nil
}

// A listing has all the time that its caller gives, although the SDK gives up each request after
// ten seconds.
func TestAListingHasItsCallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := func(late int) ([]Execution, time.Duration, error) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c := New(&slowServer{late: late, listed: []*workflowpb.WorkflowExecutionInfo{run(t, "d1", "S1", device.Available)}})
			found, err := c.List(ctx, Filter{})
			return found, time.Since(began), err
		}
		found, took, err := list(2)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, 20*time.Second, took)
		_, took, err = list(9)
		require.True(t, TimedOut(err), err)
		require.Equal(t, 30*time.Second, took)
	})
}
