package lifecycle

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/status"
)

// binding is the family of updates that bind the device to an instance and unbind it.
type binding struct{ *parts }

// requestOf identifies a bind: by the caller's request, or else by the update's own ID.
func requestOf(ctx workflow.Context, in contract.BindInput) string {
	if in.Request != "" {
		return in.Request
	}
	return workflow.GetCurrentUpdateInfo(ctx).ID
}

// existingBinding finds the binding of a request: the present one (ours is true), or one
// that has ended (ended is true), of the last contract.KeptRequests.
//
// SAFETY F41
func (d binding) existingBinding(in contract.BindInput) (number int, ours, ended bool) {
	b := d.State.Device.Binding
	bound := b != nil && device.SameTenant(b.Instance, in.Instance)
	if bound && (in.Request == "" || b.Request == in.Request) {
		return b.Number, true, false
	}
	if in.Request == "" {
		return 0, false, false
	}
	// A state of an older build has the bindings alone.
	if _, ended = d.State.History.Of(in.Instance, in.Request); ended || d.State.Requests.Has(in.Instance, in.Request) {
		return 0, false, true
	}
	// A binding that was read from the record has no request: it is that of the instance's next
	// one, whose first answer was lost (F42).
	if bound && b.Observed && d.OwnedByBurnish() {
		return b.Number, true, false
	}
	return 0, false, false
}

// validateClaim is for claim and bind. A request never gets a second binding.
func (d binding) validateClaim(in contract.BindInput) error {
	if in.Instance == "" {
		return d.Refuse(device.CodeInvalid, "the instance is missing", "give --instance UUID")
	}
	if in.Tag != "" {
		if err := device.CheckTag(in.Tag); err != nil {
			return d.Refuse(device.CodeInvalid, err.Error(), "give a tag of 1 to 60 characters without comma and slash")
		}
	}
	switch _, ours, ended := d.existingBinding(in); {
	case ours:
		return nil
	case ended:
		return d.bindingEnded()
	}
	if c := d.State.Device.Claim; c != nil && in.Request != "" && c.Instance == in.Instance && c.Request == in.Request {
		return nil
	}
	if d.reservation.OfferTransitions > 0 {
		return d.Refuse(device.CodeRefused, "the device is entering or leaving the offer",
			"wait a moment, or take another device")
	}
	return d.Legal(device.Event{Kind: device.ClaimEvent, Instance: in.Instance})
}

func (d binding) validateBurn(in contract.BindInput) error {
	if _, ours, _ := d.existingBinding(in); ours || d.burnInProgress(in.Instance, in.Request) {
		return nil
	}
	return d.Legal(device.Event{Kind: device.BurnStarted, Instance: in.Instance})
}

// burnInProgress says whether the same request's burn is under way.
func (d binding) burnInProgress(instance, request string) bool {
	c := d.State.Device.Claim
	return c != nil && c.Burning && request != "" && c.Instance == instance && c.Request == request
}

func (d binding) validateUnclaim(in contract.BindInput) error {
	if d.State.Device.State == device.Available && d.State.Device.Claim == nil || d.claimedByOther(in) {
		return nil
	}
	return d.Legal(device.Event{Kind: device.Unclaim, Instance: in.Instance})
}

func (d binding) claim(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if _, ours, _ := d.existingBinding(in); ours {
		return d.grantAgain(ctx, in)
	}
	deadline, err := time.Parse(time.RFC3339, in.Deadline)
	if err != nil || !deadline.After(workflow.Now(ctx)) {
		return contract.Result{}, d.Refuse(device.CodeInvalid, "the claim's deadline must be an RFC 3339 time in the future",
			"give a deadline")
	}
	if c := d.State.Device.Claim; c != nil && c.Instance == in.Instance && c.Request == requestOf(ctx, in) {
		return d.alreadyGranted(0)
	}
	if err := d.takeClaim(ctx, in, deadline); err != nil {
		return contract.Result{}, err
	}
	if err := d.checkHardware(ctx, in); err != nil {
		return d.unlessBound(ctx, in, err)
	}
	return contract.Result{Device: d.Status()}, nil
}

