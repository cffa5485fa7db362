package lifecycle

import (
	"maps"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A dry run answers what a request would do: the request's own checks and the table decide, nothing is recorded, and
// nothing changes. It asks neither host nor inventory nor appliance, whose answers may still refuse the request.

// DryRun answers what a request would do.
func (d *State) DryRun(in contract.DryRunInput, by Settings) contract.DryRun {
	was := d.by
	d.by = by
	defer func() { d.by = was }()
	v := verbOf(in.Update)
	if v == nil || v.ahead == nil {
		return d.refusedAhead(in.Update,
			d.refuse(device.CodeInvalid, "there is no dry run of "+in.Update, "leave out --dry-run"))
	}
	input, err := v.read(in.Input)
	if err != nil {
		return d.refusedAhead(in.Update, d.refuse(device.CodeInvalid, "the input of "+in.Update+" cannot be read: "+
			err.Error(), "send the input of the update"))
	}
	if err := d.arrives(v.asked, input); err != nil {
		return d.refusedAhead(in.Update, err)
	}
	out, err := v.ahead(d, input)
	if err != nil {
		return d.refusedAhead(in.Update, d.refusal(in.Update, err))
	}
	return out
}

func (d *State) refusedAhead(update string, err error) contract.DryRun {
	refusal, ok := contract.RefusalOf(d.refusal(update, err))
	if !ok {
		refusal = contract.Refusal{Device: d.Name, State: d.Device.State,
			Fault: device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: err.Error()}}
	}
	return contract.DryRun{Refusal: &refusal}
}

// ahead is the device after an event, with the steps of the clean that it starts.
func (d *State) ahead(e device.Event) (contract.DryRun, error) {
	return d.aheadFrom(d.Device, e)
}

func (d *State) aheadFrom(from device.Device, e device.Event) (contract.DryRun, error) {
	next, err := device.Next(from, e)
	if err != nil {
		return contract.DryRun{}, err
	}
	out := contract.DryRun{State: next.State}
	if next.State == device.PendingCleaning && !next.AwaitingManualClean {
		out.Steps = stepNames(d.by.Plan(d.subject(), true, clean.Request{}).Plan)
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
func (d *State) asItIs(already bool, note string) (contract.DryRun, error) {
	return contract.DryRun{State: d.Device.State, Already: already, Note: note}, nil
}

// unseenNote says that the host has a word, which a dry run does not ask for.
const unseenNote = "if its host finds the enrolled hardware"

func (d *State) aheadProvide(contract.ReasonInput) (contract.DryRun, error) {
	dev := d.Device
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

func (d *State) aheadClean(in contract.CleanInput) (contract.DryRun, error) {
	kind := device.Clean
	if in.Manual() {
		kind = device.CleanSteps
	}
	out, err := d.ahead(device.Event{Kind: kind})
	if err == nil && in.Manual() {
		out.Steps = stepNames(d.by.Plan(d.subject(), false, manual(in)).Plan)
	}
	return out, err
}

func (d *State) aheadAbort(contract.ReasonInput) (contract.DryRun, error) {
	if d.Taking != nil {
		return d.asItIs(false, "it would no longer be taken out of the offer")
	}
	note := ""
	if c := d.Clean; c != nil && c.Next < len(c.Plan) && d.Device.State == device.Cleaning {
		note = "once the step " + c.Plan[c.Next].Step + " has stopped"
	}
	return contract.DryRun{State: device.Error, Already: d.Intent.Abort, Note: note}, nil
}

func (d *State) aheadReleaseHold(contract.ReasonInput) (contract.DryRun, error) {
	out, err := d.asItIs(false, "")
	if c := d.Clean; c != nil && c.Next < len(c.Plan) {
		out.Steps = stepNames(c.Plan[c.Next+1:])
	}
	return out, err
}

func (d *State) aheadManage(contract.TenantInput) (contract.DryRun, error) {
	if d.Device.State == device.Manageable {
		return d.asItIs(true, "")
	}
	return d.ahead(device.Event{Kind: device.Manage})
}

func (d *State) aheadMaintain(in contract.MaintenanceInput) (contract.DryRun, error) {
	already := (d.Device.Status == device.Maintaining) != in.Off
	if !in.Off || already || d.Device.State != device.Available || !d.Device.Unseen {
		return d.asItIs(already, "")
	}
	return d.asItIs(false, unseenNote)
}

func (d *State) aheadRetire(in contract.RetireInput) (contract.DryRun, error) {
	switch {
	case d.Device.State == device.Retired:
		return d.asItIs(true, "")
	case in.Lost:
		return d.ahead(device.Event{Kind: device.Lost})
	}
	return d.ahead(device.Event{Kind: device.Retire})
}

func (d *State) aheadForget(contract.TenantInput) (contract.DryRun, error) {
	return d.ahead(device.Event{Kind: device.Forget})
}

func (d *State) aheadLabel(in contract.LabelInput) (contract.DryRun, error) {
	next, err := in.Of(d.Enrollment.Labels)
	if err != nil {
		return contract.DryRun{}, err
	}
	return d.asItIs(maps.Equal(next, d.Enrollment.Labels), "labels: "+device.LabelsText(next))
}

func (d *State) aheadReplace(in contract.ReplaceInput) (contract.DryRun, error) {
	out, err := d.ahead(device.Event{Kind: device.Replace})
	out.Note = "if its host finds other hardware in its slot"
	if err == nil && in.Provide {
		out.State, out.Note = device.PendingCleaning, out.Note+" that can be erased"
	}
	return out, err
}

func (d *State) aheadMove(in contract.MoveInput) (contract.DryRun, error) {
	out, err := d.ahead(device.Event{Kind: device.Move})
	out.Note = "it would go on as " + in.Enrollment.Name + ", if the host there finds its hardware"
	return out, err
}
