package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/logs"
	"burnish/workflows/contract"
)

// maxSlotWait is how long one attempt waits for a slot. Then it ends, and the next one asks for the same place in the
// queue. It is well below the margin that StartToClose has over the budget: a step that starts late still has its whole
// budget.
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
		stored, found = host.Entry{Seq: record.Seq}, known && record.Seq > a.in.LastSeq()
	}
	want := host.Entry{
		Seq: a.in.Seq, Attempt: a.info.Attempt, Clean: a.clean(), Step: a.step.Name,
		Serial: a.in.Identity.Serial, Size: a.in.Identity.Size, Reads: !a.step.Writes, Under: a.under(),
	}
	if stored.Under != want.Under { // SAFETY F44: done before the reservation, or to another device under this name
		stored = host.Entry{Seq: stored.Seq, Attempt: stored.Attempt}
	}
	verdict := host.Admit(stored, found, want)
	switch {
	case verdict.Fault != nil:
		return contract.StepResult{}, false, a.superseded(verdict.Fault, stored)
	case verdict.Done:
		var recorded journaled
		if err := json.Unmarshal(verdict.Result, &recorded); err != nil {
			return recorded.StepResult, false, fmt.Errorf("recorded result of %s: %w", a.step.Name, err)
		}
		a.seed = recorded.Seed
		return recorded.StepResult, true, nil
	}
	a.begun = found && stored.EvidenceOf == a.evidenceOf()
	sameStep := found && stored.Clean == a.clean() && stored.Step == a.step.Name
	crashed := sameStep && stored.Working && !stored.Done
	if crashed && a.in.Settings.OnInterrupt == device.InterruptError {
		return contract.StepResult{}, false, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInterrupted,
			Message: a.step.Name + " was interrupted by a crash", Remedy: "clean " + a.in.Enrollment.Name +
				" (BURNISH_ON_INTERRUPT=error)"}
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
			if !corrupt && a.in.Reservation == "" { // SAFETY F44: anybody may have sent it
				offset = last.Offset
			}
		}
	}
	if crashed || want.Reads && offset > 0 {
		again := a.in.Identity.Size - offset
		if a.in.Operation != device.Script { // a program starts over
			again = min(again, steps.MaxRepeated)
		}
		redone += again
	}
	if want.Reads { // nothing has held the device since: what was read may be other bytes now (F37)
		redone, offset = redone+offset, 0
	}
	a.resumes = crashed || offset > 0
	a.entry = want
	a.entry.Offset, a.entry.RunTime, a.entry.Reprocessed, a.entry.EvidenceOf = offset, a.used, redone, a.evidenceOf()
	if a.begun {
		a.entry.Evidence = stored.Evidence
	}
	a.heartbeats.start(offset, a.used)
	return contract.StepResult{}, false, nil
}

// clean is the journal's key of this clean: work of an older version of the step does not
// count for this one (S3.16).
func (a *attempt) clean() string { return fmt.Sprintf("%s v%d", a.evidenceOf(), a.step.Version) }

// evidenceOf is the key of what the steps of this clean save for one another. A workflow
// that was put back to an earlier moment gives the ID of a clean once more; the generation
// of its reservation, or its provider, is another then, because the device was bound in
// between (F26).
func (a *attempt) evidenceOf() string {
	key := fmt.Sprintf("%s g%d", a.in.Clean, a.in.Generation)
	if a.in.Provider != "" {
		key += " of " + a.in.Provider
	}
	return key
}

// under is what work must have in common to be signed as one.
func (a *attempt) under() string {
	if a.in.Reservation == "" {
		return ""
	}
	e := a.in.Enrollment
	return fmt.Sprintf("%q at %q %q %q", a.in.Reservation, e.Driver, e.Address, e.Settings)
}

