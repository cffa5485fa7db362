package guest

import (
	"context"
	"net/http"
	"sync"
)

// turns bound how many requests are answered at once, in all and for each caller.
type turns struct {
	places chan struct{}
	each   int

	mu sync.Mutex
	of map[string]int
}

func newTurns(most, each int) *turns {
	return &turns{places: make(chan struct{}, most), each: each, of: map[string]int{}}
}

// enter waits for a place, until ctx ends. A caller that has as many requests as it may is
// refused at once.
func (t *turns) enter(ctx context.Context, caller string) (leave func(), err error) {
	if !t.count(caller) {
		return nil, &refusal{http.StatusTooManyRequests, "too many requests at once"}
	}
	select {
	case t.places <- struct{}{}:
		return func() {
			<-t.places
			t.leave(caller)
		}, nil
	case <-ctx.Done():
		t.leave(caller)
		return nil, &refusal{http.StatusServiceUnavailable, "too many requests at once"}
	}
}

func (t *turns) count(caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[caller] >= t.each {
		return false
	}
	t.of[caller]++
	return true
}

func (t *turns) leave(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[caller]--; t.of[caller] == 0 {
		delete(t.of, caller)
	}
}
