package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

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
