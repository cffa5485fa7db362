package host

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
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

// play plays a script on a semaphore of n slots, a line each:
//
//	ask a b, go a      Acquire of cleans that begin, that had a slot; a2=a is another one of a
//	give, leave, retry the slot back, the queue for good, the queue for a later attempt
//	keep, drop, expect
//	wait 5s
//	has a, lacks a     a slot
//	said a 0:2 5:1     all positions that it was told, at which second
//	free 1             slots
func play(t *testing.T, n int, script string) {
	s := NewFairSemaphore(n)
	clients := map[string]*client{}
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		op, args := words[0], words[1:]
		if op == "said" {
			require.Equal(t, args[1:], append([]string{}, clients[args[0]].positions()...), line)
			continue
		}
		for _, arg := range args {
			name, key, another := strings.Cut(arg, "=")
			if !another {
				key = name
			}
			switch op {
			case "ask", "go":
				clients[name] = acquires(s, key, op == "go")
			case "give":
				clients[name].give()
			case "leave", "retry":
				cause := map[string]error{"leave": context.Canceled, "retry": ErrWillRetry}[op]
				clients[name].leave(cause)
				require.ErrorIs(t, clients[name].ended(), cause, line)
			case "keep":
				s.Keep(key)
			case "drop":
				s.Drop(key)
			case "expect":
				s.Expect(key)
			case "wait":
				length, err := time.ParseDuration(arg)
				require.NoError(t, err)
				<-time.After(length)
			case "has", "lacks":
				require.Equal(t, op == "has", clients[name].has(), "%s: %s", line, name)
			case "free":
				require.Equal(t, arg, fmt.Sprint(free(s)), line)
			default:
				t.Fatalf("no such act: %s", line)
			}
			synctest.Wait()
		}
	}
	require.Equal(t, n, free(s), "a slot is lost")
	require.Zero(t, queued(s), "a waiter is left")
}

// First come, first served, but a clean that has begun goes on before another one begins; it does not
// drive out a clean that has its slot.
//
// S2.65
func TestFairSemaphoreServesInOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		slots  int
		script string
	}{
		"no more than n at once, in order": {2, `
			ask a b c d
			has a b
			said a
			lacks c d
			give b
			has c
			lacks d
			give a c d`},
		"positions are told at once, on each change and every five seconds": {1, `
			ask a b c
			wait 11s
			said c 0:2 5:2 10:2
			give a
			said c 0:2 5:2 10:2 11:1
			said b 0:1 5:1 10:1
			wait 5s
			said c 0:2 5:2 10:2 11:1 15:1
			give b c`},
		"a release counts once": {1, `
			ask a b c
			give a a
			has b
			lacks c
			give b c`},
		"who leaves loses the position": {1, `
			ask a b c
			leave b
			said c 0:2 0:1
			ask b
			said b 0:2
			give a c b`},
		"who retries keeps it for a minute": {1, `
			ask a b c d
			retry c
			said d 0:3
			wait 59s
			ask c
			give a b
			has c
			lacks d
			give c d`},
		"and no longer": {1, `
			ask a b c
			retry b
			wait 61s
			ask b
			said b 0:2
			give a c b`},
		"a kept position does not block others, and is first when it is back": {1, `
			ask a b c d
			retry b
			give a
			has c
			ask b
			said b 0:1
			give c
			has b
			give b d`},
		"only for its own key, and only one that left": {1, `
			ask a b c
			retry b
			ask d c2=c
			said d 0:3
			said c2 0:4
			wait 61s
			give a c d c2`},
		"a clean keeps its slot between its steps": {1, `
			ask a b
			keep a
			give a a
			lacks b
			go a
			has a
			wait 60s
			lacks b
			keep a
			give a
			wait 29s
			lacks b
			wait 2s
			has b
			go a
			lacks a
			give b a`},
		"what has begun goes on first": {1, `
			ask a b c
			go x y
			said x 0:1
			said y 0:2
			said b 0:1 0:2 0:3
			give a x y b c`},
		"also with a position that was kept before the clean had its slot": {1, `
			ask a b c
			retry c
			go c
			said c 0:1
			retry c
			go x c
			said c 0:1
			retry c
			ask c
			said c 0:3
			give a x b c`},
		"also when a worker starts": {2, `
			expect x y z x
			ask a b
			lacks a b
			go y z
			has y
			said z 0:1
			wait 31s
			has z
			give y z a b`},
		"a kept slot is dropped with its clean": {1, `
			ask a b
			keep a
			give a
			drop b
			lacks b
			drop a
			has b
			drop a b
			give b
			free 1`},
		"also before its step gave it back": {1, `
			ask a b
			keep a
			drop a
			lacks b
			give a
			has b
			give b`},
		"a new clean of the device waits like any other": {1, `
			ask a b
			keep a
			give a
			ask a
			has b
			said a 0:1
			give b a`},
		"one slot is enough, also where the old hardware's attempt still runs": {2, `
			ask a a2=a
			keep a
			give a
			keep a
			give a2
			free 1
			wait 60s
			free 2`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, tt.slots, tt.script) })
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := NewFairSemaphore(0) // which makes one
	_, err := s.Acquire(ctx, "a", false, func(int) {})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, free(s))
}

// A slot that is granted to a waiter that leaves goes to the next.
func TestFairSemaphoreGrantsToWhoIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// free and queued read the semaphore beside its timers.
func free(s *FairSemaphore) int {
	used, _ := s.Load()
	return s.slots - used
}

func queued(s *FairSemaphore) int {
	_, waiting := s.Load()
	return waiting
}