func (d binding) takeClaim(ctx workflow.Context, in contract.BindInput, deadline time.Time) error {
	return d.Apply(ctx, device.Event{
		Kind: device.ClaimEvent, Instance: in.Instance, Request: requestOf(ctx, in), Tag: in.Tag, Deadline: deadline,
		Managed: in.Managed,
	})
}

// claimedByOther says that the device is claimed by another request of the same instance.
func (d binding) claimedByOther(in contract.BindInput) bool {
	c := d.State.Device.Claim
	return c != nil && c.Instance == in.Instance && in.Request != "" && c.Request != in.Request
}

func (d binding) unclaim(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if d.State.Device.Claim == nil || d.claimedByOther(in) {
		return d.unchanged()
	}
	if err := d.confirm(ctx); err != nil { // its burn may have been carried out, and lost with its task (F42)
		return contract.Result{}, err
	}
	if d.boundTo(in.Instance) {
		return d.endFor(ctx, contract.UnbindInput{Instance: in.Instance, ByInstance: true})
	}
	if err := d.Apply(ctx, device.Event{Kind: device.Unclaim, Instance: in.Instance}); err != nil {
		return contract.Result{}, err
	}
	return d.result()
}

// bind is claim and burn in one step, so that no other claim comes between them.
func (d binding) bind(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if _, ours, _ := d.existingBinding(in); ours {
		return d.grantAgain(ctx, in)
	}
	if d.State.Device.Claim == nil {
		if err := d.takeClaim(ctx, in, workflow.Now(ctx).Add(calls.ClientDeadline)); err != nil {
			return contract.Result{}, err
		}
	}
	return d.burn(ctx, in)
}

// burn raises the reservation and reads it back before it answers that the device is bound
// (S0.4, S0.5). A device whose burn may have failed is cleaned: it is neither allocated nor
// made available without a clean (S0.6).
func (d binding) burn(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if _, ours, _ := d.existingBinding(in); ours {
		return d.grantAgain(ctx, in)
	}
	if d.burnInProgress(in.Instance, in.Request) {
		return d.joinBurn(ctx, in)
	}
	asks := d.pool.Shared() || d.mustLook(ctx) || in.Tag != "" // which the inventory does not record
	if err := d.checkServer(ctx, in); err != nil {
		return contract.Result{}, err
	}
	if err := d.checkHardware(ctx, in); err != nil {
		return d.unlessBound(ctx, in, err)
	}
	if d.burnInProgress(in.Instance, in.Request) {
		return d.joinBurn(ctx, in)
	}
	if err := d.Apply(ctx, device.Event{Kind: device.BurnStarted, Instance: in.Instance}); err != nil {
		return contract.Result{}, err
	}
	if asks {
		// The burn is in the history before its write is made in a task. Were it not, and that task
		// lost, the repeated one could end a claim that counts as untouched, and leave the write.
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
			return contract.Result{}, err
		}
	}
	f, err := d.reserveClaimed(ctx, in)
	switch {
	case err != nil:
		return contract.Result{}, err
	case f == nil && d.State.Device.Binding != nil && d.State.Device.Binding.Instance == in.Instance:
		return contract.Result{Binding: d.State.Device.Binding.Number, Device: d.Status()}, nil
	}
	// What the burn wrote may stay: it is refused only once it is known that it does not (F42).
	if d.State.Device.State == device.Unknown {
		if err := d.awaitKnown(ctx); err != nil {
			return contract.Result{}, err
		}
		if number, ours, _ := d.existingBinding(in); ours {
			d.adopt(ctx, in)
			return contract.Result{Binding: number, Device: d.Status()}, nil
		}
	}
	if f == nil { // invalidated or retired meanwhile, which handled the reservation
		return contract.Result{}, d.errTakenMeanwhile()
	}
	d.State.LastError = "bind failed: " + f.Message
	if f.Code == device.CodeTimeout {
		f = &device.Fault{Class: device.Permanent, Code: device.CodeReservationUnknown,
			Message: "the inventory did not answer in time: it is unknown whether the burn succeeded",
			Remedy:  "take another device; this one is cleaned automatically"}
	}
	return contract.Result{}, f
}

