package activities_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// corrupt changes one digit of a file of the state directory.
func corrupt(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		text = []byte(`{"name":"d1","sha256":"00","data":{"seq":1}}`)
	} else {
		require.NoError(t, err)
		text[len(text)-4] ^= 1
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// stopAtOffset runs an attempt whose worker stops while the chunk at offset is written.
func stopAtOffset(t *testing.T, s *testHost, server *server, in contract.StepInput, offset int64) {
	t.Helper()
	s.disk.intercept(func(call string, at int64, _ context.Context) error {
		if call == "zero" && at == offset {
			close(server.stop)
		}
		return nil
	})
	_, err := s.run(server, in)
	requireRetriedNow(t, err, device.CodeWorkerStopping)
	s.disk.intercept(nil)
}

// crashAtOffset leaves the journal as a kill -9 does while the chunk at offset is written.
func crashAtOffset(t *testing.T, s *testHost, server *server, in contract.StepInput, offset int64) {
	t.Helper()
	var then host.Entry
	s.disk.intercept(func(call string, at int64, _ context.Context) error {
		if call != "zero" || at != offset {
			return nil
		}
		synctest.Wait() // the chunk before is recorded
		var err error
		if then, _, err = s.host.Journal("d1").Load(); err != nil {
			return err
		}
		return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "the worker is gone"}
	})
	_, err := s.run(server, in)
	require.Error(t, err)
	require.True(t, then.Working)
	require.NoError(t, s.host.Journal("d1").Save(then))
	s.disk.intercept(nil)
}

// firstZero is the offset of a step's first write, -1 without one.
func firstZero(t *testing.T, s *testHost, server *server, in contract.StepInput) int64 {
	t.Helper()
	at := int64(-1)
	s.disk.intercept(func(call string, offset int64, _ context.Context) error {
		if call == "zero" && at < 0 {
			at = offset
		}
		return nil
	})
	_, err := s.run(server, in)
	require.NoError(t, err)
	s.disk.intercept(nil)
	return at
}

// F2, S2.70
func TestGoesOnFromTheJournal(t *testing.T) {
	t.Parallel()
	for _, chunks := range []int64{0, 1, 2} {
		inBubble(t, "", func(t *testing.T) {
			s := newTestHost(t)
			stopAtOffset(t, s, first(t), s.input("zero"), chunks*steps.Chunk)
			done := min((chunks+1)*steps.Chunk, diskSize)
			require.Equal(t, done, s.entry().Offset)
			require.Equal(t, done, s.disk.durableUpTo())
			want := done
			if done == diskSize {
				want = -1
			}
			require.Equal(t, want, firstZero(t, s, again(t, 2), s.input("zero")))
			require.EqualValues(t, diskSize, s.disk.durableUpTo())
		})
	}
}

// F2, S3.35
func TestResumesOnlyWhatCountsTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		stored func(*host.Entry)
		in     func(*contract.StepInput)
		want   int64
	}{
		{name: "all as it was", want: steps.Chunk},
		{name: "another serial", stored: func(e *host.Entry) { e.Serial = "S2" }},
		{name: "no serial", stored: func(e *host.Entry) { e.Serial = "" }},
		{name: "another size", stored: func(e *host.Entry) { e.Size *= 2 }},
		{name: "another step", stored: func(e *host.Entry) { e.Step = "verify" }},
		{name: "another clean", in: func(in *contract.StepInput) { in.Clean = "run/2" }},
		{name: "the same clean, after a binding", in: func(in *contract.StepInput) { in.Generation++ }},
		{name: "no clean", stored: func(e *host.Entry) { e.Clean = "" }},
		{name: "before the start", stored: func(e *host.Entry) { e.Offset = -1 }},
		{name: "behind the end", stored: func(e *host.Entry) { e.Offset = diskSize + mib }},
		{name: "another scheduling of it", in: func(*contract.StepInput) {}, want: steps.Chunk},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			s := newTestHost(t)
			stopAtOffset(t, s, first(t), s.input("zero"), 0)
			e := s.entry()
			if c.stored != nil {
				c.stored(&e)
				require.NoError(t, s.host.Journal("d1").Save(e))
			}
			in := s.input("zero")
			if c.stored != nil || c.in != nil { // one Seq is one piece of work
				in.Seq = 2
			}
			if c.in != nil {
				c.in(&in)
			}
			require.Equal(t, c.want, firstZero(t, s, again(t, 2), in))
			require.EqualValues(t, diskSize, s.disk.durableUpTo())
		})
	}
}

