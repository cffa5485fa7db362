package lifecycle

import (
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file carries out one clean: it reserves the device (F4), records a plan, runs the plan's steps on the host, and
// stops when the clean must not continue.

// maxReplans bounds how often one clean begins again because a step's version changed.
const maxReplans = 5

// workDue says that the state requires work.
func (d *State) workDue() bool {
	if !d.Enrolled || !d.RetryAt.IsZero() {
		return false
	}
	switch d.Device.State {
	case device.Cleaning:
		return d.PausedUntil.IsZero() && !d.readsAgain()
	case device.Unknown:
		return !d.Device.AwaitingManualClean
	case device.PendingCleaning:
		return !d.Device.AwaitingManualClean && d.PausedUntil.IsZero() && !d.readsAgain()
	}
	return false
}

// work does what the state requires, once.
func (d *State) work(j *Job) {
	switch {
	case d.Device.State == device.Unknown:
		d.enter(j, phResolve)
	case d.Intent.ConfirmSerial:
		d.enter(j, phConfirmSerial)
	case d.Device.Returning:
		d.returnToOffer(j)
	case d.pauseClean():
		d.workEnds(j)
	default:
		d.cleanBegins(j)
	}
}

// workEnds ends the work; what failed is tried again after a pause.
func (d *State) workEnds(j *Job) {
	if f := d.retry; f != nil {
		d.retry = nil
		d.backoff(f)
	} else if d.RetryAt.IsZero() {
		d.recovered()
	}
	d.drop(j)
}

func (d *State) cleanBegins(j *Job) {
	d.Cleans++
	d.Clean = &contract.CleanRun{
		Number: d.Cleans, ID: fmt.Sprintf("%s/%d", d.by.Run(), d.Cleans),
		Reason: d.Intent.Reason, By: d.Intent.By, Full: !d.Device.NamedSteps, StartedAt: d.now.UTC(),
	}
	d.Intent.Reason, d.Intent.By, d.Intent.Abort, d.InUse, d.Unreserved = "", "", false, false, false
	d.Failure, d.Again = contract.CleanFailure{}, ""
	j.Run, j.Cleans = d.Clean, true
	d.Publish = true
	d.enter(j, phCleanReserve)
}

// cleans says that the recorded clean is the one that the device is due: what took the device out of a clean has
// cleared the clean, and a next one may be due before its step has stopped.
func (d *State) cleans() bool { return d.Clean != nil && CleanUnderWay(d.DeviceState) }

// cleanReserves says that the clean has reserved the device.
func (d *State) cleanReserves() bool {
	return d.Clean != nil && (d.Clean.Generation != 0 || d.Clean.Provider != "")
}

// stopsClean says that the running clean must stop because of what the inventory showed.
func (d *State) stopsClean() bool { return d.InUse || d.Unreserved }

// readsAgain says that the inventory is read before the next clean begins: what it showed has stopped the last one.
func (d *State) readsAgain() bool { return d.stopsClean() && d.Intent.ReadInventory }

// cleanStops says that the clean's call is no longer due: the device is no longer to be cleaned, is in use or not
// reserved any more, or the clean was aborted.
func (d *State) cleanStops(*Job) bool {
	return !d.Device.Returning && (!d.cleans() || d.stopsClean() || d.Intent.Abort)
}

// cleanEnds ends the job of a clean.
func (d *State) cleanEnds(j *Job) {
	if j.Planned {
		d.giveBack(j.Run)
	}
	j.Cleans = false
	d.Intent.ReadInventory = d.Intent.ReadInventory || d.stopsClean()
	if d.Device.Returning {
		j.Run, j.Planned = nil, false
		d.returnToOffer(j)
		return
	}
	d.workEnds(j)
}

// cleanReserveCall excludes a reconciliation: each would mistake the other's write for a foreign one. The call is
// retried until it succeeds or the clean stops.
func (d *State) cleanReserveCall(j *Job) {
	j.Asked = d.ask(device.AskClean)
	d.reserve(j, d.cleared(d.request()), How{InTask: true})
}

func (d *State) cleanReserved(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	d.letGo(j)
	if f != nil && d.cleans() && !d.Intent.Abort && !d.stopsClean() &&
		d.observe(j.Asked, device.Inventory{}, f).Needs(device.RetryLater) {
		d.postpone() // what the clean needs is away for a while
		d.retry = f
		d.cleanEnds(j)
		return
	}
	if d.interrupted(j, o) {
		return
	}
	if !d.observe(j.Asked, found, nil).Needs(device.Proceed) {
		d.archive("in_use", nil)
		d.Clean = nil
		d.conclude(j.Asked, found, nil)
		d.cleanEnds(j)
		return
	}
	j.Run.Generation, j.Run.Provider = found.Generation, found.Provider
	// Recovered: the hardware must be discovered again. Under a receipt its host signs what the plan is made for.
	if d.Host.ObservedAt.IsZero() || d.Reservation() != "" {
		d.discoverForClean(j, phCleanDiscovered)
		return
	}
	d.enter(j, phCleanRecords)
}

func (d *State) cleanDiscovered(j *Job, o Outcome) {
	if d.interrupted(j, o) {
		return
	}
	if d.Intent.ConfirmSerial { // an imported device's: it is searched for before the clean (F23)
		d.postpone()
		d.cleanEnds(j)
		return
	}
	d.enter(j, phCleanRecords)
}

// cleanRecordsCall asks before a clean, until there is an answer, who else has the hardware. The inventory tells, but
// for devices of Nova's: for them the listing is asked.
func (d *State) cleanRecordsCall(j *Job) {
	i, serial := d.Host.Identity, ""
	if !d.ownedByBurnish() {
		serial = i.Serial
	}
	d.findOthers(j, i, serial, d.MovedFrom, How{What: "records of the hardware of " + d.Name})
}

func (d *State) cleanChecked(j *Job, o Outcome) {
	if o.Fault == nil {
		o.Fault = d.foundOther(j, o)
	}
	if d.interrupted(j, o) {
		return
	}
	d.cleanPlans(j)
}

func (d *State) cleanPlans(j *Job) {
	if f := d.makePlan(j.Run); f != nil {
		d.finishClean("failed", f)
		d.cleanEnds(j)
		return
	}
	j.Planned = true
	if j.Run.Slot == nil {
		d.cleanGoesOn(j)
		return
	}
	d.askForSlot(j, phCleanSlot)
}

func (d *State) cleanSlot(j *Job, o Outcome) {
	if !d.interrupted(j, o) {
		d.cleanGoesOn(j)
	}
}

// cleanGoesOn takes the clean to its next step, or to its end.
func (d *State) cleanGoesOn(j *Job) {
	run := j.Run
	switch {
	case run.Next >= len(run.Plan):
		d.cleanFinishes(j)
	case held(run, run.Next):
		d.enter(j, phStepHeld)
	case !j.Prepared && !clean.OfWorkflow(run.Plan[run.Next].Step):
		d.prepareServer(j)
	default:
		if d.Device.State == device.PendingCleaning {
			if err := d.apply(device.Event{Kind: device.CleanStarted}); err != nil {
				d.Defect = err
				d.cleanEnds(j)
				return
			}
		}
		switch run.Plan[run.Next].Step {
		case clean.StepHold:
			d.enter(j, phHold)
		case clean.StepWait:
			d.enter(j, phWait)
		case clean.StepTogether:
			d.enter(j, phTogether)
		default:
			j.Tries, j.Pause = 0, 0
			d.enter(j, phStep)
		}
	}
}

// stepHeld waits while the limits hold back the clean's next step, because it failed on other devices of the model. The
// clean keeps its slot.
func (d *State) stepHeld(j *Job) { d.waitingUntil(contract.WaitSlot, j.Run.Slot.Why, never) }

func (d *State) stepReleased(j *Job) bool { return !held(j.Run, j.Run.Next) || d.cleanStops(j) }

func (d *State) stepGoesOn(j *Job, o Outcome) {
	d.endWait(contract.WaitSlot)
	if !d.interrupted(j, o) {
		d.cleanGoesOn(j)
	}
}

func (d *State) cleanFinishes(j *Job) {
	run := j.Run
	switch f := incomplete(run); {
	case f != nil:
		d.finishClean("failed", f)
	case run.Full:
		d.archive("cleaned", nil)
		d.Statements = run.Statements
		d.must(device.Event{Kind: device.CleanDone})
	case d.owes(): // the device does not go through its return to the offer
		d.profile(j, ProfileKind{Remove: true}, phCleanReleased)
		return
	default:
		d.stepsDone()
	}
	d.cleanEnds(j)
}

func (d *State) cleanReleased(j *Job, o Outcome) {
	if d.interrupted(j, o) {
		return
	}
	d.stepsDone()
	d.cleanEnds(j)
}

func (d *State) stepsDone() {
	d.archive("steps_done", nil)
	d.must(device.Event{Kind: device.StepsDone})
	d.Clean = nil
}

// postpone ends a clean of which no step was scheduled; it is due again.
func (d *State) postpone() {
	d.Intent.Reason, d.Intent.By, d.Clean = d.Clean.Reason, d.Clean.By, nil
	d.Cleans--
}

// interrupted ends the clean if it must not continue: for a reason of cleanStops, or because a call failed for good. It
// is called after every phase of the clean.
func (d *State) interrupted(j *Job, o Outcome) bool {
	f := o.Fault
	switch {
	case !d.cleans():
		d.archive("aborted", nil)
		d.Clean = nil
	case d.Intent.Abort:
		d.finishClean("aborted", d.abortedFault())
	case d.InUse:
		d.archive("in_use", nil)
		d.Intent.Reason, d.Intent.By, d.Clean = d.Clean.Reason, d.Clean.By, nil
	case d.Unreserved:
		d.beginAgain("another client undid its reservation, or wrote its provider: the clean begins again")
	case d.Again != "":
		d.beginAgain(d.Again)
	case f == nil:
		return false
	case f.Code == device.CodeInventoryGenerationAhead, f.Code == device.CodeSuperseded:
		d.archive("failed", f)
		d.takeOver(o.Known)
		if f.Code == device.CodeInventoryGenerationAhead {
			d.countForeignWrite()
		}
		d.invalidate(nil, f.Message)
	default:
		d.finishClean("failed", f)
	}
	d.cleanEnds(j)
	return true
}

// beginAgain ends a clean whose reservation, or whose server's profile, is gone. The device stays as it is, so that the
// next clean begins at once: with the reservation, and the first step.
func (d *State) beginAgain(why string) {
	f := &device.Fault{Class: device.Transient, Code: device.CodeReservationChanged,
		Message: why, Remedy: "none needed: the device is cleaned again"}
	d.Again = ""
	d.archive("failed", f)
	d.countForeignWrite()
	d.Intent.Reason, d.Intent.By, d.LastError = d.Clean.Reason, d.Clean.By, f.Message
	d.Clean = nil
}

// takeOver continues with the numbers of a host that knows newer ones than this workflow, so that none of them is used
// again: the workflow was put back to an earlier moment (F26).
func (d *State) takeOver(known *contract.HostNumbers) {
	if known == nil {
		return
	}
	d.Seq, d.Cleans = max(d.Seq, known.Seq), max(d.Cleans, known.Clean)
	d.Device.Bindings = max(d.Device.Bindings, known.Binding)
}

// abort asks the clean to end and says what it waits for. A clean that has not begun ends at once: it waits for the
// operator (D7), for the end of a pause, or to begin again.
func (d *State) abort() string {
	if d.Device.BeingCleaned() && d.Clean == nil {
		d.finishClean("aborted", d.abortedFault())
		return "aborted"
	}
	d.Intent.Abort = true
	if c := d.Clean; c != nil && c.Next < len(c.Plan) && d.Device.State == device.Cleaning {
		return "waiting for the step " + c.Plan[c.Next].Step + " to stop"
	}
	return "the clean ends before its first step"
}

func (d *State) abortedFault() *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeAborted,
		Message: "the clean was aborted", Remedy: "clean " + d.Name + " to run it again from its first step",
	}
}

