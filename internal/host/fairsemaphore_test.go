package host

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// client is one Acquire of a test.
type client struct {
	key     string
	cancel  context.CancelCauseFunc
	mu      sync.Mutex
	reports []string // "second:position"
	release func()
	err     error
}

// ask starts an Acquire of a clean that begins and returns when it waits or has ended.
func ask(s *FairSemaphore, key string) *client { return acquires(s, key, false) }

// goOn is ask for a clean that had a slot before.
func goOn(s *FairSemaphore, key string) *client { return acquires(s, key, true) }

func acquires(s *FairSemaphore, key string, begun bool) *client {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &client{key: key, cancel: cancel}
	start := time.Now()
	go func() {
		release, err := s.Acquire(ctx, key, begun, func(place int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reports = append(c.reports, fmt.Sprintf("%d:%d", int(time.Since(start).Seconds()), place))
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.release, c.err = release, err
	}()
	synctest.Wait()
	return c
}

func (c *client) has() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release != nil
}

func (c *client) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *client) positions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports)
}

func (c *client) give() { c.release(); synctest.Wait() }

func (c *client) leave(cause error) { c.cancel(cause); synctest.Wait() }

func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// S2.65
func TestFairSemaphoreServesInOrder(t *testing.T) {
	inBubble(t, "no more than n at once, in order", func(t *testing.T) {
		s := NewFairSemaphore(2)
		a, b, c, d := ask(s, "a"), ask(s, "b"), ask(s, "c"), ask(s, "d")
		require.True(t, a.has() && b.has())
		require.Empty(t, a.positions(), "without a wait there is no report")
		require.False(t, c.has() || d.has())
		b.give()
		require.True(t, c.has())
		require.False(t, d.has())
		a.give()
		require.True(t, d.has())
		c.give()
		d.give()
		require.Equal(t, 2, free(s))
		require.Empty(t, s.places)
	})
	inBubble(t, "positions are reported at once, on each change and every five seconds", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		<-time.After(11 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"0:2", "5:2", "10:2"}, c.positions())
		a.give()
		require.Equal(t, []string{"0:2", "5:2", "10:2", "11:1"}, c.positions())
		require.Equal(t, []string{"0:1", "5:1", "10:1"}, b.positions())
		<-time.After(5 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"0:2", "5:2", "10:2", "11:1", "15:1"}, c.positions())
		b.give()
		c.give()
	})
	inBubble(t, "release counts once", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		a.give()
		a.give()
		require.True(t, b.has())
		require.False(t, c.has())
		b.give()
		c.give()
		require.Equal(t, 1, free(s))
	})
	inBubble(t, "a canceled waiter leaves the queue at once", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		b.leave(context.Canceled)
		require.ErrorIs(t, b.ended(), context.Canceled)
		require.Equal(t, []string{"0:2", "0:1"}, c.positions())
		again := ask(s, "b")
		require.Equal(t, []string{"0:2"}, again.positions(), "at the end of the queue")
		a.give()
		c.give()
		again.give()
	})
	inBubble(t, "an ended context gets no slot", func(t *testing.T) {
		s := NewFairSemaphore(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Acquire(ctx, "a", false, func(int) {})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, free(s))
		require.Zero(t, queued(s))
	})
	inBubble(t, "at least one slot", func(t *testing.T) {
		release, err := NewFairSemaphore(0).Acquire(t.Context(), "a", false, func(int) {})
		require.NoError(t, err)
		release()
	})
}

