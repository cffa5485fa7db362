package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/cleaning"
	"burnish/workflows/lifecycle/status"
)

// operations is the family of updates that operators send, except binding.
type operations struct{ *parts }

func (d operations) validateProvide(contract.ReasonInput) error {
	switch d.State.Device.State {
	case device.Available, device.Cleaning, device.PendingCleaning:
		if !d.State.Device.NamedSteps {
			return nil // already so, or on its way
		}
	case device.Manageable:
		return nil
	}
	return d.Legal(device.Event{Kind: device.Provide})
}

func (d operations) provide(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	if d.State.Device.State != device.Manageable {
		return d.unchanged()
	}
	d.State.Intent.Reason, d.State.Intent.DuplicateAt = in.Reason, ""
	d.doubtShared(ctx)
	if !d.State.Device.Dirty {
		// It was out of our hands, and is not cleaned (F27), unless others wrote to it (F39).
		if f, _ := d.discovery.BeforeOffer(ctx); f != nil && f.Code != device.CodeForeignWrite {
			return contract.Result{}, f
		}
	}
	if err := d.Apply(ctx, device.Event{Kind: device.Provide}); err != nil {
		return contract.Result{}, err
	}
	d.ShowNoErasePath()
	return d.result()
}

// validateClean: an operator may clean a device in state error or manageable, and one
// that waits for a manual clean (S3.20, D7).
func (d operations) validateClean(in contract.CleanInput) error {
	if err := d.validateForm(in); err != nil {
		return err
	}
	if !in.Manual() {
		return d.Legal(device.Event{Kind: device.Clean})
	}
	if d.State.Device.State == device.Manageable {
		for _, step := range in.Steps {
			if clean.OfWorkflow(step) {
				return d.Refuse(device.CodeNoSuchStep, "the step "+step+" is for runbooks only", "write a runbook in the policy")
			}
			if _, known := d.State.Host.Steps[step]; !known {
				return d.Refuse(device.CodeNoSuchStep, "host "+d.State.Enrollment.Host+" has no step "+step,
					"name one of "+strings.Join(workflow.DeterministicKeys(d.State.Host.Steps), ", "))
			}
		}
	}
	return d.Legal(device.Event{Kind: device.CleanSteps})
}

// validateForm refuses a request that no policy and no device could carry out: a signal with
// one is refused as an update is.
func (d operations) validateForm(in contract.CleanInput) error {
	if in.Runbook != "" && (len(in.Steps) > 0 || len(in.Args) > 0) {
		return d.Refuse(device.CodeInvalid, "a runbook has its own steps and arguments", "name either a runbook or steps")
	}
	for _, step := range in.Steps {
		if strings.TrimSpace(step) == "" {
			return d.Refuse(device.CodeInvalid, "a step name is empty", "name steps as `steps "+d.State.Name+"` lists them")
		}
	}
	for _, step := range workflow.DeterministicKeys(in.Args) {
		if !slices.Contains(in.Steps, step) {
			return d.Refuse(device.CodeInvalid, fmt.Sprintf("arguments are given for %q, which is not among the steps", step),
				"name the step too")
		}
		if _, err := clean.ParseArgs(in.Args[step]); err != nil {
			return d.Refuse(device.CodeInvalid, step+": "+err.Error(), "give the arguments as a JSON object")
		}
	}
	return nil
}

// validatePlan refuses a clean that needs a step which the host's worker does not know. Of named
// steps it refuses those that do not apply to the device, arguments that do not fit, and a
// runbook that is not there or not for this device. By a signal they are accepted, and the clean
// ends in state error: what is planned depends on this worker's policy, and a signal's handler
// is replayed. No step of it runs.
//
//workflowcheck:ignore a validator is not replayed
func (d operations) validatePlan(_ workflow.Context, in contract.CleanInput) error {
	if !in.Manual() {
		f := cleaning.Plan(d.Planner, d.PlanInput(), true, clean.Request{}).Fault
		if f == nil || f.Code != device.CodeHostWorkerTooOld {
			return nil
		}
		return d.Refuse(f.Code, f.Message, f.Remedy) // S2.75
	}
	_, f := d.Planner.Manual(d.PlanInput(), manual(in))
	if f == nil || f.Class != device.Permanent && f.Code != device.CodeNoErasePath &&
		f.Code != device.CodeHostWorkerTooOld {
		return nil
	}
	return d.Refuse(f.Code, f.Message, f.Remedy)
}

func manual(in contract.CleanInput) clean.Request {
	return clean.Request{Steps: in.Steps, Args: in.Args, Runbook: in.Runbook}
}

