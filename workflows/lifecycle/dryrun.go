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

// dryRuns are the updates that have a dry run.
var dryRuns = map[string]func(*parts, json.RawMessage) contract.DryRun{
	contract.UpdateProvide:     dryRun(provideUpdate, operations.aheadProvide),
	contract.UpdateClean:       dryRun(cleanUpdate, operations.aheadClean),
	contract.UpdateAbort:       dryRun(abortUpdate, operations.aheadAbort),
	contract.UpdateReleaseHold: dryRun(releaseHoldUpdate, operations.aheadReleaseHold),
	contract.UpdateManage:      dryRun(manageUpdate, operations.aheadManage),
	contract.UpdateMaintain:    dryRun(maintainUpdate, operations.aheadMaintain),
	contract.UpdateRetire:      dryRun(retireUpdate, operations.aheadRetire),
	contract.UpdateForget:      dryRun(forgetUpdate, operations.aheadForget),
	contract.UpdateLabel:       dryRun(labelUpdate, operations.aheadLabel),
	contract.UpdateReplace:     dryRun(replaceUpdate, hardware.aheadReplace),
	contract.UpdateMove:        dryRun(moveUpdate, hardware.aheadMove),
}

// dryRun is the dry run of one update: what it refuses when it arrives, and else what ahead says.
func dryRun[F family, In contract.Input, Out any](u *update[F, In, Out], ahead func(F, In) (contract.DryRun, error)) func(*parts, json.RawMessage) contract.DryRun {
	return func(d *parts, text json.RawMessage) contract.DryRun {
		var in In
		if err := json.Unmarshal(text, &in); err != nil {
			return d.refusedDryRun(u.name, d.Refuse(device.CodeInvalid, "the input of "+u.name+" cannot be read: "+err.Error(), "send the input of the update"))
		}
		if err := d.validateUpdate(u.name, in, func() error { return u.arrive(F(struct{ *parts }{d}), nil, in) }); err != nil {
			return d.refusedDryRun(u.name, err)
		}
		out, err := ahead(F(struct{ *parts }{d}), in)
		if err != nil {
			return d.refusedDryRun(u.name, d.Refusal(u.name, err))
		}
		return out
	}
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
	run, known := dryRuns[in.Update]
	if !known {
		return d.refusedDryRun(in.Update, d.Refuse(device.CodeInvalid, "there is no dry run of "+in.Update, "leave out --dry-run"))
	}
	return run(d, in.Input)
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
		return d.asItIs(false, "it would no longer be taken out of the pool")
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

func (d operations) aheadManage(contract.ReasonInput) (contract.DryRun, error) {
	if d.State.Device.State == device.Manageable {
		return d.asItIs(true, "")
	}
	return d.ahead(device.Event{Kind: device.Manage})
}

func (d operations) aheadMaintain(in contract.MaintainInput) (contract.DryRun, error) {
	already := (d.State.Device.Status == device.Maintaining) != in.Off
	if !in.Off || already || d.State.Device.State != device.Available || !d.State.Device.Unseen {
		return d.asItIs(already, "")
	}
	return d.asItIs(false, unseenNote)
}

func (d operations) aheadRetire(in contract.ReasonInput) (contract.DryRun, error) {
	switch {
	case d.State.Device.State == device.Retired:
		return d.asItIs(true, "")
	case in.Lost:
		return d.ahead(device.Event{Kind: device.Lost})
	}
	return d.ahead(device.Event{Kind: device.Retire})
}

func (d operations) aheadForget(contract.ReasonInput) (contract.DryRun, error) {
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
func (u *update[F, In, Out]) arrive(of F, ctx workflow.Context, in In) error {
	if err := u.validate(of, in); err != nil {
		return partsOf(of).Refusal(shownVerb(u.name, in), err)
	}
	if u.validateOnArrival == nil {
		return nil
	}
	return u.validateOnArrival(of, ctx, in)
}
