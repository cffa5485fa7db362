package workflows

import (
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// update is one verb: its guard refuses without leaving history, and is asked again
// when the handler runs; do carries it out.
type update[In, Out any] struct {
	name  string
	about string
	guard func(*lifecycle, In) error
	do    func(*lifecycle, workflow.Context, In) (Out, error)
	// again answers a message that was carried out before, under its ID.
	again func(d *lifecycle, id string, in In) (Out, error)
}

// register sets every update and the query.
func (d *lifecycle) register(ctx workflow.Context) error {
	return errors.Join(
		handle(ctx, d, update[contract.EnrollInput, contract.Result]{contract.UpdateEnroll,
			"Enrol this device", (*lifecycle).mayEnroll, (*lifecycle).enroll,
			already[contract.EnrollInput]}),
		handle(ctx, d, update[contract.ReasonInput, contract.Result]{contract.UpdateProvide,
			"Offer a manageable device to tenants, after a clean", (*lifecycle).mayProvide, (*lifecycle).provide, already[contract.ReasonInput]}),
		handle(ctx, d, update[contract.BindInput, contract.BindResult]{contract.UpdateClaim,
			"Hold the device for an instance until a deadline", (*lifecycle).mayClaim, (*lifecycle).claim,
			func(d *lifecycle, _ string, _ contract.BindInput) (contract.BindResult, error) {
				return contract.BindResult{View: d.view(), Already: true}, nil
			}}),
		handle(ctx, d, update[contract.BindInput, contract.BindResult]{contract.UpdateBurn,
			"Burn a claimed device and give it to its instance", (*lifecycle).mayBurn, (*lifecycle).burn, (*lifecycle).burnAgain}),
		handle(ctx, d, update[contract.BindInput, contract.Result]{contract.UpdateUnclaim,
			"Let a claim go before its burn", (*lifecycle).mayUnclaim, (*lifecycle).unclaim,
			already[contract.BindInput]}),
		handle(ctx, d, update[contract.BindInput, contract.BindResult]{contract.UpdateBind,
			"Claim and burn in one", (*lifecycle).mayClaim, (*lifecycle).bind, (*lifecycle).bindAgain}),
		handle(ctx, d, update[contract.UnbindInput, contract.Result]{contract.UpdateUnbind,
			"End an instance's tenancy; cleaning begins by itself", (*lifecycle).mayUnbind, (*lifecycle).unbind, already[contract.UnbindInput]}),
		handle(ctx, d, update[contract.UnbindInput, contract.Result]{contract.UpdateRebuild,
			"The instance is rebuilt in place; nothing is cleaned", (*lifecycle).mayRebuild, (*lifecycle).rebuild, already[contract.UnbindInput]}),
		handle(ctx, d, update[contract.CleanInput, contract.Result]{contract.UpdateClean,
			"Clean a device in error, or run named steps on a manageable one", (*lifecycle).mayClean, (*lifecycle).requestClean,
			already[contract.CleanInput]}),
		handle(ctx, d, update[contract.ReasonInput, contract.Result]{contract.UpdateAbort,
			"End the running clean; the device goes to error", (*lifecycle).mayAbort, (*lifecycle).requestAbort, already[contract.ReasonInput]}),
		handle(ctx, d, update[contract.ReasonInput, contract.Result]{contract.UpdateManage,
			"Take the device out of the pool", (*lifecycle).mayManage, (*lifecycle).manage, already[contract.ReasonInput]}),
		handle(ctx, d, update[contract.MaintainInput, contract.Result]{contract.UpdateMaintain,
			"Set or clear the operator's hold", (*lifecycle).mayMaintain, (*lifecycle).maintain,
			already[contract.MaintainInput]}),
		handle(ctx, d, update[contract.ReasonInput, contract.Result]{contract.UpdateRetire,
			"Take the device out of service for ever", (*lifecycle).mayRetire, (*lifecycle).retire, already[contract.ReasonInput]}),
		handle(ctx, d, update[contract.ReasonInput, contract.Result]{contract.UpdateForget,
			"End a retired device's workflow", (*lifecycle).mayForget, (*lifecycle).forget, already[contract.ReasonInput]}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDevice,
			func() (contract.View, error) { return d.view(), nil },
			workflow.QueryHandlerOptions{Description: "The device as `burnish show` prints it"}),
	)
}

// already is the answer to most repetitions.
func already[In any](d *lifecycle, _ string, _ In) (contract.Result, error) {
	return contract.Result{View: d.view(), Already: true}, nil
}

// handle registers one update. An update's own ID is remembered in the state with
// its outcome, because Temporal forgets IDs at continue-as-new: sent again it
// changes nothing, whoever has the device by then.
func handle[In, Out any](ctx workflow.Context, d *lifecycle, u update[In, Out]) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, u.name,
		func(ctx workflow.Context, in In) (Out, error) {
			ctx, _ = workflow.NewDisconnectedContext(ctx)
			var none Out
			id := workflow.GetCurrentUpdateInfo(ctx).ID
			if before, seen := d.recent(id); seen {
				if before.Refusal != nil {
					return none, activities.Refuse(*before.Refusal)
				}
				return u.again(d, id, in)
			}
			if err := u.guard(d, in); err != nil {
				return none, err
			}
			d.remember(id, nil)
			out, err := u.do(d, ctx, in)
			if err != nil {
				err = d.refusal(u.name, err)
				refusal, _ := contract.RefusalOf(err)
				d.remember(id, &refusal)
				d.state.LastRefusal = refusal.Fault.Message
			}
			d.show(ctx)
			return out, err
		},
		workflow.UpdateHandlerOptions{
			Description: u.about,
			Validator: func(ctx workflow.Context, in In) error {
				if _, seen := d.recent(workflow.GetCurrentUpdateInfo(ctx).ID); seen {
					return nil
				}
				if !d.state.Enrolled && u.name != contract.UpdateEnroll {
					return d.refuse(device.CodeNotFound, "this device is not enrolled", "enroll it first")
				}
				if err := u.guard(d, in); err != nil {
					return d.refusal(u.name, err)
				}
				return nil
			},
		})
}

