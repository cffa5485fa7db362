package record

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// notifyLeft signals the end of a binding to the instance whose workflow holds it, unless that
// workflow ends it itself. It waits for nothing: a device that is idle has no coroutine for it.
func (r *Record) notifyLeft(ctx workflow.Context, was *device.Binding, e device.Event) {
	now := r.State.Device.Binding
	if was == nil || !was.Managed || e.ByInstance || now != nil && now.Number == was.Number {
		return
	}
	own, _ := workflow.NewDisconnectedContext(ctx)
	r.leaving = append(r.leaving, workflow.SignalExternalWorkflow(own, contract.InstanceWorkflowID(was.Instance), "",
		contract.SignalDeviceLeft, contract.DeviceLeft{Device: r.State.Name, Binding: was.Number}))
}

// Notifying says that a signal to an instance is under way: a run that ends would lose it.
func (r *Record) Notifying(ctx workflow.Context) bool {
	if r.leaving == nil {
		return false
	}
	r.leaving = slices.DeleteFunc(r.leaving, func(sent workflow.Future) bool {
		if !sent.IsReady() {
			return false
		}
		// An instance whose workflow has ended shows no device.
		if err := sent.Get(ctx, nil); err != nil && !errors.As(err, new(*temporal.UnknownExternalWorkflowExecutionError)) {
			workflow.GetLogger(ctx).Warn("an instance was not signaled that a device left it", "device", r.State.Name,
				"error", err)
		}
		return true
	})
	if len(r.leaving) == 0 {
		r.leaving = nil
	}
	return r.leaving != nil
}
