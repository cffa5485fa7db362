package activities_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// zeroThenVerify is the input of zero, whose host may begin verify.
func (s *testHost) zeroThenVerify() contract.StepInput {
	in := s.input("zero")
	in.More = true
	in.Next = &contract.NextStep{Step: "verify", Version: 1}
	return in
}

// called counts the disk's calls of one kind.
func (s *testHost) called(kind string) int {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	n := 0
	for _, c := range s.disk.calls {
		if strings.HasPrefix(c, kind) {
			n++
		}
	}
	return n
}

// onRead is asked at each read of verify.
func (s *testHost) onRead(do func(offset int64, ctx context.Context) error) {
	s.disk.intercept(func(call string, offset int64, ctx context.Context) error {
		if call == "read" {
			return do(offset, ctx)
		}
		return nil
	})
}

// slowReads makes each read of verify take a while, which its context cuts short.
func slowReads(takes time.Duration) func(int64, context.Context) error {
	return func(_ int64, ctx context.Context) error {
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A step that only reads follows one that took a moment, in the same activity: as a step of its own,
// with its own number in the record. The journal stays that of the step before it (F37).
//
// F1, F2, F10
func TestAStepFollowsInTheActivity(t *testing.T) {
	t.Parallel()
	inBubble(t, "both are done", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		s.hardware.Confirm = func(context.Context, []byte, ...any) error { asked++; return nil }
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.Equal(t, "zero", result.Step)
		require.EqualValues(t, 1, result.Seq)
		require.NotNil(t, result.Next)
		require.NotNil(t, result.Next.Result)
		require.Equal(t, "verify", result.Next.Result.Step)
		require.EqualValues(t, 2, result.Next.Result.Seq)
		require.Equal(t, result.Clean, result.Next.Result.Clean)
		require.EqualValues(t, diskSize, result.Next.Result.Bytes)
		e := s.entry()
		require.True(t, e.Done && !e.Working && !e.Slot)
		require.Equal(t, "zero", e.Step)
		require.EqualValues(t, 1, e.Seq)
		record, _, err := s.host.LoadRecord("d1")
		require.NoError(t, err)
		require.EqualValues(t, 2, record.Seq)
		require.Equal(t, 1, asked, "the server's answer is about the activity")
		require.NoError(t, freed(s, "S1"))
	})
	// The step before takes a moment, so that its journal leaves the slot to the one that follows.
	short := map[string]bool{"a step that writes": true, "a step that is not known": true, "one of another version": true}
	for what, change := range map[string]func(*testHost, *contract.StepInput){
		"after a step that only reads":   func(_ *testHost, in *contract.StepInput) { in.Step = "verify" },
		"a step that writes":             func(_ *testHost, in *contract.StepInput) { in.Next.Step = "zero" },
		"a step that is not known":       func(_ *testHost, in *contract.StepInput) { in.Next.Step = "polish" },
		"one of another version":         func(_ *testHost, in *contract.StepInput) { in.Next.Version++ },
		"after more than a moment":       func(s *testHost, _ *contract.StepInput) { s.disk.takes = time.Second },
		"without a step that may follow": func(_ *testHost, in *contract.StepInput) { in.Next = nil },
		"where a crash is an operator's": func(_ *testHost, in *contract.StepInput) {
			in.Settings.OnInterrupt = device.InterruptError
		},
	} {
		inBubble(t, what, func(t *testing.T) {
			s := newTestHost(t)
			s.disk.durableBefore(diskSize)
			in := s.zeroThenVerify()
			change(s, &in)
			result, err := s.run(first(t), in)
			require.NoError(t, err)
			require.Nil(t, result.Next)
			require.Equal(t, in.Step, s.entry().Step)
			require.Equal(t, !short[what], s.entry().Slot, "that the clean has a slot outlives the worker")
		})
	}
}

// A step that does not end in a moment is handed back, and its own activity begins it again.
//
// F37, F8
func TestAStepThatFollowsForLongerIsHandedBack(t *testing.T) {
	t.Parallel()
	inBubble(t, "it begins again", func(t *testing.T) {
		s := newTestHost(t)
		s.onRead(slowReads(20 * time.Millisecond))
		began := time.Now()
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.Nil(t, result.Next)
		require.InDelta(t, time.Second, time.Since(began), float64(50*time.Millisecond))
		e := s.entry()
		require.Equal(t, "zero", e.Step)
		require.True(t, e.Done)

		var read []int64
		s.onRead(func(offset int64, _ context.Context) error { read = append(read, offset); return nil })
		in := s.input("verify")
		in.Seq = 3
		_, err = s.run(first(t), in)
		require.NoError(t, err)
		require.Zero(t, slices.Min(read))
	})
	inBubble(t, "a read that does not end keeps the device, not the activity", func(t *testing.T) {
		s := newTestHost(t)
		hangs := make(chan struct{})
		s.onRead(func(int64, context.Context) error { <-hangs; return nil })
		began := time.Now()
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.Nil(t, result.Next)
		require.Equal(t, 6*time.Second, time.Since(began))
		require.NoError(t, s.fenced("S1"))
		close(hangs)
		pass(time.Second)
		require.NoError(t, freed(s, "S1"))
	})
}

// What a step finds for good is reported from where it was found; all else is repeated by the
// step's own activity.
func TestAStepThatFollowsFails(t *testing.T) {
	t.Parallel()
	inBubble(t, "for good", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.dirtyByte = 3 * mib
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.NotNil(t, result.Next)
		require.Nil(t, result.Next.Result)
		require.Equal(t, device.CodeVerifyFailed, result.Next.Refusal.Fault.Code)
		require.NotNil(t, result.Next.Refusal.Progress)
		require.Equal(t, "verify", result.Next.Refusal.Progress.Step)
		require.NoError(t, freed(s, "S1"))
	})
	for what, cause := range map[string]func(*server) error{
		"transiently": func(*server) error {
			return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "not now"}
		},
		"its activity is canceled": func(at *server) error { at.end(context.Canceled); return context.Canceled },
		"the worker stops":         func(at *server) error { close(at.stop); return nil },
	} {
		inBubble(t, what, func(t *testing.T) {
			s, at, failed := newTestHost(t), first(t), false
			s.onRead(func(int64, context.Context) error {
				if failed {
					return nil
				}
				failed = true
				return cause(at)
			})
			result, err := s.run(at, s.zeroThenVerify())
			require.NoError(t, err, "zero is done")
			require.True(t, failed)
			require.Nil(t, result.Next)
			require.False(t, s.entry().Working)
		})
	}
}

