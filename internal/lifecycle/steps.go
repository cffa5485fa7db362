package lifecycle

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

var never time.Time

// makePlan records the plan of this clean and the settings by which it is carried out.
func (d *State) makePlan(run *contract.CleanRun) *device.Fault {
	if d.Host.Excluded != nil && run.Full {
		return d.Host.Excluded
	}
	i := d.Intent
	made := d.by.Plan(d.subject(), run.Full, clean.Request{Steps: i.Steps, Args: i.Args, Runbook: i.Runbook})
	if made.Fault != nil {
		return made.Fault
	}
	run.Runbook, run.RunbookDigest = made.Runbook, made.RunbookDigest
	run.Plan, run.PolicyDigest, run.Operation = made.Plan, made.PolicyDigest, d.Host.Operation
	run.HostSilentAfter, run.Budget = made.Policy.HostSilentAfter, made.Policy.CleanupTimeout
	run.Settings = made.Policy.StepSettings
	if made.Policy.Limits != nil && run.Slot == nil {
		run.Slot = &contract.CleanSlot{Clean: run.ID, Group: made.Group}
	}
	return nil
}

// Steps are those of a full clean of the subject, as they are shown.
func Steps(planner *clean.Planner, of clean.Subject) []contract.CleanStep {
	steps := []contract.CleanStep{}
	for _, p := range planner.Enabled(of) {
		steps = append(steps, contract.CleanStep{Step: p.Step.Name, Priority: p.Priority, Interface: p.Step.Interface})
	}
	return steps
}

// Plan makes a plan by a worker's policy: of a full clean, or of what an operator asks for.
func Plan(planner *clean.Planner, s clean.Subject, full bool, request clean.Request) RecordedPlan {
	made := RecordedPlan{PolicyDigest: planner.Digest(), Policy: planner.Policy().WithoutLists()}
	var plan []clean.Planned
	var book *clean.Runbook
	switch {
	case full:
		book, made.Fault = planner.Automated(s)
	case request.Runbook != "":
		book, made.Fault = planner.Runbook(request.Runbook)
	}
	if book != nil {
		made.Runbook, made.RunbookDigest = book.Name, book.Digest()
		made.Group, made.Fault = book.GroupOf(s)
	}
	switch {
	case made.Fault != nil:
	case full:
		plan, made.Fault = planner.Full(s)
	default:
		plan, made.Fault = planner.Manual(s, request)
	}
	// With the versions of steps that the host's worker has: a control worker of another release must not ask for others.
	for _, p := range plan {
		made.Plan = append(made.Plan, contract.Planned{
			Step: p.Step.Name, Interface: p.Step.Interface, Phase: string(p.Step.Phase),
			Priority: p.Priority, Version: s.HostSteps[p.Step.Name], Timeout: p.Timeout, Args: p.Args,
		})
	}
	return made
}

// discoverForClean begins the sequence that has the host discover the device before a plan is made. An unreachable host
// is recorded and waited for without limit. One that knows later work than this workflow did it after the clean
// reserved the device: the clean is of an older memory (F26).
func (d *State) discoverForClean(j *Job, back Phase) {
	j.SilentAfter = j.Run.HostSilentAfter
	if j.SilentAfter == 0 {
		j.SilentAfter = d.by.Policy().HostSilentAfter
	}
	j.Since, j.Pause = d.now, min(j.SilentAfter, hostNotice)
	j.Numbers = contract.HostNumbers{Seq: d.Seq, Clean: d.Cleans}
	d.share(j, phCleanDiscover, back)
}

func (d *State) cleanDiscoverCall(j *Job) { d.discover(j, How{StartWithin: j.Pause}) }

