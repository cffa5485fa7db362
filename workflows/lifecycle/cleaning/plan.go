package cleaning

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// RecordedPlan is recorded by a SideEffect: the plan of a clean, and the policy of the worker
// that made it.
type RecordedPlan struct {
	Plan  []contract.Planned `json:"plan,omitempty"`
	Fault *device.Fault      `json:"fault,omitempty"`
	// Runbook is what the plan follows; "": phases and priorities.
	Runbook       string       `json:"runbook,omitempty"`
	RunbookDigest string       `json:"runbook_digest,omitempty"`
	PolicyDigest  string       `json:"policy_digest"`
	Policy        clean.Policy `json:"policy"`
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
	}
	switch {
	case made.Fault != nil:
	case full:
		plan, made.Fault = planner.Full(s)
	default:
		plan, made.Fault = planner.Manual(s, request)
	}
	made.Plan = toContract(plan, s.HostSteps)
	return made
}

// makePlan records the plan of this clean and the settings by which it is carried out.
func (d *Cleaning) makePlan(ctx workflow.Context, run *contract.CleanRun) *device.Fault {
	if d.State.Host.Excluded != nil && run.Full {
		return d.State.Host.Excluded
	}
	input, intent := d.PlanInput(), d.State.Intent
	full, planner := run.Full, d.Planner
	var made RecordedPlan
	err := workflow.SideEffect(ctx, func(workflow.Context) any {
		return Plan(planner, input, full, clean.Request{Steps: intent.Steps, Args: intent.Args, Runbook: intent.Runbook})
	}).Get(&made)
	if err != nil {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal,
			Message: "the recorded plan is unreadable: " + err.Error()}
	}
	if made.Fault != nil {
		return made.Fault
	}
	run.Runbook, run.RunbookDigest = made.Runbook, made.RunbookDigest
	run.Plan, run.PolicyDigest, run.Operation = made.Plan, made.PolicyDigest, d.State.Host.Operation
	run.HostSilentAfter, run.Budget = made.Policy.HostSilentAfter, made.Policy.CleanupTimeout
	run.Settings = made.Policy.StepSettings
	if made.Policy.Limits != nil && run.Slot == nil {
		run.Slot = &contract.CleanSlot{Clean: run.ID}
	}
	return nil
}

// replan starts the clean again with the host's present steps and the same locked-in
// operation (S3.16).
func (d *Cleaning) replan(runCtx, ctx workflow.Context, run *contract.CleanRun) error {
	if err := d.discover(runCtx, ctx, run); err != nil {
		return err
	}
	// Another ID, so that the host's journal does not skip steps that the old plan finished.
	run.Replans, run.Next, run.Results, run.Resume = run.Replans+1, 0, nil, nil
	run.ID = fmt.Sprintf("%s/%d/%d", workflow.GetInfo(ctx).FirstRunID, run.Number, run.Replans)
	if f := d.makePlan(ctx, run); f != nil {
		return f
	}
	return nil
}

// discover has the host discover the device before a plan is made. An unreachable host is
// recorded and waited for without limit. One that knows later work than this workflow did it after
// the clean reserved the device: the clean is of an older memory (F26).
func (d *Cleaning) discover(runCtx, ctx workflow.Context, run *contract.CleanRun) error {
	silentAfter := run.HostSilentAfter
	if silentAfter == 0 {
		silentAfter = d.Policy(ctx).HostSilentAfter
	}
	host, since := d.State.Enrollment.Host, workflow.Now(ctx)
	seq, cleans := d.State.Seq, d.State.Cleans
	return d.During(ctx, contract.WaitHost, func() error {
		startWithin := min(silentAfter, calls.HostNotice)
		for {
			err := d.Discovery.Discover(calls.OnHost(runCtx, host, "discover "+d.State.Name, startWithin))
			f := calls.FaultIn(err)
			if f == nil && (d.State.Seq != seq || d.State.Cleans != cleans) {
				return contract.Refuse(contract.Refusal{Fault: device.Fault{
					Class: device.Permanent, Code: device.CodeSuperseded, Message: "its host knows later work than this workflow",
					Remedy: "none needed: the inventory's record is read",
				}})
			}
			if f == nil || f.Code != device.CodeHostUnreachable || d.State.Intent.Abort || !d.CleanUnderWay() {
				return err
			}
			d.WaitingUntil(ctx, contract.WaitHost, calls.HostUnreachable(host), since.Add(silentAfter))
			startWithin = nextStartWithin(startWithin, silentAfter)
		}
	})
}

