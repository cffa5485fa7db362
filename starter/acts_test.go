package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// changing are the commands that change something beside those of dryArguments, with arguments that are enough for
// each.
var changing = map[string][]string{
	"enroll":                {"d1", "--host", "h1", "--driver", "fake"},
	"import":                {"--from", "placement", "--cloud", "c"},
	"resume":                {"--model", "M", "--step", "zero"},
	"oneview migrate":       {"d1"},
	"instance bind":         {someInstance, "--device", "d1"},
	"instance attach":       {someInstance, "--device", "d1"},
	"instance detach":       {someInstance, "d1"},
	"instance release":      {someInstance},
	"instance rebuild":      {someInstance},
	"instance migrate":      {someInstance, "--to", "h2"},
	"instance live-migrate": {someInstance, "--to", "h2"},
	"instance confirm":      {someInstance},
	"instance revert":       {someInstance},
	"instance evacuate":     {someInstance, "--to", "h2"},
	"maintain":              {"d1"},
	// The API alone says who asks for an override: TestOverrideCommand.
	"override": {"d1"},
}

// Each command that changes something sends who runs it, and the reason that --reason gives.
func TestEveryCommandThatChangesSendsWhoAndWhy(t *testing.T) {
	for _, command := range leaves((&app{}).root()) {
		name := strings.TrimPrefix(command.CommandPath(), "burnish ")
		args, changes := changing[name]
		if dry, is := dryArguments[name]; is && !changes {
			args, changes = dry.args, true
		}
		if !changes {
			require.False(t, command.Flags().Lookup("reason") != nil, "burnish %s takes --reason: add it to changing", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			require.Contains(t, helpText(command), "--reason ", "its help names the flag")
			given := append(strings.Fields(name), args...)
			given = append(given, "--reason", "a new fan")
			if name == "override" {
				given = append([]string{"--api", "http://127.0.0.1:1"}, given...)
			}
			var sent []any
			keep := func(input any) { sent = append(sent, input) }
			l := &fakeClient{
				onUpdate: func(_ context.Context, _, _ string, input any) (contract.Result, error) {
					keep(input)
					return contract.Result{Device: in("d1", device.Manageable)}, nil
				},
				onEnroll: func(input contract.EnrollInput) (contract.Result, error) {
					keep(input)
					return contract.Result{Device: in("d1", device.Manageable)}, nil
				},
				onResume: func(input contract.ResumeInput) (contract.ResumeResult, error) {
					keep(input)
					return contract.ResumeResult{}, nil
				},
				onInstance: func(_ context.Context, _, _ string, input any) (contract.InstanceResult, error) {
					keep(input)
					return contract.InstanceResult{}, nil
				},
				importable: func(string, contract.CandidatesInput) (contract.Candidates, error) {
					return contract.Candidates{
						Devices: []contract.Candidate{{Name: "h1_0000:0a:00.0", Host: "h1", Address: "0000:0a:00.0"}}}, nil
				},
				onDescribe: func(name string) (client.Execution, error) { return running(preallocated(name)), nil },
				onQuery:    func(_ context.Context, name string) (contract.DeviceStatus, error) { return preallocated(name), nil },
			}
			got := burnish(t, l, "", given...)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Len(t, sent, 1)
			input, ok := sent[0].(contract.Input)
			require.True(t, ok, "%T says not who", sent[0])
			act := input.Act()
			require.Equal(t, "a new fan", act.Reason)
			if name != "override" {
				require.Equal(t, operator(), contract.Caller{By: act.By, From: act.From})
				require.NotEmpty(t, act.By)
			}
		})
	}
}

// preallocated is a device of a shared pool that is not dynamic yet.
func preallocated(name string) contract.DeviceStatus {
	v := in(name, device.Available)
	v.Pool = &contract.StatusPool{Pool: contract.Pool{Appliance: "a1", Hardware: "/rest/server-hardware/1"}}
	return v
}