func (d *State) cleanDiscoverEnded(j *Job, o Outcome) {
	f := d.discovered(j, o)
	switch {
	case f == nil && (d.Seq != j.Numbers.Seq || d.Cleans != j.Numbers.Clean):
		o.Fault = &device.Fault{
			Class: device.Permanent, Code: device.CodeSuperseded, Message: "its host knows later work than this workflow",
			Remedy: "none needed: the inventory's record is read",
		}
	case f == nil:
		j.Run.Statements = nil
		if signed := o.Found.(*contract.DiscoveryResult).Statement; signed != "" {
			j.Run.Statements = []string{signed}
		}
	case f != nil && f.Code == device.CodeHostUnreachable && !d.Intent.Abort && d.cleans():
		d.waitingUntil(contract.WaitHost, hostUnreachable(d.Enrollment.Host), j.Since.Add(j.SilentAfter))
		j.Pause = nextStartWithin(j.Pause, j.SilentAfter)
		d.enter(j, phCleanDiscover)
		return
	}
	d.back(j, o)
}

// hostUnreachable is the fault of a host whose worker does not start what it is asked for.
func hostUnreachable(host string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
		Message: "no worker of host " + host + " took its task in time",
		Remedy:  "start burnish-worker on " + host + "; the clean then continues automatically"}
}

// maxStartWithin bounds the time after which a host that came back and is gone again is noticed. It costs a few events.
const maxStartWithin = time.Hour

// nextStartWithin is how long the next scheduling waits for a host that did not start the last one.
func nextStartWithin(last, silentAfter time.Duration) time.Duration {
	return max(silentAfter, min(2*last, maxStartWithin))
}

// step schedules the plan's next step on the host. An unreachable host is recorded and waited for without limit; the
// step then reports that it runs.
func (d *State) step(j *Job) {
	run := j.Run
	p := run.Plan[run.Next]
	if j.Pause == 0 {
		j.Pause = min(run.HostSilentAfter, hostNotice)
	}
	budget := p.Timeout
	if run.Budget > 0 {
		budget = run.Budget - run.RunTime
	}
	if budget <= 0 {
		d.stepEnded(j, Outcome{Fault: errBudgetExceeded(p.Step, run.Budget)})
		return
	}
	next := nextStep(run)
	d.Seq++
	run.Seq, run.NextAllowed = d.Seq, next != nil
	if next != nil {
		d.Seq++ // used, whether the host begins it or not
	}
	run.StepAt = d.now.UTC()
	d.Publish = true
	d.make(j, Call{Activity: p.Step, WaitsFor: contract.WaitHost,
		How: How{Way: ToStep, Host: d.Enrollment.Host, StartWithin: j.Pause, Budget: budget, What: p.Step + " " + d.Name},
		In: contract.StepInput{
			Enrollment: d.Enrollment, Identity: d.Host.Identity, Operation: run.Operation,
			Step: p.Step, Version: p.Version, Clean: run.ID, Number: run.Number, Seq: run.Seq,
			Binding: d.Device.Bindings, Generation: run.Generation, Provider: run.Provider, Budget: budget,
			Reservation: d.Reservation(),
			Resume:      run.Resume, Settings: run.Settings, Args: p.Args, ReportStart: j.Tries > 0,
			Rest: rest(run), More: onHost(run, run.Next+1), Next: next,
		}})
}

