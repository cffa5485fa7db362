package main

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// withHistory is a device with two bindings and three cleans.
func withHistory() contract.DeviceStatus {
	v := in("h1_0000:01:00.0", device.Allocated)
	v.Binding = 2
	v.Bindings = []device.Binding{
		{Number: 1, Instance: someInstance, Tag: "data\nbase", Request: "r1"},
		{Number: 2, Instance: "0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41", Observed: true},
	}
	v.Cleans = []contract.CleanSummary{
		{Number: 1, Outcome: "failed", Operation: device.Shred, Fault: device.CodeIO, RunTime: time.Second, StartedAt: clock, EndedAt: clock.Add(time.Minute)},
		{Number: 2, Outcome: "cleaned", Operation: device.Shred, Reason: "once\nmore", RunTime: 90 * time.Second,
			StartedAt: clock, EndedAt: clock.Add(2 * time.Minute), Steps: []contract.StepResult{
				{Step: "zero", Bytes: 1 << 30, Method: "o_direct", RunTime: 60 * time.Second, ReprocessedBytesMax: 64 << 20},
				{Step: "verify", Bytes: 1 << 30, Method: "full", RunTime: 30 * time.Second, Note: "\x1b[31mred"},
			}},
		{Number: 3, Outcome: "steps_done", RunTime: 0, StartedAt: clock, EndedAt: clock, Steps: []contract.StepResult{{Step: "verify"}}},
	}
	v.Acts = []contract.Act{
		{At: clock, Verb: "enroll", Detail: "provide", By: "root@h1", Request: "enroll-1"},
		{At: clock.Add(time.Minute), Verb: "clean", By: "ann (42)", From: "192.0.2.7", Reason: "once more", Request: "r1"},
		{At: clock.Add(time.Hour), Verb: "power", Detail: "reset", By: "ann (42)", From: "192.0.2.7", Fault: device.CodePowerUnknown},
	}
	return v
}

func TestHistoryThatIsEmpty(t *testing.T) {
	d := in("d1", device.Manageable)
	l := &fakeClient{shown: &d}
	got := burnish(t, l, "", "history", "d1")
	require.Equal(t, ran{0, "d1, now manageable\n\nno binding yet\n\nno clean yet\n", ""}, got)
	d.DeviceState = device.Cleaning
	got = burnish(t, l, "", "history", "d1")
	require.Equal(t, ran{0, "d1, now cleaning\n\nno binding yet\n\na clean is running: see burnish show d1\n", ""}, got)
	got = burnish(t, l, "", "history", "d1", "-o", "json")
	require.Zero(t, got.code)
	var p map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(got.out), &p))
	require.Equal(t, "[]", string(p["bindings"]))
	require.Equal(t, "[]", string(p["cleans"]))
	require.Equal(t, "[]", string(p["acts"]))
}

// Without a running workflow there is no history, although its last run answers: the answer is one
// line.
func TestHistoryOfADeviceThatIsGone(t *testing.T) {
	absent, before := in("d1", device.Absent), in("d1", device.Available)
	for name, tt := range map[string]struct {
		describe func(string) (client.Execution, error)
		query    func(context.Context, string) (contract.DeviceStatus, error)
		exit     int
		says     string
		timeout  string
	}{
		"never there": {
			describe: func(string) (client.Execution, error) { return client.Execution{}, gone() }, exit: exitFailed,
			says: "burnish: history d1: no such device; enroll it first, or see burnish list\n",
		},
		"forgotten": {
			describe: func(name string) (client.Execution, error) {
				return client.Execution{Name: name, Forgotten: true, Ended: clock}, nil
			}, exit: exitFailed,
			says: "burnish: history d1: it was deleted with burnish forget on 2026-03-01 12:00:00 UTC; while Temporal keeps " +
				"it, see: temporal workflow show --workflow-id device/d1\n",
		},
		"terminated by somebody": {
			describe: func(name string) (client.Execution, error) {
				return client.Execution{Name: name, Ended: clock,
					HowEnded: "terminated at 2026-03-01T12:00:00Z by ann@h1 (by mistake\x1b[31m)"}, nil
			}, exit: exitFailed,
			says: "burnish: history d1: no workflow runs for the device: it was terminated at 2026-03-01T12:00:00Z by ann@h1 " +
				"(by mistake?[31m); the worker of its host brings it back at its next reconciliation or start; check that it " +
				"runs\n",
		},
		"never enrolled": {
			describe: func(string) (client.Execution, error) { return running(absent), nil },
			query:    func(context.Context, string) (contract.DeviceStatus, error) { return absent, nil }, exit: exitFailed,
			says: "burnish: history d1: its enrollment was never finished; enroll it again\n",
		},
		"no worker": {
			describe: func(string) (client.Execution, error) { return running(absent), nil },
			query: func(ctx context.Context, _ string) (contract.DeviceStatus, error) {
				return contract.DeviceStatus{}, noAnswer(ctx)
			}, exit: exitTimeout, timeout: "10ms",
			says: "burnish: history d1: no control worker answered on queue burnish within 10ms, and none polls it; start " +
				"burnish-worker with BURNISH_ROLE=control or all, and check with: temporal task-queue describe --task-queue " +
				"burnish\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &fakeClient{onDescribe: tt.describe, onQuery: tt.query, shown: &before}
			got := burnish(t, l, "", "history", "d1", "--timeout", cmp.Or(tt.timeout, "30s"))
			require.Equal(t, ran{tt.exit, "", tt.says}, got)
		})
	}
}
