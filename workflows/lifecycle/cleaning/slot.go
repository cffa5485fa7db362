package cleaning

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// This file keeps a clean within the limits of the policy (S3.38). Without limits it sends
// nothing. A clean asks for a slot when the device is reserved and its plan is recorded, and
// waits for the answer, a signal; it keeps the slot over all its steps.

// The steps that write firmware, and that prove it.
const (
	stepReflash = "firmware_reflash"
	stepVerify  = "verify_firmware"
)

// awaitSlot asks for a slot and waits until the clean has it.
func (d *Cleaning) awaitSlot(runCtx, ctx workflow.Context, run *contract.CleanRun) error {
	if run.Slot == nil {
		return nil
	}
	return d.await(runCtx, ctx, run.Slot, d.slotRequest(run), func() bool { return true })
}

// await asks for a slot and waits until it is granted, or no longer wanted.
func (d *Cleaning) await(runCtx, ctx workflow.Context, slot *contract.CleanSlot, in contract.SlotRequest,
	wanted func() bool) error {
	if err := d.request(runCtx, ctx, in); err != nil {
		return err
	}
	if !slot.Granted && slot.Why == nil {
		d.NoteWait(ctx, contract.WaitSlot, &device.Fault{Class: device.Transient, Code: device.CodeWaitingForSlot,
			Message: "asked for a slot; the workflow " + contract.LimitsWorkflowID + " has not answered yet",
			Remedy:  "if it lasts, look at that workflow in Temporal"})
	}
	asked := workflow.Now(ctx)
	err := workflow.Await(runCtx, func() bool { return slot.Granted || !wanted() })
	if slot.Granted {
		workflow.GetMetricsHandler(ctx).Timer(contract.FigureLimitsWait).Record(workflow.Now(ctx).Sub(asked))
	}
	if slot.Why == nil {
		d.DropWait(contract.WaitSlot) // it was not published
	} else {
		d.EndWait(ctx, contract.WaitSlot)
	}
	return err
}

// request asks the workflow of the limits. If it does not run, a control worker starts it.
func (d *Cleaning) request(runCtx, ctx workflow.Context, in contract.SlotRequest) error {
	err := workflow.SignalExternalWorkflow(runCtx, contract.LimitsWorkflowID, "", contract.SignalSlotRequest, in).
		Get(runCtx, nil)
	if err == nil || runCtx.Err() != nil {
		return runCtx.Err()
	}
	return d.During(ctx, contract.WaitInventory, func() error {
		opts := calls.WithInventory(runCtx, "ask for a slot for "+d.State.Name)
		return workflow.ExecuteActivity(opts, contract.ActivityRequestSlot, in).Get(ctx, nil)
	})
}

func (d *Cleaning) slotRequest(run *contract.CleanRun) contract.SlotRequest {
	in := contract.SlotRequest{
		Device: d.State.Name, Clean: run.Slot.Clean, Host: d.State.Enrollment.Host, Model: d.model(), Since: run.StartedAt,
		Granted: run.Slot.Granted, Canary: run.Slot.Canary,
	}
	for _, p := range run.Plan {
		in.Steps = append(in.Steps, p.Step)
		if p.Step == stepReflash {
			in.Firmware = append(in.Firmware, firmwareOf(p.Args)...)
		}
	}
	return in
}

// model is what failures and firmware are counted by: a device without a model counts by
// its type.
func (d *Cleaning) model() string {
	if model := d.State.Host.Identity.Model; model != "" {
		return model
	}
	return d.State.Enrollment.Type
}

// firmwareOf names the images of a step's arguments: by component, version and content.
func firmwareOf(args json.RawMessage) []string {
	var in clean.FirmwareArgs
	if json.Unmarshal(args, &in) != nil {
		return nil // the step has arguments of another kind, and so no images
	}
	var all []string
	for _, image := range in.Components {
		name := image.Component
		if name != "" {
			name += " "
		}
		all = append(all, fmt.Sprintf("%s%s (SHA-256 %.16s)", name, image.To, image.SHA256))
	}
	return all
}

// awaitHeldStep waits while the limits hold back the clean's next step, because it failed on
// other devices of the model. The clean keeps its slot.
func (d *Cleaning) awaitHeldStep(runCtx, ctx workflow.Context, run *contract.CleanRun) error {
	if !held(run, run.Next) {
		return nil
	}
	d.WaitingUntil(ctx, contract.WaitSlot, run.Slot.Why, time.Time{})
	err := workflow.Await(runCtx, func() bool { return !held(run, run.Next) })
	d.EndWait(ctx, contract.WaitSlot)
	return err
}

// held says that the limits hold back this step of the plan.
func held(run *contract.CleanRun, i int) bool {
	return run.Slot != nil && slices.Contains(run.Slot.Hold, run.Plan[i].Step)
}

// OnSlot handles an answer of the limits. A slot that nothing here waits for is given back.
func (d *Cleaning) OnSlot(ctx workflow.Context, a contract.SlotAnswer) {
	run := d.State.Clean
	if a.Resumed != nil && d.Waits(contract.WaitSlot) {
		d.Updates().Accept(ctx, *a.Resumed)
	}
	switch {
	case a.Again:
		d.askAgain(ctx)
	case run != nil && run.Slot != nil && run.Slot.Clean == a.Clean:
		d.answered(ctx, run.Slot, a)
	case d.taking != nil && d.taking.Clean == a.Clean:
		d.answered(ctx, d.taking, a)
	default:
		d.report(ctx, contract.SlotReport{Device: d.State.Name, Clean: a.Clean, Over: true})
	}
}

