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

func (d *lifecycle) validateReplace(contract.ReplaceInput) error {
	return d.legal(device.Event{Kind: device.Replace})
}

// replace makes the piece that is in the device's place now its next unit: Dirty, with
// the past of the device kept. Its signatures are foreign, as at an enrolment (F15).
func (d *lifecycle) replace(ctx workflow.Context, in contract.ReplaceInput) (contract.Result, error) {
	if err := d.lock.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.lock.Unlock()
	if err := d.validateReplace(in); err != nil {
		return contract.Result{}, err
	}
	enrolment := d.state.Enrollment
	enrolment.AcceptSignature = in.AcceptSignature
	facts, err := d.discoverAt(ctx, contract.DiscoverInput{Enrollment: enrolment, UUID: d.state.UUID, Replace: true})
	if err != nil {
		return contract.Result{}, faultOf(err)
	}
	if facts.Identity == d.state.Host.Identity {
		return contract.Result{}, d.refuse(device.CodeRefused, "the piece in its place is the enrolled one", "clean "+d.state.Name+", or show it")
	}
	if err := d.checkSerialUnique(ctx, facts.Identity.Serial); err != nil {
		return contract.Result{}, err
	}
	if _, err := d.ensureProvider(ctx); err != nil {
		return contract.Result{}, faultOf(err)
	}
	if err := d.apply(ctx, device.Event{Kind: device.Replace}); err != nil {
		return contract.Result{}, err
	}
	d.state.Enrollment, d.state.Host = enrolment, contract.DiscoveryResult{} // the operation was the old piece's
	d.state.HoldReason, d.state.LastRefusal, d.state.Intent.DuplicateAt = "", "", ""
	d.applyDiscovery(ctx, facts)
	if in.Provide {
		return d.provide(ctx, contract.ReasonInput{Reason: "replaced"})
	}
	return contract.Result{Device: d.status(), Note: d.state.Host.Note}, nil
}

func (d *lifecycle) validateMove(in contract.MoveInput) error {
	if in.Enrollment.Name == d.state.Name {
		return d.refuse(device.CodeInvalid, "the device has this name already", "name the place that the piece has now")
	}
	return d.legal(device.Event{Kind: device.Move})
}

// mayBeCalled refuses a place whose name is none.
func (d *lifecycle) validateNewName(in contract.MoveInput) error {
	if _, err := device.CanonicalName(in.Enrollment.Name); err != nil {
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
	if err := d.validateMove(in); err != nil {
		return contract.Result{}, err
	}
	to := mergeEnrollment(d.state.Enrollment, in.Enrollment)
	facts, err := d.discoverAt(ctx, contract.DiscoverInput{
		Enrollment: to, UUID: contract.DeviceUUID(to.Name), Known: d.state.Host.Identity, MovedFrom: d.state.Name, Binding: d.state.Device.Bindings,
	})
	if err != nil {
		return contract.Result{}, faultOf(err)
	}
	if err := d.validateMove(in); err != nil {
		d.forgetOnHost(ctx, to)
		return contract.Result{}, err
	}
	if err := d.startRelocated(ctx, to, facts); err != nil {
		d.forgetOnHost(ctx, to)
		return contract.Result{}, err
	}
	view := d.status()
	d.applyOrReport(ctx, device.Event{Kind: device.Move})
	d.state.Intent, d.state.Clean = contract.Intent{}, nil
	// The new device lives: what is left of the old one has all the time it takes.
	if err := d.inventory(ctx, withInventory(ctx, "withdraw "+d.state.Name), contract.ActivityDeleteProvider, d.reservationRequest(), nil); err != nil {
		d.log.Error("the old place's provider is left in the inventory", "device", d.state.Name, "error", err)
	}
	d.forgetOnHost(ctx, d.state.Enrollment)
	d.finished = true
	return contract.Result{Device: view, Note: "goes on as " + to.Name}, nil
}

// placed is an enrolment at another place: what the place does not say stays.
func mergeEnrollment(e, at contract.Enrollment) contract.Enrollment {
	e.Name, e.Address, e.OperatorAssertsClean = at.Name, at.Address, false
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
func (d *lifecycle) startRelocated(ctx workflow.Context, to contract.Enrollment, facts contract.DiscoveryResult) error {
	state := *d.state
	state.Name, state.UUID, state.Enrollment = to.Name, contract.DeviceUUID(to.Name), to
	state.Host.Identity, state.Host.Note, state.Host.ObservedAt = facts.Identity, facts.Note, facts.ObservedAt
	if r := facts.Record; r != nil {
		state.Seq, state.Cleans = max(state.Seq, r.Seq), max(state.Cleans, r.Clean)
	}
	// The provider of the new place has had nothing to do with the old one's.
	state.Generation, state.Provider, state.GenerationUncertain, state.ContinueAsNew = 0, "", true, false
	state.Intent = contract.Intent{EnsureProvider: true}
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
func (d *lifecycle) discoverAt(ctx workflow.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
	var facts contract.DiscoveryResult
	opts := limitedRetries(onHost(ctx, in.Enrollment.Host, "discover "+in.Enrollment.Name, hostResponseTimeout))
	err := workflow.ExecuteActivity(opts, contract.ActivityDiscover, in).Get(opts, &facts)
	if err != nil {
		d.notifyOther(ctx, faultOf(err))
	}
	return facts, err
}

// seenElsewhere refuses a serial that another device has, and has that one look for
// itself: two places with one serial need an operator (F23). A listing is a hint, so
// that it may miss one: a host never takes the same piece twice by itself.
func (d *lifecycle) checkSerialUnique(ctx workflow.Context, serial string) error {
	if serial == "" {
		return nil
	}
	var known contract.DeviceBySerial
	in := contract.FindBySerialInput{Name: d.state.Name, Serial: serial}
	if err := workflow.ExecuteActivity(withClientDeadline(ctx, "serial of "+d.state.Name), contract.ActivityFindBySerial, in).Get(ctx, &known); err != nil {
		return faultOf(err)
	}
	if known.Name == "" {
		return nil
	}
	f := &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: known.Name,
		Message: "serial " + serial + " belongs to " + known.Name + " already",
		Remedy:  "if the piece was moved, move " + known.Name + " " + d.state.Name + "; if not, find out which is which"}
	d.notifyOther(ctx, f)
	return f
}

// seenTwice is the fault of a device whose serial was seen at a second place: which of
// the two is the device, only an operator can find out.
func (d *lifecycle) duplicateSerialFault() *device.Fault {
	twin := d.state.Intent.DuplicateAt
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: twin,
		Message: "its serial was seen at " + twin + " as well", Remedy: "find out which is which; then clean " + d.state.Name + ", or retire it"}
}

// warnOther has the device that a fault speaks of look for itself, now.
func (d *lifecycle) notifyOther(ctx workflow.Context, f *device.Fault) {
	if f.Other == "" || f.Code != device.CodeDuplicateSerial {
		return
	}
	hint := contract.Hint{Source: "seen again", DuplicateAt: d.state.Name}
	if err := workflow.SignalExternalWorkflow(ctx, contract.WorkflowID(f.Other), "", contract.SignalRefresh, hint).Get(ctx, nil); err != nil {
		d.log.Warn("the other device was not told", "device", d.state.Name, "other", f.Other, "error", err)
	}
}
