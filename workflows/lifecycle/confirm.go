package lifecycle

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
)

// This file asks the inventory's record before an answer about who has the device that only this
// workflow's memory supports: the memory may be older (SAFETY F36).

// confirm compares the device with its record, and waits until its state is known again.
func (d *parts) confirm(ctx workflow.Context) error {
	if d.State.Device.State != device.Unknown {
		if err := d.reservation.Confirm(ctx); err != nil {
			return err
		}
	}
	return d.awaitKnown(ctx)
}

// boundSince says that a bind began since the device was so. One that was read from the record
// began before.
func (d *parts) boundSince(was device.Device) bool {
	b := d.State.Device.Binding
	return b != nil && b.Number > was.Bindings && !b.Observed || d.State.Device.Claim != nil && was.Claim == nil
}

// awaitKnown waits until the state of an unknown device is resolved, or a use that was read is the
// device's, for as long as a client waits. The fault of one that is not says that its instance may
// still have it.
func (d *parts) awaitKnown(ctx workflow.Context) error {
	stops := func() bool { return d.reservation.InUse != nil } // a clean, whose step stops first
	resolved := func() bool {
		return !stops() && (d.State.Device.State != device.Unknown || d.State.Device.AwaitingManualClean)
	}
	ok, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout: calls.ClientDeadline, TimerOptions: workflow.TimerOptions{Summary: "state of " + d.State.Name},
	}, resolved)
	switch {
	case err != nil || ok:
		return err
	case stops():
		return d.Refuse(device.CodeReservationUnknown,
			"an instance has the device by the inventory: the step of its clean is being stopped",
			"repeat the request once the step has stopped")
	}
	return d.Refuse(device.CodeReservationUnknown, "who has the device is not known yet: the inventory is being asked",
		"wait until the inventory has been read")
}
