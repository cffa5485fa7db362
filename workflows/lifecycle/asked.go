package lifecycle

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// askInstance asks the instance that has the device by a record alone. One that was released, or
// that knows nothing of the device, gave it back while its workflow was lost: only the operator can
// say whether it is in use, and it must not stay reserved for that instance in silence.
//
// SAFETY F38
func (d *run) askInstance(ctx workflow.Context) {
	asked := d.State.Device.Binding
	if asked == nil {
		d.State.Intent.AskInstance = false
		return
	}
	var answer contract.InstanceAnswer
	opts := calls.WithClientDeadline(ctx, "ask instance "+asked.Instance)
	in := contract.InstanceQuestion{Instance: asked.Instance, Device: d.State.Name}
	err := workflow.ExecuteActivity(opts, contract.ActivityAskInstance, in).Get(ctx, &answer)
	now := d.State.Device.Binding
	switch {
	case now == nil || now.Number != asked.Number: // it has ended, and another one is asked for
		return
	case err != nil:
		d.backoff(ctx, calls.FaultOf(err))
		return
	}
	d.State.Intent.AskInstance = false
	d.recovered(ctx)
	if answer.Left && d.State.Fault == nil {
		d.State.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeTenantLeft,
			Message: "instance " + now.Instance + " has the device by a record, and says that it has left it",
			Remedy:  "if nothing uses it, unbind " + d.State.Name + " --instance " + now.Instance}
		d.State.LastError = d.State.Fault.Message
	}
}
