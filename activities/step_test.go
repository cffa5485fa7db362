package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/telemetry"
	"burnish/internal/testkit/figures"
	"burnish/workflows/contract"
)

// traced runs one step and lists, call by call, what the device was asked and what
// the journal said at that moment.
func traced(t *testing.T, s *testHost, server *server, in contract.StepInput) []string {
	t.Helper()
	var lines []string
	s.disk.intercept(func(call string, offset int64, _ context.Context) error {
		if call == "read" && offset%steps.Chunk != 0 {
			return nil
		}
		synctest.Wait() // what was begun to be recorded is recorded
		lines = append(lines, fmt.Sprintf("%s %d: %s", call, offset/mib, s.journaled()))
		if e, _, err := s.host.Journal("d1").Load(); err == nil && in.Step == "zero" && e.Offset > s.disk.durableUpTo() {
			return fmt.Errorf("the journal is at %d, the device at %d", e.Offset, s.disk.durableUpTo())
		}
		return s.fenced("S1")
	})
	_, err := s.run(server, in)
	require.NoError(t, err)
	s.disk.intercept(nil)
	return lines
}

// F2
func TestJournalIsNeverAheadOfTheDevice(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		require.Equal(t, []string{
			"open 0: nothing",
			"zero 0: working at 0", "flush 0: working at 0",
			"zero 64: working at 64", "flush 0: working at 64",
			"zero 128: working at 128", "flush 0: working at 128",
			"check 0: working at 128", "close 0: working at 128",
		}, traced(t, s, first(t), s.input("zero")))
		require.Equal(t, "done at 160", s.journaled())
		require.EqualValues(t, diskSize, s.disk.durableUpTo())
		require.NoError(t, freed(s, "S1"))
	})
	inBubble(t, "verify", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.durableBefore(diskSize)
		require.Equal(t, []string{
			"open 0: nothing",
			// Blocks that are read ahead are not verified yet.
			"read 0: working at 0", "read 64: working at 0", "read 128: working at 64",
			"check 0: working at 128", "close 0: working at 128",
		}, traced(t, s, first(t), s.input("verify")))
		require.Equal(t, "done at 160", s.journaled())
	})
}

// freed fails unless the fence is free. It does not keep the fence.
func freed(s *testHost, serial string) error {
	synctest.Wait()
	f, err := s.tryFence(serial)
	if err != nil {
		return err
	}
	return f.Close()
}

// F2
func TestJournalHoldsEverythingThatAResumeNeeds(t *testing.T) {
	t.Parallel()
	inBubble(t, "during the step", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		var during host.Entry
		s.disk.intercept(func(call string, offset int64, _ context.Context) (err error) {
			if call == "zero" && offset == steps.Chunk {
				synctest.Wait() // the chunk before is recorded
				during, _, err = s.host.Journal("d1").Load()
			}
			return err
		})
		in := s.input("zero")
		in.Seq, in.Clean = 9, "run/4"
		_, err := s.run(again(t, 3), in)
		require.NoError(t, err)
		during.Updated = time.Time{}
		require.Contains(t, during.Clean, "run/4")
		during.Clean = ""
		require.Equal(t, host.Entry{
			Seq: 9, Attempt: 3, Step: "zero", Serial: "S1", Size: diskSize, Offset: steps.Chunk,
			RunTime: 10 * time.Second, Working: true, Slot: true, EvidenceOf: "run/4 g7",
		}, during)
	})
}

// F10
func TestHostRemembersTheNumbersBeforeItTouchesTheDevice(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		require.NoError(t,
			s.host.SaveRecord(host.Record{Name: "d1", Driver: "double", Binding: 5, Clean: 1, Seq: 4,
				Identity: s.disk.identity}))
		var before host.Record
		s.disk.intercept(func(call string, _ int64, _ context.Context) (err error) {
			if call == "open" {
				before, _, err = s.host.LoadRecord("d1")
			}
			return err
		})
		in := s.input("zero")
		in.Seq, in.Number, in.Binding, in.Generation = 6, 2, 3, 11
		_, err := s.run(first(t), in)
		require.NoError(t, err)
		require.EqualValues(t, 6, before.Seq)
		require.Equal(t, 2, before.Clean)
		require.Equal(t, 5, before.Binding, "a number decreased")
		require.EqualValues(t, 11, before.Generation)
	})
	inBubble(t, "a record that was lost", func(t *testing.T) {
		s := newTestHost(t)
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		r, found, err := s.host.LoadRecord("d1")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "double", r.Driver, "without a driver a lost workflow could not be started again")
		require.Equal(t, s.disk.identity, r.Identity)
		require.Equal(t, contract.DeviceUUID("d1"), r.UUID)
	})
}

