package activities_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
	"burnish/workflows/contract"
)

// trailed is a test host whose log is read as a trail.
func trailed(t *testing.T) *testHost {
	t.Helper()
	s := newTestHost(t)
	s.hardware.Log = logs.New(s.log, logs.Options{Format: logs.JSON, Level: slog.LevelDebug})
	return s
}

// trail gives the lines of the trail, and in short each one's message and step.
func (s *testHost) trail() (lines []testlog.Line, short string) {
	s.t.Helper()
	lines, err := testlog.Trail(s.log.String())
	require.NoError(s.t, err)
	var all []string
	for _, l := range lines {
		one := l.Text("msg")
		if !l.Is(logs.CleanStarted) && !l.Is(logs.CleanEnded) {
			one += ": " + l.Text(logs.Step)
		}
		all = append(all, one)
	}
	return lines, strings.Join(all, ", ")
}

// another is a host worker that starts with the same state directory.
func (s *testHost) another() {
	s.hardware = &activities.Hardware{Host: s.host, Drivers: s.hardware.Drivers, Steps: s.hardware.Steps,
		Slots: s.hardware.Slots, Log: s.hardware.Log}
}

// cleaned runs both steps of a clean of d1.
func cleaned(s *testHost, change func(*contract.StepInput)) {
	s.t.Helper()
	for i, step := range []string{"zero", "verify"} {
		in := s.input(step)
		in.Seq, in.More = int64(i+1), i == 0
		change(&in)
		_, err := s.run(first(s.t), in)
		require.NoError(s.t, err)
	}
}

// From the log of a host alone one reads when a clean began, what each step did to which
// device, and that the clean has ended.
func TestACleanOnAHostLeavesATrail(t *testing.T) {
	inBubble(t, "a full clean", func(t *testing.T) {
		s := trailed(t)
		s.disk.identity.Path = "/dev/d1"
		s.disk.takes = 10 * time.Second
		cleaned(s, func(in *contract.StepInput) { in.Settings.Verify = "sample:2" })
		lines, short := s.trail()
		require.Equal(t, "clean started, step done: zero, step done: verify, clean ended", short)
		for _, l := range lines {
			require.Equal(t, []any{"d1", contract.DeviceUUID("d1"), "S1", s.host.Name(), int64(1), int64(3)},
				[]any{l[logs.Device], l[logs.UUID], l[logs.Serial], l[logs.Host], l.Number(logs.Clean), l.Number(logs.Binding)})
		}
		require.Equal(t, []any{"zero", "/dev/d1", int64(diskSize), "shred"},
			[]any{lines[0][logs.Step], lines[0][logs.Path], lines[0].Number(logs.Bytes), lines[0][logs.Operation]})
		require.Equal(t, []any{"/dev/d1", int64(diskSize), "double", int64(30 * time.Second), nil},
			[]any{lines[1][logs.Path], lines[1].Number(logs.Bytes), lines[1][logs.Method], lines[1].Number(logs.Duration),
				lines[1][logs.Seed]})
		require.Equal(t, "sample:2", lines[2][logs.Method])
		require.Contains(t, lines[2][logs.Note], "with seed "+lines[2].Text(logs.Seed))
	})
}

// A wait for one of the host's slots ends by itself: it is said once, for debugging, and before
// the clean has begun.
func TestAWaitForASlotIsForDebugging(t *testing.T) {
	inBubble(t, "while another clean has the only one", func(t *testing.T) {
		s := trailed(t)
		s.add("d2", "S2")
		s.hardware.Slots = host.NewSlots(1)
		in := s.input("zero")
		in.More = true
		_, err := s.run(first(t), in)
		require.NoError(t, err)
		other := s.start(first(t), s.inputFor("d2", "zero"))
		other.waitUntilWaiting(t, "queued for a slot")
		_, short := s.trail()
		require.Equal(t, "clean started, step done: zero, queued for a slot: zero", short)
		in.Step, in.Seq, in.More = "verify", 2, false
		_, err = s.run(first(t), in)
		require.NoError(t, err)
		_, err = other.wait(t)
		require.NoError(t, err)
		lines, _ := s.trail()
		var its []string
		for _, l := range lines {
			if l.Text(logs.Device) == "d2" {
				its = append(its, l.Text("level")+" "+l.Text("msg"))
			}
		}
		require.Equal(t, []string{"DEBUG queued for a slot", "INFO clean started", "INFO step done", "INFO clean ended"}, its)
	})
}