func TestFairSemaphoreKeepsThePosition(t *testing.T) {
	inBubble(t, "the position is kept", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c, d := ask(s, "a"), ask(s, "b"), ask(s, "c"), ask(s, "d")
		c.leave(ErrWillRetry)
		require.ErrorIs(t, c.ended(), ErrWillRetry)
		require.Equal(t, []string{"0:3"}, d.positions(), "nothing changed for the waiters behind it")
		<-time.After(keepPositionFor - time.Second)
		back := ask(s, "c")
		require.Equal(t, []string{"0:2"}, back.positions())
		// The kept position would have expired now; the waiter that came back stays.
		<-time.After(keepPositionFor)
		a.give()
		b.give()
		require.True(t, back.has())
		require.False(t, d.has())
		back.give()
		d.give()
	})
	inBubble(t, "for a minute", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		b.leave(ErrWillRetry)
		<-time.After(keepPositionFor + time.Second)
		synctest.Wait()
		require.Equal(t, "60:1", c.positions()[len(c.positions())-1])
		back := ask(s, "b")
		require.Equal(t, []string{"0:2"}, back.positions(), "at the end of the queue")
		a.give()
		c.give()
		back.give()
	})
	inBubble(t, "it does not block others, and is first when it is back", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c, d := ask(s, "a"), ask(s, "b"), ask(s, "c"), ask(s, "d")
		b.leave(ErrWillRetry)
		a.give()
		require.True(t, c.has(), "a slot was idle for an absent waiter")
		back := ask(s, "b")
		require.Equal(t, []string{"0:1"}, back.positions())
		c.give()
		require.True(t, back.has())
		back.give()
		require.True(t, d.has())
		d.give()
	})
	inBubble(t, "only for its own key", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		b.leave(ErrWillRetry)
		d := ask(s, "d")
		require.Equal(t, []string{"0:3"}, d.positions())
		// A second Acquire of a waiting key does not take the first one's position.
		second := ask(s, "c")
		require.Equal(t, []string{"0:4"}, second.positions())
		for _, next := range []*client{a, c, d, second} {
			next.give()
		}
	})
	inBubble(t, "a slot granted to a waiter that leaves goes to the next", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		b.cancel(ErrWillRetry)
		a.release() // at once: b may have been granted the slot before it sees its end
		synctest.Wait()
		require.ErrorIs(t, b.ended(), ErrWillRetry)
		require.True(t, c.has())
		back := ask(s, "b")
		require.Equal(t, []string{"0:1"}, back.positions())
		c.give()
		back.give()
		require.Equal(t, 1, free(s))
		require.Zero(t, queued(s))
	})
}

// With many random clients no more than n have a slot, and in the end no slot is lost.
func TestFairSemaphoreUnderLoad(t *testing.T) {
	const n = 3
	s := NewFairSemaphore(n)
	var mu sync.Mutex
	running, most := 0, 0
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithCancelCause(context.Background())
				if (i+j)%3 == 0 {
					go cancel([]error{ErrWillRetry, context.Canceled}[j%2])
				}
				release, err := s.Acquire(ctx, fmt.Sprint(i), false, func(int) {})
				if err == nil {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					runtime.Gosched()
					mu.Lock()
					running--
					mu.Unlock()
					release()
				}
				cancel(nil)
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, most, n)
	require.Equal(t, n, free(s))
	for _, p := range s.places {
		require.NotNil(t, p.away, "a waiter is still in the queue")
		p.away.Stop()
	}
}

// A clean keeps its slot between its steps, also while others wait; a slot that nothing takes
// up becomes free.
func TestFairSemaphoreKeepsASlotBetweenSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewFairSemaphore(1)
		first := ask(s, "a")
		require.True(t, first.has())
		waits := ask(s, "b")
		s.Keep("a")
		first.release()
		first.release()
		synctest.Wait()
		require.False(t, waits.has(), "the slot stays the clean's")
		second := goOn(s, "a")
		require.True(t, second.has(), "the next step does not wait")
		<-time.After(2 * keepSlotFor)
		synctest.Wait()
		require.False(t, waits.has(), "no timer of the first step frees it")
		s.Keep("a")
		second.release()
		<-time.After(keepSlotFor - time.Second)
		synctest.Wait()
		require.False(t, waits.has())
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.True(t, waits.has(), "the clean went no further")
		third := goOn(s, "a")
		require.False(t, third.has(), "it waits in line again")
		waits.release()
		synctest.Wait()
		require.True(t, third.has())
		third.release()
		last := ask(s, "c")
		require.True(t, last.has(), "the last step gives the slot back")
		last.release()
		require.Equal(t, 1, free(s))
		require.Empty(t, s.places)
	})
}

// A clean's wait lasts over its attempts, and a slot that it keeps is no wait.
func TestTheWaitForASlotIsMeasuredOverAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewFairSemaphore(1)
		var waits []time.Duration
		s.OnGrant = func(waited time.Duration) { waits = append(waits, waited) }
		first := ask(s, "a")
		second := ask(s, "b")
		used, queued := s.Load()
		require.Equal(t, [2]int{1, 1}, [2]int{used, queued})
		<-time.After(30 * time.Second)
		second.cancel(ErrWillRetry)
		synctest.Wait()
		<-time.After(10 * time.Second)
		second = ask(s, "b")
		<-time.After(20 * time.Second)
		first.release()
		synctest.Wait()
		require.True(t, second.has())
		s.Keep("b")
		second.release()
		require.True(t, goOn(s, "b").has())
		require.Equal(t, []time.Duration{0, time.Minute}, waits)
	})
}

