package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fleet is the server's records, poll by poll; the last one ends the watch as
// Ctrl-C would.
type fleet struct {
	rounds []map[string]client.Execution
	// lags is what the listing shows where it lags behind the devices.
	lags  []map[string]client.Execution
	broke map[int]error // polls in which the server fails

	slow time.Duration // of each answer about one device

	mu        sync.Mutex
	round     int
	now       time.Time
	described [][]string // by round
	atOnce    int
	most      int
}

// watching runs `burnish watch` over the fleet.
func (f *fleet) watching(t *testing.T, args ...string) ran {
	t.Helper()
	f.now = clock
	f.described = make([][]string, len(f.rounds)+1)
	present := func() map[string]client.Execution { return f.rounds[min(f.round, len(f.rounds)-1)] }
	l := &fakeClient{
		onList: func(string) ([]client.Execution, error) {
			if err := f.broke[f.round]; err != nil {
				return nil, err
			}
			listed := present()
			if len(f.lags) > f.round && f.lags[f.round] != nil {
				listed = f.lags[f.round]
			}
			var all []client.Execution
			for _, e := range listed {
				if isWatched(e.Status.DeviceState) {
					all = append(all, e)
				}
			}
			return all, nil
		},
		onDescribe: func(name string) (client.Execution, error) {
			f.mu.Lock()
			f.described[f.round] = append(f.described[f.round], name)
			f.atOnce++
			f.most = max(f.most, f.atOnce)
			f.mu.Unlock()
			<-time.After(f.slow)
			defer func() {
				f.mu.Lock()
				f.atOnce--
				f.mu.Unlock()
			}()
			if err := f.broke[f.round]; err != nil {
				return client.Execution{}, err
			}
			e, ok := present()[name]
			if !ok {
				return client.Execution{}, gone()
			}
			return e, nil
		},
		onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
			return present()[name].Status, nil
		},
	}
	return burnishWith(t, l, func(a *app, ctrlC func()) {
		a.now = func() time.Time { return f.now }
		a.pause = func(ctx context.Context, d time.Duration) error {
			require.GreaterOrEqual(t, d, pollInterval)
			f.round++
			f.now = f.now.Add(d)
			if f.round == len(f.rounds) {
				ctrlC()
			}
			return ctx.Err()
		}
	}, append([]string{"watch"}, args...)...)
}

// cleaningAt is a device in a step, with a heartbeat.
func cleaningAt(name string, done, total int64, ran time.Duration, waiting string) client.Execution {
	v := in(name, device.Cleaning)
	v.Hostname = "h1"
	v.CleanStep = &contract.CleanStep{Step: "zero", Priority: 70, Interface: "deploy"}
	e := running(v)
	e.Pending = map[string]client.Pending{"zero": {Started: true, Attempt: 1,
		Progress: &contract.Progress{Step: "zero", Offset: done, Size: total, RunTime: ran, Waiting: waiting}}}
	return e
}

func standing(name string, s device.State) client.Execution { return running(in(name, s)) }

// failedWith is a device in error.
func failedWith(name string) client.Execution {
	v := in(name, device.Error)
	v.NeedsOperator, v.Fault, v.LastError, v.Remedy = true, "io_error", "write failed", "clean it again"
	return running(v)
}

// hostUnreachable is a device whose host has no worker.
func hostUnreachable(name string) client.Execution {
	e := cleaningAt(name, 0, 0, 0, "")
	e.Status.NeedsOperator, e.Status.Fault, e.Status.Remedy = true, "host_unreachable", "start burnish-worker on h1"
	e.Pending["zero"] = client.Pending{Attempt: 1}
	return e
}

const mib = 1 << 20