// toContract converts a plan, with the versions of steps that the host's worker has: a
// control worker of another release must not ask for others.
func toContract(plan []clean.Planned, hostSteps map[string]int) []contract.Planned {
	var out []contract.Planned
	for _, p := range plan {
		out = append(out, contract.Planned{
			Step: p.Step.Name, Interface: p.Step.Interface, Phase: string(p.Step.Phase),
			Priority: p.Priority, Version: hostSteps[p.Step.Name], Timeout: p.Timeout, Args: p.Args,
		})
	}
	return out
}

// step schedules the plan's next step on the host and waits for it. An unreachable host is
// recorded and waited for without limit; the step then reports that it runs.
func (d *Cleaning) step(runCtx, ctx workflow.Context, run *contract.CleanRun) (answer contract.StepAnswer, err error) {
	err = d.During(ctx, contract.WaitHost, func() error {
		startWithin := min(run.HostSilentAfter, calls.HostNotice)
		for again := false; ; again = true {
			unreachable, err := d.schedule(runCtx, ctx, run, startWithin, again, &answer)
			if !unreachable || d.State.Intent.Abort || !d.CleanUnderWay() {
				return err
			}
			d.WaitingUntil(ctx, contract.WaitHost, calls.HostUnreachable(d.State.Enrollment.Host),
				run.StepAt.Add(run.HostSilentAfter))
			startWithin = nextStartWithin(startWithin, run.HostSilentAfter)
		}
	})
	return answer, err
}

// maxStartWithin bounds the time after which a host that came back and is gone again is
// noticed. It costs a few events.
const maxStartWithin = time.Hour

// nextStartWithin is how long the next scheduling waits for a host that did not start the
// last one.
func nextStartWithin(last, silentAfter time.Duration) time.Duration {
	return max(silentAfter, min(2*last, maxStartWithin))
}

// schedule schedules the step once. unreachable: no worker of the host started it within
// startWithin.
func (d *Cleaning) schedule(runCtx, ctx workflow.Context, run *contract.CleanRun, startWithin time.Duration, again bool,
	answer *contract.StepAnswer) (unreachable bool, err error) {
	p := run.Plan[run.Next]
	if clean.OfWorkflow(p.Step) { // no host may ever get it
		return false, resultMismatch("the step " + p.Step + " is the workflow's own")
	}
	budget := p.Timeout
	if run.Budget > 0 {
		budget = run.Budget - run.RunTime
	}
	if budget <= 0 {
		return false, errBudgetExceeded(p.Step, run.Budget)
	}
	next := d.nextStep(run)
	d.State.Seq++
	run.Seq, run.NextAllowed = d.State.Seq, next != nil
	if next != nil {
		d.State.Seq++ // used, whether the host begins it or not
	}
	run.StepAt = workflow.Now(ctx).UTC()
	d.Publish()
	stepCtx := calls.WithStep(runCtx, d.State.Enrollment.Host, p.Step+" "+d.State.Name, startWithin, budget)
	err = workflow.ExecuteActivity(stepCtx, p.Step, contract.StepInput{
		Enrollment: d.State.Enrollment, Identity: d.State.Host.Identity, Operation: run.Operation,
		Step: p.Step, Version: p.Version, Clean: run.ID, Number: run.Number, Seq: run.Seq,
		Binding: d.State.Device.Bindings, Generation: run.Generation, Provider: run.Provider, Budget: budget,
		Resume: run.Resume, Settings: run.Settings, Args: p.Args, Rest: rest(run), ReportStart: again, More: moreOnHost(run), Next: next,
	}).Get(stepCtx, answer)
	var late *temporal.TimeoutError
	if !errors.As(err, &late) || !calls.IsScheduleToStart(late) {
		return false, err
	}
	var got contract.Progress
	if late.HasLastHeartbeatDetails() && late.LastHeartbeatDetails(&got) == nil {
		run.Resume = &got
	}
	return true, err
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

// moreOnHost says that the clean's next step runs on the host too. A runbook's hold or wait
// does not, and may last for days.
func moreOnHost(run *contract.CleanRun) bool { return onHost(run, run.Next+1) }

func onHost(run *contract.CleanRun, i int) bool {
	return i < len(run.Plan) && !clean.OfWorkflow(run.Plan[i].Step)
}

// nextStep is the step after the plan's next one, if the host may begin it in the same activity:
// it only reads the device. Nil: it has an activity of its own.
func (d *Cleaning) nextStep(run *contract.CleanRun) *contract.NextStep {
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

func errBudgetExceeded(step string, budget time.Duration) error {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeTimeout,
		Message: fmt.Sprintf("%s did not end within the clean's budget of %s running time", step, budget),
		Remedy:  "check the device, then clean it again; BURNISH_CLEANUP_TIMEOUT sets the budget",
	}
}
