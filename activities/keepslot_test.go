package activities_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// stepOf is one step of a device's clean; more: its next one runs on the host too.
func (s *testHost) stepOf(name, step string, seq int64, more bool) contract.StepInput {
	in := s.inputFor(name, step)
	in.Seq, in.More = seq, more
	return in
}

// cleaned runs a clean of zero and verify as a device's workflow does: what waits for a slot is
// tried again at once, and the next step follows a moment later.
func (s *testHost) cleaned(t *testing.T, name string) error {
	for i, step := range []string{"zero", "verify"} {
		server, asked := first(t), time.Now()
		_, err := s.run(server, s.stepOf(name, step, int64(i+1), step == "zero"))
		for attempt := int32(2); err != nil; attempt++ {
			if refusal, _ := contract.RefusalOf(err); refusal.Fault.Code != device.CodeWaitingForSlot {
				return err
			}
			last := server.last()
			server = again(t, attempt)
			server.lastProgress, server.scheduled = &last, asked
			_, err = s.run(server, s.stepOf(name, step, int64(i+1), step == "zero"))
		}
		if step == "zero" {
			<-time.After(100 * time.Millisecond) // the workflow schedules the next one
		}
	}
	return nil
}

// Of eight drives on a host with four slots the first four are erased, verified and returned
// before another one begins: a clean keeps its slot between its steps, and no verify waits until
// all drives are zeroed.
//
// S2.65
func TestTheFirstDrivesReturnBeforeOthersBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const drives, slots = 8, 4
		s := newTestHost(t)
		s.hardware.Slots = host.NewSlots(slots)
		var mu sync.Mutex
		zeroed, returned := map[string]time.Time{}, map[string]time.Time{}
		var order []string // of those that returned
		var group sync.WaitGroup
		for i := range drives {
			name := fmt.Sprint("d", i+1)
			disk := s.disk
			if i > 0 {
				disk = s.add(name, fmt.Sprint("S", i+1))
			}
			disk.takes = time.Duration(i+1) * time.Second // a chunk
			disk.intercept(func(call string, _ int64, _ context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				if _, begun := zeroed[name]; call == "open" && !begun {
					zeroed[name] = time.Now()
				}
				return nil
			})
			group.Go(func() {
				if err := s.cleaned(t, name); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				returned[name], order = time.Now(), append(order, name)
			})
			synctest.Wait() // they ask in this order
		}
		group.Wait()
		require.Equal(t, []string{"d1", "d2", "d3", "d4"}, order[:slots])
		for i := range slots {
			name, next := fmt.Sprint("d", i+1), fmt.Sprint("d", i+1+slots)
			// Three chunks, and the moment between the steps; nothing waits for a slot.
			require.Equal(t, 3*time.Duration(i+1)*time.Second+100*time.Millisecond, returned[name].Sub(zeroed[name]), name)
			require.Equal(t, returned[name], zeroed[next], "%s begins when the verify of %s has ended", next, name)
		}
	})
}

// A clean that fails, is aborted, or cannot be tried again at once keeps no slot from others.
func TestAFailingCleanDoesNotKeepItsSlot(t *testing.T) {
	// begins starts a clean of another device, which waits if there is no slot.
	begins := func(t *testing.T, s *testHost) *running {
		r := s.start(first(t), s.inputFor("d2", "zero"))
		synctest.Wait()
		return r
	}
	requireFree := func(t *testing.T, s *testHost, other *running) {
		began := time.Now()
		_, err := other.wait(t)
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Second, "it waited until the slot was no longer kept")
		synctest.Wait() // a step answers before it gives its slot back
		used, queued := s.hardware.Slots.Load()
		require.Zero(t, used+queued)
	}
	oneSlot := func(t *testing.T) *testHost {
		s := newTestHost(t)
		s.add("d2", "S2")
		s.hardware.Slots = host.NewSlots(1)
		return s
	}
	for name, fail := range map[string]func(s *testHost) contract.StepInput{
		"a step that fails for good": func(s *testHost) contract.StepInput {
			in := s.stepOf("d1", "zero", 1, true)
			in.Identity.Serial = "ANOTHER"
			return in
		},
		"a step that fails and is tried again later": func(s *testHost) contract.StepInput {
			s.disk.intercept(func(call string, offset int64, _ context.Context) error {
				if call == "zero" && offset > 0 {
					return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "for a while"}
				}
				return nil
			})
			return s.stepOf("d1", "zero", 1, true)
		},
		"the next step, before it asks for its slot": func(s *testHost) contract.StepInput {
			_, err := s.run(first(s.t), s.stepOf("d1", "zero", 1, true))
			require.NoError(s.t, err)
			in := s.stepOf("d1", "verify", 2, true)
			in.Version = 99
			return in
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := oneSlot(t)
			_, err := s.run(first(t), fail(s))
			require.Error(t, err)
			requireFree(t, s, begins(t, s))
		})
	}
	inBubble(t, "aborted while its next step waits for the device", func(t *testing.T) {
		s := oneSlot(t)
		_, err := s.run(first(t), s.stepOf("d1", "zero", 1, true))
		require.NoError(t, err)
		fence, err := s.host.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		server := first(t)
		verify := s.start(server, s.stepOf("d1", "verify", 2, false))
		verify.waitUntilWaiting(t, "waiting for the device's last I/O")
		other := begins(t, s)
		require.False(t, other.over(), "the slot was not kept")
		server.end(temporal.NewCanceledError())
		_, err = verify.wait(t)
		require.Error(t, err)
		requireFree(t, s, other)
		require.NoError(t, fence.Close())
	})
	inBubble(t, "the next step waits for something else, which may need the slot", func(t *testing.T) {
		s := oneSlot(t)
		_, err := s.run(first(t), s.stepOf("d1", "zero", 1, true))
		require.NoError(t, err)
		fence, err := s.host.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		verify := s.start(first(t), s.stepOf("d1", "verify", 2, false))
		s.disks.disks["d2"].takes = time.Minute
		pass(5 * time.Second)
		other := begins(t, s)
		pass(26 * time.Second)
		require.Positive(t, s.disks.disks["d2"].opened(), "nothing works, and a slot is kept")
		require.NoError(t, fence.Close())
		verify.waitUntilWaiting(t, "queued for a slot (1st in line)")
		_, err = verify.wait(t)
		requireRetriedNow(t, err, device.CodeWaitingForSlot)
		_, err = other.wait(t)
		require.NoError(t, err)
	})
}

