package activities_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// grace is how much longer than its budget an attempt may take to answer.
const grace = 5 * time.Second

// F8, S2.94
func TestBudgetIsRunningTime(t *testing.T) {
	t.Parallel()
	inBubble(t, "an attempt ends itself", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		in := s.input("zero")
		in.Budget = 25 * time.Second
		r := s.start(first(t), in)
		_, err := r.wait(t)
		refusal := requireFault(t, err, device.CodeTimeout, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
		require.Equal(t, "d1", refusal.Device)
		require.Equal(t, 25*time.Second, r.took)
		e := s.entry()
		require.EqualValues(t, 2*steps.Chunk, e.Offset)
		require.Equal(t, 25*time.Second, e.RunTime)
		require.False(t, e.Working, "this was not a crash")
		require.NoError(t, freed(s, "S1"))
	})
	inBubble(t, "run time adds up over attempts, without the time between them", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		in := s.input("zero")
		in.Budget = 25 * time.Second
		stopAtOffset(t, s, first(t), in, 0)
		require.Equal(t, 10*time.Second, s.entry().RunTime)
		pass(time.Hour)
		stopAtOffset(t, s, again(t, 2), in, steps.Chunk)
		require.Equal(t, 20*time.Second, s.entry().RunTime)
		pass(time.Hour)
		r := s.start(again(t, 3), in)
		_, err := r.wait(t)
		requireFault(t, err, device.CodeTimeout, false)
		require.Equal(t, 5*time.Second, r.took)
		require.Equal(t, 25*time.Second, s.entry().RunTime)
	})
	inBubble(t, "after a crash the journaled run time counts", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		crashAtOffset(t, s, first(t), s.input("zero"), steps.Chunk)
		result, err := s.run(again(t, 2), s.input("zero"))
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, result.RunTime)
	})
	inBubble(t, "after its host was unreachable, a step continues with the remaining budget", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		stopAtOffset(t, s, first(t), s.input("zero"), steps.Chunk)
		in := s.input("zero")
		in.Seq, in.Budget = 2, 25*time.Second
		r := s.start(first(t), in)
		_, err := r.wait(t)
		requireFault(t, err, device.CodeTimeout, false)
		require.Equal(t, 5*time.Second, r.took)
	})
	for _, budget := range []time.Duration{0, 20 * time.Second} {
		inBubble(t, "nothing left: "+budget.String(), func(t *testing.T) {
			s := newTestHost(t)
			s.disk.takes = 10 * time.Second
			stopAtOffset(t, s, first(t), s.input("zero"), steps.Chunk)
			opened := s.disk.opened()
			in := s.input("zero")
			in.Budget = budget
			r := s.start(again(t, 2), in)
			_, err := r.wait(t)
			requireFault(t, err, device.CodeTimeout, false)
			require.Zero(t, r.took)
			require.Equal(t, opened, s.disk.opened(), "the device was touched")
			require.NoError(t, freed(s, "S1"))
		})
	}
}

// F8
func TestStepThatIsPlannedAgainHasItsWholeBudget(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero was done, then verify was outdated", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		// The workflow has subtracted the reported 30 s from the clean's budget.
		in := s.input("zero")
		in.Seq, in.Budget = 3, 25*time.Second
		_, err = s.run(first(t), in)
		require.NoError(t, err)
	})
}

// F8
func TestWaitingCostsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, "for the device", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		held, err := s.host.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		in := s.input("zero")
		in.Budget = 31 * time.Second
		r := s.start(first(t), in)
		pass(5 * time.Minute)
		require.False(t, r.over())
		require.NoError(t, held.Close())
		result, err := r.wait(t)
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, result.RunTime)
	})
}

// hangsAt makes the disk's I/O at an offset hang, even if its context ends, until the
// returned function is called.
func hangsAt(t *testing.T, s *testHost, offset int64) (back func()) {
	returns := make(chan struct{})
	back = sync.OnceFunc(func() { close(returns) })
	t.Cleanup(back) // a test that failed must not hang as well
	var hung bool
	s.disk.intercept(func(call string, at int64, _ context.Context) error {
		if call == "zero" && at == offset && !hung {
			hung = true
			<-returns
		}
		return s.fenced("S1")
	})
	return back
}