func TestWatchAll(t *testing.T) {
	type devices = map[string]client.Execution
	freed := in("d1", device.Available)
	freed.UpdatedAt = clock.Add(time.Minute)
	again := cleaningAt("d1", 0, mib, 0, "")
	again.Status.UpdatedAt = clock.Add(2 * time.Minute)
	for name, tt := range map[string]struct {
		fleet *fleet
		out   []string // each line, without its time
		errs  string
	}{
		"nothing": {
			fleet: &fleet{rounds: []map[string]client.Execution{{"d1": standing("d1", device.Available)}, {}}},
			out:   []string{"no clean is running"},
		},
		"a whole clean": {
			fleet: &fleet{rounds: []map[string]client.Execution{
				{"d1": standing("d1", device.PendingCleaning)},
				{"d1": cleaningAt("d1", 0, 100*mib, 0, "")},
				{"d1": cleaningAt("d1", 50*mib, 100*mib, 5*time.Second, "")},
				{"d1": standing("d1", device.Cleaning)},
				{"d1": standing("d1", device.Available)},
				{"d1": standing("d1", device.Available)},
			}},
			out: []string{
				"d1: pending_cleaning, clean about to start",
				"d1: cleaning, zero, 0.0 % (0 B of 100.0 MiB)",
				"d1: cleaning, between steps",
				"d1: available",
				"no clean is running",
			},
		},
		"a long step": {
			fleet: &fleet{rounds: func() []map[string]client.Execution {
				var rounds []map[string]client.Execution
				for i := range int64(25) {
					rounds = append(rounds, devices{"d1": cleaningAt("d1", i*10*mib, 1000*mib, time.Duration(i)*time.Second, "")})
				}
				return rounds
			}()},
			out: []string{
				"d1: cleaning, zero, 0.0 % (0 B of 1000.0 MiB)",
				"d1: cleaning, zero, 10.0 % (100.0 MiB of 1000.0 MiB), 10.0 MiB/s, 1m30s left",
				"d1: cleaning, zero, 20.0 % (200.0 MiB of 1000.0 MiB), 10.0 MiB/s, 1m20s left",
			},
		},
		"a device that waits is shown in words": {
			fleet: &fleet{rounds: []map[string]client.Execution{{
				"d1": hostUnreachable("d1"), "d2": failedWith("d2"),
				"d3": cleaningAt("d3", 0, mib, 0, "queued for a slot (3rd in line)"), "d4": standing("d4", device.Available),
			}}},
			out: []string{
				"d1: cleaning, needs an operator: host_unreachable; start burnish-worker on h1, waiting for a worker of host h1",
				"d2: error: io_error; write failed; clean it again",
				"d3: cleaning, zero, 0.0 % (0 B of 1.0 MiB), queued for a slot (3rd in line)",
			},
		},
		"an error that ended, and a device that is gone": {
			fleet: &fleet{rounds: []map[string]client.Execution{
				{"d2": failedWith("d2"), "d3": cleaningAt("d3", 0, mib, 0, "")},
				{"d2": standing("d2", device.Manageable)},
			}},
			out: []string{
				"d2: error: io_error; write failed; clean it again",
				"d3: cleaning, zero, 0.0 % (0 B of 1.0 MiB)",
				"d2: manageable",
				"d3: gone",
				"no clean is running",
			},
		},
		"a listing that lags ends no clean twice": {
			fleet: &fleet{
				rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": running(freed)}, {"d1": running(freed)}, {"d1": running(freed)}},
				lags:   []map[string]client.Execution{nil, nil, {"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": standing("d1", device.PendingCleaning)}},
			},
			out: []string{"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)", "d1: available", "no clean is running"},
		},
		"a listing of a clean that ended before": {
			fleet: &fleet{
				rounds: []map[string]client.Execution{{"d1": running(freed)}},
				lags:   []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}},
			},
			out: []string{"no clean is running"},
		},
		"a clean that fails": {
			fleet: &fleet{rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": failedWith("d1")}}},
			out:   []string{"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)", "d1: error: io_error; write failed; clean it again"},
		},
		"a position in the queue": {
			fleet: &fleet{rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "queued for a slot (3rd in line)")}, {"d1": cleaningAt("d1", 0, mib, 0, "queued for a slot (3rd in line)")}, {"d1": cleaningAt("d1", 0, mib, 0, "queued for a slot (2nd in line)")}}},
			out: []string{
				"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB), queued for a slot (3rd in line)",
				"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB), queued for a slot (2nd in line)",
			},
		},
		"cleaned twice": {
			fleet: &fleet{rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": running(freed)}, {"d1": again}}},
			out:   []string{"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)", "d1: available", "no clean is running", "d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)"},
		},
		"cleaned again in the second of its return": {
			fleet: &fleet{rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": standing("d1", device.Available)}, {"d1": cleaningAt("d1", 0, mib, 0, "")}}},
			out:   []string{"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)", "d1: available", "no clean is running", "d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)"},
		},
		"a listing that lags within a second": {
			fleet: &fleet{
				rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": standing("d1", device.Available)}, {"d1": standing("d1", device.Available)}, {"d1": standing("d1", device.Available)}},
				lags:   []map[string]client.Execution{nil, nil, {"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": standing("d1", device.PendingCleaning)}},
			},
			out: []string{"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)", "d1: available", "no clean is running"},
		},
		"a listing that misses one for a moment": {
			fleet: &fleet{
				rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": cleaningAt("d1", 0, mib, 0, "")}},
				lags:   []map[string]client.Execution{nil, {}, nil},
			},
			out: []string{"d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)"},
		},
		"a server that is unreachable for a while": {
			fleet: &fleet{
				rounds: []map[string]client.Execution{{"d1": failedWith("d1")}, {}, {}, {"d1": failedWith("d1")}, {}},
				broke:  map[int]error{1: serviceerror.NewUnavailable("closing"), 2: serviceerror.NewUnavailable("closing"), 4: serviceerror.NewUnavailable("again")},
			},
			out: []string{"d1: error: io_error; write failed; clean it again"},
			errs: "burnish: note: Temporal does not answer: closing; start it, or set TEMPORAL_ADDRESS; trying " +
				"again\nburnish: note: Temporal does not answer: again; start it, or set TEMPORAL_ADDRESS; trying again\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.fleet.watching(t)
			require.Equal(t, exitInterrupted, got.code, got.errors)
			require.Equal(t, tt.errs+"burnish: watch: interrupted; the cleans go on\n", got.errors)
			var lines []string
			for line := range strings.Lines(got.out) {
				if at, text, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
					_, err := time.Parse("2006-01-02 15:04:05 MST", at)
					require.NoError(t, err)
					lines = append(lines, text)
				} else {
					lines = append(lines, at)
				}
			}
			require.Equal(t, tt.out, lines)
		})
	}
}