// After a restart of the worker those cleans go on first that had a slot when it ended, by
// kill -9 too; the others begin when these have ended, or do not come back.
func TestCleansThatHadASlotGoOnFirst(t *testing.T) {
	restart := func(t *testing.T, s *testHost) {
		s.hardware.Slots = host.NewSlots(1)
		require.NoError(t, activities.ExpectSlots(s.host, s.hardware.Slots))
	}
	for name, end := range map[string]func(t *testing.T, s *testHost){
		"stopped": func(t *testing.T, s *testHost) { stopAtOffset(t, s, first(t), s.stepOf("d1", "zero", 1, true), 0) },
		"killed":  func(t *testing.T, s *testHost) { crashAtOffset(t, s, first(t), s.stepOf("d1", "zero", 1, true), 0) },
		"between two steps": func(t *testing.T, s *testHost) {
			_, err := s.run(first(t), s.stepOf("d1", "zero", 1, true))
			require.NoError(t, err)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			s.add("d2", "S2")
			end(t, s)
			restart(t, s)
			other := s.start(first(t), s.inputFor("d2", "zero"))
			other.waitUntilWaiting(t, "queued for a slot (1st in line)")
			_, err := s.run(again(t, 2), s.stepOf("d1", "zero", 1, true))
			require.NoError(t, err)
			_, err = s.run(first(t), s.stepOf("d1", "verify", 2, false))
			require.NoError(t, err)
			require.False(t, other.over() && other.err != nil, "it did not begin: %v", other.err)
			_, err = other.wait(t)
			require.NoError(t, err)
		})
	}
	for name, end := range map[string]func(t *testing.T, s *testHost){
		"a clean that has ended": func(t *testing.T, s *testHost) {
			_, err := s.run(first(t), s.stepOf("d1", "zero", 1, false))
			require.NoError(t, err)
		},
		"a clean that failed": func(t *testing.T, s *testHost) {
			_, err := s.run(first(t), s.stepOf("d1", "verify", 1, true))
			require.Error(t, err)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			s.add("d2", "S2")
			end(t, s)
			restart(t, s)
			began := time.Now()
			_, err := s.run(first(t), s.inputFor("d2", "zero"))
			require.NoError(t, err)
			require.Less(t, time.Since(began), time.Second)
		})
	}
	inBubble(t, "in the queue", func(t *testing.T) {
		s := newTestHost(t)
		s.add("d2", "S2")
		s.add("d4", "S4")
		_, err := s.run(first(t), s.stepOf("d1", "zero", 1, false)) // a hold follows: it keeps no slot
		require.NoError(t, err)
		release := s.oneSlot(t)
		other := s.start(first(t), s.inputFor("d2", "zero"))
		other.waitUntilWaiting(t, "queued for a slot (1st in line)")
		verify := s.start(first(t), s.stepOf("d1", "verify", 2, false))
		verify.waitUntilWaiting(t, "queued for a slot (1st in line)")
		other.waitUntilWaiting(t, "queued for a slot (2nd in line)")
		fresh := s.stepOf("d2", "zero", 2, false)
		fresh.Clean = "run/2"
		release()
		_, err = verify.wait(t)
		require.NoError(t, err)
		_, err = other.wait(t)
		require.NoError(t, err)
		// A new clean of a device is not the one that had a slot.
		release = s.takeSlot(t)
		waits := s.start(first(t), s.inputFor("d4", "zero"))
		waits.waitUntilWaiting(t, "queued for a slot (1st in line)")
		next := s.start(first(t), fresh)
		next.waitUntilWaiting(t, "queued for a slot (2nd in line)")
		release()
		_, err = waits.wait(t)
		require.NoError(t, err)
		_, err = next.wait(t)
		require.NoError(t, err)
	})
}
