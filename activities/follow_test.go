package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
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
// with its own number, entry in the journal and record.
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
		require.Equal(t, "verify", e.Step)
		require.EqualValues(t, 2, e.Seq)
		require.NotNil(t, e.Before)
		require.EqualValues(t, 1, e.Before.Seq)
		record, _, err := s.host.LoadRecord("d1")
		require.NoError(t, err)
		require.EqualValues(t, 2, record.Seq)
		require.Equal(t, 1, asked, "the server's answer is about the activity")
		require.NoError(t, freed(s, "S1"))
	})
	for what, change := range map[string]func(*testHost, *contract.StepInput){
		"after a step that only reads":   func(_ *testHost, in *contract.StepInput) { in.Step = "verify" },
		"a step that writes":             func(_ *testHost, in *contract.StepInput) { in.Next.Step = "zero" },
		"a step that is not known":       func(_ *testHost, in *contract.StepInput) { in.Next.Step = "polish" },
		"one of another version":         func(_ *testHost, in *contract.StepInput) { in.Next.Version++ },
		"after more than a moment":       func(s *testHost, _ *contract.StepInput) { s.disk.takes = time.Second },
		"without a step that may follow": func(_ *testHost, in *contract.StepInput) { in.Next = nil },
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
		require.Equal(t, "verify", e.Step)
		require.False(t, e.Working || e.Done, "a stop is no crash")
		require.True(t, e.Slot, "the clean keeps its slot")
		require.EqualValues(t, steps.Chunk, e.Offset)
		ran := e.RunTime
		require.GreaterOrEqual(t, ran, time.Second)

		var read []int64
		s.onRead(func(offset int64, _ context.Context) error { read = append(read, offset); return nil })
		in := s.input("verify")
		in.Seq, in.Settings.OnInterrupt = 3, device.InterruptError
		result, err = s.run(first(t), in)
		require.NoError(t, err)
		require.Zero(t, slices.Min(read))
		require.Equal(t, ran, result.RunTime, "its running time is that of both")
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
		e := s.entry()
		require.False(t, e.Working || e.Done || e.Slot)
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

// The worker is killed while one step follows another: the next attempt of the activity reports
// the first from the journal, and repeats the second alone.
//
// F1, F2
func TestAnAttemptAfterAKillInAStepThatFollows(t *testing.T) {
	t.Parallel()
	killed := func(t *testing.T, change func(*host.Entry)) *testHost {
		s := newTestHost(t)
		_, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		e := s.entry()
		change(&e)
		require.NoError(t, s.host.Journal("d1").Save(e))
		return s
	}
	working := func(e *host.Entry) { e.Done, e.Result, e.Working, e.Offset = false, nil, true, steps.Chunk }
	for what, change := range map[string]func(*host.Entry){"in the step": working, "at its end": func(*host.Entry) {}} {
		inBubble(t, what, func(t *testing.T) {
			s := killed(t, change)
			zeroed, read := s.called("zero"), s.called("read")
			result, err := s.run(again(t, 2), s.zeroThenVerify())
			require.NoError(t, err)
			require.Equal(t, "zero", result.Step)
			require.EqualValues(t, diskSize, result.Bytes)
			require.Equal(t, "verify", result.Next.Result.Step)
			require.Equal(t, zeroed, s.called("zero"))
			require.Greater(t, s.called("read"), read)
			var recorded contract.StepResult
			require.NoError(t, json.Unmarshal(s.entry().Before.Result, &recorded))
			require.Equal(t, "zero", recorded.Step)
		})
	}
	inBubble(t, "before anything of the step was recorded", func(t *testing.T) {
		s := newTestHost(t)
		in := s.zeroThenVerify()
		in.Next = nil
		_, err := s.run(first(t), in)
		require.NoError(t, err)
		zeroed := s.called("zero")
		result, err := s.run(again(t, 2), s.zeroThenVerify())
		require.NoError(t, err)
		require.Equal(t, "verify", result.Next.Result.Step)
		require.Equal(t, zeroed, s.called("zero"))
	})
	for setting, want := range map[device.OnInterrupt]string{"": "done at 160", device.InterruptError: "working at 0"} {
		inBubble(t, "that it has begun is recorded if a crash is an operator's ("+string(setting)+")", func(t *testing.T) {
			s := newTestHost(t)
			in, seen := s.zeroThenVerify(), ""
			in.Settings.OnInterrupt = setting
			s.onRead(func(int64, context.Context) error {
				if seen == "" {
					seen = s.journaled()
				}
				return nil
			})
			_, err := s.run(first(t), in)
			require.NoError(t, err)
			require.Equal(t, want, seen)
		})
	}
	inBubble(t, "an operator is to decide", func(t *testing.T) {
		s := killed(t, working)
		in := s.zeroThenVerify()
		in.Settings.OnInterrupt = device.InterruptError
		result, err := s.run(again(t, 2), in)
		require.NoError(t, err)
		require.Equal(t, device.CodeInterrupted, result.Next.Refusal.Fault.Code)
	})
	for what, change := range map[string]func(*host.Entry){
		"the step before is of another clean":       func(e *host.Entry) { e.Before.Clean += "0" },
		"the step before is another":                func(e *host.Entry) { e.Before.Step = "sanitize" },
		"the step before has another number":        func(e *host.Entry) { e.Before.Seq-- },
		"the numbers do not follow one another":     func(e *host.Entry) { e.Seq++ },
		"nothing was before":                        func(e *host.Entry) { e.Before = nil },
		"the hardware is another":                   func(e *host.Entry) { e.Serial += "0" },
		"the hardware has another size than before": func(e *host.Entry) { e.Size++ },
	} {
		inBubble(t, what, func(t *testing.T) {
			s := killed(t, change)
			_, err := s.run(again(t, 2), s.zeroThenVerify())
			requireFault(t, err, device.CodeSuperseded, false)
		})
	}
	inBubble(t, "an attempt that was frozen leaves the device alone", func(t *testing.T) {
		s, at := newTestHost(t), first(t)
		frozen := false
		s.onRead(func(int64, context.Context) error {
			if frozen {
				return nil
			}
			frozen = true
			e := s.entry() // the next attempt has begun meanwhile, and recorded how far it is
			e.Seq, e.Attempt, e.Step, e.Done, e.Working, e.Offset = 2, 2, "verify", false, true, steps.Chunk
			return errors.Join(s.host.Journal("d1").Save(e))
		})
		result, err := s.run(at, s.zeroThenVerify())
		require.NoError(t, err)
		require.Equal(t, device.CodeSuperseded, result.Next.Refusal.Fault.Code)
		require.EqualValues(t, 2, s.entry().Attempt)
		require.True(t, s.entry().Working)
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