// A poll is one listing, and a description of each device in cleaning, a few at a time. With the
// fleet and with the time that the server needs the polls become rarer.
func TestWatchSparesTheServer(t *testing.T) {
	f := &fleet{slow: time.Millisecond}
	all := map[string]client.Execution{}
	for i := range 100 {
		name := fmt.Sprintf("d%03d", i)
		all[name] = cleaningAt(name, 0, mib, 0, "")
		all["e"+name] = failedWith("e" + name)
	}
	f.rounds = []map[string]client.Execution{all, all}
	require.Equal(t, exitInterrupted, f.watching(t).code)
	require.LessOrEqual(t, f.most, parallelism)
	for _, names := range f.described[:2] {
		require.Len(t, names, 100)
		require.NotContains(t, strings.Join(names, " "), "e")
	}
	require.Equal(t, pollInterval, pollPause(100, 0))
	require.Equal(t, 3*time.Second, pollPause(600, 100*time.Millisecond))
	require.Equal(t, 4*time.Second, pollPause(10, time.Second))
	require.Equal(t, maxPollInterval, pollPause(10_000, time.Minute))
}

// The rows, whose names would give the opposite order: what runs, what ends next first and what has no
// known end last; then what failed, the last one first; then what waits, in its order, and what has no
// known place last. Each has its columns.
func TestTheRowsOfAWatch(t *testing.T) {
	at := func(e client.Execution, minutes int) deviceSnapshot {
		m := meter{app: &app{now: func() time.Time { return clock }}, rates: map[string]*rateEstimator{}}
		s := m.snapshot(e.Name, e)
		s.UpdatedAt = clock.Add(time.Duration(minutes) * time.Minute)
		return s
	}
	late := cleaningAt("r1", 10*mib, 100*mib, 2*time.Second, "")
	beat := late.Pending["zero"].Progress
	beat.BudgetEnds, beat.ProgressAt = clock.Add(-1), clock.Add(-time.Minute)
	held := standing("q7", device.Cleaning)
	held.Status.Waiting = &contract.StatusWait{For: contract.WaitHold, Message: "on hold"}
	all := []deviceSnapshot{
		at(standing("q6", device.PendingCleaning), -3), at(held, -4), at(hostUnreachable("f8"), -9), at(failedWith("f9"), -1),
		at(cleaningAt("q8", 0, mib, 0, "queued for a slot (10th in line)"), -1),
		at(cleaningAt("q9", 0, mib, 0, "queued for a slot (2nd in line)"), -1), at(late, -5),
		at(cleaningAt("r0", 0, 100*mib, 0, ""), -9), at(cleaningAt("r3", 50*mib, 100*mib, time.Second, ""), -2),
		at(cleaningAt("r2", 50*mib, 100*mib, 2*time.Second, ""), -2),
	}
	p := watchPage(all, []string{"d9: available"}, clock)
	require.Equal(t, []string{"r3", "r2", "r1", "r0", "f9", "f8", "q9", "q8", "q7", "q6"}, p.Keys)
	require.Equal(t, "4 running, 4 queued, 2 failed, 80.0 MiB/s", p.Head)
	require.Equal(t, strings.Join([]string{
		"NAME  STATE    HOST  STEP     %  LEFT        RATE  PROGRESS  BUDGET  SINCE  NOTE",
		"r3    running  h1    zero  50.0    1s  50.0 MiB/s         -       -     2m  [===========-----------]",
		"r2    running  h1    zero  50.0    2s  25.0 MiB/s         -       -     2m  [===========-----------]",
		"r1    running  h1    zero  10.0   18s   5.0 MiB/s    1m ago    over     5m  [==--------------------]",
		"r0    running  h1    zero     -     -           -         -       -     9m  [----------------------]",
		"f9    failed   -     -        -     -           -         -       -     1m  io_error; write failed; clean it again",
		"f8    failed   h1    zero     -     -           -         -       -     9m  host_unreachable; start " +
			"burnish-worker on h1",
		"q9    queued   h1    zero     -     -           -         -       -     1m  queued for a slot (2nd in line)",
		"q8    queued   h1    zero     -     -           -         -       -     1m  queued for a slot (10th in line)",
		"q7    queued   -     -        -     -           -         -       -     4m  on hold",
		"q6    queued   -     -        -     -           -         -       -     3m  its clean to start", "",
	}, "\n"), p.Table.Text(0, false))
	require.Equal(t, "no clean is running", watchPage(nil, nil, clock).Head)
}