func (d *Cleaning) answered(ctx workflow.Context, slot *contract.CleanSlot, a contract.SlotAnswer) {
	slot.Hold = a.Hold
	if slot.Granted = slot.Granted || a.Granted; slot.Granted {
		if slot.Canary = a.Canary; a.Why != nil {
			slot.Why = a.Why
		}
		return
	}
	if slot.Why = a.Why; a.Why == nil {
		return
	}
	if a.Stalled {
		d.WaitingUntil(ctx, contract.WaitSlot, a.Why, workflow.Now(ctx))
		return
	}
	d.NotStalled(contract.WaitSlot)
	d.WaitingUntil(ctx, contract.WaitSlot, a.Why, time.Time{})
}

// askAgain asks once more for what the device has or waits for: the workflow of the limits
// was lost.
func (d *Cleaning) askAgain(ctx workflow.Context) {
	var in contract.SlotRequest
	switch run := d.State.Clean; {
	case run != nil && run.Slot != nil && !d.State.Device.Returning:
		in = d.slotRequest(run)
	case d.taking != nil:
		in = d.takingRequest(ctx)
	default:
		return
	}
	d.send(ctx, contract.SignalSlotRequest, in)
}

// countFailure records which step failed, for the breaker. The operator's abort, a device
// that is in use, and a host that is away or of another release are no failures of the step.
func (d *Cleaning) countFailure(run *contract.CleanRun, err error) {
	f := calls.FaultIn(err)
	if f == nil || run.Slot == nil || !d.CleanUnderWay() || d.Reservation.StopsClean() || d.State.Intent.Abort {
		return
	}
	switch f.Code {
	case device.CodeAborted, device.CodeHostUnreachable, device.CodeHostWorkerTooOld, device.CodePlanOutdated,
		device.CodeSuperseded, device.CodeInventoryGenerationAhead:
		return
	}
	run.Slot.Failed, run.Slot.Fault = run.Plan[run.Next].Step, f.Code
}

// reportCanary reports at once that the first device of its model runs its new firmware: the
// others wait for it.
func (d *Cleaning) reportCanary(ctx workflow.Context, run *contract.CleanRun) {
	if run.Slot == nil || len(run.Slot.Canary) == 0 {
		return
	}
	step := run.Plan[run.Next-1].Step
	verified := slices.ContainsFunc(run.Plan, func(p contract.Planned) bool { return p.Step == stepVerify })
	if step == stepVerify || step == stepReflash && !verified {
		run.Slot.Canary = nil
		d.report(ctx, contract.SlotReport{Device: d.State.Name, Clean: run.Slot.Clean, Done: []string{step}})
	}
}

// giveBack ends the clean's request, whether it has its slot or waits, with what became of
// its steps.
func (d *Cleaning) giveBack(ctx workflow.Context, run *contract.CleanRun) {
	if run.Slot == nil {
		return
	}
	in := contract.SlotReport{Device: d.State.Name, Clean: run.Slot.Clean, Failed: run.Slot.Failed,
		Fault: run.Slot.Fault, Over: true}
	for _, result := range run.Results {
		in.Done = append(in.Done, result.Step)
	}
	d.report(ctx, in)
}

func (d *Cleaning) report(ctx workflow.Context, in contract.SlotReport) {
	d.send(ctx, contract.SignalSlotReport, in)
}

// send signals the workflow of the limits, in a coroutine: nothing waits for it but the end
// of the run. A workflow that does not run has nothing to learn.
func (d *Cleaning) send(ctx workflow.Context, signal string, in any) {
	d.sending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := workflow.SignalExternalWorkflow(ctx, contract.LimitsWorkflowID, "", signal, in).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("the limits were not informed", "device", d.State.Name, "error", err)
		}
		d.sending--
	})
}

// Sending says that a report to the limits is under way.
func (d *Cleaning) Sending() bool { return d.sending > 0 }

// AwaitCapacity waits until an available device may be taken out of the offer: as many as the
// policy wants must stay free for tenants. done is called with whether it was taken. Without
// such a limit it returns at once.
func (d *Cleaning) AwaitCapacity(ctx workflow.Context) (done func(taken bool), err error) {
	done = func(bool) {}
	limits := d.Policy(ctx).Limits
	if limits == nil || limits.FreeCapacity == (device.Capacity{}) {
		return done, nil
	}
	slot := &contract.CleanSlot{Clean: "take/" + workflow.GetCurrentUpdateInfo(ctx).ID}
	d.taking = slot
	done = func(taken bool) {
		d.report(ctx, contract.SlotReport{Device: d.State.Name, Clean: slot.Clean, Over: true, Withdrawn: taken})
	}
	runCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	err = d.await(runCtx, ctx, slot, d.takingRequest(ctx),
		func() bool { return d.taking == slot && d.State.Device.State == device.Available })
	if d.taking == slot {
		d.taking = nil
	} else if err == nil {
		err = &device.Fault{Class: device.Permanent, Code: device.CodeAborted,
			Message: "the request was aborted: the device stays in the offer",
			Remedy:  "manage " + d.State.Name + " to ask again"}
	}
	if err != nil {
		done(false)
	}
	return done, err
}

func (d *Cleaning) takingRequest(ctx workflow.Context) contract.SlotRequest {
	return contract.SlotRequest{
		Device: d.State.Name, Clean: d.taking.Clean, Host: d.State.Enrollment.Host, Model: d.model(),
		Since: workflow.Now(ctx).UTC(), TakesCapacity: true, Granted: d.taking.Granted,
	}
}

// Taking says that an operator's request to take the device out of the offer waits.
func (d *Cleaning) Taking() bool { return d.taking != nil }

// AbortTaking ends it.
func (d *Cleaning) AbortTaking() { d.taking = nil }
