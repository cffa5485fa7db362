package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// requestOf is what a bind is remembered by: the caller's request, or else the
// update's own ID.
func requestOf(ctx workflow.Context, in contract.BindInput) string {
	if in.Request != "" {
		return in.Request
	}
	return workflow.GetCurrentUpdateInfo(ctx).ID
}

// granted finds what a request was given: the present tenancy (ours is true), or one
// that is over.
func (d *lifecycle) existingBinding(in contract.BindInput) (number int, ours, over bool) {
	if b := d.state.Device.Binding; b != nil && b.Instance == in.Instance && (in.Request == "" || b.Request == in.Request) {
		return b.Number, true, false
	}
	if in.Request == "" {
		return 0, false, false
	}
	for _, b := range d.state.History {
		if b.Instance == in.Instance && b.Request == in.Request {
			return b.Number, false, true
		}
	}
	return 0, false, false
}

// mayClaim: claim and bind. A request that was granted before is answered, never
// granted anew.
func (d *lifecycle) validateClaim(in contract.BindInput) error {
	if in.Instance == "" {
		return d.refuse(device.CodeInvalid, "no instance given", "give --instance UUID")
	}
	if len(in.Tag) > 60 {
		return d.refuse(device.CodeInvalid, "the tag is longer than 60 characters", "shorten it")
	}
	switch _, ours, over := d.existingBinding(in); {
	case ours:
		return nil
	case over:
		return d.bindingOver()
	}
	if c := d.state.Device.Claim; c != nil && in.Request != "" && c.Instance == in.Instance && c.Request == in.Request {
		return nil
	}
	if d.poolTransitions > 0 {
		return d.refuse(device.CodeRefused, "the device is on its way into or out of the pool", "wait a moment, or take another device")
	}
	return d.legal(device.Event{Kind: device.ClaimEvent, Instance: in.Instance})
}

func (d *lifecycle) validateBurn(in contract.BindInput) error {
	if _, ours, _ := d.existingBinding(in); ours || d.burnInProgress(in.Instance, in.Request) {
		return nil
	}
	return d.legal(device.Event{Kind: device.BurnStarted, Instance: in.Instance})
}

// burningFor says whether the same request's burn is under way.
func (d *lifecycle) burnInProgress(instance, request string) bool {
	c := d.state.Device.Claim
	return c != nil && c.Burning && request != "" && c.Instance == instance && c.Request == request
}

func (d *lifecycle) validateUnclaim(in contract.BindInput) error {
	if d.state.Device.State == device.Available && d.state.Device.Claim == nil {
		return nil
	}
	return d.legal(device.Event{Kind: device.Unclaim, Instance: in.Instance})
}

func (d *lifecycle) claim(ctx workflow.Context, in contract.BindInput) (contract.BindResult, error) {
	if number, ours, _ := d.existingBinding(in); ours {
		return contract.BindResult{Binding: number, Device: d.status(), Already: true}, nil
	}
	deadline, err := time.Parse(time.RFC3339, in.Deadline)
	if err != nil || !deadline.After(workflow.Now(ctx)) {
		return contract.BindResult{}, d.refuse(device.CodeInvalid, "the claim's deadline is no RFC 3339 time in the future", "give a deadline")
	}
	if c := d.state.Device.Claim; c != nil && c.Instance == in.Instance && c.Request == requestOf(ctx, in) {
		return contract.BindResult{Device: d.status(), Already: true}, nil
	}
	if err := d.takeClaim(ctx, in, deadline); err != nil {
		return contract.BindResult{}, err
	}
	return contract.BindResult{Device: d.status()}, nil
}

func (d *lifecycle) takeClaim(ctx workflow.Context, in contract.BindInput, deadline time.Time) error {
	return d.apply(ctx, device.Event{
		Kind: device.ClaimEvent, Instance: in.Instance, Request: requestOf(ctx, in), Tag: in.Tag, Deadline: deadline,
	})
}

