package workflows_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/hostscan"
	"burnish/workflows/instance"
	"burnish/workflows/lifecycle"
	"burnish/workflows/limits"
	"burnish/workflows/oneview"
	"burnish/workflows/reconcile"
)

// histories is where `make histories` keeps what released code recorded of all workflows,
// one folder a version.
const histories = "testdata/histories"

// replayPolicies gives each setting another value than the default: a worker's settings
// must never change what an earlier worker's history says.
func replayPolicies() map[string]clean.Policy {
	usual := clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute,
		StepSettings: device.StepSettings{Verify: "full", TellAfter: 5 * time.Minute}}
	change := func(by func(*clean.Policy)) clean.Policy {
		p := usual
		by(&p)
		return p
	}
	return map[string]clean.Policy{
		"usual":                usual,
		"automated off":        change(func(p *clean.Policy) { p.Automated = false }),
		"on enroll off":        change(func(p *clean.Policy) { p.OnEnroll = false }),
		"error on interrupt":   change(func(p *clean.Policy) { p.OnInterrupt = device.InterruptError }),
		"unreachable after 1s": change(func(p *clean.Policy) { p.HostSilentAfter = time.Second }),
		"cleanup time-out":     change(func(p *clean.Policy) { p.CleanupTimeout = time.Minute }),
		"limits": change(func(p *clean.Policy) {
			p.Limits = &device.Limits{ConcurrentCleans: 1, FreeCapacity: device.Capacity{Devices: 9}}
		}),
		"sampled": change(func(p *clean.Policy) { p.Verify = "sample:7" }),
		"a runbook": change(func(p *clean.Policy) {
			p.Runbooks = []clean.Runbook{{Name: "r", Match: &clean.Match{Trait: "OWNER_CYBORG"}, Steps: []clean.RunbookStep{
				{Step: clean.StepHold, Args: json.RawMessage(`{"reason":"x"}`)}, {Step: "zero"}, {Step: "verify"}}}}
		}),
		"priorities": change(func(p *clean.Policy) { p.Priorities = map[string]float64{"zero": 1.5, "verify": 99} }),
	}
}

// TestReplay_EveryReleasedHistoryUnderEverySetting replays what released versions
// recorded: a difference would block running devices at the next upgrade.
func TestReplay_EveryReleasedHistoryUnderEverySetting(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(histories, "*", "*.json"))
	require.NoError(t, err)
	version, err := os.ReadFile("../VERSION")
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(histories, strings.TrimSpace(string(version))),
		"make histories records this version's")
	require.NotEmpty(t, files)
	for name, policy := range replayPolicies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replay := newReplayer(t, policy)
			for _, file := range files {
				require.NoError(t, replay(file), file)
			}
		})
	}
}

// The replay can fail: a history with another first step of the clean is refused.
func TestReplay_NoticesAnotherOrder(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(histories, "*", "turnover-1.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other.json")
	require.NoError(t,
		os.WriteFile(other, []byte(strings.Replace(string(text), `"name": "zero"`, `"name": "verify"`, 1)), 0o600))
	require.Error(t, newReplayer(t, replayPolicies()["usual"])(other))
}

// newReplayer replays one history file by workflows with this policy.
func newReplayer(t *testing.T, policy clean.Policy) func(file string) error {
	t.Helper()
	return newReplayerWith(t, policy, log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))), false)
}

// newReplayerWith is newReplayer with the workflows' logger; loud: also what they replay is
// logged.
func newReplayerWith(t *testing.T, policy clean.Policy, to log.Logger, loud bool) func(file string) error {
	t.Helper()
	planner, err := clean.NewPlanner(steps.All().Planning(), policy)
	require.NoError(t, err)
	// The SDK would give a task up after a second, which is short beside other tests.
	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(
		sdkworker.WorkflowReplayerOptions{DisableDeadlockDetection: true, EnableLoggingInReplay: loud})
	require.NoError(t, err)
	devices := &lifecycle.Lifecycle{Planner: planner}
	for name, do := range map[string]any{
		contract.WorkflowDeviceLifecycle: devices.DeviceLifecycle, contract.WorkflowHostScan: hostscan.HostScan,
		contract.WorkflowInventoryReconcile: reconcile.InventoryReconcile, contract.WorkflowLimits: limits.Limits,
		contract.WorkflowOneView: oneview.OneViewPoll, contract.WorkflowInstance: instance.InstanceLifecycle,
		contract.WorkflowGuestAddress: instance.GuestAddress,
	} {
		replayer.RegisterWorkflowWithOptions(do, workflow.RegisterOptions{Name: name})
	}
	return func(file string) error { return replayer.ReplayWorkflowHistoryFromJSONFile(to, file) }
}
