package client

import (
	"context"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// attach binds one device to an instance by way of the instance's workflow, which then
// holds the binding. It answers as the device itself does.
func (c *Client) attach(ctx context.Context, name string, in contract.BindInput) (contract.Result, error) {
	if !hasWorkflow(in.Instance) {
		return c.Send(ctx, name, contract.VerbBind, in)
	}
	result, err := c.DoInstance(ctx, in.Instance, contract.VerbInstanceAttach, contract.InstanceBindInput{
		Request: in.Request, Devices: []contract.DeviceChoice{{Name: name, Tag: in.Tag}}, OfDevice: true, Reason: in.Reason,
		Caller: in.Caller,
	})
	if refusal, ok := contract.RefusalOf(err); ok {
		return c.notAttached(ctx, name, in, refusal)
	}
	if err != nil {
		return contract.Result{}, err
	}
	held, has := result.Instance.Has(name)
	v, err := c.statusAfter(ctx, name)
	if err == nil && has && result.Already {
		err = c.confirm(ctx, name, v)
	}
	switch {
	case err != nil:
		return contract.Result{}, err
	case !has: // this very request was carried out before, and the device has left since
		return contract.Result{}, contract.Refuse(contract.Refusal{Device: name, State: v.DeviceState, Fault: device.Fault{
			Class: device.Permanent, Code: device.CodeBindingEnded, Message: "the binding of this request has ended",
			Remedy: "bind again with a new request"}})
	}
	return contract.Result{Binding: held.Binding, Device: v, Already: result.Already}, nil
}

// notAttached is the answer to a refused attach: in the device's own words, with its
// state. A device that the instance bound without its workflow is bound already, if it says so (SAFETY F36).
func (c *Client) notAttached(
	ctx context.Context, name string, in contract.BindInput, refusal contract.Refusal,
) (contract.Result, error) {
	refusal.Fault.Message = strings.TrimPrefix(refusal.Fault.Message, name+": ")
	refusal.Device = name
	v, err := c.statusAfter(ctx, name)
	switch {
	case NotFound(err):
		return contract.Result{}, err
	case err != nil: // the refusal says more
		return contract.Result{}, contract.Refuse(refusal)
	case in.Request == "" && v.InstanceUUID != nil && device.SameTenant(*v.InstanceUUID, in.Instance) &&
		v.DeviceState == device.Allocated:
		in.Held = true
		result, err := c.Send(ctx, name, contract.VerbBurn, in)
		if NotFound(err) {
			err = lostWorkflow(name)
		}
		return result, err
	}
	refusal.State = v.DeviceState
	return contract.Result{}, contract.Refuse(refusal)
}

// detach ends the binding of one device by way of its instance's workflow, or by the
// device's own unbind where that workflow does not hold it. A device that has no workflow may come
// back with its binding: its instance's workflow waits for it, or for what the inventory records.
//
// SAFETY F38
func (c *Client) detach(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error) {
	if !hasWorkflow(in.Instance) {
		result, err := c.Send(ctx, name, contract.VerbUnbind, in)
		return result, c.mayComeBack(ctx, name, err)
	}
	detach := contract.InstanceDetachInput{Devices: []string{name}, Reason: in.Reason, Caller: in.Caller}
	result, err := c.instance(ctx, in.Instance, contract.VerbInstanceDetach, detach)
	if refusal, ok := contract.RefusalOf(err); NotFound(err) || ok && refusal.Fault.Code == device.CodeNotFound {
		var unbound contract.Result
		if unbound, err = c.Send(ctx, name, contract.VerbUnbind, in); !NotFound(err) && !Ended(err) {
			return unbound, err
		}
		result, err = c.DoInstance(ctx, in.Instance, contract.VerbInstanceDetach, detach)
	}
	if err != nil {
		return contract.Result{}, err
	}
	if result.Detached != nil {
		return contract.Result{Device: normalize(*result.Detached), Already: result.Already}, nil
	}
	v, err := c.statusAfter(ctx, name)
	unknown := contract.Result{Device: contract.DeviceStatus{Name: name}, Already: result.Already}
	switch {
	case NotFound(err): // it was forgotten
		return unknown, nil
	case err == nil && v.InstanceUUID != nil && device.SameTenant(*v.InstanceUUID, in.Instance):
		// Its last run says what the inventory's record has just denied.
		if e, found, lost := c.LastRun(ctx, name); lost == nil && found && !e.Running {
			unknown.Note = "its workflow has ended, and the inventory does not record that the instance has it"
			return unknown, nil
		}
	}
	return contract.Result{Device: v, Already: result.Already}, err
}

// confirm refuses to say that a device is bound already where only a run that has ended says so, or
// one that does not know yet who has it.
//
// SAFETY F38
func (c *Client) confirm(ctx context.Context, name string, v contract.DeviceStatus) error {
	e, found, err := c.LastRun(ctx, name)
	switch {
	case err != nil:
		return err
	case !found || !e.Running:
		return lostWorkflow(name)
	case v.DeviceState == device.Unknown:
		return contract.Refuse(contract.Refusal{Device: name, State: v.DeviceState, Fault: device.Fault{
			Class: device.NeedsOperator, Code: device.CodeRefused,
			Message: "it is not known yet who has it", Remedy: "see burnish show " + name + ", and repeat it"}})
	}
	return nil
}

// mayComeBack says of a device that has no workflow that it may come back with its binding.
func (c *Client) mayComeBack(ctx context.Context, name string, err error) error {
	if !NotFound(err) {
		return err
	}
	e, found, unknown := c.LastRun(ctx, name)
	if unknown == nil && (!found || e.Forgotten || e.Absent()) {
		return err
	}
	return lostWorkflow(name)
}

func lostWorkflow(name string) error {
	return contract.Refuse(contract.Refusal{Device: name, Fault: device.Fault{
		Class: device.NeedsOperator, Code: device.CodeNotFound,
		Message: "its workflow has ended, and may come back with its binding",
		Remedy:  "see burnish show " + name + ", and repeat it when its host has brought it back"}})
}

// statusAfter is the device's status after an update that its instance sent it, as the update
// itself answers it.
func (c *Client) statusAfter(ctx context.Context, name string) (contract.DeviceStatus, error) {
	v, err := c.Query(ctx, name)
	v.Bindings, v.Cleans, v.Acts, v.Setup = nil, nil, nil, nil
	if TimedOut(err) {
		err = AcceptedError{Err: err}
	}
	return v, err
}

// hasWorkflow says that the instance has a workflow of its own: one that is named by a UUID in
// lower case.
func hasWorkflow(instance string) bool {
	return instance != "" && device.TenantUUID(instance) == instance
}
