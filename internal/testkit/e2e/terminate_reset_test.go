package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Temporal's Web UI lets an operator Cancel, Terminate and Reset a device's workflow.
// No device is lost by it and no tenant's byte (DESIGN: the workflow, Recovery). One of those that
// are terminated is enrolled again before its host has brought it back: its tenant keeps it all the same.

// F10
func TestTerminate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all")
	allocated := s.Device(t, "fake", "allocated", 2*MiB, 0)
	cleaning := s.Device(t, "fake", "cleaning", 128*MiB, 4*time.Second)
	available := s.Device(t, "fake", "available", 2*MiB, 0)
	again := s.Device(t, "fake", "again", 2*MiB, 0)
	all := []Device{allocated, cleaning, available, again}
	for _, d := range all {
		s.Enroll(t, d, "--provide")
	}
	for _, d := range all {
		s.AwaitReturned(t, d, 30*time.Second)
	}
	for _, d := range []Device{allocated, cleaning, again} {
		s.Bind(t, d.Name, "alice")
		d.Stamp(t, 2)
	}
	s.Unbind(t, "cleaning", "alice")
	s.AwaitMidWipe(t, cleaning, 64*MiB, 20*time.Second)
	for _, d := range all {
		require.NoError(t, s.Client.TerminateWorkflow(t.Context(), contract.WorkflowID(d.Name), "", "test"))
		s.Refused(t, device.CodeNotFound, "show", d.Name)
	}
	t.Log(s.Burnish(t, s.EnrollArgs(again, "--provide")...))
	s.RequireUntouched(t, again, 2, 3*time.Second)
	s.RequireUntouched(t, allocated, 2, time.Second)
	s.RequireReserved(t, "cleaning", 1)

	w.Kill(t)
	w.Start(t)
	s.AwaitTenant(t, again, "alice", 2, 20*time.Second)
	s.AwaitTenant(t, allocated, "alice", 2, 20*time.Second)
	// A device that was free in its inventory is unknown too, and cleaned (D8).
	v := s.AwaitDevice(t, "available", 20*time.Second, "to be cleaned again", func(v contract.DeviceStatus) bool {
		return len(v.Cleans) > 0
	})
	require.Equal(t, "cleaned", v.Cleans[0].Outcome)
	s.AwaitReturned(t, available, 20*time.Second)
	s.AwaitReturned(t, cleaning, 30*time.Second)

	s.RequireUntouched(t, allocated, 2, time.Second)
	s.Refused(t, device.CodeRefused, "bind", "allocated", "--instance", Instance("bob"))
	for _, d := range []Device{allocated, again} {
		s.Unbind(t, d.Name, "alice")
		s.AwaitReturned(t, d, 20*time.Second)
	}
}

// A Cancel is an abort: of a clean, or of nothing.
//
// F9
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	// A step learns of its cancellation from the answer to a heartbeat, every 5 s.
	d := s.Device(t, "fake", "d1", 128*MiB, 15*time.Second)
	s.Enroll(t, d, "--provide")
	cancel := func() {
		t.Helper()
		require.NoError(t, s.Client.CancelWorkflow(t.Context(), contract.WorkflowID("d1"), ""))
	}
	s.AwaitMidWipe(t, d, 0, 20*time.Second)
	cancel()
	v := s.AwaitState(t, "d1", 20*time.Second, device.Error)
	require.Equal(t, string(device.CodeAborted), v.Fault)
	require.True(t, v.Dirty)
	s.RequireReserved(t, "d1", 1)
	stamped, zero, _ := d.Count(t, 1)
	require.NotZero(t, stamped, "the wipe went on to its end")
	RequireThroughout(t, time.Second, "no byte is written after the abort", func() (bool, string) {
		_, now, _ := d.Count(t, 1)
		return now == zero, fmt.Sprintf("%d blocks are zero, %d were", now, zero)
	})

	s.Must(t, "clean", "d1", "--wait", "--timeout", "60s")
	s.AwaitReturned(t, d, time.Second)
	s.Bind(t, "d1", "alice")
	d.Stamp(t, 2)
	// The second Cancel counts too, although Temporal swallows a Cancel of a run that has
	// one already.
	for range 2 {
		run := s.Execution(t, "d1").GetRunId()
		cancel()
		v = s.AwaitDevice(t, "d1", 10*time.Second, "to report the Cancel", func(v contract.DeviceStatus) bool {
			return v.LastRefusal != ""
		})
		require.Contains(t, v.LastRefusal, "Cancel")
		Await(t, 10*time.Second, "a new run", func() (bool, string) {
			now := s.Execution(t, "d1").GetRunId()
			return now != run, now
		})
		s.AwaitTenant(t, d, "alice", 2, 5*time.Second)
	}
	s.Unbind(t, "d1", "alice")
	s.AwaitReturned(t, d, 20*time.Second)
}

