package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file keeps a clean within the limits of the policy (S3.38). Without limits it sends nothing. A clean asks for a
// slot when the device is reserved and its plan is recorded, and waits for the answer, a signal; it keeps the slot over
// all its steps.

// The steps that write firmware, and that prove it.
const (
	stepReflash = "firmware_reflash"
	stepVerify  = "verify_firmware"
)

// slotOf is the slot that a job asks for, and the request.
func (d *State) slotOf(j *Job) (*contract.CleanSlot, contract.SlotRequest) {
	if j.Cleans {
		return j.Run.Slot, d.slotRequest(j.Run)
	}
	return j.Slot, d.takingRequest(j.Slot)
}

// askForSlot begins the sequence that asks for a slot and waits until it is granted, or no longer wanted. If the
// workflow of the limits does not run, a control worker starts it.
func (d *State) askForSlot(j *Job, back Phase) { d.share(j, phSlotAsk, back) }

func (d *State) slotAsk(j *Job) {
	_, in := d.slotOf(j)
	d.make(j, Call{In: in, How: How{Way: ToLimits}})
}

func (d *State) slotAsked(j *Job, o Outcome) {
	if o.Fault != nil {
		d.enter(j, phSlotStart)
		return
	}
	d.enter(j, phSlotWait)
}

func (d *State) slotStart(j *Job) {
	_, in := d.slotOf(j)
	d.make(j, Call{Activity: contract.ActivityRequestSlot, In: in, WaitsFor: contract.WaitInventory,
		How: How{Way: ToInventory, What: "ask for a slot for " + d.Name}})
}

func (d *State) slotWaits(j *Job, o Outcome) {
	if o.Fault != nil && !d.slotUnwanted(j) {
		d.back(j, o)
		return
	}
	d.enter(j, phSlotWait)
}

func (d *State) slotWait(j *Job) {
	slot, _ := d.slotOf(j)
	j.Since = d.now
	if !slot.Granted && slot.Why == nil {
		d.noteWait(contract.WaitSlot, &device.Fault{Class: device.Transient, Code: device.CodeWaitingForSlot,
			Message: "asked for a slot; the workflow " + contract.LimitsWorkflowID + " has not answered yet",
			Remedy:  "if it lasts, look at that workflow in Temporal"})
	}
}

func (d *State) slotUnwanted(j *Job) bool {
	if j.Cleans {
		return d.cleanStops(j)
	}
	return d.Taking != j.Slot || d.Device.State != device.Available
}

func (d *State) slotOver(j *Job) bool {
	slot, _ := d.slotOf(j)
	return slot.Granted || d.slotUnwanted(j)
}

func (d *State) slotWaited(j *Job, _ Outcome) {
	slot, _ := d.slotOf(j)
	if slot.Granted {
		d.by.Count(Figure{Name: contract.FigureLimitsWait, Took: d.now.Sub(j.Since)})
	}
	if slot.Why == nil {
		d.dropWait(contract.WaitSlot) // it was not published
	} else {
		d.endWait(contract.WaitSlot)
	}
	d.back(j, Outcome{})
}

func (d *State) slotRequest(run *contract.CleanRun) contract.SlotRequest {
	in := contract.SlotRequest{
		Device: d.Name, Clean: run.Slot.Clean, Host: d.Enrollment.Host, Model: d.model(), Since: run.StartedAt,
		Granted: run.Slot.Granted, Canary: run.Slot.Canary,
		Group: run.Slot.Group, Arrived: run.Slot.Arrived, Opened: run.Slot.Opened,
	}
	for _, p := range run.Plan {
		in.Steps = append(in.Steps, p.Step)
		if p.Step == stepReflash {
			in.Firmware = append(in.Firmware, firmwareOf(p.Args)...)
		}
	}
	return in
}

// model is what failures and firmware are counted by: a device without a model counts by its type.
func (d *State) model() string {
	if model := d.Host.Identity.Model; model != "" {
		return model
	}
	return d.Enrollment.Type
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

// held says that the limits hold back this step of the plan.
func held(run *contract.CleanRun, i int) bool {
	return run.Slot != nil && slices.Contains(run.Slot.Hold, run.Plan[i].Step)
}

// onSlot handles an answer of the limits. A slot that nothing here waits for is given back.
func (d *State) onSlot(a contract.SlotAnswer) {
	run := d.Clean
	if a.Resumed != nil && d.waits(contract.WaitSlot) {
		d.accept(*a.Resumed)
	}
	switch {
	case a.Again:
		d.askAgain()
	case run != nil && run.Slot != nil && run.Slot.Clean == a.Clean:
		d.slotAnswered(run.Slot, a)
	case d.Taking != nil && d.Taking.Clean == a.Clean:
		d.slotAnswered(d.Taking, a)
	default:
		d.report(contract.SlotReport{Device: d.Name, Clean: a.Clean, Over: true})
	}
}

func (d *State) slotAnswered(slot *contract.CleanSlot, a contract.SlotAnswer) {
	slot.Hold, slot.Opened = a.Hold, max(slot.Opened, a.Opened)
	if a.Missing != nil && d.waits(contract.WaitTogether) {
		d.waitingUntil(contract.WaitTogether, a.Missing, never)
	}
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
		d.waitingUntil(contract.WaitSlot, a.Why, d.now)
		return
	}
	d.notStalled(contract.WaitSlot)
	d.waitingUntil(contract.WaitSlot, a.Why, never)
}

