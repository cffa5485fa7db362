package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// freshFor is how long an answer of the server counts: so often it is asked at most.
	freshFor = 5 * time.Second
	// checkTimeout bounds one question to the server.
	checkTimeout = 4 * time.Second
)

// Queue is a task queue that a worker polls, for workflow tasks or for activities.
type Queue struct {
	Name      string
	Workflows bool
}

// Server is what a worker asks of the Temporal server.
type Server struct {
	// Check says why the server does not answer; nil if it does.
	Check func(context.Context) error
	// Polls says whether the server has seen this worker poll a queue.
	Polls func(context.Context, Queue) (bool, error)
}

// Readiness says whether a worker is ready: it has started, it is not stopping, Temporal
// answers, and its task queues are polled.
type Readiness struct {
	mu      sync.Mutex
	queues  []Queue
	server  *Server // nil: it has not started
	stopped bool

	// asking is held while the server is asked; answeredAt and answer are of the last question.
	asking     sync.Mutex
	answeredAt time.Time
	answer     error
}

// Started says that the worker has started, polls these queues, and how it asks the server.
func (r *Readiness) Started(server Server, queues ...Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server, r.queues = &server, queues
}

// Stopping says that the worker is about to stop: it is not ready any more.
func (r *Readiness) Stopping() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// Ready says why the worker is not ready; nil if it is. It takes at most checkTimeout. All that wait for
// an answer of the server get the same one, as long as it is fresh.
func (r *Readiness) Ready(ctx context.Context) error {
	r.mu.Lock()
	server, stopped, queues := r.server, r.stopped, r.queues
	r.mu.Unlock()
	switch {
	case stopped:
		return errors.New("this worker is stopping")
	case server == nil:
		return errors.New("this worker is starting")
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	if time.Since(r.answeredAt) >= freshFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		r.answer = server.ask(ctx, queues)
		r.answeredAt = time.Now()
	}
	return r.answer
}

func (s *Server) ask(ctx context.Context, queues []Queue) error {
	err := s.Check(ctx)
	for _, q := range queues {
		if err != nil {
			break
		}
		var polled bool
		if polled, err = s.Polls(ctx, q); err == nil && !polled {
			return fmt.Errorf("this worker does not poll the task queue %s", q.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("the Temporal server does not answer: %w", err)
	}
	return nil
}