func (d *State) stepEnded(j *Job, o Outcome) {
	run := j.Run
	if o.NotStarted {
		if o.Progress != nil {
			run.Resume = o.Progress
		}
		if !d.Intent.Abort && d.cleans() {
			d.waitingUntil(contract.WaitHost, hostUnreachable(d.Enrollment.Host), run.StepAt.Add(run.HostSilentAfter))
			j.Tries++
			j.Pause = nextStartWithin(j.Pause, run.HostSilentAfter)
			d.enter(j, phStep)
			return
		}
	}
	if f := o.Fault; f != nil && f.Code == device.CodePlanOutdated && run.Replans < maxReplans && !d.Intent.Abort {
		d.discoverForClean(j, phReplan) // it begins again with the host's present steps (S3.16)
		return
	}
	var answer contract.StepAnswer
	if o.Found != nil && o.Fault == nil {
		answer = *o.Found.(*contract.StepAnswer)
	}
	allowed, seq := run.NextAllowed, run.Seq
	if d.stepOver(j, seq, answer.StepResult, answer.Statement, o) {
		return
	}
	if next := answer.Next; allowed && next != nil { // its host began it in the activity of the one before it
		var result contract.StepResult
		var o Outcome
		if r := next.Refusal; r != nil {
			o.Fault, o.Known, o.Progress, o.Attempt = &r.Fault, r.Known, r.Progress, r.Attempt
		} else if next.Result != nil {
			result = *next.Result
		}
		if d.stepOver(j, seq+1, result, next.Statement, o) {
			return
		}
	}
	at := run.StepAt
	if seen := answer.SeenAt; seen.After(at) && !seen.After(d.now) { // which may be long before its answer
		at = seen.UTC()
	}
	d.saw(j, at)
	d.cleanGoesOn(j)
}

// replan starts the clean again with the host's present steps and the same locked-in operation (S3.16).
func (d *State) replan(j *Job, o Outcome) {
	if o.Fault == nil {
		run := j.Run
		// Another ID, so that the host's journal does not skip steps that the old plan finished.
		run.Replans, run.Next, run.Results, run.Resume = run.Replans+1, 0, nil, nil
		run.ID = fmt.Sprintf("%s/%d/%d", d.by.Run(), run.Number, run.Replans)
		o.Fault = d.makePlan(run)
	}
	if !d.interrupted(j, o) {
		d.cleanGoesOn(j)
	}
}

// rest are the steps after the next one that restore the device as that does.
func rest(run *contract.CleanRun) (names []string) {
	if run.Plan[run.Next].Phase != string(clean.Restore) {
		return nil
	}
	for i := run.Next + 1; onHost(run, i) && run.Plan[i].Phase == string(clean.Restore); i++ {
		names = append(names, run.Plan[i].Step)
	}
	return names
}

func onHost(run *contract.CleanRun, i int) bool {
	return i < len(run.Plan) && !clean.OfWorkflow(run.Plan[i].Step)
}

// nextStep is the step after the plan's next one, if the host may begin it in the same activity: it only reads the
// device. Nil: it has an activity of its own.
func nextStep(run *contract.CleanRun) *contract.NextStep {
	i := run.Next + 1
	if !onHost(run, i) || run.Plan[i].Phase != string(clean.Verify) || held(run, i) {
		return nil
	}
	p := run.Plan[i]
	next := &contract.NextStep{Step: p.Step, Version: p.Version, Args: p.Args, More: onHost(run, i+1)}
	if run.Budget <= 0 {
		next.Budget = p.Timeout
	}
	return next
}

func errBudgetExceeded(step string, budget time.Duration) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeTimeout,
		Message: fmt.Sprintf("%s did not end within the clean's budget of %s running time", step, budget),
		Remedy:  "check the device, then clean it again; BURNISH_CLEANUP_TIMEOUT sets the budget",
	}
}

// stepOver records how one step of the plan ended, the scheduling seq of it, with what its host signed, and says
// whether the clean has ended with it.
func (d *State) stepOver(j *Job, seq int64, result contract.StepResult, statement string, o Outcome) bool {
	run := j.Run
	d.countFailure(run, o.Fault)
	d.noteFailure(run, o)
	wrong := mismatch(run, seq, result)
	d.countStep(run, result, o.Fault != nil || wrong != nil)
	if d.interrupted(j, o) {
		return true
	}
	if wrong != nil {
		d.countFailure(run, wrong)
		d.finishClean("failed", wrong)
		d.cleanEnds(j)
		return true
	}
	if result.Firmware != "" {
		d.Host.Identity.Firmware = result.Firmware
	}
	if statement != "" {
		run.Statements = append(run.Statements, statement)
	}
	result.Clean, result.Seq, result.Firmware = "", 0, "" // known by now
	run.Results, run.RunTime = append(run.Results, result), run.RunTime+result.RunTime
	run.Next, run.Resume, run.NextAllowed = run.Next+1, nil, false
	d.reportCanary(run)
	return false
}