// A clean that had a slot goes on before another one begins, in the order of those that had
// one; it does not drive out a clean that has its slot.
func TestCleansThatHadASlotGoOnFirst(t *testing.T) {
	inBubble(t, "in the queue", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		x := goOn(s, "x")
		y := goOn(s, "y")
		require.Equal(t, []string{"0:1"}, x.positions())
		require.Equal(t, []string{"0:2"}, y.positions())
		require.Equal(t, []string{"0:1", "0:2", "0:3"}, b.positions())
		for _, next := range []*client{a, x, y, b, c} {
			require.True(t, next.has(), next.key)
			next.give()
		}
		require.Equal(t, 1, free(s))
		require.Zero(t, queued(s))
	})
	inBubble(t, "a position that was kept before the clean had its slot", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b, c := ask(s, "a"), ask(s, "b"), ask(s, "c")
		c.leave(ErrWillRetry)
		c = goOn(s, "c")
		require.Equal(t, []string{"0:1"}, c.positions())
		c.leave(ErrWillRetry)
		x := goOn(s, "x")
		c = goOn(s, "c")
		require.Equal(t, []string{"0:1"}, c.positions(), "it keeps its position among those that have begun")
		c.leave(ErrWillRetry)
		c = ask(s, "c")
		require.Equal(t, []string{"0:3"}, c.positions(), "a new clean of the device begins like any other")
		for _, next := range []*client{a, x, b, c} {
			require.True(t, next.has(), next.key)
			next.give()
		}
		require.Equal(t, 1, free(s))
		require.Zero(t, queued(s))
	})
	inBubble(t, "when a worker starts", func(t *testing.T) {
		s := NewFairSemaphore(2)
		s.Expect("x", "y", "z", "x")
		a, b := ask(s, "a"), ask(s, "b")
		require.False(t, a.has() || b.has(), "they begin before the cleans that had the slots")
		y, z := goOn(s, "y"), goOn(s, "z")
		require.True(t, y.has())
		require.Equal(t, []string{"0:1"}, z.positions(), "there is no third slot, but it is first")
		<-time.After(keepSlotFor + time.Second) // x does not come back
		synctest.Wait()
		require.True(t, z.has())
		for _, next := range []*client{y, z, a, b} {
			require.True(t, next.has(), next.key)
			next.give()
		}
		require.Equal(t, 2, free(s))
	})
}

// A slot that is kept for a clean becomes free at once when the clean has ended, or when a new
// clean of its device begins: that one waits like any other.
func TestAKeptSlotEndsWithItsClean(t *testing.T) {
	inBubble(t, "dropped", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b := ask(s, "a"), ask(s, "b")
		s.Keep("a")
		a.give()
		s.Drop("b") // has none
		require.False(t, b.has())
		s.Drop("a")
		synctest.Wait()
		require.True(t, b.has())
		s.Drop("a")
		s.Drop("b") // in use, and not kept
		b.give()
		<-time.After(2 * keepSlotFor)
		require.Equal(t, 1, free(s))
	})
	inBubble(t, "dropped before its step gave it back", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b := ask(s, "a"), ask(s, "b")
		s.Keep("a")
		s.Drop("a")
		require.False(t, b.has())
		a.give()
		synctest.Wait()
		require.True(t, b.has())
		b.give()
		require.Equal(t, 1, free(s))
	})
	inBubble(t, "a new clean", func(t *testing.T) {
		s := NewFairSemaphore(1)
		a, b := ask(s, "a"), ask(s, "b")
		s.Keep("a")
		a.give()
		a = ask(s, "a")
		require.True(t, b.has())
		require.Equal(t, []string{"0:1"}, a.positions())
		b.give()
		require.True(t, a.has())
		a.give()
		require.Equal(t, 1, free(s))
	})
	inBubble(t, "kept twice", func(t *testing.T) { // the old hardware's attempt still runs
		s := NewFairSemaphore(2)
		a, other := ask(s, "a"), ask(s, "a")
		s.Keep("a")
		a.give()
		s.Keep("a")
		other.give()
		require.Equal(t, 1, free(s))
		<-time.After(2 * keepSlotFor)
		synctest.Wait()
		require.Equal(t, 2, free(s))
	})
}

// free and queued read the semaphore beside its timers.
func free(s *FairSemaphore) int {
	used, _ := s.Load()
	return s.slots - used
}

func queued(s *FairSemaphore) int {
	_, waiting := s.Load()
	return waiting
}
