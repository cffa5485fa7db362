package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

func TestSelectors(t *testing.T) {
	var asked string
	l := fleetOf(0)
	l.onList = func(query string) ([]client.Execution, error) {
		asked = query
		a, b := in("a", device.Error), in("b", device.Error)
		a.Model, b.Model = "X 1", "X 10"
		a.Hostname, b.Hostname, a.Type, b.Type = "h1", "h1", "NVME", "NVME"
		a.Fault, b.Fault = "verify_failed", "verify_failed"
		return []client.Execution{running(b), running(a)}, nil
	}
	got := burnish(t, l, "", "clean", "--state", "error", "--type", "nvme", "--host", "H1", "--fault", "verify_failed",
		"--model", "X 1", "--yes")
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, []string{"clean a"}, l.sent, "the model is compared exactly")
	if throughAPI { // which selects them itself
		return
	}
	require.Equal(t, "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus = 'Running' AND DeviceState = 'error'"+
		" AND DeviceType = 'NVME' AND DeviceHost = 'h1' AND DeviceFault = 'verify_failed'", asked)
}

func TestFleetFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`devices:
  - {name: a, host: h1, driver: fake, set: {size: 64MiB}}
  - name: b
    host: h1
    shade: red
  - {name: c, host: h1, driver: fake}
  - {name: d, host: h1, driver: fake}
`), 0o600))
	var mu sync.Mutex // several at once
	var enrolled []string
	l := &fakeClient{onEnroll: func(e contract.EnrollInput) (contract.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if e.Enrollment.Name == "c" {
			return contract.Result{},
				refuse("c", device.Available, device.Fault{Code: device.CodeAlreadyExists, Message: "another driver"})
		}
		enrolled = append(enrolled, e.Enrollment.Name)
		return contract.Result{Device: in(e.Enrollment.Name, device.Manageable)}, nil
	}}
	got := burnish(t, l, "", "enroll", "-f", file)
	require.Equal(t, exitPartly, got.code)
	require.Contains(t, got.errors, "burnish: enroll b: "+file+": line 5: unknown key \"shade\"")
	require.Contains(t, got.errors, "burnish: enroll c: another driver")
	require.Contains(t, got.errors, "burnish: enroll: 2 of 4 devices failed")
	slices.Sort(enrolled)
	require.Equal(t, []string{"a", "d"}, enrolled)
}
