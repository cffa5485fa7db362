package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// maxSlotWait is how long one attempt waits for a slot. Then it ends, keeps its place in
// the queue and is retried. It is well below the margin that StartToClose has over the
// budget: a step that starts late still has its whole budget.
const maxSlotWait = 30 * time.Second

// admit asks the journal, under the fence, whether this attempt may touch the device. It
// returns the recorded result of a step that is already done.
func (a *attempt) admit(ctx context.Context) (contract.StepResult, bool, error) {
	stored, found, err := a.Host.Journal(a.in.Enrollment.Name).Load()
	corrupt := errors.As(err, new(*host.CorruptError))
	if corrupt {
		a.Log.Warn("the journal is unreadable: the step starts over", "device", a.in.Enrollment.Name, "error", err)
	} else if err != nil {
		return contract.StepResult{}, false, err
	}
	if !found {
		// With the entry its Seq is lost; the host's record has that too.
		record, known, err := a.Host.LoadRecord(a.in.Enrollment.Name)
		if err != nil {
			return contract.StepResult{}, false, err
		}
		stored, found = host.Entry{Seq: record.Seq}, known && record.Seq > a.in.Seq
	}
	verdict := host.Admit(stored, found, a.in.Seq, a.info.Attempt)
	switch {
	case verdict.Fault != nil:
		return contract.StepResult{}, false, verdict.Fault
	case verdict.Done:
		var result contract.StepResult
		if err := json.Unmarshal(verdict.Result, &result); err != nil {
			return result, false, fmt.Errorf("recorded result of %s: %w", a.step.Name, err)
		}
		return result, true, nil
	}
	sameStep := found && stored.Clean == a.clean() && stored.Step == a.step.Name
	crashed := sameStep && stored.Working && !stored.Done
	if crashed && a.in.Settings.OnInterrupt == device.InterruptError {
		return contract.StepResult{}, false, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInterrupted,
			Message: a.step.Name + " was interrupted by a crash", Remedy: "clean " + a.in.Enrollment.Name + " (BURNISH_ON_INTERRUPT=error)"}
	}
	offset := host.ResumeOffset(stored, found, a.clean(), a.step.Name, a.in.Identity.Serial, a.in.Identity.Size)
	redone := int64(0)
	if sameStep && !stored.Done { // a finished step has reported its own
		a.used = stored.RunTime
		redone = stored.Reprocessed
	}
	if !found {
		// The last heartbeat replaces a lost journal (F2). Of one that is there and
		// unreadable it does not replace the offset, which may not be trusted.
		if last, ok := a.lastHeartbeat(ctx); ok {
			a.used = last.RunTime
			if !corrupt {
				offset = last.Offset
			}
		}
	}
	if crashed {
		again := a.in.Identity.Size - offset
		if a.in.Operation != device.Script { // a program starts over
			again = min(again, steps.Chunk)
		}
		redone += again
	}
	a.entry = host.Entry{
		Seq: a.in.Seq, Attempt: a.info.Attempt, Clean: a.clean(), Step: a.step.Name,
		Serial: a.in.Identity.Serial, Size: a.in.Identity.Size, Offset: offset, RunTime: a.used,
		Reprocessed: redone, EvidenceOf: a.in.Clean,
	}
	if found && stored.EvidenceOf == a.in.Clean {
		a.entry.Evidence = stored.Evidence
	}
	a.heartbeats.start(offset, a.used)
	return contract.StepResult{}, false, nil
}

// clean is the journal's key of this clean: work of an older version of the step does not
// count for this one (S3.16).
func (a *attempt) clean() string { return fmt.Sprintf("%s v%d", a.in.Clean, a.step.Version) }

// lastHeartbeat gives the progress that an earlier attempt of this step last reported, if
// it describes this device.
func (a *attempt) lastHeartbeat(ctx context.Context) (contract.Progress, bool) {
	last := a.in.Resume
	if activity.HasHeartbeatDetails(ctx) {
		var p contract.Progress
		if err := activity.GetHeartbeatDetails(ctx, &p); err == nil {
			last = &p
		}
	}
	if last == nil || last.Step != a.step.Name || last.Offset < 0 || last.Offset > a.in.Identity.Size || last.Size != a.in.Identity.Size {
		return contract.Progress{}, false
	}
	return *last, true
}

// acquireSlot waits for one of the host's slots, at most maxSlotWait. The wait spends no
// budget.
func (a *attempt) acquireSlot(ctx context.Context) (func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(maxSlotWait, func() { cancel(host.ErrWillRetry) })
	defer timeout.Stop()
	return a.Slots.Acquire(ctx, a.in.Enrollment.Name, a.heartbeats.queue)
}

// cancelOnStop gives a context that also ends when the worker stops, for an attempt that
// still waits.
func cancelOnStop(ctx context.Context) (context.Context, func()) {
	waitCtx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			cancel(errStopping)
		case <-waitCtx.Done():
		}
	}()
	return waitCtx, func() { cancel(nil) }
}
