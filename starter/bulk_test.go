package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fleetOf answers every update, but refuses those of the names given.
func fleetOf(n int, bad ...string) *fakeClient {
	l := &fakeClient{
		onUpdate: func(_ context.Context, name, _ string, _ any) (contract.Result, error) {
			if slices.Contains(bad, name) {
				return contract.Result{},
					refuse(name, device.Retired, device.Fault{Code: device.CodeRefused, Message: "it is retired"})
			}
			return contract.Result{Device: in(name, device.PendingCleaning)}, nil
		},
		onList: func(string) ([]client.Execution, error) {
			var found []client.Execution
			for i := range n {
				found = append(found, running(in(fmt.Sprintf("d%02d", i), device.Error)))
			}
			return found, nil
		},
	}
	return l
}

func TestOneFailureDoesNotStopTheRest(t *testing.T) {
	for name, tt := range map[string]struct {
		bad  []string
		exit int
		errs string
	}{
		"none failed": {exit: exitOK},
		"some failed": {bad: []string{"b"}, exit: exitPartly, errs: "burnish: clean b: it is retired\nburnish: clean: 1 of 3 devices failed; follow the advice on each line\n"},
		"all failed":  {bad: []string{"a", "b", "c"}, exit: exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			l := fleetOf(0, tt.bad...)
			got := burnish(t, l, "", "clean", "a", "b", "c")
			require.Equal(t, tt.exit, got.code)
			require.Len(t, l.sent, 3)
			require.Equal(t, 3-len(tt.bad), strings.Count(got.out, "\n"))
			if tt.errs != "" {
				require.Equal(t, tt.errs, got.errors)
			}

			got = burnish(t, l, "", "clean", "a", "b", "c", "-o", "json")
			require.Equal(t, tt.exit, got.code)
			var body struct {
				Devices []struct {
					Name    string         `json:"name"`
					OK      bool           `json:"ok"`
					Message *string        `json:"message"`
					Error   map[string]any `json:"error"`
				} `json:"devices"`
			}
			require.NoError(t, json.Unmarshal([]byte(got.out), &body))
			require.Len(t, body.Devices, 3)
			for i, d := range body.Devices {
				require.Equal(t, string(rune('a'+i)), d.Name, "in the order that was asked for")
				require.Equal(t, !slices.Contains(tt.bad, d.Name), d.OK)
				require.Equal(t, d.OK, d.Message != nil)
				require.Equal(t, !d.OK, d.Error != nil)
			}
		})
	}
}

func TestManyWaitTimesOut(t *testing.T) {
	l := fleetOf(3)
	l.onDescribe = func(name string) (client.Execution, error) { return running(in(name, device.Cleaning)), nil }
	l.onQuery = func(_ context.Context, name string) (contract.DeviceStatus, error) {
		if name == "d01" {
			return in(name, device.Available), nil
		}
		return in(name, device.Cleaning), nil
	}
	got := burnish(t, l, "", "clean", "--state", "error", "--yes", "--wait", "--timeout", "3s")
	require.Equal(t, exitTimeout, got.code)
	require.Equal(t, "d01: cleaned, now available\n", got.out)
	require.Contains(t, got.errors, "2 of 3 devices failed")
}
