package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

// ended runs a step of three chunks of ten seconds each, and calls end five seconds into
// the second chunk.
func ended(t *testing.T, s *testHost, server *server, end func()) *running {
	t.Helper()
	s.disk.takes = 10 * time.Second
	r := s.start(server, s.input("zero"))
	pass(15 * time.Second)
	require.False(t, r.over())
	end()
	_, _ = r.wait(t)
	return r
}

// F3
func TestLostContactFinishesItsChunk(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"the server does not know the attempt": serviceerror.NewNotFound("the attempt timed out"),
		"the server does not answer":           serviceerror.NewUnavailable("connection refused"),
		"no cause is given":                    nil,
		"an unknown cause":                     errors.New("something"),
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			server := first(t)
			r := ended(t, s, server, func() { server.end(cause) })
			require.False(t, temporal.IsCanceledError(r.err), "lost contact was reported as canceled")
			requireRetriedNow(t, r.err, device.CodeServerUnreachable)
			require.Equal(t, 20*time.Second, r.took, "the chunk was not finished")
			e := s.entry()
			require.EqualValues(t, 2*steps.Chunk, e.Offset)
			require.Equal(t, 20*time.Second, e.RunTime)
			require.False(t, e.Working || e.Done)
			require.EqualValues(t, 2*steps.Chunk, s.disk.durableUpTo())
			require.EqualValues(t, 2*steps.Chunk, firstZero(t, s, again(t, 2), s.input("zero")))
		})
	}
}

// F3
func TestWorkerStopFinishesItsChunk(t *testing.T) {
	t.Parallel()
	inBubble(t, "a chunk is finished", func(t *testing.T) {
		s := newTestHost(t)
		server := first(t)
		r := ended(t, s, server, func() { close(server.stop) })
		requireRetriedNow(t, r.err, device.CodeWorkerStopping)
		require.Equal(t, 20*time.Second, r.took)
		e := s.entry()
		require.EqualValues(t, 2*steps.Chunk, e.Offset)
		require.False(t, e.Working || e.Done)
		require.EqualValues(t, 2*steps.Chunk, firstZero(t, s, again(t, 2), s.input("zero")))
	})
	inBubble(t, "at once, when the worker's stop timeout is over", func(t *testing.T) {
		s := newTestHost(t)
		server := first(t)
		r := ended(t, s, server, func() { close(server.stop); server.end(worker.ErrWorkerShutdown) })
		requireRetriedNow(t, r.err, device.CodeWorkerStopping)
		require.Equal(t, 15*time.Second, r.took)
		e := s.entry()
		require.EqualValues(t, steps.Chunk, e.Offset)
		require.False(t, e.Working || e.Done)
	})
}

// F9
func TestCancelIsAnsweredWhenTheStepHasStopped(t *testing.T) {
	t.Parallel()
	inBubble(t, "in the middle of a chunk", func(t *testing.T) {
		s := newTestHost(t)
		server := first(t)
		r := ended(t, s, server, func() { server.end(temporal.NewCanceledError()) })
		require.True(t, temporal.IsCanceledError(r.err), "%v", r.err)
		require.Equal(t, 15*time.Second, r.took, "an abort need not wait for the chunk's end")
		e := s.entry()
		require.EqualValues(t, steps.Chunk, e.Offset)
		require.Equal(t, 15*time.Second, e.RunTime)
		require.False(t, e.Working || e.Done)
		require.NoError(t, freed(s, "S1"))
	})
	inBubble(t, "during I/O that no context stops", func(t *testing.T) {
		s := newTestHost(t)
		back := hangsAt(t, s, steps.Chunk)
		server := first(t)
		r := s.start(server, s.input("zero"))
		pass(time.Second)
		server.end(temporal.NewCanceledError())
		pass(time.Minute)
		require.False(t, r.over(), "it answered before the step stopped")
		require.NoError(t, s.fenced("S1"))
		back()
		_, err := r.wait(t)
		require.True(t, temporal.IsCanceledError(err), "%v", err)
		require.False(t, s.entry().Working)
	})
	inBubble(t, "after the step was done", func(t *testing.T) {
		s := newTestHost(t)
		server := first(t)
		s.disk.intercept(func(call string, _ int64, _ context.Context) error {
			if call == "close" {
				server.end(temporal.NewCanceledError())
			}
			return nil
		})
		result, err := s.run(server, s.input("zero"))
		require.NoError(t, err)
		require.EqualValues(t, diskSize, result.Bytes)
		require.True(t, s.entry().Done)
	})
	for _, c := range []struct {
		name  string
		cause error
	}{{"paused", activity.ErrActivityPaused}, {"reset", activity.ErrActivityReset}} {
		inBubble(t, c.name, func(t *testing.T) {
			s := newTestHost(t)
			server := first(t)
			r := ended(t, s, server, func() { server.end(c.cause) })
			requireRetriedNow(t, r.err, device.CodeInterrupted)
			require.Equal(t, 15*time.Second, r.took)
			require.False(t, s.entry().Working)
			in := s.input("zero")
			in.Settings.OnInterrupt = device.InterruptError
			require.EqualValues(t, steps.Chunk, firstZero(t, s, again(t, 2), in), "this was not a crash")
		})
	}
}