func (d *lifecycle) recent(id string) (contract.RecentUpdate, bool) {
	for _, u := range d.state.Recent {
		if u.ID == id {
			return u, true
		}
	}
	return contract.RecentUpdate{}, false
}

func (d *lifecycle) remember(id string, r *contract.Refusal) {
	for i := range d.state.Recent {
		if d.state.Recent[i].ID == id {
			d.state.Recent[i].Refusal = r
			return
		}
	}
	d.state.Recent = lastN(append(d.state.Recent, contract.RecentUpdate{ID: id, Refusal: r}), contract.KeptUpdates)
}

// refuse makes the error of a request that is not carried out.
func (d *lifecycle) refuse(code device.Code, message, remedy string) error {
	return activities.Refuse(contract.Refusal{
		Fault:  device.Fault{Class: device.Permanent, Code: code, Message: message, Remedy: remedy},
		Device: d.state.Name, State: d.state.Device.State,
	})
}

// refusal gives any error the form that callers read.
func (d *lifecycle) refusal(verb string, err error) error {
	if e, ok := illegal(err); ok {
		return d.refuse(device.CodeRefused, fmt.Sprintf("cannot %s a device that is %s", verb, d.stateInWords()), d.remedyFor(verb, e))
	}
	if f, ok := device.AsFault(err); ok {
		return activities.Refuse(contract.Refusal{Fault: *f, Device: d.state.Name, State: d.state.Device.State})
	}
	return err
}

// stateInWords is the state with what an operator must know beside it.
func (d *lifecycle) stateInWords() string {
	dev := d.state.Device
	switch {
	case dev.State == device.Allocated && dev.Binding != nil:
		return "allocated to " + dev.Binding.Instance
	case dev.Claim != nil:
		return "claimed by " + dev.Claim.Instance
	case dev.State == device.Available && dev.HeldBack():
		return "held (maintenance: " + string(dev.Maintenance) + ")"
	case dev.Returning:
		return "cleaning (being returned)"
	case dev.Held:
		return "pending_cleaning (automated cleaning is off)"
	}
	return string(dev.State)
}

// remedyFor says what to do instead of a verb that the state refuses.
func (d *lifecycle) remedyFor(verb string, e *device.IllegalError) string {
	name := d.state.Name
	switch d.state.Device.State {
	case device.Allocated:
		if verb == contract.UpdateUnbind || verb == contract.UpdateRebuild {
			return "name the instance that has it"
		}
		return "unbind " + name + " first"
	case device.PendingCleaning, device.Cleaning:
		if d.state.Device.Held {
			return "clean " + name
		}
		return "wait until it is clean, or abort " + name
	case device.Error:
		return "clean " + name + " to try again, or manage " + name
	case device.Manageable:
		return "provide " + name + ", or clean it with --steps"
	case device.Available:
		if d.state.Device.Claim != nil {
			return "wait, or take another device"
		}
		if d.state.Device.HeldBack() {
			return "maintain " + name + " --off first"
		}
		if verb == contract.UpdateClean {
			return "it is clean; to work on it by hand, manage " + name
		}
	case device.Retired:
		return "forget " + name + " and enroll it again"
	}
	return e.Why
}

