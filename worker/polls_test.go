package main

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/testkit/frontend"
)

// A sticky queue that always has a backlog, as on a busy machine, does not keep a control worker
// from asking for the tasks of its task queue, where those of a device are that left the other.
func TestABacklogDoesNotStarveTheTaskQueue(t *testing.T) {
	const workflowType = "Idle"
	var mu sync.Mutex
	polls := map[enumspb.TaskQueueKind]int{}
	server := frontend.Start(t, nil, func(_ *frontend.Server, method string, in any) (any, error) {
		switch in := in.(type) {
		case *workflowservice.PollWorkflowTaskQueueRequest:
			kind := in.GetTaskQueue().GetKind()
			mu.Lock()
			polls[kind]++
			mu.Unlock()
			<-time.After(5 * time.Millisecond)
			if kind == enumspb.TASK_QUEUE_KIND_STICKY {
				return &workflowservice.PollWorkflowTaskQueueResponse{
					TaskToken: []byte("t"), WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "w", RunId: "r"},
					WorkflowType: &commonpb.WorkflowType{Name: workflowType}, BacklogCountHint: 100,
				}, nil
			}
			return &workflowservice.PollWorkflowTaskQueueResponse{}, nil
		case *workflowservice.RespondWorkflowTaskFailedRequest:
			return &workflowservice.RespondWorkflowTaskFailedResponse{}, nil
		}
		return nil, serviceerror.NewUnavailable(method)
	})
	c, err := client.Dial(client.Options{HostPort: server.Address, Namespace: frontend.Namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w := worker.New(c, "q", withWorkflows(worker.Options{}))
	w.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil },
		workflow.RegisterOptions{Name: workflowType})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	counted := func() (normal, sticky int) {
		mu.Lock()
		defer mu.Unlock()
		return polls[enumspb.TASK_QUEUE_KIND_NORMAL], polls[enumspb.TASK_QUEUE_KIND_STICKY]
	}
	const many = 200 // polls of the sticky queue: it has been busy for a while
	require.Eventually(t, func() bool { _, sticky := counted(); return sticky > many }, time.Minute, 10*time.Millisecond)
	before, _ := counted()
	require.Eventually(t, func() bool { normal, _ := counted(); return normal > before+10 }, 20*time.Second,
		10*time.Millisecond,
		"the worker polls the sticky queue only")
}
