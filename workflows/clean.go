package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// maxReplans bounds how often one clean begins again because a step's version changed.
const maxReplans = 5

// clean carries out one clean: look and burn first (F4), record a plan, walk it. It
// returns when the clean ended, one way or another.
func (d *lifecycle) clean(ctx workflow.Context) error {
	run := d.beginClean(ctx)
	runCtx, stop := workflow.WithCancel(ctx)
	d.stopStep = stop
	defer func() { d.stopStep = nil; stop() }()
	d.publishStatus(ctx)

	// Not beside a look, which would take the generation that this writes for another's,
	// as this would take that of a look's burn.
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	in := d.reservationRequest()
	var stock contract.ReservationSnapshot
	err := d.inventory(ctx, withInventory(runCtx, "observe "+d.state.Name), contract.ActivityEnsureReserved, in, &stock)
	d.lock.Unlock()
	if over := d.interrupted(ctx, err); over {
		return nil
	}
	if stock.Used > 0 {
		d.inUse = &stock
		d.interrupted(ctx, nil)
		return nil
	}
	run.Generation, run.Provider = stock.Generation, stock.Provider
	if d.state.Host.ObservedAt.IsZero() { // brought back: nobody knows yet what it is
		if over := d.interrupted(ctx, d.discoverForClean(runCtx, ctx, run)); over {
			return nil
		}
	}
	if f := d.makePlan(ctx, run); f != nil {
		d.finishClean(ctx, "failed", f)
		return nil
	}
	for run.Next < len(run.Plan) {
		if d.state.Device.State == device.PendingCleaning {
			if err := d.apply(ctx, device.Event{Kind: device.CleanStarted}); err != nil {
				return err
			}
		}
		result, err := d.step(runCtx, ctx, run)
		if f := faultIn(err); f != nil && f.Code == device.CodePlanOutdated && run.Replans < maxReplans && !d.state.Intent.Abort {
			if over := d.interrupted(ctx, d.replan(runCtx, ctx, run)); over {
				return nil
			}
			continue
		}
		if over := d.interrupted(ctx, err); over {
			return nil
		}
		run.Results, run.RunTime = append(run.Results, result), run.RunTime+result.RunTime
		run.Next, run.Resume, run.HostUnreachable = run.Next+1, nil, false
	}
	if run.Full {
		d.archive(ctx, "cleaned", nil)
		d.applyOrReport(ctx, device.Event{Kind: device.CleanDone})
		return d.returnToPool(ctx)
	}
	d.archive(ctx, "steps_done", nil)
	d.applyOrReport(ctx, device.Event{Kind: device.StepsDone})
	d.state.Clean = nil
	return nil
}

func (d *lifecycle) beginClean(ctx workflow.Context) *contract.CleanRun {
	d.state.Cleans++
	d.state.Clean = &contract.CleanRun{
		Number: d.state.Cleans, ID: fmt.Sprintf("%s/%d", workflow.GetInfo(ctx).FirstRunID, d.state.Cleans),
		Reason: d.state.Intent.Reason, Full: !d.state.Device.NamedSteps, StartedAt: workflow.Now(ctx).UTC(),
	}
	d.state.Intent.Reason, d.state.Intent.Abort, d.inUse = "", false, nil
	return d.state.Clean
}

// interrupted ends the clean if it must not go on: the device left cleaning by
// another way, is in use, was aborted, or the call failed for good. It is asked
// after every call that waited.
func (d *lifecycle) interrupted(ctx workflow.Context, err error) bool {
	f := faultIn(err)
	switch {
	case !d.cleanUnderWay():
		d.archive(ctx, "aborted", nil)
		d.state.Clean = nil
	case d.inUse != nil:
		consumer := first(d.inUse.Consumers)
		d.inUse = nil
		d.archive(ctx, "in_use", nil)
		d.state.Clean = nil
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: consumer})
		d.state.LastRefusal = "not cleaned: the inventory shows the device in use by " + consumer
	case d.state.Intent.Abort:
		d.finishClean(ctx, "aborted", aborted(d.state.Name))
	case f == nil:
		return false
	case f.Code == device.CodeInventoryGenerationAhead, f.Code == device.CodeSuperseded:
		d.archive(ctx, "failed", f)
		d.invalidate(ctx, nil, f.Message)
	default:
		d.finishClean(ctx, "failed", f)
	}
	return true
}

