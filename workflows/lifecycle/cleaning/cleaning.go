// Package cleaning carries out one clean: it reserves the device (F4), records a plan, runs
// the plan's steps on the host, and stops when the clean must not continue. It owns the
// running clean in the state and the archive of ended ones.
package cleaning

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/discovery"
	"burnish/workflows/lifecycle/pool"
	"burnish/workflows/lifecycle/record"
	"burnish/workflows/lifecycle/reservation"
)

// maxReplans bounds how often one clean begins again because a step's version changed.
const maxReplans = 5

// Cleaning is the clean of one device.
type Cleaning struct {
	*record.Record
	Reservation *reservation.Reservation
	Discovery   *discovery.Discovery
	Pool        *pool.Pool
	// stop cancels the running clean's call; nil if no clean runs or stop was called.
	stop workflow.CancelFunc
	// sending counts the reports to the limits that are under way.
	sending int
	// taking is the request of an operator who takes the device out of the offer while it
	// waits; nil if none does.
	taking *contract.CleanSlot
	// again is why the clean must begin again; "" if it must not.
	again string
	// failure is how far the last step was that failed, by its host.
	failure contract.CleanFailure
}

// Run carries out one clean and returns when it has ended. After a successful full clean
// the device waits for its return to the offer.
func (d *Cleaning) Run(ctx workflow.Context) error {
	run := d.begin(ctx)
	runCtx, stop := workflow.WithCancel(ctx)
	d.stop = stop
	defer func() { d.stop = nil; stop() }()
	d.Publish()

	// The lock excludes a reconciliation: each would mistake the other's write for a foreign
	// one.
	if err := d.Reservation.Lock(ctx); err != nil {
		return err
	}
	asked := d.Reservation.Ask(device.AskClean)
	found, err := d.Reservation.ReserveForClean(ctx, runCtx)
	d.Reservation.Unlock()
	if d.postponed(ctx, asked, err) || d.interrupted(ctx, err) {
		return nil
	}
	if !d.Reservation.Allows(asked, found) {
		d.interrupted(ctx, nil)
		return nil
	}
	run.Generation, run.Provider = found.Generation, found.Provider
	if d.State.Host.ObservedAt.IsZero() { // recovered: the hardware must be discovered again
		if d.interrupted(ctx, d.discover(runCtx, ctx, run)) {
			return nil
		}
		if d.State.Intent.ConfirmSerial { // an imported device's: it is searched for before the clean (F23)
			d.postpone()
			return nil
		}
	}
	if d.interrupted(ctx, d.Discovery.CheckRecords(ctx, runCtx)) {
		return nil
	}
	if f := d.makePlan(ctx, run); f != nil {
		d.finish(ctx, "failed", f)
		return nil
	}
	defer d.giveBack(ctx, run)
	if d.interrupted(ctx, d.awaitSlot(runCtx, ctx, run)) {
		return nil
	}
	prepared := false
	for run.Next < len(run.Plan) {
		if d.interrupted(ctx, d.awaitHeldStep(runCtx, ctx, run)) {
			return nil
		}
		if !prepared && !clean.OfWorkflow(run.Plan[run.Next].Step) {
			if d.interrupted(ctx, d.prepareServer(runCtx, ctx, run)) {
				return nil
			}
			prepared = true
		}
		if d.State.Device.State == device.PendingCleaning {
			if err := d.Apply(ctx, device.Event{Kind: device.CleanStarted}); err != nil {
				return err
			}
		}
		if planned := run.Plan[run.Next]; clean.OfWorkflow(planned.Step) {
			result, err := d.pause(runCtx, ctx, run, planned)
			if d.interrupted(ctx, err) {
				return nil
			}
			run.Results = append(run.Results, result)
			run.Next, run.Resume = run.Next+1, nil
			prepared = false // it may have lasted for days
			continue
		}
		answer, err := d.step(runCtx, ctx, run)
		if f := calls.FaultIn(err); f != nil && f.Code == device.CodePlanOutdated && run.Replans < maxReplans &&
			!d.State.Intent.Abort {
			if d.interrupted(ctx, d.replan(runCtx, ctx, run)) {
				return nil
			}
			continue
		}
		allowed := run.NextAllowed
		if d.ended(ctx, run, run.Seq, answer.StepResult, err) {
			return nil
		}
		if allowed && answer.Next != nil && d.nextEnded(ctx, run, *answer.Next) {
			return nil
		}
	}
	if f := incomplete(run); f != nil {
		d.finish(ctx, "failed", f)
		return nil
	}
	if run.Full {
		d.archive(ctx, "cleaned", nil)
		d.ApplyOrReport(ctx, device.Event{Kind: device.CleanDone})
		return nil
	}
	if d.interrupted(ctx, d.releaseServer(runCtx, ctx)) {
		return nil
	}
	d.archive(ctx, "steps_done", nil)
	d.ApplyOrReport(ctx, device.Event{Kind: device.StepsDone})
	d.State.Clean = nil
	return nil
}