// Whatever the server tries again, the worker says once. What a killed worker may not have
// said, the next one says.
func TestARetriedAttemptLeavesNoSecondTrail(t *testing.T) {
	inBubble(t, "a step that is done", func(t *testing.T) {
		s := trailed(t)
		cleaned(s, func(*contract.StepInput) {})
		_, before := s.trail()
		in := s.input("verify")
		in.Seq = 2
		for attempt := range int32(3) {
			_, err := s.run(again(t, attempt+2), in)
			require.NoError(t, err)
		}
		_, after := s.trail()
		require.Equal(t, before, after)
		s.another()
		_, err := s.run(again(t, 5), in)
		require.NoError(t, err)
		lines, after := s.trail()
		require.Equal(t, before+", step done: verify, clean ended", after)
		require.Equal(t, lines[2][logs.Duration], lines[4][logs.Duration], "of the journal")
		require.Equal(t, lines[2][logs.Method], lines[4][logs.Method])
	})
	inBubble(t, "a step that fails twice", func(t *testing.T) {
		s := trailed(t)
		failures := 2
		s.disk.intercept(func(call string, offset int64, _ context.Context) error {
			if call == "zero" && offset > 0 && failures > 0 {
				failures--
				return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "not now"}
			}
			return nil
		})
		for attempt := range int32(3) {
			_, err := s.run(again(t, attempt+1), s.input("zero"))
			require.Equal(t, attempt < 2, err != nil)
		}
		_, short := s.trail()
		require.Equal(t, "clean started, step done: zero, clean ended", short)
	})
	inBubble(t, "a step that a crash interrupts", func(t *testing.T) {
		s := trailed(t)
		in := s.input("zero")
		entry := host.Entry{Seq: 1, Attempt: 1, Clean: "run/1 g7 v1", EvidenceOf: "run/1 g7", Step: "zero", Serial: "S1",
			Size: diskSize, Offset: diskSize / 5 * 2, Working: true}
		require.NoError(t, s.host.Journal("d1").Save(entry))
		_, err := s.run(again(t, 2), in)
		require.NoError(t, err)
		lines, short := s.trail()
		require.Equal(t, "step resumed: zero, step done: zero, clean ended", short,
			"the worker that died has said that the clean began")
		require.EqualValues(t, diskSize/5*2, lines[0].Number(logs.Offset))
		require.Positive(t, lines[1].Number(logs.Reprocessed))
	})
	inBubble(t, "the same step of the next clean", func(t *testing.T) {
		s := trailed(t)
		cleaned(s, func(*contract.StepInput) {})
		cleaned(s, func(in *contract.StepInput) {
			in.Clean, in.Number, in.Seq, in.Binding, in.Generation = "run/2", 2, in.Seq+2, 4, 9
		})
		_, short := s.trail()
		require.Equal(t, 2, strings.Count(short, "clean started, step done: zero, step done: verify, clean ended"), short)
	})
}

// A clean that fails or is aborted ends with a line that says so, and with its remedy.
func TestAFailedStepEndsTheTrail(t *testing.T) {
	inBubble(t, "a fault", func(t *testing.T) {
		s := trailed(t)
		s.disk.intercept(func(call string, offset int64, _ context.Context) error {
			if call == "zero" && offset > 0 {
				return &device.Fault{Class: device.NeedsOperator, Code: device.CodeIO, Message: "bad\nsectors",
					Remedy: "replace it"}
			}
			return nil
		})
		in := s.input("zero")
		in.More = true
		for range 2 { // as by a second scheduling whose answer was lost
			_, err := s.run(first(t), in)
			require.Error(t, err)
		}
		lines, short := s.trail()
		require.Equal(t, "clean started, step failed: zero", short)
		require.Equal(t, []any{"io_error", "replace it"}, []any{lines[1][logs.Fault], lines[1][logs.Remedy]})
		require.Contains(t, lines[1][logs.Error], "sectors")
		require.Positive(t, lines[1].Number(logs.Offset))
	})
	inBubble(t, "an abort", func(t *testing.T) {
		s := trailed(t)
		s.disk.takes = time.Minute
		server := first(t)
		running := s.start(server, s.input("zero"))
		pass(90 * time.Second)
		server.end(temporal.NewCanceledError())
		_, err := running.wait(t)
		require.True(t, temporal.IsCanceledError(err), err)
		lines, short := s.trail()
		require.Equal(t, "clean started, step stopped: zero", short)
		require.Positive(t, lines[1].Number(logs.Offset))
	})
	inBubble(t, "a scheduling that another one has overtaken", func(t *testing.T) {
		s := trailed(t)
		cleaned(s, func(*contract.StepInput) {})
		_, before := s.trail()
		_, err := s.run(first(t), s.input("zero"))
		requireFault(t, err, device.CodeSuperseded, false)
		_, after := s.trail()
		require.Equal(t, before, after)
	})
}

// The SDK takes every error of an activity for an error. A wait is for debugging, what an
// operator asked wrongly is no error, what is tried again and again is said less and less
// often.
func TestTheLevelOfAnActivitysError(t *testing.T) {
	refused := func(class device.Class, code device.Code) error {
		return contract.Refuse(contract.Refusal{Fault: device.Fault{Class: class, Code: code, Message: "m"}})
	}
	for name, tt := range map[string]struct {
		err     error
		attempt int32
		level   slog.Level
	}{
		"canceled":               {temporal.NewCanceledError(), 1, slog.LevelDebug},
		"a wait for a slot":      {refused(device.Transient, device.CodeWaitingForSlot), 1, slog.LevelDebug},
		"a worker that stops":    {refused(device.Transient, device.CodeWorkerStopping), 1, slog.LevelDebug},
		"a path that is no":      {refused(device.Permanent, device.CodeNotFound), 1, slog.LevelInfo},
		"what needs a person":    {refused(device.NeedsOperator, device.CodeVerifyFailed), 1, slog.LevelWarn},
		"the first failure":      {refused(device.Transient, device.CodeInventoryUnavailable), 1, slog.LevelWarn},
		"the third":              {refused(device.Transient, device.CodeInventoryUnavailable), 3, slog.LevelDebug},
		"the fourth":             {refused(device.Transient, device.CodeInventoryUnavailable), 4, slog.LevelWarn},
		"what nobody thought of": {fmt.Errorf("nil map"), 3, slog.LevelError},
	} {
		require.Equal(t, tt.level, activities.ErrorLevel(tt.err, tt.attempt), name)
	}
}
