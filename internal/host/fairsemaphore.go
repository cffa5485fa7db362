package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrWillRetry, as the cause with which a waiter's context ends, says that the same key
// will ask for a slot again soon: it keeps its position in the queue.
var ErrWillRetry = errors.New("the caller will ask for a slot again")

const (
	positionInterval = 5 * time.Second
	keepPositionFor  = time.Minute
	// keepSlotFor is how long a slot is kept for a clean that does not use it. Its next step
	// follows at once, unless the control workers are away or the clean waits for something
	// else: what that is may itself wait for a slot.
	keepSlotFor = 30 * time.Second
)

// FairSemaphore bounds how many cleans run on a host at once (S2.65), first come, first
// served, but a clean that has begun goes on before another one begins. A task queue's own
// limit would not do: a busy host could not be distinguished from an unreachable one.
type FairSemaphore struct {
	// OnGrant is called with the time that a clean waited for the slot that it got; nil for
	// nothing. It is set before the first Acquire.
	OnGrant func(waited time.Duration)

	mu    sync.Mutex
	slots int // of all
	free  int
	queue []*waiter
	// kept are the slots that wait for the next step or attempt of their keys, each until its
	// timer ends. A slot of a key in keeping is kept when it is released.
	kept    map[string]*keptSlot
	keeping map[string]bool
}

// keptSlot is a slot that waits for the next step of its clean.
type keptSlot struct{ expiry *time.Timer }

// waiter is one key in the queue. FairSemaphore.mu guards all fields but wake.
type waiter struct {
	key     string
	begun   bool      // its clean had a slot before: it is ahead of those that had none
	since   time.Time // when the key asked first
	granted bool
	expiry  *time.Timer   // set while the position is kept for a key that left
	wake    chan struct{} // capacity 1: the position may have changed
}

// NewFairSemaphore makes n slots, at least one.
func NewFairSemaphore(n int) *FairSemaphore { return &FairSemaphore{slots: max(n, 1), free: max(n, 1)} }

// Load counts the slots in use, and the cleans in the queue.
func (s *FairSemaphore) Load() (used, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots - s.free, len(s.queue)
}

// Acquire waits for a slot for a clean of key that begins, and returns the function that
// releases it; a second call of that does nothing. A slot that is kept for an earlier clean of
// the key becomes free. While Acquire waits, it calls waiting with the position in the queue,
// from 1: at once, on each change and about every 5 seconds.
//
// It returns when ctx ends, with the cause, and the position is lost. If the cause is
// ErrWillRetry, the position is kept for a minute for the next Acquire of the key. A kept
// position counts in the queue but does not block it: slots that become free meanwhile go
// to the waiters that are present.
func (s *FairSemaphore) Acquire(ctx context.Context, key string,
	waiting func(position int)) (release func(), err error) {
	return s.acquire(ctx, key, false, waiting)
}

// Reacquire is Acquire for a clean that had a slot already: it takes the one that was kept for
// it, and otherwise waits ahead of the cleans that had none.
func (s *FairSemaphore) Reacquire(ctx context.Context, key string,
	waiting func(position int)) (release func(), err error) {
	return s.acquire(ctx, key, true, waiting)
}

func (s *FairSemaphore) acquire(ctx context.Context, key string, begun bool,
	waiting func(position int)) (release func(), err error) {
	if waiting == nil {
		waiting = func(int) {}
	}
	s.mu.Lock()
	if ctx.Err() != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
	}
	delete(s.keeping, key)
	if had := s.takeKept(key); had && begun {
		s.mu.Unlock()
		return sync.OnceFunc(func() { s.release(key) }), nil
	} else if had {
		s.free++
	}
	p := s.enqueue(key, begun)
	s.grant()
	s.mu.Unlock()

	tick := time.NewTicker(positionInterval)
	defer tick.Stop()
	reported := 0
	for {
		switch at := s.position(p); {
		// First, so that a caller that must stop does not get a slot that was granted
		// meanwhile.
		case ctx.Err() != nil:
			s.cancel(p, errors.Is(context.Cause(ctx), ErrWillRetry))
			return nil, fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
		case at == 0:
			if s.OnGrant != nil {
				s.OnGrant(time.Since(p.since))
			}
			return sync.OnceFunc(func() { s.release(key) }), nil
		case at != reported:
			waiting(at)
			reported = at
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		case <-tick.C:
			reported = 0 // report it again
		}
	}
}

