package host

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// client is one Acquire of a test.
type client struct {
	cancel  func()
	mu      sync.Mutex
	reports []int // positions
	release func(keep bool)
	err     error
}

// acquires starts an Acquire and returns when it waits or has ended.
func acquires(s *Slots, c Claim) *client {
	ctx, cancel := context.WithCancel(context.Background())
	client := &client{cancel: cancel}
	go func() {
		release, err := s.Acquire(ctx, c, func(place int) {
			client.mu.Lock()
			defer client.mu.Unlock()
			client.reports = append(client.reports, place)
		})
		client.mu.Lock()
		defer client.mu.Unlock()
		client.release, client.err = release, err
	}()
	synctest.Wait()
	return client
}

func (c *client) has() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release != nil
}

// play plays a script on n slots, a line each:
//
//	ask a b, go a  Acquire of cleans that begin, that had a slot; a2=a is another one of a
//	give, keep     the slot back, or kept for the next step
//	leave          the queue: who asks again has the same place
//	drop, expect
//	wait 5s
//	has a, lacks a a slot
//	places a 2 1   all positions that were reported to it
//	free 1         slots
func play(t *testing.T, n int, script string) {
	s := NewSlots(n)
	clients, asked := map[string]*client{}, map[string]time.Time{}
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		op, args := words[0], words[1:]
		if op == "places" {
			require.Equal(t, strings.Join(args[1:], " "), strings.Trim(fmt.Sprint(clients[args[0]].reports), "[]"), line)
			continue
		}
		for _, arg := range args {
			name, key, another := strings.Cut(arg, "=")
			if !another {
				key = name
			}
			switch op {
			case "ask", "go":
				if asked[name].IsZero() {
					<-time.After(time.Second)
					asked[name] = time.Now()
				}
				clients[name] = acquires(s, Claim{Key: key, Begun: op == "go", Asked: asked[name]})
			case "give", "keep":
				clients[name].release(op == "keep")
				delete(asked, name)
			case "leave":
				clients[name].cancel()
				synctest.Wait()
				require.ErrorIs(t, clients[name].err, context.Canceled, line)
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
	_, queued := s.Load()
	require.Zero(t, queued, "a waiter is left")
}

// First come, first served, but a clean that has begun goes on before another one begins; it does not
// drive out a clean that has its slot.
//
// S2.65
func TestSlotsAreServedInOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		slots  int
		script string
	}{
		"no more than n at once, in order": {2, `
			ask a b c d
			has a b
			places a
			lacks c d
			give b
			has c
			lacks d
			give a c d`},
		"positions are reported at once and on each change": {1, `
			ask a b c
			wait 11s
			places c 2
			give a
			places c 2 1
			places b 1
			give b c`},
		"a release counts once": {1, `
			ask a b c
			give a
			give a
			has b
			lacks c
			give b c`},
		"who asks again has the same place": {1, `
			ask a b c d
			leave b
			places c 2 1
			wait 5m
			ask b
			places b 1
			places c 2 1 2
			leave c
			give a
			has b
			ask c
			places c 1
			give b c d`},
		"a clean keeps its slot between its steps": {1, `
			ask a b
			keep a
			keep a
			lacks b
			go a
			has a
			wait 60s
			lacks b
			keep a
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
			places x 1
			places y 2
			places b 1 2 3
			give a x y b c`},
		"also when a worker starts": {2, `
			expect x y z x
			ask a b
			lacks a b
			go y z
			has y
			places z 1
			wait 31s
			has z
			give y z a b`},
		"a kept slot is dropped with its clean": {1, `
			ask a b
			keep a
			drop b
			lacks b
			drop a
			has b
			drop a b
			give b
			free 1`},
		"a new clean of the device waits like any other": {1, `
			ask a b
			keep a
			ask a
			has b
			places a 1
			give b a`},
		"one slot is enough, also where the old hardware's attempt still runs": {2, `
			ask a a2=a
			keep a a2
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
	s := NewSlots(0) // which makes one
	_, err := s.Acquire(ctx, Claim{Key: "a"}, func(int) {})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, free(s))
}

// A slot that is granted to a waiter that leaves goes to the next.
func TestASlotIsGrantedToWhoIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		a, b, c := acquires(s, Claim{Key: "a"}), acquires(s, Claim{Key: "b"}), acquires(s, Claim{Key: "c"})
		b.cancel()
		a.release(false) // at once: b may have been granted the slot before it sees its end
		synctest.Wait()
		require.ErrorIs(t, b.err, context.Canceled)
		require.True(t, c.has())
		c.release(false)
		require.Equal(t, 1, free(s))
	})
}

// With many random clients no more than n have a slot, and in the end no slot is lost.
func TestSlotsUnderLoad(t *testing.T) {
	const n = 3
	s := NewSlots(n)
	var mu sync.Mutex
	running, most := 0, 0
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+j)%3 == 0 {
					go cancel()
				}
				release, err := s.Acquire(ctx, Claim{Key: fmt.Sprint(i), Begun: j%2 == 0}, func(int) {})
				if err == nil {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					runtime.Gosched()
					mu.Lock()
					running--
					mu.Unlock()
					release(j%4 == 0)
				}
				cancel()
			}
			s.Drop(fmt.Sprint(i))
		})
	}
	group.Wait()
	require.LessOrEqual(t, most, n)
	require.Equal(t, n, free(s))
}

// A clean's wait lasts over its attempts, and a slot that it keeps is no wait.
func TestTheWaitForASlotIsMeasuredOverAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		var waits []time.Duration
		s.OnGrant = func(waited time.Duration) { waits = append(waits, waited) }
		first := acquires(s, Claim{Key: "a"})
		second := acquires(s, Claim{Key: "b", Waited: 40 * time.Second})
		used, queued := s.Load()
		require.Equal(t, [2]int{1, 1}, [2]int{used, queued})
		<-time.After(20 * time.Second)
		first.release(false)
		synctest.Wait()
		second.release(true)
		require.True(t, acquires(s, Claim{Key: "b", Begun: true}).has())
		require.Equal(t, []time.Duration{0, time.Minute}, waits)
	})
}

func free(s *Slots) int {
	used, _ := s.Load()
	return s.all - used
}
