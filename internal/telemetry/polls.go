package telemetry

import (
	"context"
	"sync"
	"time"

	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// Queue is a task queue that a worker polls, for workflow tasks or for activities.
type Queue struct {
	Name      string
	Workflows bool
}

// acceptedAfter is how long a poll must be under way to count as accepted by the server: one
// that is refused ends at once.
const acceptedAfter = time.Second

// polls knows which task queues are polled.
type polls struct {
	mu     sync.Mutex
	queues map[Queue]*pollsOf
	now    func() time.Time
}

// pollsOf are the polls of one queue.
type pollsOf struct {
	number  int
	pending map[int]time.Time // by number, when they began
	// answered: the last poll that ended had an answer.
	answered bool
}

func newPolls() *polls { return &polls{queues: map[Queue]*pollsOf{}, now: time.Now} }

// intercept notes the polls of a connection.
func (p *polls) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var queue Queue
	switch r := req.(type) {
	case *workflowservice.PollWorkflowTaskQueueRequest:
		queue = Queue{queueName(r.GetTaskQueue()), true}
	case *workflowservice.PollActivityTaskQueueRequest:
		queue = Queue{queueName(r.GetTaskQueue()), false}
	default:
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	ended := p.began(queue)
	err := invoker(ctx, method, req, reply, cc, opts...)
	ended(err)
	return err
}

// queueName is the queue's own name, also where a worker polls for the workflows that it
// keeps in memory.
func queueName(q *taskqueuepb.TaskQueue) string {
	if q.GetNormalName() != "" {
		return q.GetNormalName()
	}
	return q.GetName()
}

// began notes a poll that begins; the function that it returns notes its end.
func (p *polls) began(queue Queue) func(error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, ok := p.queues[queue]
	if !ok {
		of = &pollsOf{pending: map[int]time.Time{}}
		p.queues[queue] = of
	}
	of.number++
	number := of.number
	of.pending[number] = p.now()
	return func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(of.pending, number)
		of.answered = err == nil
	}
}

// active says that a queue is polled: its last poll had an answer, or one is under way that
// the server has not refused.
func (p *polls) active(queue Queue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.queues[queue]
	if of == nil {
		return false
	}
	for _, began := range of.pending {
		if p.now().Sub(began) >= acceptedAfter {
			return true
		}
	}
	return of.answered
}