// legal asks the machine without changing anything.
func (d *lifecycle) legal(e device.Event) error {
	_, err := device.Next(d.state.Device, e)
	return err
}

func (d *lifecycle) mayEnroll(in contract.EnrollInput) error {
	if !d.state.Enrolled {
		return nil
	}
	have, want := d.state.Enrolment, in.Enrolment
	switch {
	case !strings.EqualFold(have.Host, want.Host):
		return d.enrolledOtherwise("host", have.Host)
	case have.Driver != want.Driver:
		return d.enrolledOtherwise("driver", have.Driver)
	case have.Address != want.Address:
		return d.enrolledOtherwise("address", have.Address)
	case have.Owner != want.Owner:
		return d.enrolledOtherwise("owner", string(have.Owner))
	case have.OneTimeUse != want.OneTimeUse:
		return d.enrolledOtherwise("one-time-use", fmt.Sprint(have.OneTimeUse))
	case !equal(have.Settings, want.Settings):
		return d.enrolledOtherwise("settings", fmt.Sprint(have.Settings))
	}
	return nil
}

func (d *lifecycle) enrolledOtherwise(what, have string) error {
	return d.refuse(device.CodeAlreadyExists, fmt.Sprintf("the device is already enrolled with another %s (%s)", what, have),
		fmt.Sprintf("retire %s and forget it first", d.state.Name))
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for _, k := range workflow.DeterministicKeys(a) {
		if v, ok := b[k]; !ok || v != a[k] {
			return false
		}
	}
	return true
}

func (d *lifecycle) mayProvide(contract.ReasonInput) error {
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
		return contract.Result{View: d.view(), Already: true}, nil
	}
	d.state.Intent.Reason = in.Reason
	if err := d.apply(ctx, device.Event{Kind: device.Provide}); err != nil {
		return contract.Result{}, err
	}
	if d.state.Device.State == device.Error {
		d.state.Fault = noErasePath(d.state.Name)
		d.state.LastError = d.state.Fault.Message
	}
	return contract.Result{View: d.view()}, nil
}

// mayClean: the operator's clean comes from error and manageable, and from a clean
// that waits for it (S3.20, D7).
func (d *lifecycle) mayClean(in contract.CleanInput) error {
	if len(in.Steps) > 0 {
		if d.state.Device.State == device.Manageable {
			for _, step := range in.Steps {
				if strings.TrimSpace(step) == "" {
					return d.refuse(device.CodeInvalid, "an empty step name", "name steps as `steps "+d.state.Name+"` lists them")
				}
				if _, known := d.state.Host.Steps[step]; !known {
					return d.refuse(device.CodeNoSuchStep, "host "+d.state.Enrolment.Host+" knows no step "+step,
						"name one of "+strings.Join(workflow.DeterministicKeys(d.state.Host.Steps), ", "))
				}
			}
		}
		return d.legal(device.Event{Kind: device.CleanSteps})
	}
	return d.legal(device.Event{Kind: device.Clean})
}

func (d *lifecycle) requestClean(ctx workflow.Context, in contract.CleanInput) (contract.Result, error) {
	kind := device.Clean
	if len(in.Steps) > 0 {
		kind = device.CleanSteps
	}
	if err := d.apply(ctx, device.Event{Kind: kind}); err != nil {
		return contract.Result{}, err
	}
	d.state.Intent.Steps, d.state.Intent.Reason = in.Steps, in.Reason
	d.state.Fault, d.state.LastError, d.state.LastRefusal = nil, "", ""
	return contract.Result{View: d.view()}, nil
}

func (d *lifecycle) cleanUnderWay() bool {
	s := d.state.Device
	return (s.State == device.PendingCleaning || s.State == device.Cleaning) && !s.Returning
}