// F2
func TestHeartbeatsCarryProgress(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		server := first(t)
		in := s.input("zero")
		in.Seq = 4
		began := time.Now().UTC()
		_, err := s.run(server, in)
		require.NoError(t, err)
		at := func(offset int64, ran time.Duration) contract.Progress {
			return contract.Progress{
				Step: "zero", Seq: 4, Offset: offset, Size: diskSize, RunTime: ran, ProgressAt: began.Add(ran),
				BudgetEnds: began.Add(budget),
			}
		}
		all := server.heartbeats()
		require.GreaterOrEqual(t, len(all), 3)
		require.Equal(t, []contract.Progress{
			at(0, 0), at(steps.Chunk, 10*time.Second), at(2*steps.Chunk, 20*time.Second),
		}, all[:3], "the result has the last offset")
	})
	inBubble(t, "the previous attempt's progress is reported until there is more", func(t *testing.T) {
		s := newTestHost(t)
		f, err := s.host.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		server := again(t, 2)
		server.lastProgress = &contract.Progress{Step: "zero", Seq: 3, Offset: steps.Chunk, Size: diskSize,
			RunTime: time.Minute}
		in := s.input("zero")
		in.Seq = 4
		r := s.start(server, in)
		pass(3 * time.Second)
		got := server.last()
		require.Contains(t, got.Waiting, "waiting for the device's last I/O to end")
		got.Waiting, got.ProgressAt, got.Reported = "", time.Time{}, ""
		require.Equal(t, contract.Progress{Step: "zero", Seq: 4, Offset: steps.Chunk, Size: diskSize, RunTime: time.Minute},
			got)
		require.NoError(t, f.Close())
		_, err = r.wait(t)
		require.NoError(t, err)
	})
}

func TestAResultIsRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = 10 * time.Second
		result, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		require.Equal(t, contract.StepResult{Step: "zero", Clean: "run/1", Seq: 1, Bytes: diskSize, Method: "double",
			RunTime: 30 * time.Second}, result.StepResult)
		e := s.entry()
		require.JSONEq(t, fmt.Sprintf(`{"step":"zero","clean":"run/1","seq":1,"bytes":%d,"method":"double","run_time":%d}`,
			diskSize, 30*time.Second), string(e.Result))
	})
}

// S3.35
func TestAFinishedStepIsNotRepeated(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.takes = time.Second
		before, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		calls := s.disk.history()
		for _, attempt := range []int32{1, 2, 7} {
			after, err := s.run(again(t, attempt), s.input("zero"))
			require.NoError(t, err)
			require.Equal(t, before, after)
			require.Equal(t, []string{"open", "check", "close"}, s.disk.history()[len(calls):],
				"it is looked at, and not written")
			calls = s.disk.history()
		}
		require.True(t, s.entry().Done)
	})
}

// Nothing holds the device between the attempt that journaled the result and the next one:
// in between, other hardware may have been put in its slot.
//
// F26
func TestARecordedResultIsNotBelievedOfOtherHardware(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"zero", "verify"} {
		inBubble(t, step, func(t *testing.T) {
			s := newTestHost(t)
			s.disk.durableBefore(diskSize)
			in := s.input(step)
			_, err := s.run(first(t), in)
			require.NoError(t, err)
			s.add("d1", "S2")
			_, err = s.run(again(t, 2), in)
			requireFault(t, err, device.CodeIdentityChanged, false)
		})
	}
}

// A workflow that was put back to an earlier moment asks with numbers that its host has
// seen in other work. No record of that counts, and the host reports its numbers.
//
// F26
func TestARecordedResultOfOtherWorkDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*contract.StepInput){
		"another clean":                                         func(in *contract.StepInput) { in.Clean = "run/2" },
		"the same clean, after a binding":                       func(in *contract.StepInput) { in.Generation++ },
		"the same clean and number, with a re-created provider": func(in *contract.StepInput) { in.Provider = "p2" },
		"another step":                                          func(in *contract.StepInput) { in.Step = "zero" },
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			s.disk.durableBefore(diskSize)
			stale := s.input("verify")
			stale.Seq, stale.Number = 9, 4
			_, err := s.run(first(t), stale)
			require.NoError(t, err)
			in := stale
			in.Number = 3
			change(&in)
			_, err = s.run(first(t), in)
			refusal := requireFault(t, err, device.CodeSuperseded, false)
			require.Equal(t, &contract.HostNumbers{Seq: 9, Clean: 4, Binding: 3}, refusal.Known)
		})
	}
}

