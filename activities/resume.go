package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"go.temporal.io/sdk/activity"

	"burnish/internal/clean/steps"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// This file is what an attempt writes down on its host, so that the next one goes on
// from there (SAFETY F2).

// confirm asks the server, now that the device is in hand and nothing was written,
// whether this attempt is still the one. What the context knows is as old as the last
// heartbeat: a process that was frozen meanwhile would work for a tenancy that is
// long over (F1).
func (a *attempt) confirm(ctx context.Context) error {
	if a.Confirm == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	if err := a.Confirm(ctx, a.info.TaskToken, a.heartbeats.now()); err != nil {
		a.Log.Warn("the server does not confirm an attempt: nothing is written", "device", a.in.Enrollment.Name, "step", a.step.Name, "error", err)
		return errLostContact
	}
	return nil
}

// checkpoint journals the resume point and says whether the step may go on: the
// fence is held, the context alive, the worker not stopping, the server in reach.
func (a *attempt) checkpoint(ctx, workCtx context.Context, fence *host.Fence, offset int64) error {
	if err := fence.Held(); err != nil {
		return err
	}
	a.entry.Offset, a.entry.RunTime = offset, a.runTime()
	if err := a.Host.Journal(a.in.Enrollment.Name).Save(a.entry); err != nil {
		return err
	}
	a.heartbeats.set(offset, a.entry.RunTime)
	if err := context.Cause(workCtx); err != nil {
		return err
	}
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return errStopping
	default:
	}
	if ctx.Err() != nil {
		return errLostContact
	}
	return nil
}

// keep journals a value for the rest of the clean, under the fence.
func (a *attempt) saveEvidence(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	kept := maps.Clone(a.entry.Evidence)
	if kept == nil {
		kept = map[string]json.RawMessage{}
	}
	kept[name] = text
	entry := a.entry
	entry.Evidence, entry.RunTime = kept, a.runTime()
	if err := a.Host.Journal(a.in.Enrollment.Name).Save(entry); err != nil {
		return err
	}
	a.entry = entry
	return nil
}

// recall gives what this clean kept under a name.
func (a *attempt) loadEvidence(name string, into any) (bool, error) {
	text, ok := a.entry.Evidence[name]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("recall %s: %w", name, err)
	}
	return true, nil
}

// conclude journals how the attempt ended. Nobody crashed.
func (a *attempt) journalResult(workCtx context.Context, outcome steps.Outcome, err error) (contract.StepResult, error) {
	a.entry.RunTime, a.entry.Working = a.runTime(), false
	result := contract.StepResult{
		Step: a.step.Name, Bytes: outcome.Bytes, Method: outcome.Method, Note: outcome.Note,
		RunTime: a.entry.RunTime, ReprocessedBytesMax: a.entry.Reprocessed,
	}
	if err == nil {
		text, encodeErr := json.Marshal(result)
		if encodeErr != nil {
			return contract.StepResult{}, encodeErr
		}
		a.entry.Done, a.entry.Result = true, text
	}
	if saveErr := a.Host.Journal(a.in.Enrollment.Name).Save(a.entry); saveErr != nil {
		// Unrecorded, the step would be repeated; that is always right.
		a.Log.Warn("the end of a step was not journalled", "device", a.in.Enrollment.Name, "step", a.step.Name, "error", saveErr)
	}
	if err != nil && workCtx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(workCtx)
	}
	return result, err
}

// remember writes the host's record of the device: the numbers that must never go
// back, whatever becomes of the workflow (F10).
func (a *attempt) saveRecord() error {
	return a.Host.UpdateRecord(a.in.Enrollment.Name, func(r *host.Record) error {
		r.Seq, r.Clean = max(r.Seq, a.in.Seq), max(r.Clean, a.in.Number)
		r.Binding, r.Generation = max(r.Binding, a.in.Binding), a.in.Generation
		if r.Driver == "" { // the record was lost: what comes back must be whole
			writeEnrollment(r, a.in.Enrollment, contract.DeviceUUID(a.in.Enrollment.Name), a.in.Identity)
		}
		return nil
	})
}