// The worker is killed while one step follows another, or at its end: the next attempt of the activity
// reports the first from the journal, and repeats the second alone.
//
// F1, F2, F37
func TestAnAttemptAfterAKillInAStepThatFollows(t *testing.T) {
	t.Parallel()
	inBubble(t, "only the second is repeated", func(t *testing.T) {
		s := newTestHost(t)
		_, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		zeroed, read := s.called("zero"), s.called("read")
		result, err := s.run(again(t, 2), s.zeroThenVerify())
		require.NoError(t, err)
		require.Equal(t, "zero", result.Step)
		require.EqualValues(t, diskSize, result.Bytes)
		require.Equal(t, "verify", result.Next.Result.Step)
		require.Equal(t, zeroed, s.called("zero"))
		require.Greater(t, s.called("read"), read)
	})
}

// An attempt that was frozen between its steps leaves the device alone: nothing in the journal says that
// another has replaced it, and the device may have another user.
//
// F1, F32
func TestAFrozenAttemptDoesNotFollow(t *testing.T) {
	t.Parallel()
	inBubble(t, "after zero", func(t *testing.T) {
		s, asked := newTestHost(t), 0
		s.hardware.Confirm = func(context.Context, []byte, ...any) error {
			if asked++; asked > 1 {
				return serviceerror.NewNotFound("the attempt timed out")
			}
			return nil
		}
		frozen(s, 2*steps.Chunk, time.Minute)
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.Nil(t, result.Next)
		require.Equal(t, 2, asked)
		require.Equal(t, 1, s.disk.opened())
	})
}

// The step that follows has the budget that the clean has left.
//
// F8
func TestTheBudgetOfAStepThatFollows(t *testing.T) {
	in := contract.StepInput{Step: "zero", Seq: 4, Budget: time.Minute, More: true, ReportStart: true,
		Resume: &contract.Progress{},
		Next:   &contract.NextStep{Step: "verify", Version: 2}}
	require.Equal(t, contract.StepInput{Step: "verify", Version: 2, Seq: 5, Budget: 50 * time.Second},
		in.Following(10*time.Second))
	in.Next.Budget, in.Next.More = time.Hour, true
	require.Equal(t, contract.StepInput{Step: "verify", Version: 2, Seq: 5, Budget: time.Hour, More: true},
		in.Following(10*time.Second))
}
