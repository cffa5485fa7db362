package workflows

import (
	"maps"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file is what happens to the piece of hardware itself: another takes its place,
// it is moved to another, or it shows up at two (D10, SAFETY F23).

func (d *lifecycle) mayReplace(contract.ReplaceInput) error {
	return d.legal(device.Event{Kind: device.Replace})
}

// replace makes the piece that is in the device's place now its next unit: Dirty, with
// the past of the device kept. Its signatures are foreign, as at an enrolment (F15).
func (d *lifecycle) replace(ctx workflow.Context, in contract.ReplaceInput) (contract.Result, error) {
	if err := d.lock.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.lock.Unlock()
	if err := d.mayReplace(in); err != nil {
		return contract.Result{}, err
	}
	enrolment := d.state.Enrolment
	enrolment.AcceptSignature = in.AcceptSignature
	facts, err := d.lookAtPiece(ctx, contract.DiscoverInput{Enrolment: enrolment, UUID: d.state.UUID, Replace: true})
	if err != nil {
		return contract.Result{}, faultOf(err)
	}
	if facts.Identity == d.state.Host.Identity {
		return contract.Result{}, d.refuse(device.CodeRefused, "the piece in its place is the enrolled one", "clean "+d.state.Name+", or show it")
	}
	if err := d.seenElsewhere(ctx, facts.Identity.Serial); err != nil {
		return contract.Result{}, err
	}
	if _, err := d.publish(ctx); err != nil {
		return contract.Result{}, faultOf(err)
	}
	if err := d.apply(ctx, device.Event{Kind: device.Replace}); err != nil {
		return contract.Result{}, err
	}
	d.state.Enrolment, d.state.Host = enrolment, contract.HostFacts{} // the operation was the old piece's
	d.state.HoldReason, d.state.LastRefusal, d.state.Intent.Twin = "", "", ""
	d.adopt(ctx, facts)
	if in.Provide {
		return d.provide(ctx, contract.ReasonInput{Reason: "replaced"})
	}
	return contract.Result{View: d.view(), Note: d.state.Host.Note}, nil
}

func (d *lifecycle) mayMove(in contract.MoveInput) error {
	if in.Enrolment.Name == d.state.Name {
		return d.refuse(device.CodeInvalid, "the device has this name already", "name the place that the piece has now")
	}
	return d.legal(device.Event{Kind: device.Move})
}

// mayBeCalled refuses a place whose name is none.
func (d *lifecycle) mayBeCalled(in contract.MoveInput) error {
	if _, err := device.CanonicalName(in.Enrolment.Name); err != nil {
		return d.refuse(device.CodeInvalid, err.Error(), "name the place that the piece has now")
	}
	return nil
}

// move carries the device over to the name of the place that its piece has now, with
// its state, its dirt and its past. From the moment that the new workflow has begun
// this one is over, whatever else waits.
func (d *lifecycle) move(ctx workflow.Context, in contract.MoveInput) (contract.Result, error) {
	if err := d.lock.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.lock.Unlock()
	if err := d.mayMove(in); err != nil {
		return contract.Result{}, err
	}
	to := placed(d.state.Enrolment, in.Enrolment)
	facts, err := d.lookAtPiece(ctx, contract.DiscoverInput{
		Enrolment: to, UUID: contract.DeviceUUID(to.Name), Known: d.state.Host.Identity, MovedFrom: d.state.Name, Binding: d.state.Device.Bindings,
	})
	if err != nil {
		return contract.Result{}, faultOf(err)
	}
	if err := d.mayMove(in); err != nil {
		d.forgetOnHost(ctx, to)
		return contract.Result{}, err
	}
	if err := d.startMoved(ctx, to, facts); err != nil {
		d.forgetOnHost(ctx, to)
		return contract.Result{}, err
	}
	view := d.view()
	d.must(ctx, device.Event{Kind: device.Move})
	d.state.Intent, d.state.Clean = contract.Intent{}, nil
	// The new device lives: what is left of the old one has all the time it takes.
	if err := d.inventory(ctx, withInventory(ctx, "withdraw "+d.state.Name), contract.ActivityWithdraw, d.stockInput(), nil); err != nil {
		d.log.Error("the old place's provider is left in the inventory", "device", d.state.Name, "error", err)
	}
	d.forgetOnHost(ctx, d.state.Enrolment)
	d.over = true
	return contract.Result{View: view, Note: "goes on as " + to.Name}, nil
}

// placed is an enrolment at another place: what the place does not say stays.
func placed(e, at contract.Enrolment) contract.Enrolment {
	e.Name, e.Address, e.Vouched = at.Name, at.Address, false
	if at.Host != "" {
		e.Host = at.Host
	}
	if at.Driver != "" {
		e.Driver = at.Driver
	}
	settings := maps.Clone(e.Settings)
	for _, key := range workflow.DeterministicKeys(at.Settings) {
		if settings == nil {
			settings = map[string]string{}
		}
		settings[key] = at.Settings[key]
	}
	e.Settings = settings
	return e
}

// startMoved starts the workflow of the new name, which nothing but its own end ends.
func (d *lifecycle) startMoved(ctx workflow.Context, to contract.Enrolment, facts contract.HostFacts) error {
	state := *d.state
	state.Name, state.UUID, state.Enrolment = to.Name, contract.DeviceUUID(to.Name), to
	state.Host.Identity, state.Host.Note, state.Host.SeenAt = facts.Identity, facts.Note, facts.SeenAt
	if r := facts.Record; r != nil {
		state.Seq, state.Cleans = max(state.Seq, r.Seq), max(state.Cleans, r.Clean)
	}
	// The provider of the new place has had nothing to do with the old one's.
	state.Generation, state.Provider, state.Uncertain, state.ContinueAsNew = 0, "", true, false
	state.Intent = contract.Intent{Publish: true}
	state.LastRefusal = "moved here from " + d.state.Name
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: contract.WorkflowID(to.Name), TaskQueue: contract.Queue, WorkflowTaskTimeout: contract.TaskTimeout,
		ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON,
	})
	err := workflow.ExecuteChildWorkflow(child, contract.WorkflowDeviceLifecycle,
		contract.DeviceInput{Name: to.Name, State: &state}).GetChildWorkflowExecution().Get(ctx, nil)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return d.refuse(device.CodeAlreadyExists, to.Name+" is enrolled already", "retire and forget it first, or move to another name")
	}
	return err
}