// F1
func TestSupersededNeverOpensTheDevice(t *testing.T) {
	t.Parallel()
	stored := host.Entry{Seq: 5, Attempt: 4, Clean: "run/1 g7 v1", Step: "zero", Serial: "S1", Size: diskSize,
		Offset: steps.Chunk, Working: true}
	for _, c := range []struct {
		name    string
		seq     int64
		attempt int32
		stored  func(*host.Entry)
		refused bool
	}{
		{name: "an older scheduling", seq: 4, attempt: 9, refused: true},
		{name: "an older scheduling of a step that is done", seq: 4, attempt: 9, stored: func(e *host.Entry) { e.Done = true }, refused: true},
		{name: "an older attempt", seq: 5, attempt: 3, refused: true},
		{name: "the same attempt", seq: 5, attempt: 4},
		{name: "a later attempt", seq: 5, attempt: 5},
		{name: "a later scheduling", seq: 6, attempt: 1},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			s := newTestHost(t)
			e := stored
			if c.stored != nil {
				c.stored(&e)
			}
			require.NoError(t, s.host.Journal("d1").Save(e))
			before := s.entry()
			in := s.input("zero")
			in.Seq = c.seq
			_, err := s.run(again(t, c.attempt), in)
			if !c.refused {
				require.NoError(t, err)
				require.Equal(t, 1, s.disk.opened())
				return
			}
			requireFault(t, err, device.CodeSuperseded, false)
			require.Zero(t, s.disk.opened(), "the device was touched")
			require.Equal(t, before, s.entry(), "the newer scheduling's journal was changed")
			require.NoError(t, freed(s, "S1"))
		})
	}
}

// F1
func TestSupersededEvenWhereTheJournalIsGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		corrupt bool
	}{{"gone", false}, {"corrupt", true}} {
		inBubble(t, c.name, func(t *testing.T) {
			s := newTestHost(t)
			require.NoError(t, s.host.SaveRecord(host.Record{Name: "d1", Driver: "double", Seq: 5}))
			if c.corrupt {
				corrupt(t, s.journalFile("d1"))
			}
			in := s.input("zero")
			in.Seq = 4
			_, err := s.run(again(t, 9), in)
			requireFault(t, err, device.CodeSuperseded, false)
			require.Zero(t, s.disk.opened(), "the device was touched")
			in.Seq = 5
			_, err = s.run(again(t, 2), in)
			require.NoError(t, err, "the newest scheduling may work")
		})
	}
}

// The host checks the arguments of a step again before it touches the device: what reaches it
// need not come from a plan of Burnish's.
func TestArgumentsAreCheckedOnTheHost(t *testing.T) {
	for step, args := range map[string]string{
		"zero":             `{"passes":0}`,
		"bios_apply":       `{"BootMode":{"of":"objects"}}`,
		"bios_reset":       `[]`,
		"firmware_reflash": `{"component":"BIOS"}`,
		"verify_firmware":  `{"image":"/tmp/x"}`,
	} {
		t.Run(step, func(t *testing.T) {
			s := newTestHost(t)
			in := s.input(step)
			in.Args = json.RawMessage(args)
			_, err := s.run(first(t), in)
			requireFault(t, err, device.CodeInvalid, false)
			require.Empty(t, s.disk.history(), "nothing of the device was touched")
		})
	}
}

// A worker that gets a step of another host's device touches nothing.
//
// F13
func TestAStepOfAnotherHostIsRefused(t *testing.T) {
	s := newTestHost(t)
	in := s.input("zero")
	in.Enrollment.Host = "elsewhere"
	_, err := s.run(first(t), in)
	require.Contains(t, requireFault(t, err, device.CodeInvalid, false).Fault.Message, "not elsewhere")
	require.Empty(t, s.disk.history(), "nothing of the device was touched")
}