// S3.16
func TestHalfDoneStepOfAnotherVersionBeginsAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		for i := range s.hardware.Steps {
			s.hardware.Steps[i].Version = 2
		}
		in := s.input("zero")
		_, err := s.run(again(t, 2), in)
		requireFault(t, err, device.CodePlanOutdated, false)
		// The clean is planned again: the same clean, the host's version, a later Seq.
		in.Version, in.Seq = 2, 2
		require.EqualValues(t, 0, firstZero(t, s, first(t), in))
	})
}

// F2
func TestTheHeartbeatReplacesALostJournal(t *testing.T) {
	t.Parallel()
	reported := contract.Progress{Step: "zero", Seq: 1, Offset: steps.Chunk, Size: diskSize, RunTime: time.Minute}
	for _, c := range []struct {
		name   string
		change func(*contract.Progress)
		in     func(*contract.StepInput, contract.Progress)
		want   int64
		ran    time.Duration
	}{
		{name: "reported by an earlier attempt", want: steps.Chunk, ran: time.Minute},
		{name: "kept by the workflow", in: func(in *contract.StepInput, p contract.Progress) { in.Resume = &p }, want: steps.Chunk, ran: time.Minute},
		{name: "of another step", change: func(p *contract.Progress) { p.Step = "verify" }},
		{name: "of another size", change: func(p *contract.Progress) { p.Size = 2 * diskSize }},
		{name: "behind the end", change: func(p *contract.Progress) { p.Offset = diskSize + mib }},
		{name: "before the start", change: func(p *contract.Progress) { p.Offset = -mib }},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			s := newTestHost(t)
			s.disk.durableBefore(steps.Chunk)
			server, in, p := again(t, 2), s.input("zero"), reported
			if c.change != nil {
				c.change(&p)
			}
			if c.in != nil {
				c.in(&in, p)
			} else {
				server.lastProgress = &p
			}
			require.Equal(t, c.want, firstZero(t, s, server, in))
			require.Equal(t, c.ran, s.entry().RunTime, "reported run time counts")
		})
	}
	inBubble(t, "an attempt's heartbeat is newer than what the workflow kept", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.durableBefore(2 * steps.Chunk)
		server, in, older := again(t, 2), s.input("zero"), reported
		in.Resume = &older
		newer := reported
		newer.Offset = 2 * steps.Chunk
		server.lastProgress = &newer
		require.EqualValues(t, 2*steps.Chunk, firstZero(t, s, server, in))
	})
	inBubble(t, "the journal counts before the heartbeat", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		server := again(t, 2)
		further := reported
		further.Offset = 2 * steps.Chunk
		server.lastProgress = &further
		require.EqualValues(t, steps.Chunk, firstZero(t, s, server, s.input("zero")))
	})
	inBubble(t, "the journal of another clean is not a lost journal", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		server, in := again(t, 2), s.input("zero")
		in.Clean, in.Seq = "run/2", 2
		p := reported
		server.lastProgress = &p
		require.EqualValues(t, 0, firstZero(t, s, server, in))
	})
}

// F2
func TestACorruptJournalStartsTheStepOver(t *testing.T) {
	t.Parallel()
	inBubble(t, "with a heartbeat", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		stopAtOffset(t, s, first(t), s.input("zero"), steps.Chunk)
		corrupt(t, s.journalFile("d1"))
		next := again(t, 2)
		next.lastProgress = &contract.Progress{Step: "zero", Seq: 1, Offset: 2 * steps.Chunk, Size: diskSize,
			RunTime: 20 * time.Second}
		require.EqualValues(t, 0, firstZero(t, s, next, s.input("zero")))
		require.Contains(t, s.log.String(), "journal is unreadable")
		require.Contains(t, s.log.String(), "device=d1")
		require.Equal(t, 50*time.Second, s.entry().RunTime, "reported run time counts")
	})
	inBubble(t, "without", func(t *testing.T) {
		s := newTestHost(t)
		corrupt(t, s.journalFile("d1"))
		require.EqualValues(t, 0, firstZero(t, s, again(t, 2), s.input("zero")))
	})
}