// askAgain asks once more for what the device has or waits for: the workflow of the limits was lost.
func (d *State) askAgain() {
	var in contract.SlotRequest
	switch run := d.Clean; {
	case run != nil && run.Slot != nil && !d.Device.Returning:
		in = d.slotRequest(run)
	case d.Taking != nil:
		in = d.takingRequest(d.Taking)
	default:
		return
	}
	d.tellLimits(contract.SignalSlotRequest, in)
}

// countFailure records which step failed, for the breaker. The operator's abort, a device that is in use, and a host
// that is away or of another release are no failures of the step.
func (d *State) countFailure(run *contract.CleanRun, f *device.Fault) {
	if f == nil || run.Slot == nil || !d.cleans() || d.stopsClean() || d.Intent.Abort {
		return
	}
	switch f.Code {
	case device.CodeAborted, device.CodeHostUnreachable, device.CodeHostWorkerTooOld, device.CodePlanOutdated,
		device.CodeSuperseded, device.CodeInventoryGenerationAhead:
		return
	}
	run.Slot.Failed, run.Slot.Fault = run.Plan[run.Next].Step, f.Code
}

// reportCanary reports at once that the first device of its model runs its new firmware: the others wait for it.
func (d *State) reportCanary(run *contract.CleanRun) {
	if run.Slot == nil || len(run.Slot.Canary) == 0 {
		return
	}
	step := run.Plan[run.Next-1].Step
	verified := slices.ContainsFunc(run.Plan, func(p contract.Planned) bool { return p.Step == stepVerify })
	if step == stepVerify || step == stepReflash && !verified {
		run.Slot.Canary = nil
		d.report(contract.SlotReport{Device: d.Name, Clean: run.Slot.Clean, Done: []string{step}})
	}
}

// giveBack ends the clean's request, whether it has its slot or waits, with what became of its steps.
func (d *State) giveBack(run *contract.CleanRun) {
	if run.Slot == nil {
		return
	}
	in := contract.SlotReport{Device: d.Name, Clean: run.Slot.Clean, Failed: run.Slot.Failed,
		Fault: run.Slot.Fault, Over: true}
	for _, result := range run.Results {
		in.Done = append(in.Done, result.Step)
	}
	d.report(in)
}

func (d *State) report(in contract.SlotReport) { d.tellLimits(contract.SignalSlotReport, in) }

// tellLimits signals the workflow of the limits. Nothing waits for it but the end of the run.
func (d *State) tellLimits(signal string, in any) {
	d.Mail = append(d.Mail, Mail{To: contract.LimitsWorkflowID, Signal: signal, In: in,
		Name: "the limits were not informed"})
}

// awaitCapacity begins the sequence that waits until an available device may be taken out of the offer: as many as the
// policy wants must stay free for tenants. capacityTaken says what became of it. Without such a limit it ends at once.
func (d *State) awaitCapacity(j *Job, back Phase) {
	limits := d.by.Policy().Limits
	j.Back = append(j.Back, back)
	if limits == nil || limits.FreeCapacity == (device.Capacity{}) {
		d.back(j, Outcome{})
		return
	}
	j.Slot = &contract.CleanSlot{Clean: "take/" + j.ID}
	d.Taking = j.Slot
	d.askForSlot(j, phCapacity)
}

func (d *State) capacityGranted(j *Job, o Outcome) {
	if d.Taking == j.Slot {
		d.Taking = nil
	} else if o.Fault == nil {
		o.Fault = &device.Fault{Class: device.Permanent, Code: device.CodeAborted,
			Message: "the request was aborted: the device stays in the offer",
			Remedy:  "manage " + d.Name + " to ask again"}
	}
	if o.Fault != nil {
		d.capacityTaken(j, false)
	}
	d.back(j, o)
}

// capacityTaken reports whether the device was taken out of the offer.
func (d *State) capacityTaken(j *Job, taken bool) {
	if j.Slot == nil {
		return
	}
	d.report(contract.SlotReport{Device: d.Name, Clean: j.Slot.Clean, Over: true, Withdrawn: taken})
	j.Slot = nil
}

func (d *State) takingRequest(slot *contract.CleanSlot) contract.SlotRequest {
	return contract.SlotRequest{
		Device: d.Name, Clean: slot.Clean, Host: d.Enrollment.Host, Model: d.model(),
		Since: d.now.UTC(), TakesCapacity: true, Granted: slot.Granted,
	}
}