// F1, D1
func TestHangKeepsTheFenceUntilTheLastIOReturns(t *testing.T) {
	t.Parallel()
	inBubble(t, "past the budget", func(t *testing.T) {
		s := newTestHost(t)
		back := hangsAt(t, s, steps.Chunk)
		in := s.input("zero")
		in.Budget = time.Minute
		r := s.start(first(t), in)
		_, err := r.wait(t)
		requireFault(t, err, device.CodeTimeout, false)
		require.Equal(t, in.Budget+grace, r.took)
		require.NoError(t, s.fenced("S1"), "the hardware may still work")

		// The next clean waits for it.
		in.Clean, in.Number, in.Seq = "run/2", 2, 2
		next := s.start(first(t), in)
		next.waitUntilWaiting(t, "waiting for the device's last I/O to end: this worker")
		require.Contains(t, next.last().Waiting, "zero of d1")
		pass(5 * time.Minute) // the SDK's environment ends every attempt after ten
		require.False(t, next.over())
		require.Equal(t, 1, s.disk.opened(), "the device was opened while the first attempt uses it")
		calls := s.disk.history()
		back()
		result, err := next.wait(t)
		require.NoError(t, err)
		require.Less(t, result.RunTime, in.Budget, "the wait counted as run time")
		require.Equal(t, 1, s.disk.mostHandles)
		require.Equal(t, 1, s.disk.mostWriters)
		after := s.disk.history()[len(calls):]
		require.NotContains(t, after[:slices.Index(after, "close")], "zero 128", "it wrote after its budget was spent")
		require.EqualValues(t, 2, s.entry().Seq)
		require.EqualValues(t, diskSize, s.disk.durableUpTo())
		require.NoError(t, freed(s, "S1"))
	})
	inBubble(t, "the I/O returns within the grace", func(t *testing.T) {
		s := newTestHost(t)
		back := hangsAt(t, s, steps.Chunk)
		in := s.input("zero")
		in.Budget = time.Minute
		r := s.start(first(t), in)
		pass(in.Budget + grace - time.Second)
		require.False(t, r.over())
		back()
		_, err := r.wait(t)
		requireFault(t, err, device.CodeTimeout, false)
		require.Equal(t, in.Budget+grace-time.Second, r.took)
		require.False(t, s.entry().Working)
	})
	inBubble(t, "the slot is held until then, too", func(t *testing.T) {
		s := newTestHost(t)
		s.hardware.Slots = host.NewSlots(1)
		s.add("d2", "S2")
		back := hangsAt(t, s, 0)
		in := s.input("zero")
		in.Budget = time.Minute
		_, err := s.run(first(t), in)
		requireFault(t, err, device.CodeTimeout, false)
		other := s.start(first(t), s.inputFor("d2", "zero"))
		other.waitUntilWaiting(t, "queued for a slot (1st in line)")
		back()
		_, err = other.wait(t)
		require.NoError(t, err)
		require.Less(t, other.took, time.Second, "the slot was kept for a clean that has failed")
		require.False(t, s.entry().Slot, "a worker that starts again would keep it")
	})
	inBubble(t, "a hang that lost contact is not a crash", func(t *testing.T) {
		s := newTestHost(t)
		back := hangsAt(t, s, steps.Chunk)
		server, in := first(t), s.input("zero")
		in.Budget, in.Settings.OnInterrupt = time.Minute, device.InterruptError
		r := s.start(server, in)
		pass(time.Second)
		server.end(serviceerror.NewNotFound("the attempt timed out"))
		next := s.start(again(t, 2), in)
		_, err := r.wait(t)
		requireRetriedNow(t, err, device.CodeServerUnreachable)
		require.False(t, next.over())
		back()
		_, err = next.wait(t)
		requireNotInterrupted(t, err)
	})
}

// requireNotInterrupted requires that no crash was reported. The attempt may have spent
// its budget.
func requireNotInterrupted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		requireFault(t, err, device.CodeTimeout, false)
	}
}

