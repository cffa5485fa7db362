package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// resets are what an operator may do to a device's workflow from the Web UI: to which
// event, and whether Temporal sends the updates and signals after it again.
func TestReset(t *testing.T) {
	t.Parallel()
	points := map[string]func(t *testing.T, s *Site, name string) int64{
		"to the first task": func(t *testing.T, s *Site, name string) int64 { return taskAfterUpdate(t, s, name, "") },
		"to the enrolment": func(t *testing.T, s *Site, name string) int64 {
			return taskAfterUpdate(t, s, name, contract.UpdateEnroll)
		},
		"to the tenant before": func(t *testing.T, s *Site, name string) int64 {
			return taskAfterUpdate(t, s, name, contract.UpdateBind)
		},
	}
	for what, point := range points {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, updates again %v", what, again), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				w := s.Run(t, "all")
				d := s.Device(t, "fake", "d1", 2*MiB, 0)
				s.Enroll(t, d, "--provide")
				s.AwaitReturned(t, d, 20*time.Second)
				s.Bind(t, "d1", "alice")
				d.Stamp(t, 2)
				s.Unbind(t, "d1", "alice")
				s.AwaitReturned(t, d, 20*time.Second)
				s.Bind(t, "d1", "bob")
				d.Stamp(t, 3)

				reset(t, s, "d1", point(t, s, "d1"), again)
				During(t, 3*time.Second, "bob keeps the device with every byte", func() (bool, string) {
					stamped, zero, other := d.Count(t, 3)
					p := s.Provider(t, "d1")
					return stamped == d.Blocks() && p.Reserved == 1, fmt.Sprintf("stamped %d zero %d other %d, %+v", stamped, zero, other, p)
				})
				w.Kill(t)
				w.Start(t)
				s.AwaitState(t, "d1", 20*time.Second, device.Allocated)
				s.RequireTenant(t, d, "bob", 3)
				s.Unbind(t, "d1", "bob")
				s.AwaitReturned(t, d, 20*time.Second)
			})
		}
	}
}

// reset is `temporal workflow reset` to the event before the task that ends there.
func reset(t *testing.T, s *Site, name string, event int64, again bool) {
	t.Helper()
	request := &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: s.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID(name)},
		Reason: "test", WorkflowTaskFinishEventId: event, RequestId: uuid.NewString(),
	}
	if !again {
		request.ResetReapplyExcludeTypes = []enumspb.ResetReapplyExcludeType{
			enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
		}
	}
	_, err := s.Client.WorkflowService().ResetWorkflowExecution(t.Context(), request)
	require.NoError(t, err)
}

// taskAfterUpdate is the first completed task after the first update of that name was
// answered; without a name the very first.
func taskAfterUpdate(t *testing.T, s *Site, name, update string) int64 {
	t.Helper()
	accepted := ""
	answered := update == ""
	for _, e := range s.History(t, name, "") {
		if a := e.GetWorkflowExecutionUpdateAcceptedEventAttributes(); a != nil && a.GetAcceptedRequest().GetInput().GetName() == update && accepted == "" {
			accepted = a.GetProtocolInstanceId()
		}
		if c := e.GetWorkflowExecutionUpdateCompletedEventAttributes(); c != nil && c.GetMeta().GetUpdateId() == accepted {
			answered = true
		}
		if answered && e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return e.GetEventId()
		}
	}
	require.FailNow(t, "no such task")
	return 0
}
