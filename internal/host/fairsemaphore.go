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
	slots int
	// places are the cleans with a slot and those in the queue, in the order in which they are
	// served: those that had a slot before those that had none.
	places []*place
}

// place is what one clean has: a slot, or its position in the queue. FairSemaphore.mu guards all
// fields but wake.
type place struct {
	key   string
	begun bool // its clean had a slot before: it is ahead of those that had none
	// since is when the key asked first; the zero time of a slot that was kept.
	since time.Time
	holds bool // it has a slot
	keep  bool // the slot stays the key's when it is released
	// away is set while nobody uses the place: until the timer ends, it is kept for the key.
	away *time.Timer
	wake chan struct{} // capacity 1: the position may have changed
}

// NewFairSemaphore makes n slots, at least one.
func NewFairSemaphore(n int) *FairSemaphore { return &FairSemaphore{slots: max(n, 1)} }

// Load counts the slots in use, and the cleans in the queue.
func (s *FairSemaphore) Load() (used, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load()
}

func (s *FairSemaphore) load() (used, queued int) {
	for _, p := range s.places {
		if p.holds {
			used++
		}
	}
	return used, len(s.places) - used
}

// Acquire waits for a slot for a clean of key, and returns the function that releases it; a second
// call of that does nothing. A clean that has begun had a slot already: it takes the one that was
// kept for it, and otherwise waits ahead of the cleans that had none. For a clean that begins, a
// slot that is kept for an earlier one of the key becomes free. While Acquire waits, it calls
// waiting with the position in the queue, from 1: at once, on each change and about every 5 seconds.
//
// It returns when ctx ends, with the cause, and the position is lost. If the cause is
// ErrWillRetry, the position is kept for a minute for the next Acquire of the key. A kept
// position counts in the queue but does not block it: slots that become free meanwhile go
// to the waiters that are present.
func (s *FairSemaphore) Acquire(ctx context.Context, key string, begun bool,
	waiting func(position int)) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
	}
	p := s.enter(key, begun)
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
			if s.OnGrant != nil && !p.since.IsZero() {
				s.OnGrant(time.Since(p.since))
			}
			return sync.OnceFunc(func() { s.release(p) }), nil
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

// enter gives key the place that was kept for it, or one at the end: of all, or of the cleans
// that have begun.
func (s *FairSemaphore) enter(key string, begun bool) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.grant()
	p := &place{key: key, begun: begun, since: time.Now(), wake: make(chan struct{}, 1)}
	at := len(s.places)
	if begun {
		at = s.firstNew()
	}
	s.places = slices.Insert(s.places, at, p)
	i := slices.IndexFunc(s.places, func(kept *place) bool { return kept.away != nil && kept.key == key })
	if i >= 0 && (begun || !s.places[i].holds) {
		// Its timer may be ending at this moment: it finds its place gone.
		kept := s.places[i]
		kept.away.Stop()
		p.since, p.holds = kept.since, kept.holds
		if kept.holds || kept.begun == begun {
			s.remove(p)
			s.places[slices.Index(s.places, kept)] = p
		} else {
			s.remove(kept)
		}
	}
	s.unkeep(key)
	return p
}

// firstNew is where the cleans that had no slot before begin.
func (s *FairSemaphore) firstNew() int {
	if i := slices.IndexFunc(s.places, func(p *place) bool { return !p.begun }); i >= 0 {
		return i
	}
	return len(s.places)
}

// grant gives free slots to the first waiters that are present.
func (s *FairSemaphore) grant() {
	used, _ := s.load()
	for _, p := range s.places {
		if used < s.slots && !p.holds && p.away == nil {
			p.holds = true
			used++
		}
		select {
		case p.wake <- struct{}{}:
		default: // is notified already
		}
	}
}

// position is the waiter's position in the queue, 0 once it has a slot.
func (s *FairSemaphore) position(p *place) (at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.places {
		if !each.holds {
			at++
		}
		if each == p && p.holds {
			return 0
		}
		if each == p {
			break
		}
	}
	return at
}

// Keep has the slot that key holds stay key's when it is released: another step of its clean
// follows, and its Acquire does not wait. A slot that nothing takes up becomes free after
// keepSlotFor.
func (s *FairSemaphore) Keep(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		p.keep = p.keep || p.key == key && p.holds && p.away == nil
	}
}

// Drop frees the slot that is kept for key, or would be kept when it is released, if there is
// one: its clean has ended.
func (s *FairSemaphore) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unkeep(key) // the last step's release may still be on its way
	s.grant()
}

// unkeep ends that a slot is, or will be, kept for key.
func (s *FairSemaphore) unkeep(key string) {
	for _, p := range slices.Clone(s.places) {
		switch {
		case p.key != key || !p.holds:
		case p.away != nil:
			p.away.Stop()
			s.remove(p)
		default:
			p.keep = false
		}
	}
}

// Expect keeps a slot for each of the keys, as far as there are slots: their cleans had one
// when the last worker ended, and are about to come back.
func (s *FairSemaphore) Expect(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		used, _ := s.load()
		if used < s.slots && !slices.ContainsFunc(s.places, func(p *place) bool { return p.key == key }) {
			p := &place{key: key, begun: true, holds: true, wake: make(chan struct{}, 1)}
			s.places = append(s.places, p)
			s.leave(p, keepSlotFor)
		}
	}
}

// leave keeps a place that nobody uses, for so long.
func (s *FairSemaphore) leave(p *place, keepFor time.Duration) {
	p.away = time.AfterFunc(keepFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(p)
		s.grant()
	})
}

func (s *FairSemaphore) release(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.grant()
	if !p.keep {
		s.remove(p)
		return
	}
	s.unkeep(p.key) // one is enough
	p.since = time.Time{}
	s.leave(p, keepSlotFor)
}

// cancel removes p, or keeps its position. A slot that p was granted and did not take goes to the
// next waiter.
func (s *FairSemaphore) cancel(p *place, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.grant()
	p.holds = false
	if keep {
		s.leave(p, keepPositionFor)
	} else {
		s.remove(p)
	}
}

func (s *FairSemaphore) remove(p *place) {
	if i := slices.Index(s.places, p); i >= 0 {
		s.places = slices.Delete(s.places, i, i+1)
	}
}