// plan is what a clean would do now. It depends on this worker's policy, and changes nothing.
func (d operations) plan(in contract.CleanInput) contract.CleanPlan {
	input := d.PlanInput()
	out := contract.CleanPlan{Operation: input.Operation, PolicyDigest: d.Planner.Digest(), Steps: []contract.Planned{}}
	if err := d.validateForm(in); err != nil {
		out.Fault = calls.FaultOf(err)
		return out
	}
	if d.State.Host.Excluded != nil && !in.Manual() {
		out.Fault = d.State.Host.Excluded
		return out
	}
	made := cleaning.Plan(d.Planner, input, !in.Manual(), manual(in))
	out.Fault, out.Runbook, out.RunbookDigest = made.Fault, made.Runbook, made.RunbookDigest
	out.Steps = append(out.Steps, made.Plan...)
	return out
}

func (d operations) clean(ctx workflow.Context, in contract.CleanInput) (contract.Result, error) {
	kind := device.Clean
	if in.Manual() {
		kind = device.CleanSteps
	}
	if err := d.Apply(ctx, device.Event{Kind: kind}); err != nil {
		return contract.Result{}, err
	}
	d.State.Intent.Steps, d.State.Intent.Reason, d.State.Intent.DuplicateAt = in.Steps, in.Reason, ""
	d.State.Intent.Args, d.State.Intent.Runbook = in.Args, in.Runbook
	d.State.Fault, d.State.LastError, d.State.LastRefusal = nil, "", ""
	return d.result()
}

func (d operations) validateReleaseHold(contract.ReasonInput) error {
	if !d.Waits(contract.WaitHold) {
		return d.Refuse(device.CodeRefused, "no clean is on hold: the device is "+status.Phrase(d.State),
			"show "+d.State.Name)
	}
	return nil
}

// releaseHold lets a clean go on that its runbook holds.
func (d operations) releaseHold(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	d.cleaning.ReleaseHold(ctx, in)
	return d.result()
}

func (d operations) validateAbort(contract.ReasonInput) error {
	switch {
	case d.cleaning.Taking():
		return nil
	case d.State.Device.Returning:
		return d.Refuse(device.CodeRefused, "the device is clean and being returned: there is nothing left to abort",
			"none is needed")
	case !d.CleanUnderWay():
		return d.Refuse(device.CodeRefused, "no clean is running: the device is "+status.Phrase(d.State),
			"show "+d.State.Name)
	}
	return nil
}

// abort is answered at once with what the abort waits for (F9).
func (d operations) abort(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	if d.cleaning.Taking() {
		d.cleaning.AbortTaking()
		return contract.Result{Device: d.Status(), Note: "it is no longer to be taken out of the offer"}, nil
	}
	already := d.State.Intent.Abort
	note := d.cleaning.Abort(ctx)
	return contract.Result{Device: d.Status(), Already: already, Note: note}, nil
}

func (d operations) validateRetire(in contract.RetireInput) error {
	if d.State.Device.State == device.Retired {
		return nil
	}
	if err := d.nameTenant(contract.VerbRetire.Update(), in.Instance); err != nil {
		return err
	}
	if in.Lost {
		return d.Legal(device.Event{Kind: device.Lost})
	}
	return d.Legal(device.Event{Kind: device.Retire})
}

// retire reserves the device first, so that no scheduler allocates it meanwhile. --lost
// waits for neither host nor inventory: the device is reserved as soon as the inventory
// answers.
func (d operations) retire(ctx workflow.Context, in contract.RetireInput) (contract.Result, error) {
	if d.State.Device.State == device.Retired {
		return d.unchanged()
	}
	ended := d.State.Device.Binding
	if in.Lost { // whom the inventory records is asked by forget, which destroys the record
		if err := d.Apply(ctx, device.Event{Kind: device.Lost}); err != nil {
			return contract.Result{}, err
		}
	} else if err := d.withdraw(ctx, contract.VerbRetire.Update(), in.Instance,
		func() error { return d.validateRetire(in) }, device.Retire); err != nil {
		return contract.Result{}, err
	}
	d.recordEnd(ended, "retired", in.By, in.Reason)
	d.State.HoldReason, d.State.Clean = in.Reason, nil
	d.State.Intent.Rediscover, d.State.Intent.ReadInventory, d.State.Intent.Import = false, false, false
	d.State.Fault, d.State.LastError = nil, ""
	note := d.removeAfterRetire(ctx, in.Lost)
	return contract.Result{Device: d.Status(), Note: note}, nil
}

func (d operations) validateForget(contract.TenantInput) error {
	return d.Legal(device.Event{Kind: device.Forget})
}

