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

// Readiness says whether a worker is ready: it has started, it is not stopping, Temporal
// answers, and its task queues are polled.
type Readiness struct {
	polls *polls

	mu      sync.Mutex
	queues  []Queue
	started bool
	stopped bool
	check   func(context.Context) error

	// asking is held while the server is asked; answeredAt and answer are of the last question.
	asking     sync.Mutex
	answeredAt time.Time
	answer     error
}

func newReadiness() *Readiness { return &Readiness{polls: newPolls()} }

// Started says that the worker has started, polls these queues, and how it asks the server.
func (r *Readiness) Started(check func(context.Context) error, queues ...Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, r.check, r.queues = true, check, queues
}

// Stopping says that the worker is about to stop: it is not ready any more.
func (r *Readiness) Stopping() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// Ready says why the worker is not ready; nil if it is. It takes at most checkTimeout.
func (r *Readiness) Ready(ctx context.Context) error {
	r.mu.Lock()
	started, stopped, check, queues := r.started, r.stopped, r.check, r.queues
	r.mu.Unlock()
	switch {
	case stopped:
		return errors.New("this worker is stopping")
	case !started:
		return errors.New("this worker is starting")
	}
	for _, q := range queues {
		if !r.polls.active(q) {
			return fmt.Errorf("this worker does not poll the task queue %s", q.Name)
		}
	}
	if err := r.ask(ctx, check); err != nil {
		return fmt.Errorf("the Temporal server does not answer: %w", err)
	}
	return nil
}

// ask asks the server, unless its last answer is fresh. All that wait for an answer get the
// same one.
func (r *Readiness) ask(ctx context.Context, check func(context.Context) error) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	if time.Since(r.answeredAt) < freshFor {
		return r.answer
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	r.answer = check(ctx)
	r.answeredAt = time.Now()
	return r.answer
}
