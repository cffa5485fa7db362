package activities_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

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