// unlessBound refuses a bind after a look, unless the record says that the instance has the device: an
// earlier burn was carried out, and its task lost (F42).
func (d binding) unlessBound(ctx workflow.Context, in contract.BindInput, refused error) (contract.Result, error) {
	if err := d.confirm(ctx); err != nil {
		return contract.Result{}, err
	}
	if number, ours, _ := d.existingBinding(in); ours {
		d.adopt(ctx, in)
		return d.alreadyGranted(number)
	}
	return contract.Result{}, refused
}

func (d binding) mustLook(ctx workflow.Context) bool {
	return d.OwnedByBurnish() && !d.discovery.SeenLately(ctx)
}

// checkHardware has the host look at a claimed device, unless it has just done so (F39): a device
// may have been swapped, or written to, while it was offered. Nova binds without asking.
func (d binding) checkHardware(ctx workflow.Context, in contract.BindInput) error {
	if !d.mustLook(ctx) {
		return nil
	}
	d.asking++
	defer func() { d.asking-- }()
	f := d.discovery.BeforeBind(ctx)
	if f == nil { // what changed during the look is looked at, too
		seen := func() bool { return !d.looking && !d.State.Intent.HardwareChanged || !d.claimedFor(in.Instance) }
		if err := workflow.Await(ctx, seen); err != nil {
			return err
		}
	}
	switch {
	case d.burnInProgress(in.Instance, in.Request): // the same request's: it is joined
	case f != nil:
		return f
	case !d.claimedFor(in.Instance):
		return d.errTakenMeanwhile()
	}
	return nil
}

// reserveClaimed reserves the device for the instance of its claim. A failure is answered once
// the device is pending its clean, or unknown.
func (d binding) reserveClaimed(ctx workflow.Context, in contract.BindInput) (*device.Fault, error) {
	if err := d.reservation.Lock(ctx); err != nil {
		return nil, err
	}
	defer d.reservation.Unlock()
	changed := func() bool {
		c := d.State.Device.Claim
		return c == nil || !c.Burning || c.Instance != in.Instance
	}
	if changed() {
		return nil, nil
	}
	return d.reservation.ReserveForBind(ctx, func() bool { return !changed() }, d.applyProfile(ctx, changed)), nil
}

// joinBurn waits for the same request's burn and gives the same answer: a client that was
// killed and repeats its request must not get a conflict with itself.
func (d binding) joinBurn(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if err := workflow.Await(ctx, func() bool { return !d.burnInProgress(in.Instance, in.Request) }); err != nil {
		return contract.Result{}, err
	}
	if d.State.Device.State == device.Unknown {
		if err := d.awaitKnown(ctx); err != nil {
			return contract.Result{}, err
		}
	}
	if number, ours, _ := d.existingBinding(in); ours {
		d.adopt(ctx, in)
		return d.alreadyGranted(number)
	}
	if d.State.Device.LostRace {
		return contract.Result{}, d.pool.TakenFault()
	}
	return contract.Result{},
		d.Refuse(device.CodeConflict, "this request's burn failed", "take another device; this one is cleaned automatically")
}

// grantAgain answers a request whose binding this workflow knows, once the inventory's record
// confirms it (F36).
func (d binding) grantAgain(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if err := d.confirm(ctx); err != nil {
		return contract.Result{}, err
	}
	number, ours, ended := d.existingBinding(in)
	switch {
	case ours:
		d.adopt(ctx, in)
		return d.alreadyGranted(number)
	case ended:
		return contract.Result{}, d.bindingEnded()
	}
	return contract.Result{},
		d.Refuse(device.CodeConflict, "the inventory's record is newer than what is known of this request: the device is "+
			status.Phrase(d.State), "show "+d.State.Name+", and bind again with a new request")
}

// adopt gives a binding that was read from the record the request and the tag of its bind.
func (d binding) adopt(ctx workflow.Context, in contract.BindInput) {
	e := device.Event{Kind: device.BindRepeated, Instance: in.Instance, Request: requestOf(ctx, in), Tag: in.Tag,
		Managed: in.Managed}
	if d.Legal(e) == nil {
		d.ApplyOrReport(ctx, e)
	}
}

// alreadyGranted answers a request that was granted before.
func (d binding) alreadyGranted(number int) (contract.Result, error) {
	return contract.Result{Binding: number, Device: d.Status(), Already: true}, nil
}

func (d binding) errTakenMeanwhile() error {
	return d.Refuse(device.CodeConflict, "the device was taken while the bind waited", "take another device")
}

