package lifecycle

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// The actions of power.
const (
	powerOn    = "on"
	powerOff   = "off"
	powerReset = "reset"
)

// validatePower refuses a change of the power while the device is cleaned (S3.28). In state
// error it is allowed (S3.29). A device that an instance has needs its name (F31).
func (d operations) validatePower(in contract.PowerInput) error {
	if !slices.Contains([]string{powerOn, powerOff, powerReset}, in.Target) {
		return d.Refuse(device.CodeInvalid, fmt.Sprintf("%q is not a power action", in.Target), "give one of on, off, reset")
	}
	switch {
	case d.State.Host.Power:
	case d.State.Host.Identity.Serial == "":
		return d.Refuse(device.CodeRefused, "its host has not said yet that it has power control",
			"wait until its host has looked at it: show "+d.State.Name)
	default:
		return d.Refuse(device.CodeNoPowerControl, "its driver has no power control", "change its power at the hardware")
	}
	if err := d.Legal(device.Event{Kind: device.Power}); err != nil {
		return err
	}
	switch has := d.tenant(); {
	case has == "" || device.SameTenant(has, in.Instance):
		return nil
	case in.Instance == "":
		return d.Refuse(device.CodeInUse, "instance "+has+" has the device: it would lose its power state",
			"name the instance: power "+d.State.Name+" "+in.Target+" --instance "+has)
	default:
		return d.Refuse(device.CodeInUse, "instance "+has+" has the device, not "+in.Instance,
			"name the instance that has it: power "+d.State.Name+" "+in.Target+" --instance "+has)
	}
}

// power has the device's host change its power. On and off are repeated until they are so. A
// reset is sent at most once: where its outcome is not known, the answer says so.
func (d operations) power(ctx workflow.Context, in contract.PowerInput) (contract.Result, error) {
	began := workflow.Now(ctx)
	if err := d.checkPower(ctx, in); err != nil {
		return contract.Result{}, err
	}
	got, err := d.callPower(ctx, in.Target)
	d.noteTag(ctx, began)
	if err == nil {
		note := "power " + in.Target + " was carried out"
		if got.State != "" {
			note += "; the device is " + got.State
		}
		return contract.Result{Device: d.Status(), Note: note}, nil
	}
	f := calls.FaultOf(err)
	if in.Target != powerReset || f.Class != device.Transient {
		return contract.Result{}, f
	}
	now := "its power state cannot be read"
	if got, err := d.callPower(ctx, ""); err == nil && got.State != "" {
		now = "it is " + got.State + " now"
	}
	return contract.Result{}, d.Refuse(device.CodePowerUnknown, "whether the device was reset is not known ("+
		f.Message+"); "+now,
		"look at the device; power "+d.State.Name+" reset sends another reset")
}

func (d operations) callPower(ctx workflow.Context, action string) (got contract.PowerResult, err error) {
	what := "power " + action
	if action == "" {
		what = "read the power state of"
	}
	opts := calls.WithPower(ctx, d.State.Enrollment.Host, what+" "+d.State.Name, action == powerReset)
	err = workflow.ExecuteActivity(opts, contract.ActivityPower, contract.PowerCall{
		Enrollment: d.State.Enrollment, Identity: d.State.Host.Identity, Action: action, Seq: d.State.Seq,
		Binding: d.State.Device.Bindings,
	}).Get(opts, &got)
	return got, err
}
