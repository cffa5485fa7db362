package activities_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/sys/unix"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// An attempt that lost contact ends while the next one waits for the fence: it journals its result
// before the next one reads the journal, which so sees no crash.
//
// F1
func TestTwoAttemptsAreNeverTwoWriters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		second func(s *testHost, in *contract.StepInput) int32 // its attempt
		resume int64
	}{
		{"two attempts of one scheduling", func(*testHost, *contract.StepInput) int32 { return 2 }, steps.Chunk},
		{"two schedulings", func(_ *testHost, in *contract.StepInput) int32 { in.Seq = 2; return 1 }, steps.Chunk},
		{"two cleans", func(_ *testHost, in *contract.StepInput) int32 { in.Seq, in.Clean = 2, "run/2"; return 1 }, 0},
		{"two names of one serial", func(s *testHost, in *contract.StepInput) int32 {
			s.disks.mu.Lock()
			defer s.disks.mu.Unlock()
			s.disks.disks["d1-again"] = s.disk
			in.Enrollment.Name = "d1-again"
			return 1
		}, 0},
	} {
		// On real time, for the race detector.
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTestHost(t)
			inZero, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			s.disk.intercept(func(call string, _ int64, _ context.Context) error {
				if call == "zero" {
					once.Do(func() { close(inZero); <-goOn })
				}
				return s.fenced("S1")
			})
			in := s.input("zero")
			in.Settings.OnInterrupt = device.InterruptError
			server := first(t)
			one := s.start(server, in)
			<-inZero
			server.end(serviceerror.NewNotFound("the attempt timed out"))
			next := s.start(again(t, c.second(s, &in)), in)
			next.waitUntilWaiting(t, "waiting for the device's last I/O to end")
			require.Equal(t, 1, s.disk.opened(), "opened while the first attempt writes")
			calls := s.disk.history()
			close(goOn)
			_, err := one.wait(t)
			requireRetriedNow(t, err, device.CodeServerUnreachable)
			_, err = next.wait(t)
			require.NoError(t, err, "there was no crash")
			require.Equal(t, 1, s.disk.mostWriters)
			require.Equal(t, 1, s.disk.mostHandles)
			require.Equal(t, []string{"flush", "close", "open"}, s.disk.history()[len(calls):len(calls)+3])
			require.EqualValues(t, diskSize, s.disk.durableUpTo())
			e, _, err := s.host.Journal(in.Enrollment.Name).Load()
			require.NoError(t, err)
			require.True(t, e.Done)
			require.Equal(t, in.Seq, e.Seq, "the end of the first was journaled over the second's")
		})
	}
}

// F1
func TestManyAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	s := newTestHost(t)
	s.hardware.Slots = host.NewSlots(8)
	s.disk.intercept(func(string, int64, context.Context) error { return s.fenced("S1") })
	var all []*running
	for i := range 24 {
		in := s.input("zero")
		in.Seq = 1 + int64(i)/6
		in.Clean = []string{"run/1", "run/2"}[i/12]
		server := again(t, 1+int32(i%6))
		if i%6 < 3 { // half of them lose contact at some moment
			context.AfterFunc(delay(t, time.Duration(rand.IntN(20))*time.Millisecond), func() {
				server.end(serviceerror.NewNotFound("the attempt timed out"))
			})
		}
		all = append(all, s.start(server, in))
	}
	done := 0
	for _, r := range all {
		if _, err := r.wait(t); err == nil {
			done++
			continue
		}
		refusal, ok := contract.RefusalOf(r.err)
		require.True(t, ok, "%v", r.err)
		require.Contains(t, []device.Code{device.CodeServerUnreachable, device.CodeSuperseded},
			refusal.Fault.Code, "%v", r.err)
	}
	require.Positive(t, done)
	require.Equal(t, 1, s.disk.mostWriters)
	require.Equal(t, 1, s.disk.mostHandles)
	e := s.entry()
	require.True(t, e.Done)
	require.EqualValues(t, 4, e.Seq, "the newest scheduling wrote the journal last")
	require.EqualValues(t, diskSize, s.disk.durableUpTo())
}

// delay is a context that ends after d.
func delay(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// F1
func TestFenceOfAnotherProcessIsWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, "a child of a killed worker", func(t *testing.T) {
		s := newTestHost(t)
		file, err := os.OpenFile(s.lockFile("S1"), os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
		r := s.start(first(t), s.input("zero"))
		r.waitUntilWaiting(t, "waiting for the device's last I/O to end: another process")
		pass(time.Minute)
		require.False(t, r.over())
		require.Zero(t, s.disk.opened())
		require.NoError(t, file.Close())
		_, err = r.wait(t)
		require.NoError(t, err)
	})
}

// F1
func TestLostFenceStopsTheStep(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, path string) error{
		"removed": func(_ *testing.T, path string) error { return os.Remove(path) },
		"replaced": func(_ *testing.T, path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			s.disk.intercept(func(call string, offset int64, _ context.Context) error {
				if call == "zero" && offset == steps.Chunk {
					synctest.Wait() // the chunk before is recorded
					return lose(t, s.lockFile("S1"))
				}
				return nil
			})
			_, err := s.run(first(t), s.input("zero"))
			refusal := requireFault(t, err, device.CodeStateDirError, true)
			require.Contains(t, refusal.Fault.Message, "fence of S1 was lost")
			require.NotContains(t, s.disk.history(), "zero 128", "it wrote on without a fence")
			require.EqualValues(t, steps.Chunk, s.entry().Offset, "what was written without a fence does not count")
			s.disk.intercept(nil)
			require.NoError(t, freed(s, "S1"))
			require.EqualValues(t, steps.Chunk, firstZero(t, s, again(t, 2), s.input("zero")))
		})
	}
	inBubble(t, "before the first write", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.intercept(func(call string, _ int64, _ context.Context) error {
			if call == "open" {
				return os.Remove(s.lockFile("S1"))
			}
			return nil
		})
		_, err := s.run(first(t), s.input("zero"))
		requireFault(t, err, device.CodeStateDirError, true)
		require.Equal(t, []string{"open", "close"}, s.disk.history())
	})
}