func (d *State) finishClean(outcome string, f *device.Fault) {
	d.archive(outcome, f)
	d.Intent.Abort = false
	d.fail(f) // which names the step
	d.Clean = nil
}

// archive keeps a summary of the clean, within bounds.
func (d *State) archive(outcome string, f *device.Fault) {
	run := d.Clean
	if run == nil {
		return
	}
	summary := contract.CleanSummary{
		Number: run.Number, Reason: run.Reason, By: run.By, Outcome: outcome, Operation: run.Operation,
		Runbook: run.Runbook, RunbookDigest: run.RunbookDigest,
		Steps: run.Results, RunTime: run.RunTime, StartedAt: run.StartedAt, EndedAt: d.now.UTC(),
	}
	if f != nil {
		summary.Fault, summary.Failure = f.Code, d.failureOf(run, f)
	}
	d.countClean(summary)
	d.keepSummary(summary)
}

func (d *State) keepSummary(s contract.CleanSummary) { d.Archive = d.by.Archive(d.Archive, s) }

// prepareServer makes sure that Burnish has the server of a shared pool before anything works at it: a server that
// others have is not touched (S4.18), one without a profile gets a temporary one (S4.19), and Burnish's own is used
// again (S4.20).
func (d *State) prepareServer(j *Job) {
	if !d.shared() {
		j.Prepared = true
		d.cleanGoesOn(j)
		return
	}
	d.enter(j, phPrepare)
}