// superseded adds the highest numbers that this host knows: the workflow continues with
// them, so that it uses none of them again (F26).
func (a *attempt) superseded(f *device.Fault, stored host.Entry) error {
	record, _, err := a.Host.LoadRecord(a.in.Enrollment.Name)
	if err != nil {
		a.Log.Warn("the record is unreadable: only the journal's numbers are reported", "device", a.in.Enrollment.Name,
			"error", err)
	}
	return &supersededError{Fault: f, known: contract.HostNumbers{
		Seq: max(stored.Seq, record.Seq, a.in.Seq), Clean: max(record.Clean, a.in.Number), Binding: record.Binding,
	}}
}

// supersededError is the fault superseded with the host's numbers.
type supersededError struct {
	*device.Fault
	known contract.HostNumbers
}

// Unwrap gives the fault.
func (e *supersededError) Unwrap() error { return e.Fault }

// inspectAgain reads the identity of a device whose step was done by an earlier attempt:
// nothing held the device since, and other hardware may be in its slot (F26).
func (a *attempt) inspectAgain(ctx context.Context, driver hardware.Driver, fence *host.Fence) error {
	target := targetOf(a.in.Enrollment)
	target.Step, target.Fence = a.step.Name, fence.File()
	handle, err := a.open(ctx, driver, target, false)
	if err != nil {
		return err
	}
	return errors.Join(handle.Check(ctx), handle.Close())
}

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
	if last == nil || last.Step != a.step.Name || last.Offset < 0 || last.Offset > a.in.Identity.Size ||
		last.Size != a.in.Identity.Size {
		return contract.Progress{}, false
	}
	return *last, true
}

// acquireSlot waits for one of the host's slots, at most maxSlotWait. The place in the queue is that of the step's
// first attempt. A clean that had a slot comes before those that had none. The wait spends no budget.
func (a *attempt) acquireSlot(ctx context.Context) (release func(keep bool), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(maxSlotWait, func() { cancel(errStillQueued) })
	defer timeout.Stop()
	queued := func(place int) {
		if a.firstOf(func(w *written) *string { return &w.queued }) {
			a.Log.Debug(logs.Queued, a.about()...)
		}
		a.heartbeats.wait(device.CodeWaitingForSlot, contract.QueuedForSlot(place))
	}
	claim := host.Claim{Key: a.in.Enrollment.Name, Begun: a.begun, Asked: a.info.ScheduledTime}
	if !a.begun { // earlier attempts did nothing else
		claim.Waited = time.Duration(a.info.Attempt-1) * maxSlotWait
	}
	return a.Slots.Acquire(ctx, claim, queued)
}

// keepsSlot says whether the clean keeps its slot after an attempt that ended with err: if
// its next step follows on the host, or its next attempt at once. A device that fails, even
// for a while, keeps none from others; nor does one whose budget is spent: the attempt may have
// failed already, and its context has ended with it.
func (a *attempt) keepsSlot(ctx, workCtx context.Context, err error) bool {
	if budgetSpent(workCtx) {
		return false
	}
	if err == nil {
		return a.in.More
	}
	f := retriedFault(a.explain(ctx, err))
	return f != nil && (f.Code == device.CodeWorkerStopping || f.Code == device.CodeInterrupted ||
		f.Code == device.CodeServerUnreachable)
}

// dropSlot gives back the slot that was kept for the clean if it has ended before its next step
// took it up.
func (a *attempt) dropSlot(err error) {
	f, _ := contract.RefusalOf(err)
	if err != nil && retriedFault(err) == nil && f.Fault.Code != device.CodeSuperseded {
		a.Slots.Drop(a.in.Enrollment.Name)
	}
}

// ExpectSlots keeps the host's slots for the cleans that had them when the last worker ended,
// those that worked last first.
func ExpectSlots(h *host.Host, slots *host.Slots) error {
	entries, err := h.Entries()
	entries = slices.DeleteFunc(entries, func(e host.Journaled) bool { return !e.Entry.Slot })
	slices.SortStableFunc(entries, func(a, b host.Journaled) int { return b.Entry.Updated.Compare(a.Entry.Updated) })
	for _, e := range entries {
		slots.Expect(e.Name)
	}
	return err
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