func (d *lifecycle) finishClean(ctx workflow.Context, outcome string, f *device.Fault) {
	d.archive(ctx, outcome, f)
	d.state.Intent.Abort, d.state.Clean = false, nil
	d.fail(ctx, f)
}

// archive keeps a summary of the clean, within bounds.
func (d *lifecycle) archive(ctx workflow.Context, outcome string, f *device.Fault) {
	run := d.state.Clean
	if run == nil {
		return
	}
	s := contract.CleanSummary{
		Number: run.Number, Reason: run.Reason, Outcome: outcome, Operation: run.Operation,
		Steps: run.Results, RunTime: run.RunTime, StartedAt: run.StartedAt, EndedAt: workflow.Now(ctx).UTC(),
	}
	if f != nil {
		s.Fault = f.Code
	}
	archive, err := d.state.Archive.With(s)
	if err != nil {
		d.log.Error("a clean was not archived", "device", d.state.Name, "error", err)
	}
	d.state.Archive = archive
}

// decision is what a SideEffect records: worker's settings and the plan made by them.
type recordedPlan struct {
	Plan         []contract.Planned `json:"plan,omitempty"`
	Fault        *device.Fault      `json:"fault,omitempty"`
	PolicyDigest string             `json:"policy_digest"`
	Policy       clean.Policy       `json:"policy"`
}

// settings records this worker's policy; later replays see what it was then.
func (d *lifecycle) settings(ctx workflow.Context) clean.Policy {
	var p clean.Policy
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return d.planner.Policy() }).Get(&p); err != nil {
		d.log.Error("recorded settings are unreadable: the safe ones are used", "device", d.state.Name, "error", err)
		return clean.Policy{Automated: true, OnEnroll: true}
	}
	return p
}

func (d *lifecycle) planInput() clean.Subject {
	s := clean.Subject{
		Name: d.state.Name, Type: d.state.Enrollment.Type, Operation: d.state.Host.Operation,
		Size: d.state.Host.Identity.Size, HostSteps: d.state.Host.Steps,
		Estimate: d.state.Host.Estimates[d.state.Host.Operation], Offers: d.state.Host.SupportedSteps,
	}
	if can := d.state.Host.Capabilities; can != nil {
		// The layout stays unknown: a tenant may have changed it since the host looked.
		s.NVMe, s.Capabilities = true, *can
	}
	return s
}

// makePlan records the plan of this clean and the settings it is carried out by.
func (d *lifecycle) makePlan(ctx workflow.Context, run *contract.CleanRun) *device.Fault {
	if d.state.Host.Excluded != nil && run.Full {
		return d.state.Host.Excluded
	}
	subject, named := d.planInput(), d.state.Intent.Steps
	full := run.Full
	planner := d.planner
	var made recordedPlan
	err := workflow.SideEffect(ctx, func(workflow.Context) any {
		dec := recordedPlan{PolicyDigest: planner.Digest(), Policy: planner.Policy()}
		var plan []clean.Planned
		if full {
			plan, dec.Fault = planner.Full(subject)
		} else {
			plan, dec.Fault = planner.Named(subject, named)
		}
		dec.Plan = toContract(plan, subject.HostSteps)
		return dec
	}).Get(&made)
	if err != nil {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal, Message: "the recorded plan is unreadable: " + err.Error()}
	}
	if made.Fault != nil {
		return made.Fault
	}
	run.Plan, run.PolicyDigest, run.Operation = made.Plan, made.PolicyDigest, d.state.Host.Operation
	run.HostSilentAfter, run.Budget = made.Policy.HostSilentAfter, made.Policy.CleanupTimeout
	run.Settings = made.Policy.StepSettings
	return nil
}