func (d *Cleaning) begin(ctx workflow.Context) *contract.CleanRun {
	s := d.State
	s.Cleans++
	s.Clean = &contract.CleanRun{
		Number: s.Cleans, ID: fmt.Sprintf("%s/%d", workflow.GetInfo(ctx).FirstRunID, s.Cleans),
		Reason: s.Intent.Reason, By: s.Intent.By, Full: !s.Device.NamedSteps, StartedAt: workflow.Now(ctx).UTC(),
	}
	s.Intent.Reason, s.Intent.By, s.Intent.Abort, d.Reservation.InUse, d.Reservation.Unreserved = "", "", false, nil, false
	d.failure, d.again = contract.CleanFailure{}, ""
	return s.Clean
}

// CleanUnderWay says that the running clean is the one that the device is due: what took the device
// out of a clean has cleared the clean, and a next one may be due before its step has stopped.
func (d *Cleaning) CleanUnderWay() bool { return d.State.Clean != nil && d.Record.CleanUnderWay() }

// postponed ends a clean that has not begun, if what it needs is away for a while: it is
// due again after a pause.
func (d *Cleaning) postponed(ctx workflow.Context, asked device.Snapshot, err error) bool {
	if err == nil || !d.CleanUnderWay() || d.State.Intent.Abort || d.Reservation.StopsClean() ||
		!d.Reservation.RetriesLater(asked, err) {
		return false
	}
	d.postpone()
	d.Retry = calls.FaultOf(err)
	return true
}

// postpone ends a clean of which no step was scheduled; it is due again.
func (d *Cleaning) postpone() {
	s := d.State
	s.Intent.Reason, s.Intent.By, s.Clean = s.Clean.Reason, s.Clean.By, nil
	s.Cleans--
}

// MustStop says that the running clean's call must be canceled: the device is no longer to
// be cleaned, is in use or not reserved any more, or the clean was aborted.
func (d *Cleaning) MustStop() bool {
	return d.stop != nil && !d.State.Device.Returning &&
		(!d.CleanUnderWay() || d.Reservation.StopsClean() || d.State.Intent.Abort)
}

// Stop cancels the running clean's call; Run then ends the clean.
func (d *Cleaning) Stop() {
	stop := d.stop
	d.stop = nil
	stop()
}

// interrupted ends the clean if it must not continue: for a reason of MustStop, or because
// a call failed for good. It is called after every call of the clean.
func (d *Cleaning) interrupted(ctx workflow.Context, err error) bool {
	f := calls.FaultIn(err)
	switch {
	case !d.CleanUnderWay():
		d.archive(ctx, "aborted", nil)
		d.State.Clean, d.Reservation.InUse = nil, nil
	case d.Reservation.InUse != nil:
		d.archive(ctx, "in_use", nil)
		d.State.Clean = nil
		d.State.LastRefusal = "not cleaned: the inventory shows the device in use by " + d.Reservation.ConcludeUse(ctx)
	case d.State.Intent.Abort:
		d.finish(ctx, "aborted", d.aborted())
	case d.Reservation.Unreserved:
		d.Reservation.Unreserved = false
		d.beginAgain(ctx, "another client undid its reservation, or its provider was re-created: the clean begins again")
	case d.again != "":
		d.beginAgain(ctx, d.again)
	case f == nil:
		return false
	case f.Code == device.CodeInventoryGenerationAhead, f.Code == device.CodeSuperseded:
		d.archive(ctx, "failed", f)
		d.takeOver(err)
		if f.Code == device.CodeInventoryGenerationAhead {
			d.CountForeignWrite(ctx)
		}
		d.Invalidate(ctx, nil, f.Message)
	default:
		d.finish(ctx, "failed", f)
	}
	return true
}

