package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// label takes names and changes, in kubectl's form.
func TestLabelCommand(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want device.LabelChange
		sent []string
	}{
		{[]string{"d1", "rack=a1"}, device.LabelChange{Set: map[string]string{"rack": "a1"}}, []string{"label d1"}},
		{[]string{"d1", "d2", "rack=a1", "tier=", "old-", "--overwrite"}, device.LabelChange{Set: map[string]string{"rack": "a1", "tier": ""}, Remove: []string{"old"}, Overwrite: true}, []string{"label d1", "label d2"}},
		{[]string{"--state", "error", "old-"}, device.LabelChange{Remove: []string{"old"}}, []string{"label d00", "label d01"}},
	} {
		l := fleetOf(2)
		l.onUpdate = func(_ context.Context, name, _ string, input any) (contract.Result, error) {
			sent := sentAs(t, input.(contract.LabelInput))
			if len(sent.Set) == 0 {
				sent.Set = nil
			}
			assert.Equal(t, contract.LabelInput{LabelChange: tt.want, Reason: "moved", Caller: operator()}, sent)
			return contract.Result{Device: in(name, device.Available)}, nil
		}
		got := burnish(t, l, "", append(append([]string{"label"}, tt.args...), "--reason", "moved")...)
		require.Equal(t, exitOK, got.code, got.errors)
		require.ElementsMatch(t, tt.sent, l.sent)
		require.Contains(t, got.out, ": labeled")
	}
}

// A device gets labels when it is enrolled, by flags or in a file, and shows them.
func TestLabelsOfAnEnrollment(t *testing.T) {
	var sent []map[string]string
	l := &fakeClient{onEnroll: func(e contract.EnrollInput) (contract.Result, error) {
		sent = append(sent, e.Enrollment.Labels)
		return contract.Result{Device: in(e.Enrollment.Name, device.Manageable)}, nil
	}}
	got := burnish(t, l, "", "enroll", "d1", "--host", "h1", "--driver", "fake", "--label", "rack=a1", "--label",
		"example.com/tier=gold")
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, []map[string]string{{"rack": "a1", "example.com/tier": "gold"}}, sent)

	file := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t,
		os.WriteFile(file, []byte("devices:\n  - {name: a, host: h1, driver: fake, labels: {rack: b}, set: {size: 1MiB}}\n"),
			0o600))
	got = burnish(t, l, "", "enroll", "-f", file)
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, map[string]string{"rack": "b"}, sent[1])

	require.NoError(t, os.WriteFile(file, []byte("devices:\n  - {name: a, host: h1, driver: fake, labels: {rack: a b}}\n"),
		0o600))
	got = burnish(t, l, "", "enroll", "-f", file)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errors, "line 2: label rack=")
	require.Len(t, sent, 2)

	v := in("d1", device.Available)
	v.Labels = map[string]string{"tier": "gold", "rack": "a1"}
	l.onDescribe = func(string) (client.Execution, error) { return running(v), nil }
	l.onQuery = func(context.Context, string) (contract.DeviceStatus, error) { return v, nil }
	require.Regexp(t, `(?m)^labels +rack=a1,tier=gold$`, burnish(t, l, "", "show", "d1").out)
	require.Contains(t, burnish(t, l, "", "show", "d1", "-o", "json").out, `"labels": {`)
}
