package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const heldPolicy = `
runbooks:
  held:
    match: {trait: OWNER_CYBORG}
    steps:
    - {step: zero}
    - {step: verify}
    - {step: hold, args: {reason: look at it}}
    - {step: wait, args: {for: 1s}}
  by-hand:
    steps:
    - {step: zero}
    - {step: verify}
`

const rackPolicy = `
limits:
  concurrent_cleans: 1
runbooks:
  trays:
    match: {trait: OWNER_CYBORG}
    group: rack
    steps:
    - {step: zero}
    - {step: verify}
    - {step: together}
`

// The devices of a rack wait for each other, each with its reservation, and go on when the last one is there: also
// after a kill -9 of the worker and after the workflow of the limits was lost, and although the limits allow one clean.
func TestARackIsCleanedTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(rackPolicy), 0o600))
	w := s.Run(t, "all", "BURNISH_POLICY="+policy, "BURNISH_SWEEP_INTERVAL=2s")
	var devices []Device
	for _, name := range []string{"t1", "t2", "t3"} {
		d := s.Device(t, "fake", name, 4*MiB, 0)
		s.Enroll(t, d, "--label", "rack=R1")
		devices = append(devices, d)
	}
	single := s.Device(t, "fake", "single", 4*MiB, 0)
	s.Enroll(t, single)
	s.Must(t, "provide", "single")
	v := s.AwaitDevice(t, "single", 30*time.Second, "to miss its label",
		func(v contract.DeviceStatus) bool { return v.DeviceState == device.Error })
	require.Contains(t, v.LastError, "the label rack")

	waits := func(missing string) func(contract.DeviceStatus) bool {
		return func(v contract.DeviceStatus) bool {
			return v.Fault == string(device.CodeWaitingForGroup) && strings.Contains(v.LastError, missing)
		}
	}
	s.Must(t, "provide", "t1")
	s.AwaitDevice(t, "t1", 30*time.Second, "to wait for the others", waits("t2, t3"))
	s.Must(t, "provide", "t2")
	s.AwaitDevice(t, "t2", 30*time.Second, "to wait for t3", waits(": t3"))
	s.AwaitDevice(t, "t1", 30*time.Second, "to wait for t3", waits(": t3"))
	s.RequireReserved(t, "t1", 1)
	w.Kill(t)
	require.NoError(t, s.Client.TerminateWorkflow(t.Context(), contract.LimitsWorkflowID, "", "by mistake"))
	w.Start(t)
	s.Must(t, "provide", "t3")
	for _, d := range devices {
		s.AwaitReturned(t, d, 60*time.Second)
	}
	require.Contains(t, s.Must(t, "history", "t1"), "all with rack=R1 were there after")

	// The others are done and stay away: an operator lets the one go on alone.
	s.Must(t, "bind", "t1", "--instance", Instance("alice"))
	s.Must(t, "unbind", "t1", "--instance", Instance("alice"))
	s.AwaitDevice(t, "t1", 30*time.Second, "to wait for the others", waits("t2, t3"))
	s.Must(t, "release-hold", "t1", "--reason", "they are fine")
	s.AwaitReturned(t, devices[0], 30*time.Second)
	require.Contains(t, s.Must(t, "history", "t1"), "went on without all with rack=R1; released after")
}

// A runbook's hold outlasts a kill -9 of the worker, keeps the device reserved until it is
// released, and stands in the record. A runbook by hand makes no dirty device available.
//
// F7
func TestARunbookThatHolds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(heldPolicy), 0o600))
	w := s.Run(t, "all", "BURNISH_POLICY="+policy)
	d := s.Device(t, "fake", "d1", 4*MiB, 0)
	s.Enroll(t, d)

	require.Contains(t, s.Must(t, "validate", "d1"), "look at it")
	s.Refused(t, device.CodeNoSuchRunbook, "validate", "d1", "--runbook", "none")
	s.Refused(t, device.CodeNoSuchRunbook, "clean", "d1", "--runbook", "none")
	s.Refused(t, device.CodeInvalid, "clean", "d1", "--steps", "zero", "--arg", "passes=0")
	s.Must(t, "clean", "d1", "--runbook", "by-hand", "--wait", "--timeout", "60s")
	v := s.Show(t, "d1")
	require.Equal(t, device.Manageable, v.DeviceState)
	require.True(t, v.Dirty)
	s.RequireReserved(t, "d1", 1)
	d.RequireZero(t)

	s.Must(t, "provide", "d1")
	held := func(v contract.DeviceStatus) bool { return v.Fault == string(device.CodeOnHold) }
	v = s.AwaitDevice(t, "d1", 30*time.Second, "to be on hold", held)
	require.True(t, v.NeedsOperator)
	require.Equal(t, "held", v.Runbook)
	s.AwaitListed(t, "on_hold", "list", "--needs-operator")
	w.Kill(t)
	w.Start(t)
	v = s.AwaitDevice(t, "d1", 30*time.Second, "to be on hold", held)
	require.Equal(t, device.Cleaning, v.DeviceState)
	s.RequireReserved(t, "d1", 1)
	s.Refused(t, device.CodeRefused, "bind", "d1", "--instance", Instance("bob"))

	s.Must(t, "release-hold", "d1", "--reason", "seen")
	s.AwaitReturned(t, d, 30*time.Second)
	s.Refused(t, device.CodeRefused, "release-hold", "d1")
	var history struct {
		Cleans []contract.CleanSummary `json:"cleans"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.Must(t, "history", "d1", "-o", "json")), &history))
	require.Len(t, history.Cleans, 2)
	last := history.Cleans[1]
	require.Equal(t, "held", last.Runbook)
	require.Len(t, last.Steps, 4)
	require.Contains(t, last.Steps[2].Note, "look at it; released after")
	require.Contains(t, last.Steps[2].Note, ": seen")
	require.Equal(t, "waited for 1s", last.Steps[3].Note)
}
