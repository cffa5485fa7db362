package guest

import (
	"context"
	"math"
	"net/http"

	"burnish/internal/api/access"
)

// turns bound how many requests are answered at once, in all and for each caller.
type turns struct {
	places chan struct{}
	each   *access.Running
}

func newTurns(most, each int) *turns {
	return &turns{places: make(chan struct{}, most), each: access.NewRunning(math.MaxInt, each)}
}

// enter waits for a place, until ctx ends. A caller that has as many requests as it may is
// refused at once.
func (t *turns) enter(ctx context.Context, caller string) (leave func(), err error) {
	left, err := t.each.Enter(caller)
	if err != nil {
		return nil, &refusal{http.StatusTooManyRequests, "too many requests at once"}
	}
	select {
	case t.places <- struct{}{}:
		return func() { <-t.places; left() }, nil
	case <-ctx.Done():
		left()
		return nil, &refusal{http.StatusServiceUnavailable, "too many requests at once"}
	}
}
