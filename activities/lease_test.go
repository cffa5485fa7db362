package activities_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// frozen makes the machine's clock advance by d during the write at an offset, as if the
// process had been stopped there.
func frozen(s *testHost, offset int64, d time.Duration) {
	began := time.Now()
	passed := time.Duration(0)
	s.hardware.Clock = func() time.Duration { return time.Since(began) + passed }
	s.disk.intercept(func(call string, at int64, _ context.Context) error {
		if call == "zero" && at == offset { // in the midst of that write
			passed += d
		}
		return nil
	})
}

// F32
func TestTheRightToWriteEndsWithTime(t *testing.T) {
	t.Parallel()
	const third = 10 * time.Second
	inBubble(t, "a fast step asks once", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		s.hardware.Confirm = func(context.Context, []byte, ...any) error { asked++; return nil }
		frozen(s, 0, third-time.Second)
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		require.Equal(t, 1, asked)
	})
	inBubble(t, "a slow step asks once in each third of the time-out", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		s.hardware.Confirm = func(context.Context, []byte, ...any) error { asked++; return nil }
		frozen(s, -1, 0)
		s.disk.takes = third + time.Second
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		require.EqualValues(t, (diskSize+steps.Chunk-1)/steps.Chunk, asked)
	})
	inBubble(t, "nothing is written after a freeze unless the server confirms", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		s.hardware.Confirm = func(context.Context, []byte, ...any) error {
			if asked++; asked > 1 {
				return serviceerror.NewNotFound("the attempt timed out")
			}
			return nil
		}
		frozen(s, 0, third+time.Millisecond)
		_, err := s.run(first(t), s.input("zero"))
		requireRetriedNow(t, err, device.CodeServerUnreachable)
		require.Equal(t, 2, asked)
		require.NotContains(t, s.disk.history(), "zero 64", "it wrote without the right to")
		require.EqualValues(t, steps.Chunk, s.entry().Offset)
		require.NoError(t, freed(s, "S1"))
	})
	inBubble(t, "it waits while the server does not answer", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		s.hardware.Confirm = func(context.Context, []byte, ...any) error {
			if asked++; asked > 1 && asked < 6 {
				return serviceerror.NewUnavailable("connection refused")
			}
			return nil
		}
		frozen(s, 0, third+time.Millisecond)
		s.disk.takes = 2 * time.Second
		server := first(t)
		_, err := s.run(server, s.input("zero"))
		require.NoError(t, err)
		require.Equal(t, 6, asked)
		waited := false
		for _, beat := range server.heartbeats() {
			waited = waited || beat.Waiting == "waiting for the server to confirm that the step may continue to write"
		}
		require.True(t, waited, "it waits in silence")
		require.Empty(t, server.last().Waiting)
	})
	inBubble(t, "it gives up when the server must have given it up", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		s.hardware.Confirm = func(context.Context, []byte, ...any) error {
			if asked++; asked > 1 {
				return serviceerror.NewUnavailable("connection refused")
			}
			return nil
		}
		frozen(s, 0, third+time.Millisecond)
		r := s.start(first(t), s.input("zero"))
		_, err := r.wait(t)
		requireRetriedNow(t, err, device.CodeServerUnreachable)
		require.Less(t, r.took, 3*third)
		require.NotContains(t, s.disk.history(), "zero 64")
	})
	inBubble(t, "an answer that is older than the lease does not count", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		began := time.Now()
		var passed atomic.Int64 // the first question is asked beside the step
		s.hardware.Clock = func() time.Duration { return time.Since(began) + time.Duration(passed.Load()) }
		s.hardware.Confirm = func(context.Context, []byte, ...any) error {
			switch asked++; asked {
			case 1:
				passed.Add(int64(third - time.Second))
				return nil
			case 2: // directly before a write, frozen with the answer on its way
				passed.Add(int64(third + time.Second))
				return nil
			default:
				return serviceerror.NewNotFound("the attempt timed out")
			}
		}
		s.disk.intercept(func(call string, _ int64, _ context.Context) error {
			if call == "zero" {
				passed.Add(int64(2 * time.Second))
			}
			return nil
		})
		_, err := s.run(first(t), s.input("zero"))
		requireRetriedNow(t, err, device.CodeServerUnreachable)
		require.Equal(t, 3, asked)
		require.Equal(t, []string{"open", "zero 0", "flush", "close"}, s.disk.history())
	})
	inBubble(t, "the end of the step ends the wait", func(t *testing.T) {
		s := newTestHost(t)
		asked := 0
		server := first(t)
		s.hardware.Confirm = func(context.Context, []byte, ...any) error {
			if asked++; asked > 1 {
				server.end(errors.New("gone"))
				return serviceerror.NewUnavailable("connection refused")
			}
			return nil
		}
		frozen(s, 0, third+time.Millisecond)
		_, err := s.run(server, s.input("zero"))
		requireRetriedNow(t, err, device.CodeServerUnreachable)
		require.NotContains(t, s.disk.history(), "zero 64")
	})
}

