package main

import (
	"context"
	"fmt"
	"time"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// queryTimeout bounds the query of a device's workflow. Without a control worker it has no
// answer, and the server's own records are shown instead.
const queryTimeout = 3 * time.Second

// deviceStatus gives one device as its workflow reports it, with the progress of the running
// step. If no worker answers, the status is the server's own, and note says so.
func (a *app) deviceStatus(ctx context.Context, l deviceClient,
	name string) (v contract.DeviceStatus, note string, err error) {
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	e, err := l.Describe(rctx, name)
	if err != nil {
		return contract.DeviceStatus{}, "", a.explain(ctx, l, name, err)
	}
	if !e.Running {
		return contract.DeviceStatus{}, "", lostDevice(name, e)
	}
	qctx, cancel := context.WithTimeout(rctx, queryTimeout)
	defer cancel()
	v, err = l.Query(qctx, name)
	switch {
	case err == nil:
	case client.NotFound(err) && e.Absent(): // over the API
		return contract.DeviceStatus{}, "", notEnrolled(name)
	case client.NotFound(err), ctx.Err() != nil:
		return contract.DeviceStatus{}, "", a.explain(ctx, l, name, err)
	default:
		v = e.Status
		note = "no control worker answered (" + reason(err) + "); this is what the Temporal server knows"
	}
	if v.DeviceState == device.Absent {
		return contract.DeviceStatus{}, "", notEnrolled(name)
	}
	v.Progress = e.Progress(v, a.now())
	shown := []contract.DeviceStatus{v}
	a.withPlaces(ctx, l, shown)
	return shown[0], note, nil
}

// lostDevice says that no workflow runs for the device, and how the last one ended.
func lostDevice(name string, e client.Execution) *failure {
	f := noSuchDevice(name)
	if e.HowEnded != "" {
		f.message = "no workflow runs for the device: it was " + e.HowEnded
		f.remedy = "the worker of its host brings it back at its next reconciliation or start; check that it runs"
	}
	return f
}

// notEnrolled says that the workflow exists, but the device was never enrolled.
func notEnrolled(name string) *failure {
	f := noSuchDevice(name)
	f.message, f.remedy = "its enrollment was never finished", "enroll it again"
	return f
}

// reason says in a few words why a query was not answered.
func reason(err error) string {
	if client.TimedOut(err) {
		return fmt.Sprintf("none within %s", queryTimeout)
	}
	return err.Error()
}
