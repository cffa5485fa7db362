package client

import (
	"context"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// QueryTimeout bounds the query of a workflow where there is something else to show: without a
// control worker it has no answer.
const QueryTimeout = 3 * time.Second

// Status gives one device as its workflow reports it, with the progress of its running step. If no
// worker answers within patience, unanswered says why, and the status is the server's own.
func Status(ctx context.Context, from Reader, name string, patience time.Duration, now time.Time) (
	v contract.DeviceStatus, unanswered, err error) {
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var e Execution
	described := make(chan error, 1)
	go func() {
		var err error
		if e, err = from.Describe(ctx, name); err != nil || !e.Running {
			cancel() // whatever it answers
		}
		described <- err
	}()
	v, unanswered = from.Query(asked, name)
	if err := <-described; err != nil {
		return v, nil, err
	}
	switch {
	case !e.Running:
		return v, nil, e.Gone()
	case NotFound(unanswered) && !e.Absent(), ctx.Err() != nil:
		return v, nil, unanswered
	case unanswered != nil:
		v = e.Status
	}
	if e.Status.DeviceState = v.DeviceState; e.Absent() {
		return v, nil, e.Gone()
	}
	v.Progress = e.Progress(v, now)
	shown := []contract.DeviceStatus{v}
	ShowPlaces(ctx, from, shown)
	return shown[0], unanswered, nil
}

// Gone says why there is no such device: its workflow does not run, or its enrollment was never
// finished. It is nil if there is one.
func (e Execution) Gone() error {
	f := &device.Fault{Class: device.Permanent, Code: device.CodeNotFound, Message: "no such device",
		Remedy: "enroll it first, or see burnish list"}
	switch {
	case e.Running && !e.Absent():
		return nil
	case e.Running:
		f.Message, f.Remedy = "its enrollment was never finished", "enroll it again"
	case e.Forgotten:
		f.Message = "it was deleted with burnish forget on " + e.Ended.UTC().Format("2006-01-02 15:04:05 MST")
		f.Remedy = "while Temporal keeps it, see: temporal workflow show --workflow-id " + contract.WorkflowID(e.Name)
	case e.HowEnded != "":
		f.Message = "no workflow runs for the device: it was " + e.HowEnded
		f.Remedy = "the worker of its host brings it back at its next reconciliation or start; check that it runs"
	}
	return f
}

// ShowPlaces puts into statuses what the workflow of the limits knows better: each place in line
// as it is now. It asks once for all of them, and only if one waits; without an answer the devices'
// own, which are older, remain.
func ShowPlaces(ctx context.Context, from Reader, all []contract.DeviceStatus) contract.LimitsStatus {
	name, waits := contract.WaitForSlot(all)
	if !waits {
		return contract.LimitsStatus{}
	}
	status := Limits(ctx, from, name)
	status.ShowPlaces(all)
	return status
}

// Limits are who waits for what: one device or, with "", all. The status is empty where nothing is
// limited, and without an answer.
func Limits(ctx context.Context, from Reader, name string) contract.LimitsStatus {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	status, found, err := from.LimitsStatus(ctx, name)
	if err != nil || !found {
		return contract.LimitsStatus{}
	}
	return status
}