// noteFailure keeps how far a step was when it failed: its host says so with the fault, or its last heartbeat did.
func (d *State) noteFailure(run *contract.CleanRun, o Outcome) {
	d.Failure = contract.CleanFailure{}
	if o.Fault == nil {
		return
	}
	if p := o.Progress; p != nil {
		d.Failure.Offset, d.Failure.Size, d.Failure.Attempt = p.Offset, p.Size, o.Attempt
	}
	d.Failure.Step = run.Plan[run.Next].Step
}

// failureOf is where and why the clean ends with a fault.
func (d *State) failureOf(run *contract.CleanRun, f *device.Fault) *contract.CleanFailure {
	failure := contract.CleanFailure{Message: f.Message}
	if run.Next < len(run.Plan) {
		if failure.Step = run.Plan[run.Next].Step; failure.Step == d.Failure.Step {
			failure.Offset, failure.Size, failure.Attempt = d.Failure.Offset, d.Failure.Size, d.Failure.Attempt
		}
	}
	return &failure
}

// mismatch is the fault of a result that is not of the step that was asked for, in this clean and this scheduling
// (F26): a host may answer from a record of other work.
func mismatch(run *contract.CleanRun, seq int64, got contract.StepResult) *device.Fault {
	wanted := run.Plan[run.Next].Step
	if got.Step == wanted && got.Clean == run.ID && got.Seq == seq {
		return nil
	}
	return resultMismatch(
		fmt.Sprintf("the host answered %s (clean %s, scheduling %d) with the result of %q (clean %q, scheduling %d)",
			wanted, run.ID, seq, got.Step, got.Clean, got.Seq))
}

// incomplete is the fault of a clean that would end without a result for each step of its plan, in the plan's order
// (F26).
func incomplete(run *contract.CleanRun) *device.Fault {
	if len(run.Plan) == 0 {
		return resultMismatch("the plan has no step")
	}
	for i, planned := range run.Plan {
		if i >= len(run.Results) || run.Results[i].Step != planned.Step {
			return resultMismatch("there is no result of the step " + planned.Step)
		}
	}
	if len(run.Results) > len(run.Plan) {
		return resultMismatch("there are more results than steps")
	}
	return nil
}

func resultMismatch(message string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeResultMismatch, Message: message,
		Remedy: "check that the workers of its host are of one release, then clean the device again",
	}
}

// The steps of the workflow itself: hold waits until the operator releases it, wait for a time, together for the other
// devices of its group. None reaches a host, spends budget or polls; the end of the clean ends each at once.

func (d *State) hold(j *Job) {
	var args clean.HoldArgs
	if !d.pauseBegins(j, &args) {
		return
	}
	j.Note = args.Reason
	d.waitingUntil(contract.WaitHold, &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeOnHold,
		Message: "on hold: " + args.Reason, Remedy: "release-hold " + d.Name,
	}, d.now)
}

// pauseBegins reads the arguments of such a step; false: they ended the clean.
func (d *State) pauseBegins(j *Job, args any) bool {
	run := j.Run
	p := run.Plan[run.Next]
	j.Since = d.now
	run.StepAt, run.ReleasedBy = d.now.UTC(), ""
	d.Publish = true
	if err := json.Unmarshal(p.Args, args); err != nil {
		d.interrupted(j, Outcome{Fault: badArgs(p.Step, err)})
		return false
	}
	return true
}

func (d *State) holdOver(j *Job) bool { return j.Run.ReleasedBy != "" || d.cleanStops(j) }

func (d *State) released(j *Job, _ Outcome) {
	by := j.Run.ReleasedBy
	j.Run.ReleasedBy = ""
	d.endWait(contract.WaitHold)
	d.pauseOver(j, fmt.Sprintf("%s; released after %s by %s", j.Note, d.now.Sub(j.Since).Round(time.Second), by))
}

