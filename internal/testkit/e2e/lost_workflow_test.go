package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// A device's workflow may be lost: terminated and past its retention, put back to an earlier
// hour, or unknown to another server. Its tenant keeps his bytes all the same.

// erase deletes a device's workflow and its history, as the end of the retention does.
func erase(t *testing.T, s *Site, name string) {
	t.Helper()
	erased := s.Execution(t, name).GetRunId()
	_, err := s.Client.WorkflowService().DeleteWorkflowExecution(t.Context(),
		&workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: s.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID(name)},
		})
	require.NoError(t, err)
	Await(t, time.Minute, "the workflow of "+name+" to be gone", func() (bool, string) {
		now, found, err := s.Workflows().LastRun(t.Context(), name)
		return err == nil && (!found || now.RunID != erased), "" // its host may have brought it back
	})
}

// The workflows of an allocated, a free and a manageable device are terminated, and their runs
// are gone. The host's worker, which runs all the time, brings each back within one interval:
// the tenant's stays his, by the inventory's record; the free one is cleaned; of the one that
// was never cleaned nothing records who has it, so that it waits for its operator.
//
// F24, D16
func TestTerminatedAndPastRetention(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all", "BURNISH_SWEEP_INTERVAL=2s")
	allocated, free, never := s.Device(t, "fake", "allocated", 2*MiB, 0), s.Device(t, "fake", "free", 2*MiB, 0),
		s.Device(t, "fake", "never", 2*MiB, 0)
	s.Enroll(t, allocated, "--provide")
	s.Enroll(t, free, "--provide")
	s.Enroll(t, never)
	s.AwaitReturned(t, allocated, 20*time.Second)
	s.AwaitReturned(t, free, 20*time.Second)
	s.Bind(t, "allocated", "alice")
	allocated.Stamp(t, 2)
	for _, name := range []string{"allocated", "free", "never"} {
		erase(t, s, name)
	}
	s.AwaitTenant(t, allocated, "alice", 2, 30*time.Second)
	v := s.AwaitDevice(t, "free", 30*time.Second, "to be cleaned", func(v contract.DeviceStatus) bool {
		return len(v.Cleans) > 0
	})
	require.Equal(t, "cleaned", v.Cleans[0].Outcome)
	s.AwaitReturned(t, free, 20*time.Second)
	v = s.AwaitDevice(t, "never", 30*time.Second, "to wait for its operator", func(v contract.DeviceStatus) bool {
		return v.NeedsOperator && v.Fault == string(device.CodeTenantUnrecorded)
	})
	require.Equal(t, device.Unknown, v.DeviceState)
	s.RequireUntouched(t, never, 1, 2*time.Second)
	s.RequireUntouched(t, allocated, 2, time.Second)
	s.Must(t, "clean", "never")
	s.AwaitReturned(t, never, 20*time.Second)
	s.Unbind(t, "allocated", "alice")
	s.AwaitReturned(t, allocated, 20*time.Second)
}

// A device is retired and forgotten while its host is away, and its run is past the retention
// when the host comes back: the host forgets it, and does not bring it back. Nor does it take another
// host's device, which has the name of one that was forgotten too, for its own.
//
// F25, F35
func TestForgottenWhileTheHostWasAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control")
	w := s.Run(t, "host", "BURNISH_SWEEP_INTERVAL=2s")
	d := s.Device(t, "fake", "d1", 2*MiB, 0)
	s.Enroll(t, d, "--provide")
	s.AwaitReturned(t, d, 20*time.Second)
	s.Enroll(t, s.Device(t, "block", "d2", 2*MiB, 0), "--provide")
	s.AwaitState(t, "d2", 20*time.Second, device.Available)
	s.Bind(t, "d2", "bob")
	s.Unbind(t, "d2", "bob")
	s.AwaitState(t, "d2", 20*time.Second, device.Available)
	w.Kill(t)
	d.Stamp(t, 3)
	each(t, []string{"d1", "d2"}, func(_ int, name string) {
		s.Must(t, "retire", name, "--reason", "taken out")
		s.Must(t, "forget", name)
	})
	erase(t, s, "d1")
	elsewhere := site.NewHost()
	s.newHost(t, elsewhere)
	s.Must(t, enrollOther("d2", elsewhere, s.Device(t, "block", "another", 2*MiB, 0).Path)...)
	another := s.AwaitState(t, "d2", 20*time.Second, device.Available)
	w.Start(t)
	Await(t, 20*time.Second, "the host to acknowledge", func() (bool, string) {
		names, err := s.Workflows().Forgotten(t.Context(), s.Host)
		return err == nil && len(names) == 0, ""
	})
	RequireThroughout(t, 5*time.Second, "the device does not come back", func() (bool, string) {
		_, found, err := s.Workflows().LastRun(t.Context(), "d1")
		return err == nil && !found, ""
	})
	d.RequireStamps(t, 3)
	now := s.Show(t, "d2")
	require.Equal(t, []any{another.Serial, another.StateSince, 1}, []any{now.Serial, now.StateSince, len(now.Cleans)})
}

// emptyDir removes all files of a folder.
func emptyDir(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.RemoveAll(f))
	}
}