func TestWatchOne(t *testing.T) {
	retired := failedWith("d1")
	retired.Status.DeviceState, retired.Status.Fault, retired.Status.LastError = device.Retired, "", ""
	ended := client.Execution{Name: "d1"}
	dirty, unsanitized := standing("d1", device.Manageable), standing("d1", device.Available)
	dirty.Status.Dirty, unsanitized.Status.NotSanitized = true, true
	dirty.Status.Cleans = []contract.CleanSummary{{Number: 1, Outcome: "steps_done"}}
	for name, tt := range map[string]struct {
		rounds []map[string]client.Execution
		exit   int
		out    string // the last line
		errs   string
	}{
		"becomes available":  {rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": standing("d1", device.Available)}}, out: "d1: available"},
		"becomes manageable": {rounds: []map[string]client.Execution{{"d1": standing("d1", device.PendingCleaning)}, {"d1": standing("d1", device.Manageable)}}, out: "d1: manageable"},
		"fails": {
			rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": failedWith("d1")}},
			exit:   exitFailed,
			out:    "d1: error: io_error; write failed; clean it again",
			errs:   "burnish: watch d1: io_error: write failed; clean it again\n",
		},
		"had failed before": {rounds: []map[string]client.Execution{{"d1": failedWith("d1")}}, exit: exitFailed, out: "d1: error: io_error; write failed; clean it again", errs: "burnish: watch d1: io_error: write failed; clean it again\n"},
		"is retired meanwhile": {
			rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": retired}}, exit: exitFailed,
			out:  "d1: retired, needs an operator: clean it again",
			errs: "burnish: watch d1: the device is in state retired, and was not cleaned; clean it again\n",
		},
		"is clean already": {rounds: []map[string]client.Execution{{"d1": standing("d1", device.Available)}}, out: "d1: available"},
		"has a tenant, and was not cleaned": {
			rounds: []map[string]client.Execution{{"d1": standing("d1", device.Allocated)}}, exit: exitFailed,
			out: "d1: allocated", errs: "burnish: watch d1: the device is in use, and was not cleaned\n",
		},
		"has done named steps only": {
			rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}, {"d1": dirty}}, exit: exitFailed,
			out: "d1: manageable", errs: "burnish: watch d1: the device is in state manageable, and is not clean; provide d1 " +
				"to clean it\n",
		},
		"was offered without a clean": {
			rounds: []map[string]client.Execution{{"d1": unsanitized}}, exit: exitFailed,
			out: "d1: available", errs: "burnish: watch d1: the device is in state available, and was not sanitized; see " +
				"burnish show d1\n",
		},
		"is unknown": {
			rounds: []map[string]client.Execution{{"d1": standing("d1", device.Unknown)}}, exit: exitFailed,
			out: "d1: unknown", errs: "burnish: watch d1: the device is in state unknown, and was not cleaned; see burnish " +
				"show d1\n",
		},
		"no such device":      {rounds: []map[string]client.Execution{{}}, exit: exitFailed, errs: "burnish: watch d1: no such device; enroll it first, or see burnish list\n"},
		"forgotten meanwhile": {rounds: []map[string]client.Execution{{"d1": standing("d1", device.PendingCleaning)}, {"d1": ended}}, exit: exitFailed, out: "d1: pending_cleaning, clean about to start", errs: "burnish: watch d1: no such device; enroll it first, or see burnish list\n"},
		"Ctrl-C ends only itself": {
			rounds: []map[string]client.Execution{{"d1": cleaningAt("d1", 0, mib, 0, "")}}, exit: exitInterrupted,
			out: "d1: cleaning, zero, 0.0 % (0 B of 1.0 MiB)", errs: "burnish: watch d1: interrupted; the clean goes on; see " +
				"burnish show d1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&fleet{rounds: tt.rounds}).watching(t, "d1")
			require.Equal(t, tt.exit, got.code, got.errors)
			require.Equal(t, tt.errs, got.errors)
			all := strings.Split(strings.TrimSpace(got.out), "\n")
			_, last, _ := strings.Cut(all[len(all)-1], "  ")
			require.Equal(t, tt.out, last)
		})
	}
}