// F10
func TestRecordThatCannotBeTrustedNeedsTheOperator(t *testing.T) {
	t.Parallel()
	for _, journal := range []bool{true, false} {
		inBubble(t, "", func(t *testing.T) {
			s := newTestHost(t)
			if journal {
				stopAtOffset(t, s, first(t), s.input("zero"), 0)
			}
			opened := s.disk.opened()
			record := s.host.Dir() + "/devices/d1.json"
			corrupt(t, record)
			_, err := s.run(again(t, 2), s.input("zero"))
			refusal := requireFault(t, err, device.CodeStateDirError, false)
			require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
			require.Contains(t, refusal.Fault.Message, record)
			require.NotEmpty(t, refusal.Fault.Remedy)
			require.Equal(t, opened, s.disk.opened())
		})
	}
}

// D1, S2.70
func TestOnInterruptError(t *testing.T) {
	t.Parallel()
	inBubble(t, "after a crash", func(t *testing.T) {
		s := newTestHost(t)
		in := s.input("zero")
		in.Settings.OnInterrupt = device.InterruptError
		crashAtOffset(t, s, first(t), in, steps.Chunk)
		opened, before := s.disk.opened(), s.entry()
		refusal := requireFault(t, errorOf(s.run(again(t, 2), in)), device.CodeInterrupted, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
		require.Equal(t, opened, s.disk.opened(), "the device was touched")
		require.Equal(t, before, s.entry())
		require.NoError(t, freed(s, "S1"))

		// The next clean is another one and may work.
		in.Clean, in.Seq = "run/2", 2
		require.EqualValues(t, 0, firstZero(t, s, first(t), in))
	})
	inBubble(t, "not after a graceful stop", func(t *testing.T) {
		s := newTestHost(t)
		in := s.input("zero")
		in.Settings.OnInterrupt = device.InterruptError
		stopAtOffset(t, s, first(t), in, 0)
		require.EqualValues(t, steps.Chunk, firstZero(t, s, again(t, 2), in))
	})
	inBubble(t, "not after lost contact", func(t *testing.T) {
		s := newTestHost(t)
		in := s.input("zero")
		in.Settings.OnInterrupt = device.InterruptError
		server := first(t)
		s.disk.intercept(func(call string, _ int64, _ context.Context) error {
			if call == "zero" {
				server.end(serviceerror.NewNotFound("the attempt timed out"))
			}
			return nil
		})
		_, err := s.run(server, in)
		requireRetriedNow(t, err, device.CodeServerUnreachable)
		require.EqualValues(t, steps.Chunk, firstZero(t, s, again(t, 2), in))
	})
	inBubble(t, "not after a fault that is retried", func(t *testing.T) {
		s := newTestHost(t)
		in := s.input("zero")
		in.Settings.OnInterrupt = device.InterruptError
		s.disk.intercept(func(call string, offset int64, _ context.Context) error {
			if call == "zero" && offset > 0 {
				return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "no space"}
			}
			return nil
		})
		_, err := s.run(first(t), in)
		requireFault(t, err, device.CodeIO, true)
		require.EqualValues(t, steps.Chunk, firstZero(t, s, again(t, 2), in))
	})
	inBubble(t, "not after a wait for a slot, however it ends", func(t *testing.T) {
		s := newTestHost(t)
		release := s.oneSlot(t)
		in := s.input("zero")
		in.Settings.OnInterrupt, in.Budget = device.InterruptError, time.Minute
		waits := s.start(first(t), in)
		waits.waitUntilWaiting(t, "queued for a slot (1st in line)")
		require.Equal(t, "nothing", s.journaled(), "a kill -9 now would count as a crash during the step")
		_, err := waits.wait(t)
		requireRetriedNow(t, err, device.CodeWaitingForSlot)
		release()
		require.EqualValues(t, 0, firstZero(t, s, again(t, 2), in))
	})
}

func errorOf(_ contract.StepAnswer, err error) error { return err }