// enqueue adds key at the end of the queue, or at the position that was kept for it. Cleans
// that have begun stand before the others.
func (s *FairSemaphore) enqueue(key string, begun bool) *waiter {
	p := &waiter{key: key, begun: begun, since: time.Now(), wake: make(chan struct{}, 1)}
	if i := slices.IndexFunc(s.queue, func(kept *waiter) bool { return kept.expiry != nil && kept.key == key }); i >= 0 {
		// A new waiter replaces the kept one, whose timer may be expiring at this moment.
		kept := s.queue[i]
		kept.expiry.Stop()
		p.since = kept.since
		if kept.begun == begun {
			s.queue[i] = p
			return p
		}
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	at := len(s.queue)
	if begun {
		at = s.firstNew()
	}
	s.queue = slices.Insert(s.queue, at, p)
	return p
}

// firstNew is the position of the first clean that had no slot before.
func (s *FairSemaphore) firstNew() int {
	if i := slices.IndexFunc(s.queue, func(p *waiter) bool { return !p.begun }); i >= 0 {
		return i
	}
	return len(s.queue)
}

// grant gives free slots to the first waiters that are present.
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
	default: // is notified already
	}
}

// position is the waiter's position in the queue, 0 once it has a slot.
func (s *FairSemaphore) position(p *waiter) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.granted {
		return 0
	}
	return slices.Index(s.queue, p) + 1
}

// Keep has the slot that key holds stay key's when it is released: another step of its clean
// follows, and its Reacquire does not wait. A slot that nothing takes up becomes free after
// keepSlotFor.
func (s *FairSemaphore) Keep(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeping == nil {
		s.keeping = map[string]bool{}
	}
	s.keeping[key] = true
}

// Drop frees the slot that is kept for key, or would be kept when it is released, if there is
// one: its clean has ended.
func (s *FairSemaphore) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keeping, key) // the last step's release may still be on its way
	if s.takeKept(key) {
		s.free++
		s.grant()
	}
}

// Expect keeps a slot for each of the keys, as far as there are slots: their cleans had one
// when the last worker ended, and are about to come back.
func (s *FairSemaphore) Expect(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if _, twice := s.kept[key]; s.free == 0 || twice {
			continue
		}
		s.free--
		s.keepSlot(key)
	}
}

// keepSlot keeps a slot that is not free for key. The caller holds mu.
func (s *FairSemaphore) keepSlot(key string) {
	if s.kept == nil {
		s.kept = map[string]*keptSlot{}
	}
	if s.takeKept(key) { // one is enough
		s.free++
		s.grant()
	}
	kept := &keptSlot{}
	kept.expiry = time.AfterFunc(keepSlotFor, func() { s.expireSlot(key, kept) })
	s.kept[key] = kept
}

// takeKept takes the slot that is kept for key, and says whether there was one: it is then in
// the caller's hands. The caller holds mu.
func (s *FairSemaphore) takeKept(key string) bool {
	kept, ok := s.kept[key]
	if ok {
		kept.expiry.Stop()
		delete(s.kept, key)
	}
	return ok
}

func (s *FairSemaphore) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeping[key] {
		delete(s.keeping, key)
		s.keepSlot(key)
		return
	}
	s.free++
	s.grant()
}

// expireSlot frees a slot whose clean went no further.
func (s *FairSemaphore) expireSlot(key string, kept *keptSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[key] != kept { // it was taken up at this moment
		return
	}
	delete(s.kept, key)
	s.free++
	s.grant()
}

// cancel removes p from the queue, or marks its position as kept. A slot that p was granted
// and did not take goes to the next waiter.
func (s *FairSemaphore) cancel(p *waiter, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.granted {
		p.granted = false
		s.free++
		at := 0
		if !p.begun {
			at = s.firstNew()
		}
		s.queue = slices.Insert(s.queue, at, p)
	}
	if keep {
		p.expiry = time.AfterFunc(keepPositionFor, func() { s.expire(p) })
	} else {
		s.remove(p)
	}
	s.grant()
}

// expire removes a kept position that was not used.
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
