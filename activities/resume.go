package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"go.temporal.io/sdk/activity"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// This file holds what an attempt records on its host, from which the next one continues
// (F2).

// recordOffset journals the resume point, unless the fence is lost: what was written without it
// does not count. The step's goroutine may use the device meanwhile, but not the entry. The end of
// the device is journaled with the step's result, which follows at once: a crash before it repeats no more
// than one before this.
func (a *attempt) recordOffset(fence *host.Fence, offset int64) error {
	if err := fence.Held(); err != nil {
		return err
	}
	a.entry.Offset, a.entry.RunTime = offset, a.runTime()
	if offset < a.in.Identity.Size || offset == 0 {
		if err := a.save(a.entry); err != nil {
			return err
		}
	}
	a.heartbeats.set(offset, a.entry.RunTime)
	return nil
}

// mayGoOn says why the step must not continue: the fence is lost, its context has ended, the
// worker stops, or the server is unreachable.
func (a *attempt) mayGoOn(ctx, workCtx context.Context, fence *host.Fence) error {
	if err := fence.Held(); err != nil {
		return err
	}
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

// saveEvidence journals a value under a name, for later attempts and steps of this clean.
func (a *attempt) saveEvidence(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("save evidence %s: %w", name, err)
	}
	kept := maps.Clone(a.entry.Evidence)
	if kept == nil {
		kept = map[string]json.RawMessage{}
	}
	kept[name] = text
	entry := a.entry
	entry.Evidence, entry.RunTime = kept, a.runTime()
	if err := a.save(entry); err != nil {
		return err
	}
	a.entry = entry
	return nil
}

// save writes the journal, but for a step that follows: after a crash it begins again (F37).
func (a *attempt) save(entry host.Entry) error {
	if a.follows {
		return nil
	}
	return a.Host.Journal(a.in.Enrollment.Name).Save(entry)
}

// loadEvidence reads the value that this clean saved under a name, and says whether there
// is one.
func (a *attempt) loadEvidence(name string, into any) (bool, error) {
	text, ok := a.entry.Evidence[name]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("load evidence %s: %w", name, err)
	}
	return true, nil
}

// recordMark records the change mark of a device to which the step has written. It does before the
// step counts as done: after a crash between the two it writes, and records, again.
func (a *attempt) recordMark(ctx context.Context, handle hardware.Handle) error {
	mark, err := markOf(ctx, handle)
	if err != nil || mark == "" {
		return err
	}
	return a.Host.UpdateRecord(a.in.Enrollment.Name, func(r *host.Record) error {
		r.SetMark(mark)
		return nil
	})
}

// markOf is the change mark of a device, "" if it shows none.
func markOf(ctx context.Context, handle hardware.Handle) (string, error) {
	marker, ok := handle.(hardware.ChangeMarker)
	if !ok {
		return "", nil
	}
	return marker.ChangeMark(ctx)
}

// requireUnchanged refuses what a step has read of a device that was written to meanwhile: behind the part that was
// read already it may hold anything, for as long as a worker may be frozen (F37).
func (a *attempt) requireUnchanged(ctx context.Context, handle hardware.Handle, before string) error {
	after, err := markOf(ctx, handle)
	if err != nil || after == before {
		return err
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeForeignWrite,
		Message: "somebody wrote to it while " + a.step.Name + " read it",
		Remedy:  "find out who, then clean " + a.in.Enrollment.Name + " again"}
}

// recordReflash records the firmware revision that the step is about to give the device.
func (a *attempt) recordReflash(revision string) error {
	return a.Host.UpdateRecord(a.in.Enrollment.Name, func(r *host.Record) error {
		r.Reflashed = host.Reflashed{Revision: revision, Serial: a.in.Identity.Serial, Binding: a.in.Binding}
		return nil
	})
}

// enrollFirmware records the revision that the device runs now as the enrolled one.
func (a *attempt) enrollFirmware(revision string) error {
	return a.Host.UpdateRecord(a.in.Enrollment.Name, func(r *host.Record) error {
		if r.Identity.Serial == a.in.Identity.Serial {
			r.Identity.Firmware = revision
		}
		return nil
	})
}

// journaled is a step's result in the journal: with the seed, which only the log shows.
type journaled struct {
	contract.StepResult
	Seed uint64 `json:"seed,omitempty"`
}

// journalResult journals how the attempt ended, and that no crash ended it.
func (a *attempt) journalResult(ctx, workCtx context.Context, outcome steps.Outcome,
	err error) (contract.StepResult, error) {
	a.entry.RunTime, a.entry.Working = a.runTime(), false
	result := contract.StepResult{
		Step: a.step.Name, Clean: a.in.Clean, Seq: a.in.Seq, Bytes: outcome.Bytes, HeldBytes: outcome.Held,
		Method: outcome.Method, Note: outcome.Note,
		RunTime: a.entry.RunTime, ReprocessedBytesMax: a.entry.Reprocessed, Firmware: outcome.Firmware,
	}
	if err == nil && outcome.Firmware != "" {
		err = a.enrollFirmware(outcome.Firmware)
	}
	if err == nil {
		a.seed = outcome.Seed
		text, encodeErr := json.Marshal(journaled{result, outcome.Seed})
		if encodeErr != nil {
			return contract.StepResult{}, encodeErr
		}
		a.entry.Done, a.entry.Result = true, text
	}
	if err != nil && workCtx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(workCtx)
	}
	a.entry.Slot = a.keepsSlot(ctx, workCtx, err)
	entry := a.entry
	entry.Slot = entry.Slot && !a.mayFollow(result.RunTime) // a step that follows could not take it back
	if saveErr := a.save(entry); saveErr != nil {
		// An unrecorded step is repeated, which is always safe.
		a.Log.Warn("the result of a step was not journaled", "device", a.in.Enrollment.Name, "step", a.step.Name,
			"error", saveErr)
	}
	return result, err
}

// saveRecord writes the numbers that must never decrease to the host's record of the
// device, which outlives the workflow (F10). Those of a step that follows are in it already.
func (a *attempt) saveRecord() error {
	if a.follows {
		return nil
	}
	return a.Host.UpdateRecord(a.in.Enrollment.Name, func(r *host.Record) error {
		r.Seq, r.Clean = max(r.Seq, a.in.LastSeq()), max(r.Clean, a.in.Number)
		r.Binding, r.Generation = max(r.Binding, a.in.Binding), a.in.Generation
		if r.Driver == "" { // the record was lost: write a complete one
			writeEnrollment(r, a.in.Enrollment, contract.DeviceUUID(a.in.Enrollment.Name), a.in.Identity)
		}
		return nil
	})
}