func TestAWaitingAttemptEndsAtOnce(t *testing.T) {
	t.Parallel()
	waits := map[string]struct {
		reports string
		begin   func(t *testing.T, s *testHost) (end func())
	}{
		"for the device": {"waiting for the device's last I/O", func(t *testing.T, s *testHost) func() {
			f, err := s.host.Fence(t.Context(), "S1", nil)
			require.NoError(t, err)
			return func() { require.NoError(t, f.Close()) }
		}},
		"for a slot": {"queued for a slot", func(t *testing.T, s *testHost) func() {
			release := s.oneSlot(t)
			return release
		}},
	}
	for _, c := range []struct {
		name    string
		end     func(*server)
		require func(*testing.T, error)
	}{
		{"canceled", func(s *server) { s.end(temporal.NewCanceledError()) }, func(t *testing.T, err error) {
			require.True(t, temporal.IsCanceledError(err), "%v", err)
		}},
		{"worker stops", func(s *server) { close(s.stop) }, func(t *testing.T, err error) {
			requireRetriedNow(t, err, device.CodeWorkerStopping)
		}},
		{"contact lost", func(s *server) { s.end(serviceerror.NewNotFound("gone")) }, func(t *testing.T, err error) {
			requireRetriedNow(t, err, device.CodeServerUnreachable)
		}},
	} {
		for what, wait := range waits {
			inBubble(t, c.name+" waiting "+what, func(t *testing.T) {
				s := newTestHost(t)
				over := wait.begin(t, s)
				server := first(t)
				r := s.start(server, s.input("zero"))
				r.waitUntilWaiting(t, wait.reports)
				began := time.Now()
				c.end(server)
				_, err := r.wait(t)
				c.require(t, err)
				require.Less(t, time.Since(began), time.Second)
				require.Zero(t, s.disk.opened())
				over()
				require.NoError(t, freed(s, "S1"))
				_, err = s.run(again(t, 2), s.input("zero"))
				require.NoError(t, err)
			})
		}
	}
}

func TestAnAttemptKeepsItsPlaceInTheQueueForASlot(t *testing.T) {
	t.Parallel()
	inBubble(t, "it is in the heartbeat, and is kept until the next attempt", func(t *testing.T) {
		s := newTestHost(t)
		release := s.oneSlot(t)
		var order []string
		for i, name := range []string{"d1", "d2", "d3"} {
			disk := s.disk
			if i > 0 {
				disk = s.add(name, fmt.Sprint("S", i+1))
			}
			disk.intercept(func(call string, _ int64, _ context.Context) error {
				if call == "open" {
					order = append(order, name)
				}
				return nil
			})
		}
		asked := map[string]time.Time{}
		attempt := func(n int32, name string, budget time.Duration) *running {
			in := s.inputFor(name, "zero")
			in.Budget = budget
			server := again(t, n)
			if server.scheduled = asked[name]; n == 1 {
				asked[name] = time.Now()
			}
			return s.start(server, in)
		}
		one := attempt(1, "d1", time.Minute)
		one.waitUntilWaiting(t, "queued for a slot (1st in line)")
		pass(15 * time.Second)
		two := attempt(1, "d2", time.Hour)
		two.waitUntilWaiting(t, "queued for a slot (2nd in line)")
		three := attempt(1, "d3", time.Hour)
		three.waitUntilWaiting(t, "queued for a slot (3rd in line)")

		// Half a minute later the first leaves, and is started again at once.
		_, err := one.wait(t)
		requireRetriedNow(t, err, device.CodeWaitingForSlot)
		require.Equal(t, 30*time.Second, one.took)
		one = attempt(2, "d1", time.Minute)
		one.waitUntilWaiting(t, "queued for a slot (1st in line)")
		pass(10 * time.Second)
		require.Equal(t, "queued for a slot (2nd in line)", two.last().Waiting)
		require.Equal(t, "queued for a slot (3rd in line)", three.last().Waiting)
		require.Zero(t, one.last().RunTime)
		release()
		for _, r := range []*running{one, two, three} {
			_, err := r.wait(t)
			require.NoError(t, err)
		}
		require.Equal(t, []string{"d1", "d2", "d3"}, order)
	})
}
