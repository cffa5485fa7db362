package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// powerFenceWait is how long a change of the power waits for the device's last I/O.
const powerFenceWait = 3 * time.Second

// Power changes the power of a device, or reads it. It holds the device's fence, so that no
// step runs meanwhile, and asks the server before each request whether this attempt still
// counts. A second run of on or off finds it so; the workflow never repeats a reset. Refused:
// a device at which something works, one whose host knows a later clean or binding, a driver
// without power control.
func (h *Hardware) Power(ctx context.Context, in contract.PowerCall) (contract.PowerResult, error) {
	a := &attempt{
		Hardware: h, step: steps.Step{Step: clean.Step{Name: contract.VerbPower.Update()}}, info: activity.GetInfo(ctx),
		in: contract.StepInput{
			Enrollment: in.Enrollment, Identity: in.Identity, Step: contract.VerbPower.Update(), Seq: in.Seq,
		},
	}
	result, err := a.power(ctx, in)
	return result, a.explain(ctx, err)
}

func (a *attempt) power(ctx context.Context, in contract.PowerCall) (result contract.PowerResult, err error) {
	driver, err := a.driver(in.Enrollment)
	if err != nil {
		return result, err
	}
	progress := contract.Progress{Step: a.step.Name}
	a.heartbeats = startHeartbeats(ctx, progress, a.newWaits(&progress))
	defer a.heartbeats.stop()
	fence, err := a.powerFence(ctx)
	if err != nil {
		return result, err
	}
	defer a.close(fence)
	record, found, err := a.Host.LoadRecord(in.Enrollment.Name)
	if err != nil {
		return result, err
	}
	if found && (record.Seq > in.Seq || record.Binding > in.Binding) {
		return result, &device.Fault{Class: device.Permanent, Code: device.CodeSuperseded,
			Message: "the device is being cleaned, or has another tenant, by what its host knows", Remedy: "see show " +
				in.Enrollment.Name}
	}
	target := targetOf(in.Enrollment)
	target.Step, target.Fence = a.step.Name, fence.File()
	handle, err := driver.Open(ctx, target, in.Identity, in.Action != "")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, handle.Close()) }()
	power, ok := handle.(hardware.PowerController)
	if !ok {
		return result, &device.Fault{Class: device.Permanent, Code: device.CodeNoPowerControl,
			Message: "the driver " + driver.Name() + " has no power control", Remedy: "change the power at the hardware"}
	}
	if in.Action == "" {
		result.State, err = power.PowerState(ctx)
		return result, err
	}
	lease := a.newLease(ctx)
	if err := lease.check(ctx); err != nil {
		return result, err
	}
	if err := power.Power(hardware.WithLease(ctx, lease.check), in.Action); err != nil {
		return result, err
	}
	// It is done: that its state cannot be read now changes nothing about that.
	if state, err := power.PowerState(ctx); err != nil {
		a.Log.Warn("the power state was not read", "device", in.Enrollment.Name, "error", err)
	} else {
		result.State = state
	}
	return result, nil
}

// errFenceBusy ends the wait for a fence.
var errFenceBusy = errors.New("the device is busy")

// powerFence takes the device's fence, unless something works at the device for a while.
func (a *attempt) powerFence(ctx context.Context) (*host.Fence, error) {
	waitCtx, cancel := context.WithTimeoutCause(ctx, powerFenceWait, errFenceBusy)
	defer cancel()
	holder := ""
	fence, err := a.Host.Fence(waitCtx, fenceKey(a.in.Identity, a.in.Enrollment.Name), func(by string) { holder = by })
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(waitCtx), errFenceBusy) {
		return nil, &device.Fault{Class: device.Permanent, Code: device.CodeTargetBusy,
			Message: fmt.Sprintf("something works at the device (%s)", holder), Remedy: "wait until it has ended"}
	}
	return fence, err
}