// beginAgain ends a clean whose reservation, or whose server's profile, is gone. The device stays as
// it is, so that the next clean begins at once: with the reservation, and the first step.
func (d *Cleaning) beginAgain(ctx workflow.Context, why string) {
	s := d.State
	f := &device.Fault{Class: device.Transient, Code: device.CodeReservationChanged,
		Message: why, Remedy: "none needed: the device is cleaned again"}
	d.again = ""
	d.archive(ctx, "failed", f)
	d.CountForeignWrite(ctx)
	s.Intent.Reason, s.Intent.By, s.LastError = s.Clean.Reason, s.Clean.By, f.Message
	s.Clean = nil
}

// takeOver continues with the numbers of a host that knows newer ones than this workflow,
// so that none of them is used again: the workflow was put back to an earlier moment (F26).
func (d *Cleaning) takeOver(err error) {
	refusal, ok := contract.RefusalOf(err)
	if !ok || refusal.Known == nil {
		return
	}
	s, known := d.State, refusal.Known
	s.Seq, s.Cleans = max(s.Seq, known.Seq), max(s.Cleans, known.Clean)
	s.Device.Bindings = max(s.Device.Bindings, known.Binding)
}

// Abort asks the clean to end and says what it waits for. A clean that has not begun ends at
// once: it waits for the operator (D7), for the end of a pause, or to begin again.
func (d *Cleaning) Abort(ctx workflow.Context) string {
	s := d.State
	if s.Device.BeingCleaned() && d.stop == nil && s.Clean == nil {
		d.finish(ctx, "aborted", d.aborted())
		return "aborted"
	}
	s.Intent.Abort = true
	if c := s.Clean; c != nil && c.Next < len(c.Plan) && s.Device.State == device.Cleaning {
		return "waiting for the step " + c.Plan[c.Next].Step + " to stop"
	}
	return "the clean ends before its first step"
}

func (d *Cleaning) aborted() *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeAborted,
		Message: "the clean was aborted", Remedy: "clean " + d.State.Name + " to run it again from its first step",
	}
}

func (d *Cleaning) finish(ctx workflow.Context, outcome string, f *device.Fault) {
	d.archive(ctx, outcome, f)
	d.State.Intent.Abort = false
	d.Fail(ctx, f) // which names the step
	d.State.Clean = nil
}

// archive keeps a summary of the clean, within bounds.
func (d *Cleaning) archive(ctx workflow.Context, outcome string, f *device.Fault) {
	run := d.State.Clean
	if run == nil {
		return
	}
	summary := contract.CleanSummary{
		Number: run.Number, Reason: run.Reason, By: run.By, Outcome: outcome, Operation: run.Operation,
		Runbook: run.Runbook, RunbookDigest: run.RunbookDigest,
		Steps: run.Results, RunTime: run.RunTime, StartedAt: run.StartedAt, EndedAt: workflow.Now(ctx).UTC(),
	}
	if f != nil {
		summary.Fault, summary.Failure = f.Code, d.failureOf(run, f)
	}
	d.meterClean(ctx, summary)
	archive, err := d.State.Archive.With(summary)
	if err != nil {
		workflow.GetLogger(ctx).Error("a clean was not archived", "device", d.State.Name, "error", err)
	}
	d.State.Archive = archive
}
