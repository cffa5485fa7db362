package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// queryTimeout bounds the question to a device's workflow: without a control
// worker nobody answers it, and the server's own knowledge must do.
const queryTimeout = 3 * time.Second

// viewOf builds a device's View from what its workflow wrote for listings.
func viewOf(name string, a attributes, facts contract.StatusMemo) contract.DeviceStatus {
	text := func(key interface{ GetName() string }) string { return a.text[key.GetName()] }
	v := contract.DeviceStatus{
		UUID:              text(contract.AttrUUID),
		Name:              name,
		Type:              text(contract.AttrType),
		Vendor:            facts.Vendor,
		Model:             facts.Model,
		Serial:            text(contract.AttrSerial),
		Hostname:          text(contract.AttrHost),
		StdBoardInfo:      facts.StdBoardInfo,
		VendorBoardInfo:   facts.VendorBoardInfo,
		Status:            facts.Status,
		DeviceState:       device.State(text(contract.AttrState)),
		Dirty:             a.truth[contract.AttrDirty.GetName()],
		Maintenance:       facts.Maintenance,
		MaintenanceReason: facts.MaintenanceReason,
		LastError:         facts.LastError,
		LastRefusal:       facts.LastRefusal,
		NeedsOperator:     a.truth[contract.AttrNeedsOperator.GetName()],
		Fault:             text(contract.AttrFault),
		Remedy:            facts.Remedy,
		CreatedAt:         facts.CreatedAt,
		UpdatedAt:         a.updated,
		Driver:            facts.Driver,
		Owner:             facts.Owner,
		OneTimeUse:        facts.OneTimeUse,
		NotSanitized:      facts.NotSanitized,
		Operation:         facts.Operation,
		Steps:             facts.Steps,
	}
	if v.UUID == "" {
		v.UUID = contract.DeviceUUID(name)
	}
	if instance := text(contract.AttrInstance); instance != "" {
		v.InstanceUUID = &instance
	}
	if step := text(contract.AttrStep); step != "" {
		v.CleanStep = &contract.CleanStep{Step: step}
		for _, s := range facts.Steps {
			if s.Step == step {
				v.CleanStep = &s
			}
		}
	}
	return normalize(v)
}

// normalize gives a View the one form in which it is shown, listed or alone: times in UTC,
// the creation's in seconds as the memo has it, and objects never null.
func normalize(v contract.DeviceStatus) contract.DeviceStatus {
	v.CreatedAt, v.UpdatedAt = v.CreatedAt.UTC().Truncate(time.Second), v.UpdatedAt.UTC()
	if v.StdBoardInfo == nil {
		v.StdBoardInfo = map[string]string{}
	}
	if v.VendorBoardInfo == nil {
		v.VendorBoardInfo = map[string]string{}
	}
	return v
}

// deviceStatus gives one device: as its workflow tells it, with the running step's
// progress. Where no worker answers, it is what the server knows by itself, and
// note says so.
func (a *app) deviceStatus(ctx context.Context, l deviceClient, name string) (v contract.DeviceStatus, note string, err error) {
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	e, err := l.describe(rctx, name)
	if err != nil {
		return contract.DeviceStatus{}, "", a.explain(ctx, l, name, err)
	}
	if !e.running {
		return contract.DeviceStatus{}, "", noSuchDevice(name)
	}
	qctx, cancel := context.WithTimeout(rctx, queryTimeout)
	defer cancel()
	v, err = l.query(qctx, name)
	var gone *serviceerror.NotFound
	switch {
	case err == nil:
		v = normalize(v)
	case errors.As(err, &gone), ctx.Err() != nil:
		return contract.DeviceStatus{}, "", a.explain(ctx, l, name, err)
	default:
		v = e.view
		note = "no control worker answered (" + reason(err) + "); this is what the Temporal server knows"
	}
	if v.DeviceState == device.Absent {
		return contract.DeviceStatus{}, "", notEnrolled(name)
	}
	v.Progress = e.progress(v, a.now())
	return v, note, nil
}

// notEnrolled says that the workflow is there, and no device.
func notEnrolled(name string) *failure {
	f := noSuchDevice(name)
	f.message, f.remedy = "its enrollment was never finished", "enroll it again"
	return f
}

// reason says in a few words why a query was not answered.
func reason(err error) string {
	if timedOut(err) {
		return fmt.Sprintf("none within %s", queryTimeout)
	}
	return err.Error()
}

// progress tells how far the device's running step is, by its last heartbeat; nil
// where none runs.
func (e execution) progress(v contract.DeviceStatus, now time.Time) *contract.StatusProgress {
	if v.CleanStep == nil {
		return nil
	}
	p, ok := e.pending[v.CleanStep.Step]
	if !ok {
		return nil
	}
	shown := &contract.StatusProgress{Attempt: p.attempt}
	if p.progress != nil {
		shown.Done, shown.Total, shown.Waiting = p.progress.Offset, p.progress.Size, p.progress.Waiting
		if shown.Total > 0 {
			shown.Percent = math.Floor(1000*float64(shown.Done)/float64(shown.Total)) / 10
		}
	}
	switch {
	case p.next.After(now):
		shown.Waiting = "next attempt at " + p.next.UTC().Format(time.RFC3339)
		if p.failure != "" {
			shown.Waiting += ", after: " + oneLine(p.failure)
		}
	case !p.started:
		shown.Waiting = "waiting for a worker of host " + v.Hostname
	}
	return shown
}