// planAgain starts the clean over with the host's present steps and the same
// locked-in operation (S3.16).
func (d *lifecycle) replan(runCtx, ctx workflow.Context, run *contract.CleanRun) error {
	if err := d.discoverForClean(runCtx, ctx, run); err != nil {
		return err
	}
	// Another ID, so that no journal takes what the old plan did for done.
	run.Replans, run.Next, run.Results, run.Resume = run.Replans+1, 0, nil, nil
	run.ID = fmt.Sprintf("%s/%d/%d", workflow.GetInfo(ctx).FirstRunID, run.Number, run.Replans)
	if f := d.makePlan(ctx, run); f != nil {
		return f
	}
	return nil
}

// discoverForClean has the host look before a plan is made. A host that is silent is
// told to the operator, and waited for without limit.
func (d *lifecycle) discoverForClean(runCtx, ctx workflow.Context, run *contract.CleanRun) error {
	silentAfter := run.HostSilentAfter
	if silentAfter == 0 {
		silentAfter = d.settings(ctx).HostSilentAfter
	}
	err := d.discover(onHost(runCtx, d.state.Enrollment.Host, "discover "+d.state.Name, silentAfter))
	if f := faultIn(err); f != nil && f.Code == device.CodeHostUnreachable && d.cleanUnderWay() && !d.state.Intent.Abort {
		run.HostUnreachable = true
		d.publishStatus(ctx)
		err = d.discover(onHost(runCtx, d.state.Enrollment.Host, "discover "+d.state.Name, 0))
		run.HostUnreachable = false
	}
	return err
}

// planned keeps the plan with the versions that the host's worker has: a control
// worker of another release must not ask for steps that the host does not have.
func toContract(plan []clean.Planned, hostSteps map[string]int) []contract.Planned {
	var out []contract.Planned
	for _, p := range plan {
		out = append(out, contract.Planned{
			Step: p.Step.Name, Interface: p.Step.Interface, Phase: string(p.Step.Phase),
			Priority: p.Priority, Version: hostSteps[p.Step.Name], Timeout: p.Timeout,
		})
	}
	return out
}

// step schedules the plan's next step on the host and waits for it. A host that is
// silent is told to the operator, and waited for without limit.
func (d *lifecycle) step(runCtx, ctx workflow.Context, run *contract.CleanRun) (contract.StepResult, error) {
	p := run.Plan[run.Next]
	silentAfter := run.HostSilentAfter
	for {
		budget := p.Timeout
		if run.Budget > 0 {
			budget = run.Budget - run.RunTime
		}
		if budget <= 0 {
			return contract.StepResult{}, timedOut(p.Step, run.Budget)
		}
		d.state.Seq++
		run.StepAt = workflow.Now(ctx).UTC()
		d.publishStatus(ctx)
		stepCtx := withStep(runCtx, d.state.Enrollment.Host, p.Step+" "+d.state.Name, silentAfter, budget)
		var result contract.StepResult
		err := workflow.ExecuteActivity(stepCtx, p.Step, contract.StepInput{
			Enrollment: d.state.Enrollment, Identity: d.state.Host.Identity, Operation: run.Operation,
			Step: p.Step, Version: p.Version, Clean: run.ID, Number: run.Number, Seq: d.state.Seq,
			Binding: d.state.Device.Bindings, Generation: run.Generation, Budget: budget,
			Resume: run.Resume, Settings: run.Settings,
		}).Get(stepCtx, &result)
		var late *temporal.TimeoutError
		if !errors.As(err, &late) || !isScheduleToStart(late) || d.state.Intent.Abort || !d.cleanUnderWay() {
			return result, err
		}
		var got contract.Progress
		if late.HasLastHeartbeatDetails() && late.LastHeartbeatDetails(&got) == nil {
			run.Resume = &got
		}
		run.HostUnreachable, silentAfter = true, 0
	}
}

func timedOut(step string, budget time.Duration) error {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeTimeout,
		Message: fmt.Sprintf("%s did not end within the clean's %s of running time", step, budget),
		Remedy:  "look at the device, then clean it again; BURNISH_CLEANUP_TIMEOUT sets the budget",
	}
}

func first(all []string) string {
	if len(all) == 0 {
		return "an unknown consumer"
	}
	return all[0]
}
