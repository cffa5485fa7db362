package lifecycle

import (
	"encoding/json"
	"maps"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/cleaning"
)

// A dry run answers what an update would do. It is a query: the update's own checks and the
// table decide, nothing is recorded, and nothing changes. It asks neither host nor inventory nor
// appliance, whose answers may still refuse the update.

// dryRun is what the update refuses when it arrives, and else what ahead says.
func (u *update[F, In]) dryRun(d *parts, text json.RawMessage) contract.DryRun {
	name, of := u.asked.Update(), F(struct{ *parts }{d})
	if u.ahead == nil {
		return d.noDryRun(name)
	}
	var in In
	if err := json.Unmarshal(text, &in); err != nil {
		return d.refusedDryRun(name, d.Refuse(device.CodeInvalid, "the input of "+name+" cannot be read: "+err.Error(),
			"send the input of the update"))
	}
	if err := d.validateUpdate(name, in, func() error { return u.arrive(of, nil, in) }); err != nil {
		return d.refusedDryRun(name, err)
	}
	out, err := u.ahead(of, in)
	if err != nil {
		return d.refusedDryRun(name, d.Refusal(name, err))
	}
	return out
}

func (d *parts) noDryRun(name string) contract.DryRun {
	return d.refusedDryRun(name, d.Refuse(device.CodeInvalid, "there is no dry run of "+name, "leave out --dry-run"))
}

func (d *parts) refusedDryRun(update string, err error) contract.DryRun {
	refusal, ok := contract.RefusalOf(d.Refusal(update, err))
	if !ok {
		refusal = contract.Refusal{Device: d.State.Name, State: d.State.Device.State,
			Fault: device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: err.Error()}}
	}
	return contract.DryRun{Refusal: &refusal}
}

// answerDryRun is the query.
func (d *parts) answerDryRun(in contract.DryRunInput) contract.DryRun {
	for _, a := range acts {
		if a.verb().Update() == in.Update {
			return a.dryRun(d, in.Input)
		}
	}
	return d.noDryRun(in.Update)
}

// ahead is the device after an event, with the steps of the clean that it starts.
func (d *parts) ahead(e device.Event) (contract.DryRun, error) {
	return d.aheadFrom(d.State.Device, e)
}

func (d *parts) aheadFrom(from device.Device, e device.Event) (contract.DryRun, error) {
	next, err := device.Next(from, e)
	if err != nil {
		return contract.DryRun{}, err
	}
	out := contract.DryRun{State: next.State}
	if next.State == device.PendingCleaning && !next.AwaitingManualClean {
		out.Steps = stepNames(cleaning.Plan(d.Planner, d.PlanInput(), true, clean.Request{}).Plan)
	}
	if has := d.tenant(); has != "" && next.Binding == nil && next.State != device.Allocated {
		out.Instance = has
	}
	return out, nil
}

func stepNames(plan []contract.Planned) (names []string) {
	for _, p := range plan {
		names = append(names, p.Step)
	}
	return names
}

// asItIs is the answer for what changes no state.
func (d *parts) asItIs(already bool, note string) (contract.DryRun, error) {
	return contract.DryRun{State: d.State.Device.State, Already: already, Note: note}, nil
}

// unseenNote says that the host has a word, which a dry run does not ask for.
const unseenNote = "if its host finds the enrolled hardware"

func (d operations) aheadProvide(contract.ReasonInput) (contract.DryRun, error) {
	dev := d.State.Device
	if dev.State != device.Manageable {
		return d.asItIs(true, "")
	}
	note := ""
	if !dev.Dirty && dev.Unseen { // provide has the host look first
		dev.Unseen, note = false, unseenNote
	}
	out, err := d.aheadFrom(dev, device.Event{Kind: device.Provide})
	out.Note = note
	return out, err
}

func (d operations) aheadClean(in contract.CleanInput) (contract.DryRun, error) {
	kind := device.Clean
	if in.Manual() {
		kind = device.CleanSteps
	}
	out, err := d.ahead(device.Event{Kind: kind})
	if err == nil && in.Manual() {
		out.Steps = stepNames(cleaning.Plan(d.Planner, d.PlanInput(), false, manual(in)).Plan)
	}
	return out, err
}

func (d operations) aheadAbort(contract.ReasonInput) (contract.DryRun, error) {
	if d.cleaning.Taking() {
		return d.asItIs(false, "it would no longer be taken out of the offer")
	}
	note := ""
	if c := d.State.Clean; c != nil && c.Next < len(c.Plan) && d.State.Device.State == device.Cleaning {
		note = "once the step " + c.Plan[c.Next].Step + " has stopped"
	}
	return contract.DryRun{State: device.Error, Already: d.State.Intent.Abort, Note: note}, nil
}

func (d operations) aheadReleaseHold(contract.ReasonInput) (contract.DryRun, error) {
	out, err := d.asItIs(false, "")
	if c := d.State.Clean; c != nil && c.Next < len(c.Plan) {
		out.Steps = stepNames(c.Plan[c.Next+1:])
	}
	return out, err
}

func (d operations) aheadManage(contract.TenantInput) (contract.DryRun, error) {
	if d.State.Device.State == device.Manageable {
		return d.asItIs(true, "")
	}
	return d.ahead(device.Event{Kind: device.Manage})
}

func (d operations) aheadMaintain(in contract.MaintenanceInput) (contract.DryRun, error) {
	already := (d.State.Device.Status == device.Maintaining) != in.Off
	if !in.Off || already || d.State.Device.State != device.Available || !d.State.Device.Unseen {
		return d.asItIs(already, "")
	}
	return d.asItIs(false, unseenNote)
}

func (d operations) aheadRetire(in contract.RetireInput) (contract.DryRun, error) {
	switch {
	case d.State.Device.State == device.Retired:
		return d.asItIs(true, "")
	case in.Lost:
		return d.ahead(device.Event{Kind: device.Lost})
	}
	return d.ahead(device.Event{Kind: device.Retire})
}

func (d operations) aheadForget(contract.TenantInput) (contract.DryRun, error) {
	return d.ahead(device.Event{Kind: device.Forget})
}

func (d operations) aheadLabel(in contract.LabelInput) (contract.DryRun, error) {
	next, err := in.Of(d.State.Enrollment.Labels)
	if err != nil {
		return contract.DryRun{}, err
	}
	return d.asItIs(maps.Equal(next, d.State.Enrollment.Labels), "labels: "+device.LabelsText(next))
}

func (d hardware) aheadReplace(in contract.ReplaceInput) (contract.DryRun, error) {
	out, err := d.ahead(device.Event{Kind: device.Replace})
	out.Note = "if its host finds other hardware in its slot"
	if err == nil && in.Provide {
		out.State, out.Note = device.PendingCleaning, out.Note+" that can be erased"
	}
	return out, err
}

func (d hardware) aheadMove(in contract.MoveInput) (contract.DryRun, error) {
	out, err := d.ahead(device.Event{Kind: device.Move})
	out.Note = "it would go on as " + in.Enrollment.Name + ", if the host there finds its hardware"
	return out, err
}

// arrive refuses an update as its arrival does: by what the device allows, and by this worker's
// settings.
func (u *update[F, In]) arrive(of F, ctx workflow.Context, in In) error {
	if err := u.validate(of, in); err != nil {
		return partsOf(of).Refusal(u.shown(in), err)
	}
	if u.arriving == nil {
		return nil
	}
	return u.arriving(of, ctx, in)
}
