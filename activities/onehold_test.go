package activities_test

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// breaks are the ways in which the hold of a verify ends before its result is known. Each leaves
// the host as it is then, and gives the attempt that follows and its input.
var breaks = map[string]func(t *testing.T, s *testHost) (*server, contract.StepInput){
	"the worker is killed in mid-verify": func(t *testing.T, s *testHost) (*server, contract.StepInput) {
		e := endsAt(t, s, func(*server) error {
			return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "the worker is gone"}
		})
		e.Working, e.Done, e.Result = true, false, nil
		require.NoError(t, s.host.Journal("d1").Save(e))
		return again(t, 2), s.input("verify")
	},
	"the worker stops": endedBy(func(at *server) error { close(at.stop); return nil }),
	"contact is lost": endedBy(func(at *server) error {
		at.end(serviceerror.NewNotFound("it timed out"))
		return nil
	}),
	"the activity is paused": endedBy(func(at *server) error { at.end(activity.ErrActivityPaused); return nil }),
	"the activity is reset":  endedBy(func(at *server) error { at.end(activity.ErrActivityReset); return nil }),
	"the worker shuts down":  endedBy(func(at *server) error { at.end(worker.ErrWorkerShutdown); return nil }),
	"a read fails for a time": endedBy(func(*server) error {
		return &device.Fault{Class: device.Transient, Code: device.CodeIO}
	}),
	"its journal is lost and a heartbeat is left": func(t *testing.T, s *testHost) (*server, contract.StepInput) {
		next := again(t, 2)
		next.lastProgress = &contract.Progress{Step: "verify", Seq: 1, Offset: steps.Chunk, Size: diskSize}
		return next, s.input("verify")
	},
	"the workflow says how far it was": func(t *testing.T, s *testHost) (*server, contract.StepInput) {
		in := s.input("verify")
		in.Resume = &contract.Progress{Step: "verify", Offset: steps.Chunk, Size: diskSize}
		return first(t), in
	},
	"it is done and not reported": func(t *testing.T, s *testHost) (*server, contract.StepInput) {
		return again(t, 2), verified(t, s)
	},
	"it is done, and scheduled again": func(t *testing.T, s *testHost) (*server, contract.StepInput) {
		in := verified(t, s)
		in.Seq++
		return first(t), in
	},
}

// endsAt runs a verify that end ends behind its first chunk, and gives the journal's entry.
func endsAt(t *testing.T, s *testHost, end func(*server) error) host.Entry {
	t.Helper()
	at, ended := first(t), false
	s.onRead(func(offset int64, _ context.Context) error {
		if offset < steps.Chunk+16*mib || ended {
			return nil
		}
		ended = true
		synctest.Wait() // the chunk before is recorded
		return end(at)
	})
	_, err := s.run(at, s.input("verify"))
	require.Error(t, err)
	e := s.entry()
	require.GreaterOrEqual(t, e.Offset, int64(steps.Chunk), "there was a point to resume from")
	return e
}

func endedBy(end func(*server) error) func(*testing.T, *testHost) (*server, contract.StepInput) {
	return func(t *testing.T, s *testHost) (*server, contract.StepInput) {
		endsAt(t, s, end)
		return again(t, 2), s.input("verify")
	}
}

func verified(t *testing.T, s *testHost) contract.StepInput {
	t.Helper()
	_, err := s.run(first(t), s.input("verify"))
	require.NoError(t, err)
	require.True(t, s.entry().Done)
	return s.input("verify")
}

// Somebody else writes to the part of a device that a verify has read, while nothing holds the
// device: the next attempt reads it again, and the record says so.
//
// F37, F2
func TestAVerifyProvesOnlyWhatItReadUnderOneHold(t *testing.T) {
	t.Parallel()
	for what, interrupt := range breaks {
		for _, at := range []int64{-1, 0, steps.Chunk - 1} {
			inBubble(t, what, func(t *testing.T) {
				s := newTestHost(t)
				s.disk.durableBefore(diskSize)
				next, in := interrupt(t, s)
				began := ""
				s.onRead(func(int64, context.Context) error {
					began = cmp.Or(began, s.journaled())
					return nil
				})
				s.disk.dirtyByte = at
				result, err := s.run(next, in)
				require.Equal(t, "working at 0", began)
				if at >= 0 {
					requireFault(t, err, device.CodeVerifyFailed, false)
					return
				}
				require.NoError(t, err)
				require.EqualValues(t, diskSize, result.HeldBytes)
				require.GreaterOrEqual(t, result.ReprocessedBytesMax, int64(steps.Chunk), "that much was read again")
				require.LessOrEqual(t, result.ReprocessedBytesMax, int64(diskSize))
			})
		}
	}
	inBubble(t, "killed in the activity of the step before it", func(t *testing.T) {
		s := newTestHost(t)
		_, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		zeroed := s.called("zero")
		s.disk.dirtyByte = 0
		result, err := s.run(again(t, 2), s.zeroThenVerify())
		require.NoError(t, err)
		require.Equal(t, zeroed, s.called("zero"), "work that writes is not repeated")
		require.Equal(t, device.CodeVerifyFailed, result.Next.Refusal.Fault.Code)
	})
	inBubble(t, "handed back by the step before it", func(t *testing.T) {
		s := newTestHost(t)
		s.onRead(slowReads(20 * time.Millisecond))
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.Nil(t, result.Next)
		s.onRead(func(int64, context.Context) error { return nil })
		s.disk.dirtyByte = 0
		in := s.input("verify")
		in.Seq = 3
		_, err = s.run(first(t), in)
		requireFault(t, err, device.CodeVerifyFailed, false)
	})
}

// The record says what the host could not look into when it looked for other users of the device.
//
// F40
func TestTheRecordSaysWhatWasNotSeen(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.unseen = "those outside of its process namespace"
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		const says = "the worker does not see all processes that may have the device: " +
			"not those outside of its process namespace"
		require.Equal(t, says, result.Note)
		require.Equal(t, "167772160 bytes read under one hold; "+says, result.Next.Result.Note)
	})
}
