package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// keepSlotFor is how long a slot is kept for a clean that does not use it. Its next step follows at once, unless the
// control workers are away or the clean waits for something else: what that is may itself wait for a slot.
const keepSlotFor = 30 * time.Second

// Slots bound how many cleans run on a host at once (S2.65), first come, first served, but a clean that has begun goes
// on before another one begins. A task queue's own limit would not do: a busy host could not be distinguished from an
// unreachable one.
type Slots struct {
	// OnGrant is called with the time that a clean waited for the slot that it got; nil for nothing. It is set before the
	// first Acquire.
	OnGrant func(waited time.Duration)

	mu        sync.Mutex
	all, free int
	// queue are those that wait, in the order in which they are served; kept are the slots that are not in use, by the
	// clean that each is kept for until its timer ends.
	queue []*waiter
	kept  map[string]*time.Timer
}

// Claim is what asks for a slot: a clean, by the name of its device.
type Claim struct {
	Key string
	// Begun: the clean had a slot before.
	Begun bool
	// Asked is when it asked first, which is its place among those that are like it in this. Waited is how long it has
	// waited for a slot in earlier calls.
	Asked  time.Time
	Waited time.Duration
}

// waiter is a claim that waits. It leaves the queue with its slot.
type waiter struct {
	Claim
	moved chan struct{} // capacity 1: its position may have changed
}

// before says that the waiter is served before another one.
func (w *waiter) before(other *waiter) bool {
	if w.Begun != other.Begun {
		return w.Begun
	}
	return w.Asked.Before(other.Asked)
}

// NewSlots makes n slots, at least one.
func NewSlots(n int) *Slots {
	return &Slots{all: max(n, 1), free: max(n, 1), kept: map[string]*time.Timer{}}
}

// Load counts the slots that are in use or kept, and the cleans in the queue.
func (s *Slots) Load() (used, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all - s.free, len(s.queue)
}

// Acquire waits for a slot, and returns the function that releases it, whose second call does nothing: it may keep the
// slot for the clean's next step, whose Acquire then does not wait. A slot that nothing takes up becomes free after
// keepSlotFor, and at once for another clean of the same device. While Acquire waits, it calls waiting with the
// position in the queue, from 1: at once and on each change. It returns when ctx ends, with the cause.
func (s *Slots) Acquire(ctx context.Context, c Claim, waiting func(position int)) (release func(keep bool), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
	}
	var once sync.Once
	release = func(keep bool) {
		once.Do(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.release(c.Key, keep)
		})
	}
	w := s.enter(c)
	if w == nil {
		return release, nil
	}
	began := time.Now()
	for last := 0; ; {
		at := s.position(w)
		switch {
		case ctx.Err() != nil: // first, so that a caller that must stop does not get a slot that was granted meanwhile
			s.leave(w)
			return nil, fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
		case at == 0:
			if s.OnGrant != nil {
				s.OnGrant(c.Waited + time.Since(began))
			}
			return release, nil
		case at != last:
			waiting(at)
			last = at
		}
		select {
		case <-w.moved:
		case <-ctx.Done():
		}
	}
}

// enter takes the slot that was kept for the clean, or puts it into the queue; nil: it has a slot.
func (s *Slots) enter(c Claim) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unkeep(c.Key) && c.Begun {
		s.free--
		return nil
	}
	w := &waiter{Claim: c, moved: make(chan struct{}, 1)}
	at := slices.IndexFunc(s.queue, w.before)
	if at < 0 {
		at = len(s.queue)
	}
	s.queue = slices.Insert(s.queue, at, w)
	s.grant()
	return w
}

// grant gives free slots to the first in the queue.
func (s *Slots) grant() {
	served := min(s.free, len(s.queue))
	for _, w := range s.queue {
		select {
		case w.moved <- struct{}{}:
		default: // is notified already
		}
	}
	s.free -= served
	s.queue = slices.Clone(s.queue[served:])
}

// position is the waiter's in the queue, 0 once it has a slot.
func (s *Slots) position(w *waiter) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Index(s.queue, w) + 1
}

// leave ends a wait. A slot that was granted meanwhile goes to the next.
func (s *Slots) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, w); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	} else {
		s.free++
	}
	s.grant()
}

// Drop frees the slot that is kept for key, if there is one: its clean has ended.
func (s *Slots) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unkeep(key)
	s.grant()
}

// Expect keeps a slot for each of the keys, as far as there are slots: their cleans had one when the last worker ended,
// and are about to come back.
func (s *Slots) Expect(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if s.free > 0 && s.kept[key] == nil {
			s.free--
			s.release(key, true)
		}
	}
}

// release gives a slot back, or keeps it for its clean; one is enough.
func (s *Slots) release(key string, keep bool) {
	s.free++
	if keep && s.kept[key] == nil {
		s.free--
		var timer *time.Timer
		timer = time.AfterFunc(keepSlotFor, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.kept[key] == timer { // else it was taken up at this moment
				s.unkeep(key)
				s.grant()
			}
		})
		s.kept[key] = timer
	}
	s.grant()
}

// unkeep frees the slot that is kept for key, and says whether there was one.
func (s *Slots) unkeep(key string) bool {
	timer, kept := s.kept[key]
	if kept {
		timer.Stop()
		delete(s.kept, key)
		s.free++
	}
	return kept
}