// unsavable makes each further Save of a journal fail, as a full disk does, until
// the function that it returns is called.
func unsavable(t *testing.T, path string) (repair func()) {
	t.Helper()
	before := path + ".before"
	require.NoError(t, os.Rename(path, before))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	return func() {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.Rename(before, path))
	}
}

// F2
func TestFullDiskAtACheckpointIsTransient(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		var repair func()
		s.disk.intercept(func(call string, offset int64, _ context.Context) error {
			if call == "zero" && offset == steps.Chunk {
				synctest.Wait() // the chunk before is recorded
				repair = unsavable(t, s.journalFile("d1"))
			}
			return nil
		})
		s.disk.takes = 10 * time.Second
		server := first(t)
		began := time.Now()
		_, err := s.run(server, s.input("zero"))
		refusal := requireFault(t, err, device.CodeStateDirError, true)
		require.Contains(t, refusal.Fault.Message, "could not save")
		require.Equal(t, 20*time.Second, time.Since(began), "it continued without a resume point")
		require.LessOrEqual(t, server.last().Offset, int64(steps.Chunk), "the heartbeat is ahead of the journal")
		require.NoError(t, freed(s, "S1"))
		repair()
		s.disk.takes = 0
		require.EqualValues(t, steps.Chunk, firstZero(t, s, again(t, 2), s.input("zero")))
	})
	inBubble(t, "without a journal nothing is written", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		calls := s.disk.history()
		s.disk.intercept(func(call string, _ int64, _ context.Context) error {
			if call == "open" {
				t.Cleanup(unsavable(t, s.journalFile("d1")))
			}
			return nil
		})
		_, err := s.run(again(t, 2), s.input("zero"))
		requireFault(t, err, device.CodeStateDirError, true)
		require.Equal(t, []string{"open", "close"}, s.disk.history()[len(calls):])
	})
}

func TestAnErrorOrAPanicOfAnyCallFreesTheDevice(t *testing.T) {
	t.Parallel()
	broken := &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: "medium error"}
	for _, at := range []string{"open", "zero", "flush", "check", "close"} {
		for _, panics := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, panics %v", at, panics), func(t *testing.T) {
				s := newTestHost(t)
				s.hardware.Slots = host.NewSlots(1)
				s.disk.intercept(func(call string, _ int64, _ context.Context) error {
					if call != at {
						return nil
					}
					if panics {
						panic("a mistake in a driver")
					}
					return broken
				})
				_, err := s.run(first(t), s.input("zero"))
				if panics {
					require.Contains(t, requireFault(t, err, device.CodeInternal, true).Fault.Message, "a mistake in a driver")
				} else {
					refusal := requireFault(t, err, device.CodeIO, false)
					require.Equal(t, "d1", refusal.Device)
					require.EqualValues(t, 1, refusal.Attempt, "the history says in which attempt, and how far it was")
					require.Equal(t, s.entry().Offset, refusal.Progress.Offset)
					require.False(t, s.entry().Done)
				}
				s.disk.intercept(nil)
				require.NoError(t, freed(s, "S1"))
				s.disk.mu.Lock()
				s.disk.handles = 0 // a Close that panicked left one
				s.disk.mu.Unlock()
				in, next := s.input("zero"), again(t, 2)
				if in.Settings.OnInterrupt = device.InterruptError; !panics {
					in.Seq, next = 2, first(t)
				}
				_, err = s.run(next, in)
				require.NoError(t, err, "the slot or the fence was kept, or a crash was seen")
			})
		}
	}
}

// While another process uses the device, the step waits. After the limit an operator is
// needed, and nothing was written.
//
// F12
func TestDeviceInUse(t *testing.T) {
	busyUntil := func(s *testHost, until time.Time) {
		s.disk.on = func(call string, _ int64, _ context.Context) error {
			if call == "open" && time.Now().Before(until) {
				return &device.Fault{Class: device.Transient, Code: device.CodeTargetBusy, Message: "it is mounted",
					Remedy: "end that use"}
			}
			return nil
		}
	}
	inBubble(t, "for a while", func(t *testing.T) {
		s := newTestHost(t)
		busyUntil(s, time.Now().Add(15*time.Second))
		server := first(t)
		began := time.Now()
		result, err := s.run(server, s.input("zero"))
		require.NoError(t, err)
		require.EqualValues(t, diskSize, result.Bytes)
		require.GreaterOrEqual(t, time.Since(began), 15*time.Second)
		var reported bool
		for _, p := range server.heartbeats() {
			reported = reported || p.Waiting == "waiting until the device is not in use: it is mounted"
		}
		require.True(t, reported)
	})
	inBubble(t, "for longer than the limit", func(t *testing.T) {
		s := newTestHost(t)
		busyUntil(s, time.Now().Add(time.Hour))
		_, err := s.run(first(t), s.input("zero"))
		refusal := requireFault(t, err, device.CodeTargetBusy, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
		require.Equal(t, "end that use, then clean d1", refusal.Fault.Remedy)
		for _, call := range s.disk.history() {
			require.Equal(t, "open", call)
		}
	})
}
