package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// An override is requested and approved through the API alone.
//
// D2
func TestOverrideCommand(t *testing.T) {
	api := []string{"--api", "http://127.0.0.1:1", "override", "d1"}
	for name, tt := range map[string]struct {
		args []string
		sent *contract.OverrideInput
		exit int
		says string
	}{
		"without the API": {[]string{"override", "d1", "--reason", "r"}, nil, exitUsage,
			"burnish: override: an override goes through the HTTP API, which knows who asks: give --api URL, or set " +
				"BURNISH_API"},
		"no reason":        {api, nil, exitUsage, "--reason is missing, or --approve"},
		"longer than 24h":  {append(api, "--reason", "r", "--expires", "25h"), nil, exitUsage, "--expires must be positive, and at most 24h"},
		"expired":          {append(api, "--reason", "r", "--expires", "0s"), nil, exitUsage, "--expires must be positive"},
		"both":             {append(api, "--reason", "r", "--approve", "x1"), nil, exitUsage, "--approve takes neither --reason nor --expires"},
		"a request":        {append(api, "--reason", " r "), &contract.OverrideInput{Reason: "r", ExpiresAt: clock.Add(time.Hour)}, 0, "d1: override requested, now error; it waits"},
		"with an expiry":   {append(api, "--reason", "r", "--expires", "2h"), &contract.OverrideInput{Reason: "r", ExpiresAt: clock.Add(2 * time.Hour)}, 0, ""},
		"an approval":      {append(api, "--approve", "x1"), &contract.OverrideInput{Approve: "x1"}, 0, "d1: overridden, now error; it waits"},
		"approve and time": {append(api, "--approve", "x1", "--expires", "1h"), nil, exitUsage, "--approve takes neither"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent *contract.OverrideInput
			l := &fakeClient{onUpdate: func(_ context.Context, _, _ string, given any) (contract.Result, error) {
				got := given.(contract.OverrideInput)
				require.Equal(t, operator(), got.Caller)
				got.Caller = contract.Caller{}
				sent = &got
				return contract.Result{Device: in("d1", device.Error), Note: "it waits"}, nil
			}}
			got := burnish(t, l, "", tt.args...)
			require.Equal(t, tt.exit, got.code, got.errors)
			require.Contains(t, got.out+got.errors, tt.says)
			require.Equal(t, tt.sent, sent)
		})
	}
}

// show and history say that a device is not sanitized, by whom, and what waits for approval.
//
// D2
func TestOverrideIsShown(t *testing.T) {
	v := in("d1", device.Error)
	v.NotSanitized = true
	done := contract.Override{ID: "x1", Reason: "capacity", RequestedBy: "alice", RequestedAt: clock, ApprovedBy: "bob",
		ApprovedAt: clock.Add(time.Minute)}
	v.Override = &contract.StatusOverride{Approved: &done,
		Pending: &contract.Override{ID: "x2", Reason: "again", RequestedBy: "carol", RequestedAt: clock, ExpiresAt: clock.Add(time.Hour)}}
	v.Cleans = []contract.CleanSummary{{Number: 4, Outcome: "overridden", Override: &done}}
	l := &fakeClient{shown: &v}
	by := "override requested by alice on 2026-03-01 13:00:00 CET, approved by bob on 2026-03-01 13:01:00 CET, reason: " +
		"capacity"
	shown := burnish(t, l, "", "show", "d1").out
	require.Contains(t, shown, "no: "+by)
	require.Contains(t, shown, "requested by carol on 2026-03-01 13:00:00 CET, reason: again")
	require.Contains(t, shown, "until 2026-03-01 14:00:00 CET, somebody else: burnish override d1 --approve x2")
	require.Contains(t, burnish(t, l, "", "history", "d1").out, "clean 4: skipped, not sanitized, "+by+"\n")
}