func (d *lifecycle) unclaim(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if d.state.Device.Claim == nil {
		return contract.Result{Device: d.status(), Already: true}, nil
	}
	if err := d.apply(ctx, device.Event{Kind: device.Unclaim, Instance: in.Instance}); err != nil {
		return contract.Result{}, err
	}
	return contract.Result{Device: d.status()}, nil
}

// bind is claim and burn without a moment between them in which another could claim.
func (d *lifecycle) bind(ctx workflow.Context, in contract.BindInput) (contract.BindResult, error) {
	if number, ours, _ := d.existingBinding(in); ours {
		return contract.BindResult{Binding: number, Device: d.status(), Already: true}, nil
	}
	if d.state.Device.Claim == nil {
		if err := d.takeClaim(ctx, in, workflow.Now(ctx).Add(clientDeadline)); err != nil {
			return contract.BindResult{}, err
		}
	}
	return d.burn(ctx, in)
}

// burn raises the reservation and reads it back before anybody is told that the
// device is theirs (S0.4, S0.5). What cannot be told to have worked is cleaned,
// never given out and never straight back to available (S0.6).
func (d *lifecycle) burn(ctx workflow.Context, in contract.BindInput) (contract.BindResult, error) {
	if number, ours, _ := d.existingBinding(in); ours {
		return contract.BindResult{Binding: number, Device: d.status(), Already: true}, nil
	}
	if d.burnInProgress(in.Instance, in.Request) {
		return d.joinBurn(ctx, in)
	}
	if err := d.apply(ctx, device.Event{Kind: device.BurnStarted, Instance: in.Instance}); err != nil {
		return contract.BindResult{}, err
	}
	if err := d.lock.Lock(ctx); err != nil {
		return contract.BindResult{}, err
	}
	defer d.lock.Unlock()
	changed := func() bool {
		c := d.state.Device.Claim
		return c == nil || !c.Burning || c.Instance != in.Instance
	}
	if changed() {
		return contract.BindResult{}, d.errTakenMeanwhile()
	}
	var stock contract.ReservationSnapshot
	err := d.inventory(ctx, withClientDeadline(ctx, "burn "+d.state.Name), contract.ActivityReserveForBind, d.reservationRequest(), &stock)
	if err == nil && d.providerRecreated(stock) {
		err = &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
			Message: "its provider was made anew although it was available: who had it before is not known",
			Remedy:  "take another device; this one is cleaned by itself"}
	}
	switch {
	case changed(): // in doubt, or lost: whoever made it so looks after the reservation
		return contract.BindResult{}, d.errTakenMeanwhile()
	case err == nil:
		d.applyOrReport(ctx, device.Event{Kind: device.Burned})
		return contract.BindResult{Binding: d.state.Device.Binding.Number, Device: d.status()}, nil
	}
	f := faultOf(err)
	// The operator's instance is only told a failure once the device is safe to be
	// left alone: from here on the clean, or the look at a newer inventory, has it.
	if f.Code == device.CodeInventoryGenerationAhead || f.Code == device.CodeAlreadyBurned && d.ownedByBurnish() {
		d.invalidate(ctx, nil, f.Message)
	} else {
		d.applyOrReport(ctx, device.Event{Kind: device.BurnFailed, Automated: d.settings(ctx).Automated})
	}
	d.state.LastError = "bind failed: " + f.Message
	if f.Code == device.CodeTimeout {
		f = &device.Fault{Class: device.Permanent, Code: device.CodeReservationUnknown,
			Message: "the inventory did not answer in time: whether the burn worked is unknown",
			Remedy:  "take another device; this one is cleaned by itself"}
	}
	return contract.BindResult{}, f
}