// lookAtPiece has the host of the place look at what is there.
func (d *lifecycle) lookAtPiece(ctx workflow.Context, in contract.DiscoverInput) (contract.HostFacts, error) {
	var facts contract.HostFacts
	opts := seldom(onHost(ctx, in.Enrolment.Host, "discover "+in.Enrolment.Name, hostAnswersWithin))
	err := workflow.ExecuteActivity(opts, contract.ActivityDiscover, in).Get(opts, &facts)
	if err != nil {
		d.warnOther(ctx, faultOf(err))
	}
	return facts, err
}

// seenElsewhere refuses a serial that another device has, and has that one look for
// itself: two places with one serial need an operator (F23). A listing is a hint, so
// that it may miss one: a host never takes the same piece twice by itself.
func (d *lifecycle) seenElsewhere(ctx workflow.Context, serial string) error {
	if serial == "" {
		return nil
	}
	var known contract.Elsewhere
	in := contract.ElsewhereInput{Name: d.state.Name, Serial: serial}
	if err := workflow.ExecuteActivity(withAnswer(ctx, "serial of "+d.state.Name), contract.ActivityElsewhere, in).Get(ctx, &known); err != nil {
		return faultOf(err)
	}
	if known.Name == "" {
		return nil
	}
	f := &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: known.Name,
		Message: "serial " + serial + " belongs to " + known.Name + " already",
		Remedy:  "if the piece was moved, move " + known.Name + " " + d.state.Name + "; if not, find out which is which"}
	d.warnOther(ctx, f)
	return f
}

// seenTwice is the fault of a device whose serial was seen at a second place: which of
// the two is the device, only an operator can find out.
func (d *lifecycle) seenTwice() *device.Fault {
	twin := d.state.Intent.Twin
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: twin,
		Message: "its serial was seen at " + twin + " as well", Remedy: "find out which is which; then clean " + d.state.Name + ", or retire it"}
}

// warnOther has the device that a fault speaks of look for itself, now.
func (d *lifecycle) warnOther(ctx workflow.Context, f *device.Fault) {
	if f.Other == "" || f.Code != device.CodeDuplicateSerial {
		return
	}
	hint := contract.Hint{Source: "seen again", Twin: d.state.Name}
	if err := workflow.SignalExternalWorkflow(ctx, contract.WorkflowID(f.Other), "", contract.SignalRefresh, hint).Get(ctx, nil); err != nil {
		d.log.Warn("the other device was not told", "device", d.state.Name, "other", f.Other, "error", err)
	}
}