func (d *State) serverRead(j *Job, o Outcome) {
	found, f := d.poolRead(j, o)
	if f != nil || !d.cleans() {
		d.serverPrepared(j, Outcome{Fault: f})
		return
	}
	j.Server = found
	seen := d.observePool(device.AskPoolClean, found, nil)
	if seen.Event == device.LostRace {
		d.serverPrepared(j, Outcome{Fault: d.takenFault()}) // which fail records as the lost race
		return
	}
	if seen.Event != "" {
		d.must(device.Event{Kind: seen.Event})
	}
	switch {
	case found.Ownership == device.PoolOurs && !d.pool().Applying:
		d.serverPrepared(j, Outcome{})
	case found.Ownership == device.PoolFree && worked(j.Run):
		// SAFETY F34: others may have used it since the steps that are done.
		d.Again = "its profile was removed during the clean, which begins again: another user may have had the server"
		d.serverPrepared(j, Outcome{})
	default:
		d.profile(j, ProfileKind{}, phPrepared)
	}
}

func (d *State) serverPrepared(j *Job, o Outcome) {
	if !d.interrupted(j, o) {
		j.Prepared = true
		d.cleanGoesOn(j)
	}
}

// worked says that a step of the clean was done at the server.
func worked(run *contract.CleanRun) bool {
	for _, s := range run.Plan[:run.Next] {
		if !clean.OfWorkflow(s.Step) {
			return true
		}
	}
	return false
}