// A Reset sends the workflow back to an earlier event, also to one before the device was forgotten and enrolled again,
// while another tenant has the device; Temporal may send the updates after that event once more, or not. The next sweep
// finds it.
//
// F10, F36
func TestReset(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all", "BURNISH_SWEEP_INTERVAL=2s")
	var all []Device
	const forgotten = "forgotten-since"
	points := map[string]string{"first-task": "", "enrollment": contract.VerbEnroll.Update(),
		"binding-before": contract.VerbBurn.Update(), "end-of-the-former": contract.VerbUnbind.Update(),
		forgotten: contract.VerbBurn.Update()}
	runs := map[string]string{} // of those that are reset, "" is the last one
	for point := range points {
		for _, again := range []bool{true, false} {
			d := s.Device(t, "fake", fmt.Sprintf("%s-%v", point, again), 2*MiB, 0)
			s.Enroll(t, d, "--provide")
			all = append(all, d)
		}
	}
	for _, d := range all {
		s.AwaitReturned(t, d, 20*time.Second)
		s.Bind(t, d.Name, "alice")
		d.Stamp(t, 2)
		s.Unbind(t, d.Name, "alice")
	}
	for _, d := range all {
		s.AwaitReturned(t, d, 20*time.Second)
		if strings.HasPrefix(d.Name, forgotten) {
			runs[d.Name] = s.Execution(t, d.Name).GetRunId()
			s.Must(t, "retire", d.Name, "--reason", "test")
			s.Must(t, "forget", d.Name)
			s.Enroll(t, d, "--provide")
			s.AwaitReturned(t, d, 20*time.Second)
		}
		s.Bind(t, d.Name, "bob")
		d.Stamp(t, 3)
	}
	for _, d := range all {
		i := strings.LastIndexByte(d.Name, '-')
		of := runOf(contract.WorkflowID(d.Name), runs[d.Name])
		resetTo(t, s, of, taskOf(t, s, of, points[d.Name[:i]]), d.Name[i+1:] == "true")
	}
	for _, d := range all {
		s.RequireUntouched(t, d, 3, time.Second)
	}
	for _, d := range all {
		s.AwaitTenant(t, d, "bob", 3, 20*time.Second)
	}
	for _, d := range all {
		s.RequireUntouched(t, d, 3, 500*time.Millisecond)
		s.Unbind(t, d.Name, "bob")
	}
	for _, d := range all {
		s.AwaitReturned(t, d, 20*time.Second)
	}
}

// runOf is a run of a workflow, "" is its last one.
func runOf(workflow, run string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: run}
}

// resetTo is `temporal workflow reset` to a completed task.
func resetTo(t *testing.T, s *Site, of *commonpb.WorkflowExecution, event int64, again bool) {
	t.Helper()
	request := &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: s.Namespace, WorkflowExecution: of, Reason: "test",
		WorkflowTaskFinishEventId: event, RequestId: uuid.NewString(),
	}
	if !again {
		request.ResetReapplyExcludeTypes = []enumspb.ResetReapplyExcludeType{
			enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
		}
	}
	_, err := s.Client.WorkflowService().ResetWorkflowExecution(t.Context(), request)
	require.NoError(t, err)
}

// taskOf is the first task that completed after the first update of that name was
// answered; without a name it is the very first.
func taskOf(t *testing.T, s *Site, of *commonpb.WorkflowExecution, update string) int64 {
	t.Helper()
	accepted := ""
	answered := update == ""
	for _, e := range s.historyOf(t, of.GetWorkflowId(), of.GetRunId()) {
		a := e.GetWorkflowExecutionUpdateAcceptedEventAttributes()
		if a.GetAcceptedRequest().GetInput().GetName() == update && accepted == "" {
			accepted = a.GetProtocolInstanceId()
		}
		if c := e.GetWorkflowExecutionUpdateCompletedEventAttributes(); c != nil && c.GetMeta().GetUpdateId() == accepted {
			answered = true
		}
		if answered && e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return e.GetEventId()
		}
	}
	require.FailNow(t, "no such task")
	return 0
}
