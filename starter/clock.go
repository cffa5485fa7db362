package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/doctor"
)

const (
	// clockTimeout bounds the reading of the server's clock; Temporal ends a poll that has less
	// than two seconds at once.
	clockTimeout = 5 * time.Second
	clockPause   = 10 * time.Millisecond
)

// clockReader is a deviceClient that can read the server's clock.
type clockReader interface {
	ServerTime(ctx context.Context) (time.Time, error)
}

// ServerTime reads the server's clock. No request gives it, but the server keeps when a task
// queue was polled: this polls one of its own, which never has a task.
func (c connection) ServerTime(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	queue := "burnish-doctor-" + uuid.NewString()
	ended := make(chan error, 1)
	go func() {
		_, err := c.server.WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: c.server.Namespace, Identity: "burnish doctor",
			TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		})
		ended <- err
	}()
	for {
		answer, err := c.server.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
		if err != nil {
			return time.Time{}, err
		}
		if pollers := answer.GetPollers(); len(pollers) > 0 {
			return pollers[0].GetLastAccessTime().AsTime(), nil
		}
		select {
		case err := <-ended:
			return time.Time{}, err
		case <-time.After(clockPause):
		}
	}
}

// skew is how far the server's clock is ahead of this machine's, or behind it if it is less than
// zero; known is false where it could not be read.
type skew struct {
	ahead time.Duration
	known bool
}

// readSkew compares the clocks, if the client can read the server's. What the reading takes
// counts as no difference.
func (a *app) readSkew(ctx context.Context, l deviceClient) skew {
	reader, ok := l.(clockReader)
	if !ok {
		return skew{}
	}
	before := a.now()
	server, err := reader.ServerTime(ctx)
	after := a.now()
	switch {
	case err != nil: // its credential may not poll
		return skew{}
	case server.After(after):
		return skew{server.Sub(after), true}
	case server.Before(before):
		return skew{server.Sub(before), true}
	}
	return skew{known: true}
}

// check reports the difference, as far as it is known.
func (s skew) check(f *doctor.Findings) {
	const check, remedy = "clock", "set this machine's clock and the server's, for example by NTP"
	switch {
	case !s.known:
	case s.ahead > maxClockSkew:
		f.Warn(check, remedy, "the server's clock is %s ahead of this machine's", roundDuration(s.ahead))
	case s.ahead < -maxClockSkew:
		f.Warn(check, remedy, "the server's clock is %s behind this machine's", roundDuration(-s.ahead))
	default:
		f.OK(check, "within %s of the server's", maxClockSkew)
	}
}