// Each attempt counts once, as what became of it.
func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		counted, err := telemetry.New("test", "host", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		var options sdkclient.Options
		counted.Options(&options)
		in := s.input("zero")
		attempt := func(number int32, fails func(*server) error) {
			server := again(t, number)
			server.metrics = options.MetricsHandler
			s.disk.intercept(func(call string, _ int64, _ context.Context) error {
				if call == "flush" && fails != nil {
					return fails(server)
				}
				return nil
			})
			_, err := s.run(server, in)
			require.Equal(t, fails != nil, err != nil)
		}
		attempt(1, func(*server) error { return errors.New("not now") })
		attempt(2, func(*server) error { return errors.New("not now either") })
		attempt(3, nil)
		attempt(4, nil) // the answer was lost
		in.Seq, in.Clean = 2, "another"
		attempt(1, func(*server) error {
			return &device.Fault{Class: device.NeedsOperator, Code: device.CodeIO, Message: "broken"}
		})
		in.Seq, in.Clean = 3, "a third"
		attempt(1, func(s *server) error { s.end(temporal.NewCanceledError()); return nil })
		all, err := figures.Of(counted.Handler())
		require.NoError(t, err)
		require.Equal(t, figures.Figures{
			"burnish_step_attempts_total{result=retried,step=zero}":  2,
			"burnish_step_attempts_total{result=done,step=zero}":     1,
			"burnish_step_attempts_total{result=repeated,step=zero}": 1,
			"burnish_step_attempts_total{result=failed,step=zero}":   1,
			"burnish_step_attempts_total{result=stopped,step=zero}":  1,
		}, all.With("burnish_step_attempts"))
	})
}

// readFirstBlock is a step as a file of internal/clean/steps defines one: what the
// planner needs, and a function that runs it. got receives the settings of the run.
func readFirstBlock(got *device.StepSettings) steps.Step {
	return steps.Step{
		Step: clean.Step{
			Name: "read_first_block", Interface: "deploy", Phase: clean.Prepare, Priority: 10, Version: 2, Abortable: true,
			Applies: func(s clean.Subject) bool { return s.Operation.Overwrites() },
			Timeout: func(clean.Subject) time.Duration { return time.Minute },
		},
		Run: func(_ context.Context, w *steps.Work) (steps.Outcome, error) {
			*got = w.Settings
			n, err := w.Device.ReadAt(make([]byte, mib), 0)
			if err != nil {
				return steps.Outcome{}, err
			}
			return steps.Outcome{Bytes: int64(n), Method: "read"}, w.Checkpoint(int64(n))
		},
	}
}

// A step that is only added to the list is reported by its host, planned, and carried out
// with the settings that the plan recorded: planner and activities need no change.
func TestAStepIsAddedByAddingItToTheList(t *testing.T) {
	t.Parallel()
	inBubble(t, "from the host's report to the result", func(t *testing.T) {
		var got device.StepSettings
		s := newTestHost(t)
		s.hardware.Steps = append(steps.All(), readFirstBlock(&got))

		found, err := s.discover(t, contract.DiscoverInput{Enrollment: s.enrollment("d1"), UUID: contract.DeviceUUID("d1")})
		require.NoError(t, err)
		policy := clean.Policy{StepSettings: everySetting(t)}
		planner, err := clean.NewPlanner(s.hardware.Steps.Planning(), policy)
		require.NoError(t, err)
		plan, fault := planner.Full(clean.Subject{Name: "d1", Operation: device.Shred, HostSteps: found.Steps})
		require.Nil(t, fault)
		require.Equal(t, "read_first_block", plan[0].Step.Name)
		require.Equal(t, 2, found.Steps["read_first_block"])

		in := s.input(plan[0].Step.Name)
		in.Version, in.Budget, in.Settings = found.Steps[in.Step], plan[0].Timeout, planner.Policy().StepSettings
		result, err := s.run(first(t), in)
		require.NoError(t, err)
		require.EqualValues(t, mib, result.Bytes)
		require.Equal(t, policy.StepSettings, got, "a setting is lost on its way to the step")
	})
}

// everySetting gives settings of which none is zero, those that are added later included.
func everySetting(t *testing.T) device.StepSettings {
	t.Helper()
	var s device.StepSettings
	setEveryField(t, reflect.ValueOf(&s).Elem())
	return s
}

func setEveryField(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			setEveryField(t, f)
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.CanInt():
			f.SetInt(7)
		case f.CanFloat():
			f.SetFloat(7)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		default:
			require.Fail(t, "this test cannot set "+v.Type().Field(i).Name)
		}
	}
}