func (d binding) claimReplayed(workflow.Context, contract.BindInput) (contract.Result, error) {
	return d.alreadyGranted(0)
}

// bindReplayed answers a bind that was carried out before, under its update ID. By now the
// device may be bound to another instance.
func (d binding) bindReplayed(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	in.Request = requestOf(ctx, in)
	return d.burnReplayed(ctx, in)
}

func (d binding) burnReplayed(ctx workflow.Context, in contract.BindInput) (contract.Result, error) {
	if _, ours, _ := d.existingBinding(in); !ours {
		return contract.Result{}, d.bindingEnded()
	}
	return d.grantAgain(ctx, in)
}

func (d binding) bindingEnded() error {
	return d.Refuse(device.CodeBindingEnded, "the binding of this request has ended", "bind again with a new request")
}

// wasBoundTo says that the device was bound to the instance, and is no longer.
func (d binding) wasBoundTo(instance string) bool {
	if d.boundTo(instance) {
		return false
	}
	_, was := d.State.History.Of(instance, "")
	return was
}

func (d binding) boundTo(instance string) bool {
	b := d.State.Device.Binding
	return b != nil && device.SameTenant(b.Instance, instance)
}

// claimedFor says that the instance holds a claim, or is being bound.
func (d binding) claimedFor(instance string) bool {
	c := d.State.Device.Claim
	return c != nil && c.Instance == instance
}

func (d binding) validateUnbind(in contract.UnbindInput) error {
	if d.wasBoundTo(in.Instance) || d.claimedFor(in.Instance) {
		return nil
	}
	return d.Legal(device.Event{Kind: device.Unbind, Instance: in.Instance, Automated: true})
}

// unbind ends a binding and returns at once (S3.18). It never writes the reservation
// (S0.7). A claim of the instance ends; of an instance that is being bound, it waits for the
// burn and ends the binding that the burn made (F30).
func (d binding) unbind(ctx workflow.Context, in contract.UnbindInput) (contract.Result, error) {
	claimed := d.claimedFor(in.Instance)
	if claimed { // its bind may find that the instance has the device
		if err := workflow.Await(ctx, func() bool { return d.asking == 0 }); err != nil {
			return contract.Result{}, err
		}
	}
	claimOnly := func() bool { return d.claimedFor(in.Instance) && !d.State.Device.Claim.Burning }
	if claimOnly() { // its burn may have been carried out, and lost with its task (F42)
		if err := d.confirm(ctx); err != nil {
			return contract.Result{}, err
		}
	}
	if claimOnly() {
		if err := d.Apply(ctx, device.Event{Kind: device.Unclaim, Instance: in.Instance}); err != nil {
			return contract.Result{}, err
		}
		return d.result()
	}
	if claimed {
		if err := workflow.Await(ctx, func() bool { return !d.claimedFor(in.Instance) }); err != nil {
			return contract.Result{}, err
		}
	}
	if d.wasBoundTo(in.Instance) || claimed && !d.boundTo(in.Instance) { // it has left, or the burn failed
		was := d.State.Device
		if err := d.confirm(ctx); err != nil {
			return contract.Result{}, err
		}
		if !d.boundTo(in.Instance) || d.boundSince(was) {
			return d.unchanged()
		}
	}
	return d.endFor(ctx, in)
}

// endFor ends the binding of an instance.
func (d binding) endFor(ctx workflow.Context, in contract.UnbindInput) (contract.Result, error) {
	if err := d.EndBinding(ctx,
		device.Event{Kind: device.Unbind, Instance: in.Instance, ByInstance: in.ByInstance}); err != nil {
		return contract.Result{}, err
	}
	return d.result()
}

func (d binding) validateRebuild(in contract.UnbindInput) error {
	return d.Legal(device.Event{Kind: device.Rebuild, Instance: in.Instance})
}

// rebuild keeps the device bound to its instance. It is neither cleaned nor burned again
// (S0.18, S3.26).
func (d binding) rebuild(ctx workflow.Context, in contract.UnbindInput) (contract.Result, error) {
	if err := d.Apply(ctx, device.Event{Kind: device.Rebuild, Instance: in.Instance}); err != nil {
		return contract.Result{}, err
	}
	return d.result()
}
