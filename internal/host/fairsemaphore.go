package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrWillRetry, as the cause with which a waiter's context ends, says that the same
// key will ask for a slot again soon: its place in the line is kept.
var ErrWillRetry = errors.New("asks for its slot again")

const (
	positionInterval = 5 * time.Second
	keepPositionFor  = time.Minute
)

// FairSemaphore bounds how many cleans run on a host at once (S2.65), first come, first
// served. It lives in the worker because a task queue's own limit would make a busy
// host look like a silent one.
type FairSemaphore struct {
	mu    sync.Mutex
	free  int
	queue []*waiter
}

// waiter is one key's in the line. All but wake is guarded by FairSemaphore.mu.
type waiter struct {
	key     string
	granted bool
	expiry  *time.Timer   // set while the place is kept for a key that left
	wake    chan struct{} // holds one message at most: look at your place again
}

// NewSlots makes n slots, one where n is smaller.
func NewFairSemaphore(n int) *FairSemaphore { return &FairSemaphore{free: max(n, 1)} }

// Acquire waits for a slot for key and returns what gives it back, once, however
// often it is called. While it waits it calls waiting with its place in the line,
// from 1: at once, on each change and about every 5 seconds.
//
// It returns when ctx ends, with the cause. The place is then given up, unless the
// cause is ErrWillRetry: then it is kept for a minute, and the next Acquire of the key
// enters there. A kept place counts as one in the line but holds up nobody: slots
// that come free meanwhile go to those who are there.
func (s *FairSemaphore) Acquire(ctx context.Context, key string, waiting func(place int)) (release func(), err error) {
	if waiting == nil {
		waiting = func(int) {}
	}
	s.mu.Lock()
	if ctx.Err() != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
	}
	p := s.enqueue(key)
	s.grant()
	s.mu.Unlock()

	tick := time.NewTicker(positionInterval)
	defer tick.Stop()
	told := 0
	for {
		switch at := s.position(p); {
		// Before a slot that was granted meanwhile: a caller that is told to stop must
		// not find itself with one.
		case ctx.Err() != nil:
			s.cancel(p, errors.Is(context.Cause(ctx), ErrWillRetry))
			return nil, fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
		case at == 0:
			return sync.OnceFunc(s.release), nil
		case at != told:
			waiting(at)
			told = at
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		case <-tick.C:
			told = 0 // tell again
		}
	}
}

// enter puts key at the end of the line, or at the place that was kept for it.
func (s *FairSemaphore) enqueue(key string) *waiter {
	p := &waiter{key: key, wake: make(chan struct{}, 1)}
	i := slices.IndexFunc(s.queue, func(kept *waiter) bool { return kept.expiry != nil && kept.key == key })
	if i < 0 {
		s.queue = append(s.queue, p)
		return p
	}
	// A new place, not the old one: should the old one's minute end at this very
	// moment, it is no longer in the line.
	s.queue[i].expiry.Stop()
	s.queue[i] = p
	return p
}

// grant gives free slots to the first who are there.
func (s *FairSemaphore) grant() {
	rest := s.queue[:0:0]
	for _, p := range s.queue {
		if s.free == 0 || p.expiry != nil {
			rest = append(rest, p)
		} else {
			p.granted = true
			s.free--
		}
		p.notify()
	}
	s.queue = rest
}

func (p *waiter) notify() {
	select {
	case p.wake <- struct{}{}:
	default: // has a message already
	}
}

// placeOf is 0 for who has a slot.
func (s *FairSemaphore) position(p *waiter) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.granted {
		return 0
	}
	return slices.Index(s.queue, p) + 1
}

func (s *FairSemaphore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.grant()
}

// leave takes p out of the line, or marks its place as kept. A slot that it was
// granted and never saw goes on to the next.
func (s *FairSemaphore) cancel(p *waiter, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.granted {
		p.granted = false
		s.free++
		s.queue = slices.Insert(s.queue, 0, p)
	}
	if keep {
		p.expiry = time.AfterFunc(keepPositionFor, func() { s.expire(p) })
	} else {
		s.remove(p)
	}
	s.grant()
}

// drop ends a place that was kept and not taken up.
func (s *FairSemaphore) expire(p *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(p)
	s.grant()
}

func (s *FairSemaphore) remove(p *waiter) {
	if i := slices.Index(s.queue, p); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
}