func (d *State) pauseOver(j *Job, note string) {
	if d.interrupted(j, Outcome{}) {
		return
	}
	run := j.Run
	run.Results = append(run.Results, contract.StepResult{Step: run.Plan[run.Next].Step, Note: note})
	run.Next, run.Resume = run.Next+1, nil
	j.Prepared = false // it may have lasted for days
	d.cleanGoesOn(j)
}

func (d *State) wait(j *Job) {
	var args clean.WaitArgs
	if !d.pauseBegins(j, &args) {
		return
	}
	pause, err := time.ParseDuration(args.For)
	if err != nil {
		d.interrupted(j, Outcome{Fault: badArgs(clean.StepWait, err)})
		return
	}
	j.Note, j.Until = args.For, d.now.Add(pause)
	d.waitingUntil(contract.WaitTimer, &device.Fault{
		Class: device.Transient, Code: device.CodeRunbookWait,
		Message: fmt.Sprintf("the runbook %s waits until %s", j.Run.Runbook, j.Until.UTC().Format(time.RFC3339)),
		Remedy:  "wait, or abort " + d.Name,
	}, never)
}

func (d *State) waited(j *Job, _ Outcome) {
	d.endWait(contract.WaitTimer)
	d.pauseOver(j, "waited for "+j.Note)
}

// together waits until all devices of the group are at this step of theirs, or an operator lets this one go on.
func (d *State) together(j *Job) {
	run := j.Run
	j.Since = d.now
	run.StepAt, run.ReleasedBy = d.now.UTC(), ""
	d.Publish = true
	run.Slot.Arrived = barriers(run)
	if d.togetherOver(j) {
		return
	}
	d.report(contract.SlotReport{Device: d.Name, Clean: run.Slot.Clean, Arrived: run.Slot.Arrived})
	d.waitingUntil(contract.WaitTogether, &device.Fault{
		Class: device.Transient, Code: device.CodeWaitingForGroup,
		Message: "waits for the other devices with " + run.Slot.Group,
		Remedy:  "clean them, or release-hold " + d.Name + " to go on without them",
	}, never)
}

// barriers counts the steps together of the plan up to the next step.
func barriers(run *contract.CleanRun) (n int) {
	for _, p := range run.Plan[:run.Next+1] {
		if p.Step == clean.StepTogether {
			n++
		}
	}
	return n
}

func (d *State) togetherOver(j *Job) bool {
	return j.Run.Slot.Opened >= j.Run.Slot.Arrived || j.Run.ReleasedBy != "" || d.cleanStops(j)
}

func (d *State) wentTogether(j *Job, _ Outcome) {
	run, took := j.Run, d.now.Sub(j.Since).Round(time.Second)
	note := fmt.Sprintf("all with %s were there after %s", run.Slot.Group, took)
	if run.ReleasedBy != "" {
		note = fmt.Sprintf("went on without all with %s; released after %s by %s", run.Slot.Group, took, run.ReleasedBy)
		run.ReleasedBy = ""
	}
	d.endWait(contract.WaitTogether)
	d.pauseOver(j, note)
}

func badArgs(step string, err error) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal, Message: step +
		": the recorded arguments are unreadable: " + err.Error()}
}

// releaseHold ends the step hold or together. Its caller has checked that there is one.
func (d *State) releaseHold(in contract.ReasonInput) {
	run := d.Clean
	if run == nil {
		return
	}
	by := in.By
	if by == "" {
		by = "an operator"
	}
	if in.Reason != "" {
		by += ": " + in.Reason
	}
	run.ReleasedBy = oneLine(by)
	d.endWait(contract.WaitHold) // a second release finds none
	d.endWait(contract.WaitTogether)
}

// maxNote bounds what the archive keeps of a release.
const maxNote = 300

// oneLine gives a text on one line, cut where it is too long.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "") + "…"
	}
	return text
}