// All that happened is one table in the order of time: acts, bindings and cleans, each with who
// did it. A request is above what it led to at the same moment.
func TestEventsAreInTheOrderOfTime(t *testing.T) {
	d := trail()
	rows := eventRows(contract.HistoryOf(d).Events())
	var got []string
	for _, row := range rows[1:] {
		got = append(got, strings.Join(row[1:], " | "))
	}
	require.Equal(t, []string{
		"enroll provide | root@h1 |  |  | ",
		"clean 1 began | root@h1 |  | enrolled | ",
		"clean 1: failed at zero, 12.0 MiB of 64.0 MiB, attempt 3 | burnish |  | sector 24576 cannot be written\x1b[31m | " +
			"io_error",
		"clean | unknown | signal |  | ",
		"clean 2 began | unknown |  |  | ",
		"clean 2: cleaned | burnish |  |  | ",
		"bind " + someInstance + " | ann (42) | 192.0.2.7 | a demo | ",
		"began: binding 1 of instance " + someInstance + " | ann (42) |  | a demo | ",
		"unbind " + someInstance + " | ann (42) | 192.0.2.7 |  | ",
		"ended: binding 1 of instance " + someInstance + " | ann (42) |  |  | ",
		"clean 3 began | burnish |  |  | ",
		"clean 3: aborted | burnish |  |  | ",
		"release-hold | root@h1 |  |  | refused",
	}, got)
	l := &fakeClient{shown: &d}
	out := burnish(t, l, "", "history", "d1").out
	for i, at := 0, 0; i < len(rows); i++ {
		next := strings.Index(out[at:], rows[i][1])
		require.GreaterOrEqual(t, next, 0, rows[i][1])
		at += next
	}
	require.NotContains(t, out, "\x1b")
	require.Contains(t, out, "ENDED")
	require.Regexp(t, `(?m)^1 +`+someInstance+
		` +- +2026-03-01 13:01:00 CET by ann \(42\) +2026-03-01 13:02:00 CET by ann \(42\)$`, out)
	shown := burnish(t, l, "", "show", "d1").out
	require.NotContains(t, shown, "failed step", "its last clean was aborted before its first step")
}

// A failed clean keeps where and why it failed, after the next one too; show names the step
// until another clean has ended.
func TestAFailedCleanStaysVisible(t *testing.T) {
	d := trail()
	d.DeviceState = device.Error
	l := &fakeClient{shown: &d}
	require.Contains(t, burnish(t, l, "", "history", "d1").out,
		"fault io_error at zero, 12.0 MiB of 64.0 MiB, attempt 3: sector 24576 cannot be written")
	d.Cleans = d.Cleans[:1]
	require.Regexp(t, `(?m)^failed step +zero, 12\.0 MiB of 64\.0 MiB, attempt 3$`, burnish(t, l, "", "show", "d1").out)
}

// trail is a device with every kind of event, in no order.
func trail() contract.DeviceStatus {
	d := in("d1", device.Error)
	minute := func(n int) time.Time { return clock.Add(time.Duration(n) * time.Minute) }
	second := func(n int) time.Time { return clock.Add(time.Duration(n) * time.Second) }
	d.Acts = []contract.Act{
		{At: minute(1), Verb: "bind", Detail: someInstance, By: "ann (42)", From: "192.0.2.7", Reason: "a demo"},
		{At: minute(2), Verb: "unbind", Detail: someInstance, By: "ann (42)", From: "192.0.2.7"},
		{At: minute(3), Verb: "release_hold", By: "root@h1", Fault: device.CodeRefused},
		{At: clock, Verb: "enroll", Detail: "provide", By: "root@h1"},
		{At: second(10), Verb: "clean", From: contract.FromSignal},
	}
	d.Bindings = []device.Binding{{
		Number: 1, Instance: someInstance,
		Began: &device.Moment{At: minute(1), Verb: "bind", By: "ann (42)", Reason: "a demo"},
		Over:  &device.Moment{At: minute(2), Verb: "unbind", By: "ann (42)"},
	}}
	d.Cleans = []contract.CleanSummary{
		{Number: 1, By: "root@h1", Reason: "enrolled", Outcome: "failed", Fault: device.CodeIO,
			StartedAt: clock.Add(time.Microsecond), EndedAt: second(5), Failure: &contract.CleanFailure{
				Step: "zero", Offset: 12 << 20, Size: 64 << 20, Attempt: 3, Message: "sector 24576 cannot be written\x1b[31m",
			}},
		{Number: 2, Outcome: "cleaned", StartedAt: second(10), EndedAt: second(30)},
		{Number: 3, By: contract.ByBurnish, Outcome: "aborted", StartedAt: minute(2), EndedAt: minute(2)},
	}
	return d
}