// RunStep plays a program that takes as long as the disk, and asks every second whether
// it may go on.
func (h *diskHandle) RunStep(ctx context.Context, run hardware.StepRun) (string, error) {
	if err := run.MayGoOn(); err != nil {
		return "", err
	}
	if run.Step == "firmware_reflash" {
		if err := run.Reflash("2.0"); err != nil {
			return "", err
		}
	}
	if err := h.disk.call(ctx, "perform "+run.Step, 0); err != nil {
		return "", err
	}
	for end := time.Now().Add(h.disk.takes); time.Now().Before(end); {
		select {
		case <-time.After(time.Second):
			if err := run.MayGoOn(); err != nil {
				return "", err
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return "by the program", nil
}

// programs is a host whose disk a program erases; of size 0, as a NIC's.
func programs(t *testing.T, size int64) (*testHost, contract.StepInput) {
	t.Helper()
	s := newTestHost(t)
	s.disk.identity.Size = size
	s.disk.takes = 20 * time.Second
	in := s.input("erase_device")
	in.Operation = device.Script
	return s, in
}

// A program's step ends as any other does. Where another step resumes, it starts over.
//
// F1, F2, F3, F9
func TestAProgramsStepEndsAsOthersDo(t *testing.T) {
	t.Parallel()
	inBubble(t, "done, without a size", func(t *testing.T) {
		s, in := programs(t, 0)
		server := first(t)
		result, err := s.run(server, in)
		require.NoError(t, err)
		require.Equal(t, "by the program", result.Note)
		require.Zero(t, result.Bytes)
		require.GreaterOrEqual(t, result.RunTime, 20*time.Second)
		require.True(t, s.entry().Done)
		_, err = s.run(again(t, 2), in)
		require.NoError(t, err)
		require.Equal(t, 1, performed(s), "a finished step is not repeated")
	})
	inBubble(t, "the worker stops", func(t *testing.T) {
		s, in := programs(t, diskSize)
		server := first(t)
		r := s.start(server, in)
		pass(5500 * time.Millisecond)
		close(server.stop)
		_, err := r.wait(t)
		requireRetriedNow(t, err, device.CodeWorkerStopping)
		require.Equal(t, 6*time.Second, r.took)
		require.False(t, s.entry().Working, "this was not a crash")
		result, err := s.run(again(t, 2), in)
		require.NoError(t, err)
		require.Zero(t, result.ReprocessedBytesMax)
		require.Equal(t, 2, performed(s))
	})
	inBubble(t, "an abort", func(t *testing.T) {
		s, in := programs(t, diskSize)
		server := first(t)
		r := s.start(server, in)
		pass(5500 * time.Millisecond)
		server.end(temporal.NewCanceledError())
		_, err := r.wait(t)
		require.True(t, temporal.IsCanceledError(err), "%v", err)
		require.NoError(t, freed(s, "S1"))
	})
	inBubble(t, "its budget is spent", func(t *testing.T) {
		s, in := programs(t, diskSize)
		in.Budget = 10 * time.Second
		_, err := s.run(first(t), in)
		requireFault(t, err, device.CodeTimeout, false)
	})
	inBubble(t, "a crash", func(t *testing.T) {
		s, in := programs(t, diskSize)
		var then host.Entry
		s.disk.intercept(func(call string, _ int64, _ context.Context) (err error) {
			if call == "perform erase_device" {
				then, _, err = s.host.Journal("d1").Load()
				if err == nil {
					err = &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "the worker is gone"}
				}
			}
			return err
		})
		_, err := s.run(first(t), in)
		require.Error(t, err)
		require.True(t, then.Working)
		require.NoError(t, s.host.Journal("d1").Save(then))
		s.disk.intercept(nil)
		result, err := s.run(again(t, 2), in)
		require.NoError(t, err)
		require.EqualValues(t, diskSize, result.ReprocessedBytesMax, "at most all of it was done twice")
		require.Equal(t, 2, performed(s))
	})
}

// performed counts the runs of the program.
func performed(s *testHost) (n int) {
	for _, call := range s.disk.history() {
		if call == "perform erase_device" {
			n++
		}
	}
	return n
}