func (d *lifecycle) mayAbort(contract.ReasonInput) error {
	switch {
	case d.state.Device.Returning:
		return d.refuse(device.CodeRefused, "the device is clean and being returned: there is nothing left to abort", "wait a moment")
	case !d.cleanUnderWay():
		return d.refuse(device.CodeRefused, "no clean is running: the device is "+d.stateInWords(), "show "+d.state.Name)
	}
	return nil
}

// requestAbort is answered at once with what the abort waits for (F9).
func (d *lifecycle) requestAbort(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	already := d.state.Intent.Abort
	note := d.abort(ctx)
	return contract.Result{View: d.view(), Already: already, Note: note}, nil
}

// abort asks the running clean to end and says what it waits for. One that waits for
// the operator (D7) ends at once.
func (d *lifecycle) abort(ctx workflow.Context) string {
	if d.state.Device.State == device.PendingCleaning && d.state.Device.Held {
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

func (d *lifecycle) mayRetire(in contract.ReasonInput) error {
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
		return contract.Result{View: d.view(), Already: true}, nil
	}
	if in.Lost {
		if d.stopStep != nil {
			d.stopStep()
		}
		if err := d.apply(ctx, device.Event{Kind: device.Lost}); err != nil {
			return contract.Result{}, err
		}
	} else if err := d.leavePool(ctx, func() error { return d.mayRetire(in) }, device.Retire); err != nil {
		return contract.Result{}, err
	}
	d.state.HoldReason, d.state.Clean = in.Reason, nil
	d.state.Intent.Discover, d.state.Intent.Look = false, false
	d.state.Fault, d.state.LastError = nil, ""
	return contract.Result{View: d.view()}, nil
}

func (d *lifecycle) mayForget(contract.ReasonInput) error {
	return d.legal(device.Event{Kind: device.Forget})
}

// forget takes the provider out of the inventory and ends the workflow.
func (d *lifecycle) forget(ctx workflow.Context, _ contract.ReasonInput) (contract.Result, error) {
	view := d.view()
	if err := d.inventory(ctx, withAnswer(ctx, "withdraw "+d.state.Name), contract.ActivityWithdraw, d.stockInput(), nil); err != nil {
		return contract.Result{}, err
	}
	if err := d.apply(ctx, device.Event{Kind: device.Forget}); err != nil {
		return contract.Result{}, err
	}
	d.state.Intent = contract.Intent{} // there is nothing left to look at
	d.forgetOnHost(ctx)
	d.over = true
	return contract.Result{View: view, Note: "forgotten"}, nil
}

func (d *lifecycle) mayManage(contract.ReasonInput) error {
	if d.state.Device.State == device.Manageable {
		return nil
	}
	return d.legal(device.Event{Kind: device.Manage})
}

func (d *lifecycle) manage(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	if d.state.Device.State == device.Manageable {
		return contract.Result{View: d.view(), Already: true}, nil
	}
	if err := d.leavePool(ctx, func() error { return d.mayManage(in) }, device.Manage); err != nil {
		return contract.Result{}, err
	}
	return contract.Result{View: d.view()}, nil
}

func (d *lifecycle) mayMaintain(in contract.MaintainInput) error {
	if in.Off {
		return d.legal(device.Event{Kind: device.MaintainOff})
	}
	return d.legal(device.Event{Kind: device.Maintain})
}

// maintain holds or frees the device; an available one is burned for as long as it
// is held, and lowered again only if nobody used it meanwhile (S2.51).
func (d *lifecycle) maintain(ctx workflow.Context, in contract.MaintainInput) (contract.Result, error) {
	if in.Off {
		return d.endHold(ctx)
	}
	already := d.state.Device.Status == device.Maintaining
	if err := d.leavePool(ctx, func() error { return d.mayMaintain(in) }, device.Maintain); err != nil {
		return contract.Result{}, err
	}
	d.state.HoldReason = in.Reason
	return contract.Result{View: d.view(), Already: already}, nil
}

func (d *lifecycle) endHold(ctx workflow.Context) (contract.Result, error) {
	if d.state.Device.Status == device.Enabled {
		return contract.Result{View: d.view(), Already: true}, nil
	}
	if d.state.Device.State == device.Available {
		if err := d.rejoinPool(ctx); err != nil {
			return contract.Result{}, err
		}
	}
	if d.state.Device.Status == device.Maintaining {
		if err := d.apply(ctx, device.Event{Kind: device.MaintainOff}); err != nil {
			return contract.Result{}, err
		}
	}
	d.state.HoldReason = ""
	return contract.Result{View: d.view()}, nil
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
