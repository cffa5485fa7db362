package lifecycle_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle"
)

// histories is where `make histories` keeps what released code recorded, a folder a
// version. 0.3.0-import holds what that code recorded of imports whose provider was missing
// at the first look and made anew, free: one that was believed, one that still waits.
const histories = "testdata/histories"

// replayPolicies gives each setting another value than the default: what a worker is
// told must never change what an earlier worker's history says.
func replayPolicies() map[string]clean.Policy {
	usual := clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute, StepSettings: device.StepSettings{Verify: "full"}}
	change := func(by func(*clean.Policy)) clean.Policy {
		p := usual
		by(&p)
		return p
	}
	return map[string]clean.Policy{
		"usual":              usual,
		"automated off":      change(func(p *clean.Policy) { p.Automated = false }),
		"on enrol off":       change(func(p *clean.Policy) { p.OnEnroll = false }),
		"error on interrupt": change(func(p *clean.Policy) { p.OnInterrupt = device.InterruptError }),
		"silent after 1s":    change(func(p *clean.Policy) { p.HostSilentAfter = time.Second }),
		"cleanup time-out":   change(func(p *clean.Policy) { p.CleanupTimeout = time.Minute }),
		"sampled":            change(func(p *clean.Policy) { p.Verify = "sample:7" }),
		"priorities":         change(func(p *clean.Policy) { p.Priorities = map[string]float64{"zero": 1.5, "verify": 99} }),
	}
}

// TestReplay_EveryReleasedHistoryUnderEverySetting replays what released versions
// recorded: a difference would block running devices at the next upgrade.
func TestReplay_EveryReleasedHistoryUnderEverySetting(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(histories, "*", "*.json"))
	require.NoError(t, err)
	version, err := os.ReadFile("../../VERSION")
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("version " + strings.TrimSpace(string(version)) + " has no histories yet: make histories")
	}
	require.DirExists(t, filepath.Join(histories, strings.TrimSpace(string(version))), "make histories records this version's")
	require.NotEmpty(t, files)
	for name, policy := range replayPolicies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planner, err := clean.NewPlanner(steps.All().Planning(), policy)
			require.NoError(t, err)
			replayer := worker.NewWorkflowReplayer()
			devices := &lifecycle.Lifecycle{Planner: planner}
			replayer.RegisterWorkflowWithOptions(devices.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
			quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
			for _, file := range files {
				require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(quiet, file), file)
			}
		})
	}
}

// TestReplay_NoticesAnotherOrder shows that the replay can fail: a history in which the
// clean's first call was another one is refused.
func TestReplay_NoticesAnotherOrder(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(histories, "*", "turnover-1.json"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("no histories yet: make histories")
	}
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other.json")
	require.NoError(t, os.WriteFile(other, []byte(strings.Replace(string(text), `"name": "EnsureReserved"`, `"name": "Unreserve"`, 1)), 0o600))
	planner, err := clean.NewPlanner(steps.All().Planning(), replayPolicies()["usual"])
	require.NoError(t, err)
	replayer := worker.NewWorkflowReplayer()
	devices := &lifecycle.Lifecycle{Planner: planner}
	replayer.RegisterWorkflowWithOptions(devices.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	require.Error(t, replayer.ReplayWorkflowHistoryFromJSONFile(quiet, other))
}
