package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func polledAppliances() *fakeClient {
	return &fakeClient{polled: map[string]contract.OneViewState{
		"rack1": {
			Appliance: "rack1", Interval: 5 * time.Minute, Next: clock.Add(time.Minute), LastGood: clock.Add(-4 * time.Minute),
			Rounds:   7,
			Last:     contract.PollCounts{Servers: 100, Devices: 40, Taken: 3, Freed: 2, TakenOnCleanFail: 1, Failed: 1},
			Problems: []contract.Mismatch{{Name: "node7", What: "odd"}},
		},
		"rack2": {
			Appliance: "rack2", Interval: 5 * time.Minute, Rounds: 1, Unread: 1, NeedsOperator: true, Failing: clock,
			Round: &contract.PollRound{StartedAt: clock, Start: 200, Total: 900},
			Fault: &device.Fault{Class: device.NeedsOperator, Code: device.CodeApplianceRefused, Message: "the login was refused", Remedy: "correct the password"},
		},
		"rack3": {Appliance: "rack3"},
	}}
}

// The line of an appliance is its last good round and the next one, or that there is none.
func TestOneViewStatus(t *testing.T) {
	got := burnish(t, polledAppliances(), "", "oneview", "status")
	require.Equal(t, 0, got.code, got.errors)
	require.Regexp(t, `(?m)^rack1 +4m ago +100 +40 +3 +2 +1 +1 +\d{4}-.* -$`, got.out)
	require.Regexp(t, `(?m)^rack2 +never .* runs: 200 of 900 servers +appliance_refused$`, got.out)
	require.Regexp(t, `(?m)^rack3 +never .* polls are off +-$`, got.out)

	got = burnish(t, polledAppliances(), "", "oneview", "status", "rack1")
	require.Equal(t, 0, got.code, got.errors)
	require.Contains(t, got.out, "100 servers, 40 devices: 3 taken, 2 freed, 1 taken on clean fail, 1 failed")
	require.Regexp(t, `(?m)^problem +node7: odd$`, got.out)
	got = burnish(t, polledAppliances(), "", "oneview", "status", "rack2")
	require.Regexp(t, `(?m)^needs operator +yes$`, got.out)
	require.Regexp(t, `(?m)^remedy +correct the password$`, got.out)

	got = burnish(t, polledAppliances(), "", "oneview", "status", "-o", "json")
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &all))
	require.Len(t, all, 3)
	require.InDelta(t, 300, all[0]["periodic_check_interval"], 0)
	require.Nil(t, all[1]["last_good"])
	require.Equal(t, []any{}, all[2]["problems"])
}

func TestOneViewStatusOfNone(t *testing.T) {
	got := burnish(t, &fakeClient{}, "", "oneview", "status")
	require.Equal(t, 0, got.code)
	require.Contains(t, got.out, "no appliance is polled")
	got = burnish(t, &fakeClient{}, "", "oneview", "status", "-o", "json")
	require.Equal(t, "[]\n", got.out)
	got = burnish(t, &fakeClient{}, "", "oneview", "status", "rack9")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.errors, "no control worker serves an appliance named \"rack9\"")
}

// An appliance of which no round was good for long is a warning.
func TestDoctorShowsThePolls(t *testing.T) {
	withoutWorker(t)
	l := healthy()
	l.polled = polledAppliances().polled
	got := burnish(t, l, "", "doctor")
	require.Regexp(t, `OK +polls: rack1: last good round 4m ago, 40 devices, 1 failed`, got.out)
	require.Regexp(t, `WARN +polls: rack2: no good round since .*the login was refused`, got.out)
	require.Regexp(t, `OK +polls: rack3: off`, got.out)
}