// forget deletes the provider and ends the workflow.
func (d operations) forget(ctx workflow.Context, in contract.TenantInput) (contract.Result, error) {
	if err := d.reservation.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.reservation.Unlock()
	if err := d.nameRecorded(ctx, contract.VerbForget.Update(), in.Instance); err != nil {
		return contract.Result{}, err
	}
	if p := d.State.Pool; p == nil || !p.Abandoned {
		if err := d.removeProfile(ctx); err != nil {
			return contract.Result{}, err
		}
	}
	last := d.Status()
	if err := d.reservation.DeleteProvider(calls.WithClientDeadline(ctx, "delete the provider of "+d.State.Name)); err !=
		nil {
		return contract.Result{}, err
	}
	if err := d.Apply(ctx, device.Event{Kind: device.Forget}); err != nil {
		return contract.Result{}, err
	}
	d.State.Intent = contract.Intent{} // nothing is left to reconcile
	note := "forgotten"
	if err := d.discovery.ForgetOnHost(ctx, d.State.Enrollment); err != nil {
		note += ", but not by its host: " + calls.FaultOf(err).Error()
	}
	d.finished = true
	return contract.Result{Device: last, Note: note}, nil
}

func (d operations) validateManage(in contract.TenantInput) error {
	if d.State.Device.State == device.Manageable {
		return nil
	}
	if d.cleaning.Taking() {
		return d.Refuse(device.CodeRefused, "the device waits already to be taken out of the offer",
			"wait, or abort "+d.State.Name)
	}
	if err := d.nameTenant(contract.VerbManage.Update(), in.Instance); err != nil {
		return err
	}
	return d.Legal(device.Event{Kind: device.Manage})
}

func (d operations) manage(ctx workflow.Context, in contract.TenantInput) (contract.Result, error) {
	if d.State.Device.State == device.Manageable {
		return d.unchanged()
	}
	taken := func(bool) {}
	if d.State.Device.State == device.Available {
		var err error
		if taken, err = d.cleaning.AwaitCapacity(ctx); err != nil {
			return contract.Result{}, err
		}
	}
	err := d.withdraw(ctx, contract.VerbManage.Update(), in.Instance, func() error { return d.validateManage(in) },
		device.Manage)
	taken(err == nil)
	if err != nil {
		return contract.Result{}, err
	}
	return d.result()
}

func (d operations) validateMaintain(in contract.MaintenanceInput) error {
	if in.Off {
		if d.State.Device.State == device.Available {
			return nil // its host looks at it first
		}
		return d.Legal(device.Event{Kind: device.MaintainOff})
	}
	return d.Legal(device.Event{Kind: device.Maintain})
}

// maintain begins or ends the operator's maintenance. An available device is reserved
// meanwhile, and becomes free again only if it was not used (S2.51).
func (d operations) maintain(ctx workflow.Context, in contract.MaintenanceInput) (contract.Result, error) {
	if in.Off {
		return d.endOperatorMaintenance(ctx)
	}
	already := d.State.Device.Status == device.Maintaining
	if err := d.reservation.ReserveThen(ctx, func() error { return d.validateMaintain(in) }, device.Maintain); err != nil {
		return contract.Result{}, err
	}
	d.State.HoldReason = in.Reason
	return contract.Result{Device: d.Status(), Already: already}, nil
}

func (d operations) endOperatorMaintenance(ctx workflow.Context) (contract.Result, error) {
	quarantined := d.State.Device.Maintenance == device.MaintenanceQuarantined
	if d.State.Device.Status == device.Enabled && !quarantined {
		return contract.Result{Device: d.Status(), Already: true, Note: d.pool.TakenNote()}, nil
	}
	var server contract.PoolSnapshot
	var used bool
	if d.State.Device.State == device.Available {
		var err error
		switch server, used, err = d.checkNotTaken(ctx); {
		case err != nil:
		case used:
			f, _ := d.discovery.BeforeOffer(ctx)
			if f != nil {
				err = f
			}
		default:
			err = d.reservation.EndMaintenance(ctx)
		}
		if err != nil {
			return contract.Result{}, err
		}
	}
	if d.State.Device.Status == device.Maintaining || quarantined {
		if err := d.Apply(ctx, device.Event{Kind: device.MaintainOff}); err != nil {
			return contract.Result{}, err
		}
	}
	d.State.HoldReason = ""
	if used { // SAFETY F34: it leaves its maintenance for a clean, not for the offer
		d.pool.Conclude(ctx, device.AskPool, server, nil)
	}
	return contract.Result{Device: d.Status(), Note: d.pool.TakenNote()}, nil
}
