package lifecycle

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/status"
)

// hardware is the family of updates for hardware that is replaced or relocated (D10).
type hardware struct{ *parts }

func (d hardware) validateReplace(contract.ReplaceInput) error {
	if p := d.State.Enrollment.Pool; p != nil {
		return d.Refuse(device.CodeRefused, "another server has another URI on "+p.Appliance+
			", and the device has the old one's",
			"retire "+d.State.Name+" --reason R, then forget "+d.State.Name+", and enroll the new server")
	}
	return d.Legal(device.Event{Kind: device.Replace})
}

// replace makes the hardware that is in the device's slot now its next unit: dirty, with
// the history of the device kept. Its signatures are foreign, as at an enrollment (F15).
func (d hardware) replace(ctx workflow.Context, in contract.ReplaceInput) (contract.Result, error) {
	if err := d.reservation.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.reservation.Unlock()
	if err := d.validateReplace(in); err != nil {
		return contract.Result{}, err
	}
	if err := d.nameRecorded(ctx, contract.VerbReplace.Update(), in.Instance); err != nil {
		return contract.Result{}, err
	}
	if err := d.validateReplace(in); err != nil {
		return contract.Result{}, err
	}
	was := d.State.Device.State
	enrollment := d.State.Enrollment
	enrollment.AcceptSignature = in.AcceptSignature
	found, err := d.discovery.At(ctx, contract.DiscoverInput{Enrollment: enrollment, UUID: d.State.UUID, Replace: true})
	if err != nil {
		return contract.Result{}, calls.FaultOf(err)
	}
	if found.Identity == d.State.Host.Identity {
		return contract.Result{}, d.Refuse(device.CodeRefused, "the hardware in its slot is the enrolled one",
			"put the other hardware into its slot first")
	}
	if err := d.discovery.CheckUnique(ctx, found.Identity); err != nil {
		return contract.Result{}, calls.FaultOf(err)
	}
	if _, err := d.reservation.ReplaceHardware(ctx, found.Identity); err != nil {
		return contract.Result{}, calls.FaultOf(err)
	}
	if d.State.Device.State != was { // retired meanwhile: what was validated is no more
		return contract.Result{}, d.Refuse(device.CodeConflict, "the device is "+status.Phrase(d.State)+
			" since the replacement began", "show "+d.State.Name+", and replace it again")
	}
	if err := d.Apply(ctx, device.Event{Kind: device.Replace}); err != nil {
		return contract.Result{}, err
	}
	d.State.Enrollment, d.State.Host = enrollment, contract.DiscoveryResult{} // the operation was the old hardware's
	d.State.HoldReason, d.State.LastRefusal, d.State.Intent.DuplicateAt = "", "", ""
	d.discovery.Keep(ctx, found)
	if in.Provide {
		return operations(d).provide(ctx, contract.ReasonInput{Reason: "replaced"})
	}
	return contract.Result{Device: d.Status(), Note: d.State.Host.Note}, nil
}