// F2
func TestBytesThatACrashRepeatsAreCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, "two chunks for each crash, less at the end", func(t *testing.T) {
		s := newTestHost(t)
		in := s.input("zero")
		crashAtOffset(t, s, again(t, 1), in, 0)
		crashAtOffset(t, s, again(t, 2), in, steps.Chunk)
		crashAtOffset(t, s, again(t, 3), in, 2*steps.Chunk)
		result, err := s.run(again(t, 4), in)
		require.NoError(t, err)
		require.EqualValues(t, steps.MaxRepeated+3*steps.Chunk/2+steps.Chunk/2, result.ReprocessedBytesMax)
		require.EqualValues(t, diskSize, result.Bytes)
	})
	inBubble(t, "after a stop nothing is repeated", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		result, err := s.run(again(t, 2), s.input("zero"))
		require.NoError(t, err)
		require.Zero(t, result.ReprocessedBytesMax)
	})
}

// verifying is the scheduling that follows a zero.
func verifying(in contract.StepInput) contract.StepInput {
	in.Step, in.Seq = "verify", in.Seq+1
	return in
}

// F19
func TestOneDirtyByteFailsTheVerify(t *testing.T) {
	t.Parallel()
	inBubble(t, "a byte that the device does not erase", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.dirtyByte = diskSize - mib - 1
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		_, err = s.run(first(t), verifying(s.input("zero")))
		refusal := requireFault(t, err, device.CodeVerifyFailed, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
		require.NotEmpty(t, refusal.Fault.Remedy)
		require.False(t, s.entry().Done)
	})
}

// F11
func TestIdentityThatChangesBetweenStepsStopsTheClean(t *testing.T) {
	t.Parallel()
	inBubble(t, "before zero goes on", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		calls, in := s.disk.history(), s.input("zero")
		s.disk.identity.Serial = "S9" // another drive in the same slot
		_, err := s.run(again(t, 2), in)
		requireFault(t, err, device.CodeIdentityChanged, false)
		require.Equal(t, []string{"open"}, s.disk.history()[len(calls):])
	})
	inBubble(t, "while zero runs", func(t *testing.T) {
		s := newTestHost(t)
		in := s.input("zero")
		s.disk.intercept(func(call string, offset int64, _ context.Context) error {
			if call == "zero" && offset > 0 {
				s.disk.identity.Serial = "S9"
			}
			return nil
		})
		_, err := s.run(first(t), in)
		requireFault(t, err, device.CodeIdentityChanged, false)
		require.False(t, s.entry().Done)
	})
}

// The host records the firmware that a step gives a device before the device can run it. It
// counts for the same unit, in this clean and the next, until the device has another tenant.
//
// F20
func TestReflashIsRecordedUntilTheNextBinding(t *testing.T) {
	t.Parallel()
	s := newTestHost(t)
	crash := &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "the worker is gone"}
	s.disk.intercept(func(call string, _ int64, _ context.Context) error {
		if call == "perform firmware_reflash" {
			return crash
		}
		return nil
	})
	in := s.input("firmware_reflash")
	_, err := s.run(first(t), in)
	require.Error(t, err, "it ended after the record")
	s.disk.intercept(nil)
	require.Equal(t, host.Reflashed{Revision: "2.0", Serial: "S1", Binding: 3}, s.record("d1").Reflashed)

	var seen string
	s.disks.found = func(t hardware.Target, _ device.Identity) error {
		seen = t.Reflashed
		return nil
	}
	seq := in.Seq
	for _, tt := range []struct {
		serial  string
		binding int
		want    string
	}{{"S1", 3, "2.0"}, {"S1", 4, ""}, {"S2", 3, ""}} {
		seq++
		s.disk.identity.Serial = tt.serial
		next := s.input("zero")
		next.Seq, next.Binding, next.Clean = seq, tt.binding, "run/2"
		_, err := s.run(first(t), next)
		require.NoError(t, err)
		require.Equal(t, tt.want, s.disk.reflashed, "step, %+v", tt)
	}
	for _, tt := range []struct {
		binding int
		want    string
	}{{4, ""}, {3, "2.0"}} {
		s.disk.identity.Serial = "S1"
		look := s.firstDiscovery("d1")
		look.Known, look.Binding = s.disk.identity, tt.binding
		_, err := s.discover(t, look)
		require.NoError(t, err)
		require.Equal(t, tt.want, seen, "discovery, binding %d", tt.binding)
	}
}
