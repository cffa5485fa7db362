package lifecycle

import (
	"maps"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

func (d hardware) validateMove(in contract.MoveInput) error {
	if in.Enrollment.Name == d.State.Name {
		return d.Refuse(device.CodeInvalid, "the device has this name already", "name the slot that the hardware is in now")
	}
	return d.Legal(device.Event{Kind: device.Move})
}

// validateNewName refuses a name that no device can have.
func (d hardware) validateNewName(_ workflow.Context, in contract.MoveInput) error {
	if _, err := device.CanonicalName(in.Enrollment.Name); err != nil {
		return d.Refuse(device.CodeInvalid, err.Error(), "name the slot that the hardware is in now")
	}
	return nil
}

// move carries the device over to the name of the slot that its hardware is in now; state
// and history are kept, and it is dirty. Once the new workflow has started, this one ends.
func (d hardware) move(ctx workflow.Context, in contract.MoveInput) (contract.Result, error) {
	if err := d.reservation.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.reservation.Unlock()
	if err := d.validateMove(in); err != nil {
		return contract.Result{}, err
	}
	if err := d.nameRecorded(ctx, contract.VerbMove.Update(), in.Instance); err != nil {
		return contract.Result{}, err
	}
	if err := d.validateMove(in); err != nil {
		return contract.Result{}, err
	}
	to := mergeEnrollment(d.State.Enrollment, in.Enrollment)
	found, err := d.discovery.At(ctx, contract.DiscoverInput{
		Enrollment: to, UUID: contract.DeviceUUID(to.Name), Known: d.State.Host.Identity, MovedFrom: d.State.Name,
		Binding: d.State.Device.Bindings,
	})
	if err != nil {
		return contract.Result{}, calls.FaultOf(err)
	}
	if err := d.validateMove(in); err != nil {
		d.discovery.ForgetRefused(ctx, to)
		return contract.Result{}, err
	}
	// Its profile has this name's UUID: the new name could not find it again.
	if err := d.removeProfile(ctx); err != nil {
		d.discovery.ForgetRefused(ctx, to)
		return contract.Result{}, err
	}
	if err := d.validateMove(in); err != nil {
		d.discovery.ForgetRefused(ctx, to)
		return contract.Result{}, err
	}
	if err := d.startRelocated(ctx, to, found); err != nil {
		d.discovery.ForgetRefused(ctx, to)
		return contract.Result{}, err
	}
	last := d.Status()
	d.ApplyOrReport(ctx, device.Event{Kind: device.Move})
	d.State.Intent, d.State.Clean = contract.Intent{}, nil
	// The new workflow has the device: the rest may take any time.
	if err := d.reservation.DeleteProvider(calls.WithInventory(ctx, "delete the provider of "+d.State.Name)); err != nil {
		workflow.GetLogger(ctx).Error("the provider of the old slot was not deleted", "device", d.State.Name, "error", err)
	}
	if err := d.discovery.ForgetOnHost(ctx, d.State.Enrollment); err != nil {
		workflow.GetLogger(ctx).Error("the host keeps its record of the old slot", "device", d.State.Name, "error", err)
	}
	d.finished = true
	return contract.Result{Device: last, Note: "continues as " + to.Name}, nil
}

// mergeEnrollment returns an enrollment for another slot. Fields that the slot does not set
// are kept.
func mergeEnrollment(e, at contract.Enrollment) contract.Enrollment {
	e.Name, e.Address, e.OperatorAssertsClean = at.Name, at.Address, false
	if at.Host != "" {
		e.Host = at.Host
	}
	if at.Driver != "" {
		e.Driver = at.Driver
	}
	if at.Pool != nil {
		e.Pool = at.Pool
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

// startRelocated starts the workflow of the new name, which outlives this one.
func (d hardware) startRelocated(ctx workflow.Context, to contract.Enrollment, found contract.DiscoveryResult) error {
	state := *d.State
	state.Name, state.UUID, state.Enrollment = to.Name, contract.DeviceUUID(to.Name), to
	state.Host.Identity, state.Host.Note, state.Host.ObservedAt = found.Identity, found.Note, found.ObservedAt
	if r := found.Record; r != nil {
		state.Seq, state.Cleans = max(state.Seq, r.Seq), max(state.Cleans, r.Clean)
	}
	// It was out of our hands, and its new slot was never seen with it (F27).
	state.Device.Dirty, state.Device.Unseen = true, true
	// The new slot has another provider.
	state.Generation, state.Provider, state.GenerationUncertain, state.ContinueAsNew = 0, "", true, false
	state.Intent = contract.Intent{EnsureProvider: true}
	state.LastRefusal, state.MovedFrom = "moved here from "+d.State.Name, d.State.Name
	summary, details := contract.Summary(to, contract.HardwareOf(found.Identity))
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: contract.WorkflowID(to.Name), TaskQueue: contract.Queue, WorkflowTaskTimeout: contract.TaskTimeout,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     summary, StaticDetails: details,
	})
	err := workflow.ExecuteChildWorkflow(child, contract.WorkflowDeviceLifecycle,
		contract.DeviceInput{Name: to.Name, State: &state}).GetChildWorkflowExecution().Get(ctx, nil)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return d.Refuse(device.CodeAlreadyExists, to.Name+" is enrolled already",
			"retire and forget it first, or move to another name")
	}
	return err
}