func TestWatchAsObjects(t *testing.T) {
	rounds := []map[string]client.Execution{
		{"d1": cleaningAt("d1", 10*mib, 100*mib, time.Second, "")},
		{"d1": cleaningAt("d1", 10*mib, 100*mib, time.Second, "")}, // nothing new
		{"d1": cleaningAt("d1", 20*mib, 100*mib, 2*time.Second, "")},
		{"d1": standing("d1", device.Available)},
	}
	got := (&fleet{rounds: rounds}).watching(t, "d1", "-o", "json")
	require.Equal(t, exitOK, got.code, got.errors)
	all := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, all, 3, got.out)
	var objects []watchObject
	for _, line := range all {
		var d watchObject
		require.NoError(t, json.Unmarshal([]byte(line), &d))
		objects = append(objects, d)
	}
	require.Equal(t, clock, objects[0].Time)
	require.Equal(t, int64(10*mib), objects[0].Rate)
	require.Equal(t, 10.0, objects[0].Progress.Percent)
	require.InDelta(t, 8.0, *objects[1].Left, 0.01)
	require.False(t, objects[1].Over)
	require.Equal(t, device.Available, objects[2].State)
	require.True(t, objects[2].Over)
	require.Nil(t, objects[2].Progress)

	ended := client.Execution{Name: "d1", Status: in("d1", device.Retired)}
	got = (&fleet{rounds: []map[string]client.Execution{rounds[0], {"d1": ended}}}).watching(t, "-o", "json")
	require.Contains(t, got.out, `"device_state":"","`)

	got = (&fleet{rounds: rounds}).watching(t, "d1", "-o", "yaml")
	require.Equal(t, 3, strings.Count(got.out, "---\ntime: "))
}

func TestWatchThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		broke map[int]error
		args  []string
		exit  int
		says  string
	}{
		"at the first poll": {broke: map[int]error{0: serviceerror.NewUnavailable("closing")}, exit: exitUnreachable, says: "Temporal does not answer: closing"},
		"permanently":       {broke: map[int]error{1: &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: "boom"}}, exit: exitFailed, says: "boom"},
		"the time is up":    {args: []string{"--timeout", "1ns"}, exit: exitTimeout, says: "watched for 1ns; the cleans keep running; see burnish list"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fleet{broke: tt.broke, rounds: []map[string]client.Execution{{"d1": failedWith("d1")}, {}, {}}}
			got := f.watching(t, tt.args...)
			require.Equal(t, tt.exit, got.code, got.errors)
			require.Contains(t, got.errors, tt.says)
			require.Equal(t, 1, strings.Count(got.errors, "\n"))
		})
	}
}
