package access

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// tableSize bounds the callers that are counted each by itself.
const tableSize = 10_000

// sweepPause is the pause between two searches for callers that need not be counted.
const sweepPause = time.Second

// buckets bound how often something may be done, for each caller.
type buckets struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex
	of    map[string]*rate.Limiter
	rest  *rate.Limiter // of all callers for whom the table has no place
	swept time.Time
}

func newBuckets(limit rate.Limit, burst int) *buckets {
	return &buckets{limit: limit, burst: burst, of: make(map[string]*rate.Limiter), rest: rate.NewLimiter(limit, burst)}
}

// take counts one; it says whether it is within the limit.
func (b *buckets) take(caller string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of[caller]
	if l == nil {
		b.sweep()
		if l = b.rest; len(b.of) < tableSize {
			l = rate.NewLimiter(b.limit, b.burst)
			b.of[caller] = l
		}
	}
	return l.Allow()
}

// empty says whether the next one would be beyond the limit.
func (b *buckets) empty(caller string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of[caller]
	if l == nil {
		if len(b.of) < tableSize {
			return false
		}
		l = b.rest
	}
	return l.Tokens() < 1
}

// sweep forgets, in a full table, the callers that have done nothing for a while.
func (b *buckets) sweep() {
	if len(b.of) < tableSize || time.Since(b.swept) < sweepPause {
		return
	}
	b.swept = time.Now()
	for caller, l := range b.of {
		if l.Tokens() >= float64(b.burst) {
			delete(b.of, caller)
		}
	}
}

// Running counts the requests in flight of each caller, or the open connections of each address.
type Running struct {
	most, each int

	mu  sync.Mutex
	all int
	of  map[string]int
}

var (
	errFull          = errors.New("there are as many as there may be")
	errFullForCaller = errors.New("the caller has as many as it may have")
)

// NewRunning counts at most so many, each of one caller.
func NewRunning(most, each int) *Running {
	return &Running{most: most, each: each, of: make(map[string]int)}
}

// Enter counts one more until leave is called. Its error is errFull or errFullForCaller.
func (r *Running) Enter(caller string) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.all >= r.most:
		return nil, errFull
	case r.of[caller] >= r.each:
		return nil, errFullForCaller
	}
	r.all++
	r.of[caller]++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all--
		if r.of[caller]--; r.of[caller] == 0 {
			delete(r.of, caller)
		}
	}), nil
}
