package lifecycle

import (
	"maps"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (d operations) validateLabel(in contract.LabelInput) error {
	_, err := in.Of(d.State.Enrollment.Labels)
	if err == nil {
		return nil
	}
	remedy := "give labels as KEY=VALUE and KEY-"
	if overwritten := in.LabelChange; !in.Overwrite {
		overwritten.Overwrite = true
		if _, other := overwritten.Of(d.State.Enrollment.Labels); other == nil {
			remedy = "use --overwrite"
		}
	}
	return d.Refuse(device.CodeInvalid, err.Error(), remedy)
}

// label changes labels, which decide nothing: the device's state stays as it is. They reach
// the host's record with its next step, so that a workflow that is lost keeps them.
func (d operations) label(_ workflow.Context, in contract.LabelInput) (contract.Result, error) {
	next, err := in.Of(d.State.Enrollment.Labels)
	if err != nil {
		return contract.Result{}, err
	}
	if maps.Equal(next, d.State.Enrollment.Labels) {
		return d.unchanged()
	}
	d.State.Enrollment.Labels = next
	return d.result()
}