// F1
func TestAnAttemptConfirmsWithTheServerBeforeItWrites(t *testing.T) {
	t.Parallel()
	inBubble(t, "once, with a heartbeat", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		before := len(s.disk.history())
		var calls []string
		asked := 0
		var sent []any
		var token []byte
		s.hardware.Confirm = func(ctx context.Context, by []byte, details ...any) error {
			asked++
			calls, sent, token = append(calls, s.disk.history()[before:]...), details, by
			return errors.Join(ctx.Err(), s.fenced("S1"))
		}
		server := again(t, 2)
		server.lastProgress = &contract.Progress{Step: "zero", Seq: 1, Size: diskSize}
		_, err := s.run(server, s.input("zero"))
		require.NoError(t, err)
		require.Equal(t, 1, asked)
		require.Subset(t, []string{"open"}, calls, "it wrote before it asked")
		require.NotEmpty(t, token)
		require.Len(t, sent, 1)
		beat := sent[0].(contract.Progress)
		require.Equal(t, time.Now().Add(budget).UTC(), beat.BudgetEnds)
		beat.BudgetEnds, beat.ProgressAt = time.Time{}, time.Time{}
		beat.Waiting = "" // a child that another test forks holds the fence until its exec
		require.Equal(t, []any{contract.Progress{Step: "zero", Seq: 1, Offset: steps.Chunk, Size: diskSize}}, []any{beat},
			"the confirmation is a heartbeat")
	})
	inBubble(t, "while the device is made ready", func(t *testing.T) {
		s := newTestHost(t)
		asked := make(chan struct{})
		s.hardware.Confirm = func(context.Context, []byte, ...any) error { close(asked); return nil }
		s.disk.intercept(func(call string, _ int64, ctx context.Context) error {
			if call == "open" {
				select {
				case <-asked:
				case <-ctx.Done():
				case <-time.After(time.Minute):
					return errors.New("the server was not asked")
				}
			}
			return nil
		})
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
	})
	for name, answer := range map[string]error{
		"the server no longer knows the attempt": serviceerror.NewNotFound("the attempt timed out"),
		"the server does not answer":             serviceerror.NewUnavailable("connection refused"),
		"it was canceled":                        temporal.NewCanceledError(),
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			s.hardware.Confirm = func(context.Context, []byte, ...any) error { return answer }
			_, err := s.run(first(t), s.input("zero"))
			requireRetriedNow(t, err, device.CodeServerUnreachable)
			require.Equal(t, []string{"open", "close"}, s.disk.history(), "it wrote")
			require.NoError(t, freed(s, "S1"))
			s.hardware.Confirm = nil
			in := s.input("zero")
			in.Settings.OnInterrupt = device.InterruptError
			require.EqualValues(t, 0, firstZero(t, s, again(t, 2), in), "this was not a crash")
		})
	}
	inBubble(t, "it waits for a limited time", func(t *testing.T) {
		s := newTestHost(t)
		s.hardware.Confirm = func(ctx context.Context, _ []byte, _ ...any) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				return errors.New("the context did not end")
			}
		}
		r := s.start(first(t), s.input("zero"))
		_, err := r.wait(t)
		requireRetriedNow(t, err, device.CodeServerUnreachable)
		require.Equal(t, 10*time.Second, r.took)
		require.Equal(t, []string{"open", "close"}, s.disk.history())
	})
}