// joinBurn waits for the same request's burn and answers as it does: a caller that
// was killed and came again must not be told that somebody else has the device.
func (d *lifecycle) joinBurn(ctx workflow.Context, in contract.BindInput) (contract.BindResult, error) {
	if err := workflow.Await(ctx, func() bool { return !d.burnInProgress(in.Instance, in.Request) }); err != nil {
		return contract.BindResult{}, err
	}
	if number, ours, _ := d.existingBinding(in); ours {
		return contract.BindResult{Binding: number, Device: d.status(), Already: true}, nil
	}
	return contract.BindResult{}, d.refuse(device.CodeConflict, "this request's burn failed", "take another device; this one is cleaned by itself")
}

func (d *lifecycle) errTakenMeanwhile() error {
	return d.refuse(device.CodeConflict, "the device changed hands while the bind waited", "take another device")
}

func claimReplayed(d *lifecycle, _ string, _ contract.BindInput) (contract.BindResult, error) {
	return contract.BindResult{Device: d.status(), Already: true}, nil
}

// bindAgain answers a bind that was carried out before, under its own update ID: what
// it was given may be somebody else's by now.
func (d *lifecycle) bindReplayed(id string, in contract.BindInput) (contract.BindResult, error) {
	if in.Request == "" {
		in.Request = id
	}
	return d.burnReplayed(id, in)
}

func (d *lifecycle) burnReplayed(_ string, in contract.BindInput) (contract.BindResult, error) {
	number, ours, _ := d.existingBinding(in)
	if !ours {
		return contract.BindResult{}, d.bindingOver()
	}
	return contract.BindResult{Binding: number, Device: d.status(), Already: true}, nil
}

func (d *lifecycle) bindingOver() error {
	return d.refuse(device.CodeBindingEnded, "this request had the device and its tenancy is over", "bind again with a new request")
}

func (d *lifecycle) ownedByBurnish() bool { return d.state.Device.Owner != device.OwnerNova }

// pastOf says whether the instance had the device in a tenancy that is over.
func (d *lifecycle) wasBoundTo(instance string) bool {
	if b := d.state.Device.Binding; b != nil && b.Instance == instance {
		return false
	}
	for _, b := range d.state.History {
		if b.Instance == instance {
			return true
		}
	}
	return false
}

func (d *lifecycle) validateUnbind(in contract.UnbindInput) error {
	if d.wasBoundTo(in.Instance) {
		return nil
	}
	return d.legal(device.Event{Kind: device.Unbind, Instance: in.Instance, Automated: true})
}

// unbind ends a tenancy and returns at once (S3.18); it never touches the
// reservation (S0.7).
func (d *lifecycle) unbind(ctx workflow.Context, in contract.UnbindInput) (contract.Result, error) {
	if d.wasBoundTo(in.Instance) {
		return contract.Result{Device: d.status(), Already: true}, nil
	}
	if err := d.endBinding(ctx, device.Event{Kind: device.Unbind, Instance: in.Instance}); err != nil {
		return contract.Result{}, err
	}
	return contract.Result{Device: d.status()}, nil
}

// endTenancy applies unbind or released, with what D4 and D7 make of it.
func (d *lifecycle) endBinding(ctx workflow.Context, e device.Event) error {
	e.Automated = d.settings(ctx).Automated
	if err := d.apply(ctx, e); err != nil {
		return err
	}
	if d.state.Device.State == device.Error {
		d.state.Fault = noErasePath(d.state.Name)
		d.state.LastError = d.state.Fault.Message
	}
	return nil
}

func (d *lifecycle) validateRebuild(in contract.UnbindInput) error {
	return d.legal(device.Event{Kind: device.Rebuild, Instance: in.Instance})
}

// rebuild keeps the device with its instance: nothing is cleaned, nothing burned
// (S0.18, S3.26).
func (d *lifecycle) rebuild(ctx workflow.Context, in contract.UnbindInput) (contract.Result, error) {
	if err := d.apply(ctx, device.Event{Kind: device.Rebuild, Instance: in.Instance}); err != nil {
		return contract.Result{}, err
	}
	return contract.Result{Device: d.status()}, nil
}
