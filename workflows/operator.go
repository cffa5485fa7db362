package workflows

import (
	"strings"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (d *lifecycle) validateProvide(contract.ReasonInput) error {
	switch d.state.Device.State {
	case device.Available, device.Cleaning, device.PendingCleaning:
		if !d.state.Device.NamedSteps {
			return nil // already so, or on its way
		}
	}
	return d.legal(device.Event{Kind: device.Provide})
}

func (d *lifecycle) provide(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	if d.state.Device.State != device.Manageable {
		return contract.Result{Device: d.status(), Already: true}, nil
	}
	d.state.Intent.Reason, d.state.Intent.DuplicateAt = in.Reason, ""
	if err := d.apply(ctx, device.Event{Kind: device.Provide}); err != nil {
		return contract.Result{}, err
	}
	if d.state.Device.State == device.Error {
		d.state.Fault = noErasePath(d.state.Name)
		d.state.LastError = d.state.Fault.Message
	}
	return contract.Result{Device: d.status()}, nil
}

// mayClean: the operator's clean comes from error and manageable, and from a clean
// that waits for it (S3.20, D7).
func (d *lifecycle) validateClean(in contract.CleanInput) error {
	if len(in.Steps) > 0 {
		if d.state.Device.State == device.Manageable {
			for _, step := range in.Steps {
				if strings.TrimSpace(step) == "" {
					return d.refuse(device.CodeInvalid, "an empty step name", "name steps as `steps "+d.state.Name+"` lists them")
				}
				if _, known := d.state.Host.Steps[step]; !known {
					return d.refuse(device.CodeNoSuchStep, "host "+d.state.Enrollment.Host+" knows no step "+step,
						"name one of "+strings.Join(workflow.DeterministicKeys(d.state.Host.Steps), ", "))
				}
			}
		}
		return d.legal(device.Event{Kind: device.CleanSteps})
	}
	return d.legal(device.Event{Kind: device.Clean})
}

// mayName refuses steps that the device has no use for: the clean would end in error,
// as it does where they come by a signal.
func (d *lifecycle) validateSteps(in contract.CleanInput) error {
	if len(in.Steps) == 0 {
		return nil
	}
	_, f := d.planner.Named(d.planInput(), in.Steps)
	if f == nil || f.Code != device.CodeNoSuchStep {
		return nil
	}
	return d.refuse(f.Code, f.Message, f.Remedy)
}

func (d *lifecycle) requestClean(ctx workflow.Context, in contract.CleanInput) (contract.Result, error) {
	kind := device.Clean
	if len(in.Steps) > 0 {
		kind = device.CleanSteps
	}
	if err := d.apply(ctx, device.Event{Kind: kind}); err != nil {
		return contract.Result{}, err
	}
	d.state.Intent.Steps, d.state.Intent.Reason, d.state.Intent.DuplicateAt = in.Steps, in.Reason, ""
	d.state.Fault, d.state.LastError, d.state.LastRefusal = nil, "", ""
	return contract.Result{Device: d.status()}, nil
}

func (d *lifecycle) cleanUnderWay() bool {
	s := d.state.Device
	return (s.State == device.PendingCleaning || s.State == device.Cleaning) && !s.Returning
}

func (d *lifecycle) validateAbort(contract.ReasonInput) error {
	switch {
	case d.state.Device.Returning:
		return d.refuse(device.CodeRefused, "the device is clean and being returned: there is nothing left to abort", "wait a moment")
	case !d.cleanUnderWay():
		return d.refuse(device.CodeRefused, "no clean is running: the device is "+d.describeState(), "show "+d.state.Name)
	}
	return nil
}

// requestAbort is answered at once with what the abort waits for (F9).
func (d *lifecycle) requestAbort(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	already := d.state.Intent.Abort
	note := d.abort(ctx)
	return contract.Result{Device: d.status(), Already: already, Note: note}, nil
}

// abort asks the running clean to end and says what it waits for. One that waits for
// the operator (D7) ends at once.
func (d *lifecycle) abort(ctx workflow.Context) string {
	if d.state.Device.State == device.PendingCleaning && d.state.Device.AwaitingManualClean {
		d.finishClean(ctx, "aborted", aborted(d.state.Name))
		return "aborted"
	}
	d.state.Intent.Abort = true
	if d.stopStep != nil {
		d.stopStep()
	}
	if c := d.state.Clean; c != nil && c.Next < len(c.Plan) && d.state.Device.State == device.Cleaning {
		return "waiting for the step " + c.Plan[c.Next].Step + " to stop"
	}
	return "the clean ends before its first step"
}

func (d *lifecycle) validateRetire(in contract.ReasonInput) error {
	if d.state.Device.State == device.Retired {
		return nil
	}
	if in.Lost {
		return d.legal(device.Event{Kind: device.Lost})
	}
	return d.legal(device.Event{Kind: device.Retire})
}

// retire burns first, so that nobody is given the device meanwhile; --lost asks
// neither host nor inventory, which follows as soon as it answers.
func (d *lifecycle) retire(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	if d.state.Device.State == device.Retired {
		return contract.Result{Device: d.status(), Already: true}, nil
	}
	// Nova burns a device a while after it gave it out, and one that is being imported
	// is free: whatever is retired is burned.
	raise := !d.ownedByBurnish() && d.state.Device.State != device.Available
	if in.Lost {
		if d.stopStep != nil {
			d.stopStep()
		}
		if err := d.apply(ctx, device.Event{Kind: device.Lost}); err != nil {
			return contract.Result{}, err
		}
	} else if err := d.reserveThen(ctx, func() error { return d.validateRetire(in) }, device.Retire); err != nil {
		return contract.Result{}, err
	}
	d.state.HoldReason, d.state.Clean = in.Reason, nil
	d.state.Intent.Rediscover, d.state.Intent.ReadInventory, d.state.Intent.Import = false, false, false
	d.state.Intent.EnsureReserved = d.state.Intent.EnsureReserved || raise
	d.state.Fault, d.state.LastError = nil, ""
	return contract.Result{Device: d.status()}, nil
}

func (d *lifecycle) validateForget(contract.ReasonInput) error {
	return d.legal(device.Event{Kind: device.Forget})
}

// forget takes the provider out of the inventory and ends the workflow.
func (d *lifecycle) forget(ctx workflow.Context, _ contract.ReasonInput) (contract.Result, error) {
	if err := d.lock.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.lock.Unlock()
	view := d.status()
	if err := d.inventory(ctx, withClientDeadline(ctx, "withdraw "+d.state.Name), contract.ActivityDeleteProvider, d.reservationRequest(), nil); err != nil {
		return contract.Result{}, err
	}
	if err := d.apply(ctx, device.Event{Kind: device.Forget}); err != nil {
		return contract.Result{}, err
	}
	d.state.Intent = contract.Intent{} // there is nothing left to look at
	d.forgetOnHost(ctx, d.state.Enrollment)
	d.finished = true
	return contract.Result{Device: view, Note: "forgotten"}, nil
}

func (d *lifecycle) validateManage(contract.ReasonInput) error {
	if d.state.Device.State == device.Manageable {
		return nil
	}
	return d.legal(device.Event{Kind: device.Manage})
}

func (d *lifecycle) manage(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	if d.state.Device.State == device.Manageable {
		return contract.Result{Device: d.status(), Already: true}, nil
	}
	if err := d.reserveThen(ctx, func() error { return d.validateManage(in) }, device.Manage); err != nil {
		return contract.Result{}, err
	}
	return contract.Result{Device: d.status()}, nil
}

func (d *lifecycle) validateMaintain(in contract.MaintainInput) error {
	if in.Off {
		return d.legal(device.Event{Kind: device.MaintainOff})
	}
	return d.legal(device.Event{Kind: device.Maintain})
}

// maintain holds or frees the device; an available one is burned for as long as it
// is held, and lowered again only if nobody used it meanwhile (S2.51).
func (d *lifecycle) maintain(ctx workflow.Context, in contract.MaintainInput) (contract.Result, error) {
	if in.Off {
		return d.endOperatorMaintenance(ctx)
	}
	already := d.state.Device.Status == device.Maintaining
	if err := d.reserveThen(ctx, func() error { return d.validateMaintain(in) }, device.Maintain); err != nil {
		return contract.Result{}, err
	}
	d.state.HoldReason = in.Reason
	return contract.Result{Device: d.status(), Already: already}, nil
}

func (d *lifecycle) endOperatorMaintenance(ctx workflow.Context) (contract.Result, error) {
	if d.state.Device.Status == device.Enabled {
		return contract.Result{Device: d.status(), Already: true}, nil
	}
	if d.state.Device.State == device.Available {
		if err := d.endMaintenance(ctx); err != nil {
			return contract.Result{}, err
		}
	}
	if d.state.Device.Status == device.Maintaining {
		if err := d.apply(ctx, device.Event{Kind: device.MaintainOff}); err != nil {
			return contract.Result{}, err
		}
	}
	d.state.HoldReason = ""
	return contract.Result{Device: d.status()}, nil
}

func noErasePath(name string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeNoErasePath,
		Message: "a one-time-use device that nothing can erase",
		Remedy:  "retire " + name + ", or manage it and enrol it with a driver that can erase it",
	}
}

func aborted(name string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeAborted,
		Message: "the clean was aborted", Remedy: "clean " + name + " to run it again from its first step",
	}
}
