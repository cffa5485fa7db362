package lifecycle

import (
	"cmp"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file binds the device to an instance and unbinds it.

// requestOf identifies a bind: by the caller's request, or else by the update's own ID.
func requestOf(j *Job, in contract.BindInput) string {
	if in.Request != "" {
		return in.Request
	}
	return j.ID
}

// existingBinding finds the binding of a request: the present one (ours is true), or one that has ended (ended is
// true), of the last contract.KeptRequests.
//
// SAFETY F41
func (d *State) existingBinding(in contract.BindInput) (number int, ours, ended bool) {
	b := d.Device.Binding
	bound := b != nil && device.SameTenant(b.Instance, in.Instance)
	if bound && (in.Request == "" || b.Request == in.Request) {
		return b.Number, true, false
	}
	if in.Request == "" {
		return 0, false, false
	}
	if _, ended = d.History.Of(in.Instance, in.Request); ended || d.Requests.Has(in.Instance, in.Request) {
		return 0, false, true
	}
	// A binding that was read from the record has no request: it is that of the instance's next one, whose first answer
	// was lost (F42).
	if bound && b.Observed && d.ownedByBurnish() {
		return b.Number, true, false
	}
	return 0, false, false
}

func (d *State) oursNow(in contract.BindInput) bool {
	_, ours, _ := d.existingBinding(in)
	return ours
}

// checkClaim is for claim and bind. A request never gets a second binding.
func (d *State) checkClaim(in contract.BindInput) error {
	if in.Instance == "" {
		return d.refuse(device.CodeInvalid, "the instance is missing", "give --instance UUID")
	}
	if in.Tag != "" {
		if err := device.CheckTag(in.Tag); err != nil {
			return d.refuse(device.CodeInvalid, err.Error(), "give a tag of 1 to 60 characters without comma and slash")
		}
	}
	switch _, ours, ended := d.existingBinding(in); {
	case ours:
		return nil
	case ended:
		return d.bindingEnded()
	}
	if c := d.Device.Claim; c != nil && in.Request != "" && c.Instance == in.Instance && c.Request == in.Request {
		return nil
	}
	for _, j := range d.Jobs {
		if j.Offers {
			return d.refuse(device.CodeRefused, "the device is entering or leaving the offer",
				"wait a moment, or take another device")
		}
	}
	return d.legal(device.Event{Kind: device.ClaimEvent, Instance: in.Instance})
}

func (d *State) checkBurn(in contract.BindInput) error {
	switch {
	case d.oursNow(in), in.Held && d.Device.State == device.Unknown: // the record says whose it is
		return nil
	case in.Held:
		return d.bindingEnded()
	case d.burnInProgress(in):
		return nil
	}
	return d.legal(device.Event{Kind: device.BurnStarted, Instance: in.Instance})
}

// burnInProgress says whether the same request's burn is under way.
func (d *State) burnInProgress(in contract.BindInput) bool {
	c := d.Device.Claim
	return c != nil && c.Burning && in.Request != "" && c.Instance == in.Instance && c.Request == in.Request
}

func (d *State) checkUnclaim(in contract.BindInput) error {
	if d.Device.State == device.Available && d.Device.Claim == nil || d.claimedByOther(in) {
		return nil
	}
	return d.legal(device.Event{Kind: device.Unclaim, Instance: in.Instance})
}

func (d *State) claim(j *Job, in contract.BindInput) {
	if d.oursNow(in) {
		d.grantAgain(j)
		return
	}
	deadline, err := time.Parse(time.RFC3339, in.Deadline)
	if err != nil || !deadline.After(d.now) {
		d.refused(j, d.refuse(device.CodeInvalid, "the claim's deadline must be an RFC 3339 time in the future",
			"give a deadline"))
		return
	}
	if c := d.Device.Claim; c != nil && c.Instance == in.Instance && c.Request == requestOf(j, in) {
		d.alreadyGranted(j, 0)
		return
	}
	if err := d.takeClaim(j, in, deadline); err != nil {
		d.refused(j, err)
		return
	}
	d.checkHardware(j, phClaimLooked)
}

func (d *State) claimLooked(j *Job, o Outcome) {
	if err := o.err(); err != nil {
		d.unlessBound(j, err)
		return
	}
	d.carriedOut(j)
}

func (d *State) takeClaim(j *Job, in contract.BindInput, deadline time.Time) error {
	return d.apply(device.Event{
		Kind: device.ClaimEvent, Instance: in.Instance, Request: requestOf(j, in), Tag: in.Tag, Deadline: deadline,
		Managed: in.Managed,
	})
}

// claimedByOther says that the device is claimed by another request of the same instance.
func (d *State) claimedByOther(in contract.BindInput) bool {
	c := d.Device.Claim
	return c != nil && c.Instance == in.Instance && in.Request != "" && c.Request != in.Request
}

func (d *State) unclaim(j *Job, in contract.BindInput) {
	if d.Device.Claim == nil || d.claimedByOther(in) {
		d.unchanged(j)
		return
	}
	d.confirm(j, phUnclaimConfirmed) // its burn may have been carried out, and lost with its task (F42)
}

func (d *State) unclaimConfirmed(j *Job, o Outcome) {
	in := j.In.(contract.BindInput)
	err := o.err()
	switch {
	case err != nil:
	case d.boundTo(in.Instance):
		err = d.endFor(in.Instance, true)
	default:
		err = d.apply(device.Event{Kind: device.Unclaim, Instance: in.Instance})
	}
	d.finished(j, err)
}

// bind is claim and burn in one step, so that no other claim comes between them.
func (d *State) bind(j *Job, in contract.BindInput) {
	if !d.oursNow(in) && d.Device.Claim == nil {
		if err := d.takeClaim(j, in, d.now.Add(clientDeadline)); err != nil {
			d.refused(j, err)
			return
		}
	}
	d.burn(j, in)
}

// burn raises the reservation and reads it back before it answers that the device is bound (S0.4, S0.5). A device whose
// burn may have failed is cleaned: it is neither allocated nor made available without a clean (S0.6).
func (d *State) burn(j *Job, in contract.BindInput) {
	switch {
	case in.Held, d.oursNow(in):
		d.grantAgain(j)
		return
	case d.burnInProgress(in):
		d.enter(j, phJoinBurn)
		return
	}
	// What the inventory does not record is in the history before its write is made in a task.
	j.Recorded = d.shared() || d.mustLook() || in.Tag != ""
	if !d.shared() {
		d.checkHardware(j, phBurnLooked)
		return
	}
	d.enter(j, phBindServer)
}

// bindServerRead asks who has the server before a burn (S4.22). Where others have it, the device lost the race (S4.13).
// Where the appliance does not answer, nothing has changed.
func (d *State) bindServerRead(j *Job, out Outcome) {
	in := j.In.(contract.BindInput)
	found, f := d.poolRead(j, out)
	if !d.claimedFor(in.Instance) {
		d.unlessBound(j, d.takenMeanwhile())
		return
	}
	j.Server = found
	switch o := d.observePool(device.AskPoolBind, found, f); {
	case o.Needs(device.Proceed), o.Event == "" && d.Device.Claim.Burning: // the same request's burn is joined
		d.checkHardware(j, phBurnLooked)
	case o.Event == device.LostRace:
		d.unlessBound(j, d.takenFault())
	case o.Event == device.ObservedUnused:
		d.unlessBound(j, d.usedFault())
	case o.Event == device.Unclaim: // which does not say that nothing of an earlier burn stays
		d.concludePool(device.AskPoolBind, found, f)
		d.refused(j, f)
	default:
		d.unlessBound(j, d.takenMeanwhile())
	}
}

func (d *State) mustLook() bool { return d.ownedByBurnish() && !d.seenLately() }

// checkHardware has the host look at a claimed device, unless it has just done so (F39): a device may have been
// swapped, or written to, while it was offered. Nova binds without asking.
func (d *State) checkHardware(j *Job, back Phase) {
	if !d.mustLook() {
		j.Back = append(j.Back, back)
		d.back(j, Outcome{})
		return
	}
	j.Since = d.now
	d.share(j, phBindLook, back)
}

func (d *State) lookedBeforeBind(j *Job, o Outcome) {
	if f := d.bindLooked(j, o); f != nil {
		if d.burnInProgress(j.In.(contract.BindInput)) { // the same request's: it is joined
			f = nil
		}
		d.back(j, Outcome{Fault: f})
		return
	}
	d.enter(j, phBindSettles) // what changed during the look is looked at, too
}

func (d *State) bindSettled(j *Job) bool {
	return d.job(jobLook) == nil && !d.Intent.HardwareChanged || !d.claimedFor(j.In.(contract.BindInput).Instance)
}

func (d *State) bindSettledThen(j *Job, _ Outcome) {
	in := j.In.(contract.BindInput)
	switch {
	case d.burnInProgress(in):
		d.back(j, Outcome{})
	case !d.claimedFor(in.Instance):
		d.back(j, Outcome{Err: d.takenMeanwhile()})
	case !d.mustLook(), !d.SeenAt.Before(j.Since): // however late the answer: where a thousand bind at once, all are
		d.back(j, Outcome{})
	default: // an event came during the look, and its own look failed
		d.back(j, Outcome{Fault: d.unseenFault()})
	}
}

// bindAsks says that a bind asks the host before it burns.
func (d *State) bindAsks() bool { return d.inPhase(phBindLook, phBindSettles) }

func (d *State) burnLooked(j *Job, o Outcome) {
	in := j.In.(contract.BindInput)
	if err := o.err(); err != nil {
		d.unlessBound(j, err)
		return
	}
	if d.burnInProgress(in) {
		d.enter(j, phJoinBurn)
		return
	}
	if err := d.apply(device.Event{Kind: device.BurnStarted, Instance: in.Instance}); err != nil {
		d.refused(j, err)
		return
	}
	if j.Recorded {
		d.enter(j, phBurnRecorded)
		return
	}
	d.enter(j, phBurn)
}

// burnRecorded has the burn in the history before its write is made in a task. Were it not, and that task lost, the
// repeated one could end a claim that counts as untouched, and leave the write.
func (d *State) burnRecorded(j *Job) { j.Until = d.now.Add(time.Millisecond) }

func (d *State) burnGoesOn(j *Job, _ Outcome) { d.enter(j, phBurn) }

// burns says that the burn of the job's instance is still the one under way.
func (d *State) burns(j *Job) bool {
	c := d.Device.Claim
	return c != nil && c.Burning && c.Instance == j.In.(contract.BindInput).Instance
}

// burnCall reserves the provider for the instance of the claim, and records it there in the same write (F24).
func (d *State) burnCall(j *Job) {
	if !d.burns(j) {
		d.burnEnds(j, nil)
		return
	}
	in := d.request()
	j.Asked = d.ask(device.AskBind)
	instance := d.Device.Claim.Instance
	d.BurnedFor, in.Record = instance, d.recordOf(instance)
	in.Record.Bindings++ // that of this binding
	// For a device of Nova's nothing records for whom an attempt in a lost task wrote.
	d.inventory(j, contract.ActivityReserveForBind, in,
		How{Client: true, InTask: d.ownedByBurnish(), What: "reserve " + d.Name})
}

func (d *State) burned(j *Job, o Outcome) {
	j.Found, j.Fault = d.answered(j, o)
	switch {
	case !d.burns(j):
		d.burnEnds(j, nil)
	case d.shared() && j.Fault == nil && d.observe(j.Asked, j.Found, nil).Event == device.Burned:
		d.letGo(j) // it may take long
		d.profile(j, ProfileKind{Tenant: true, Client: true}, phBurnProfiled)
	default:
		d.burnConcludes(j)
	}
}

// burnProfiled goes on once the server has its profile.
func (d *State) burnProfiled(j *Job, out Outcome) {
	if !d.burns(j) {
		d.burnEnds(j, nil)
		return
	}
	switch o := d.concludePool(device.AskPoolApplied, j.Server, out.Fault); {
	case o.Needs(device.Proceed):
		j.Fault = nil
		d.enter(j, phBurnConclude)
	case o.Event == device.LostRace:
		d.burnEnds(j, d.takenFault())
	default:
		d.burnEnds(j, cmp.Or(out.Fault, d.usedFault()))
	}
}

func (d *State) burnConcludes(j *Job) {
	if !d.burns(j) {
		d.burnEnds(j, nil)
		return
	}
	f := j.Fault
	switch d.conclude(j.Asked, j.Found, f).Event {
	case device.Burned:
		d.BurnedFor = ""
		d.burnEnds(j, nil)
		return
	case device.BurnFailed: // an attempt before the last one may have written
		d.GenerationUncertain = true
	}
	if f == nil {
		f = &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
			Message: "its provider was re-created although it was available: who used it before is not known",
			Remedy:  "take another device; this one is cleaned automatically"}
	}
	d.burnEnds(j, f)
}

// burnEnds answers a bind. What the burn wrote may stay: it is refused only once it is known that it does not (F42).
func (d *State) burnEnds(j *Job, f *device.Fault) {
	d.letGo(j)
	j.Fault = f
	if b := d.Device.Binding; f == nil && b != nil && b.Instance == j.In.(contract.BindInput).Instance {
		d.done(j, contract.Result{Binding: b.Number, Device: d.Status()}, nil)
		return
	}
	if d.Device.State == device.Unknown {
		d.share(j, phAwaitKnown, phBurnKnown)
		return
	}
	d.burnRefused(j)
}

func (d *State) burnKnown(j *Job, o Outcome) {
	if !d.hasItByNow(j, o, false) {
		d.burnRefused(j)
	}
}

// bindOf is the bind that a job was asked for. A repeated one is found by its update's ID.
func bindOf(j *Job) contract.BindInput {
	in := j.In.(contract.BindInput)
	if j.Repeated && j.Verb.Name == contract.VerbBind.Name {
		in.Request = requestOf(j, in)
	}
	return in
}

// hasItByNow answers a request with why it is not known whether it has the device, or with its binding; false: it has
// none.
func (d *State) hasItByNow(j *Job, o Outcome, already bool) bool {
	if err := o.err(); err != nil {
		d.refused(j, err)
		return true
	}
	in := bindOf(j)
	number, ours, _ := d.existingBinding(in)
	switch {
	case ours && d.shared() && (d.Device.Binding.Observed || d.pool().Applying): // also where a claim's own burn was read
		d.enter(j, phServerOfBinding)
	case ours:
		d.adopt(j, in)
		d.done(j, contract.Result{Binding: number, Device: d.Status(), Already: already}, nil)
	}
	return ours
}

// serverOfBinding grants a binding that was read from the record if Burnish's profile is on its server: the record
// shows the burn alone, and before that has its profile, others may have used the server (F34). Without the profile the
// burn is given back (F42).
func (d *State) serverOfBinding(j *Job, out Outcome) {
	in := bindOf(j)
	found, f := d.poolRead(j, out)
	switch number, ours, _ := d.existingBinding(in); {
	case f != nil:
		d.refused(j, f)
	case !ours:
		d.refused(j, d.takenMeanwhile())
	case d.Device.State == device.Unknown:
		d.refused(j, d.notKnownYet())
	case d.poolChanges(): // the profile that is on it may be gone in a moment
		d.refused(j, d.refuse(device.CodeReservationUnknown, "the profile of its server is being changed",
			"repeat it in a moment"))
	case found.Ownership == device.PoolOurs:
		d.adopt(j, in)
		d.done(j, contract.Result{Binding: number, Device: d.Status(), Already: true}, nil)
	default:
		if err := d.endFor(in.Instance, in.Managed); err != nil {
			d.Defect = err
			return
		}
		d.refused(j, d.usedFault())
	}
}

func (d *State) burnRefused(j *Job) {
	f := j.Fault
	if f == nil { // invalidated or retired meanwhile, which handled the reservation
		d.refused(j, d.takenMeanwhile())
		return
	}
	d.LastError = "bind failed: " + f.Message
	if f.Code == device.CodeTimeout {
		f = &device.Fault{Class: device.Permanent, Code: device.CodeReservationUnknown,
			Message: "the inventory did not answer in time: it is unknown whether the burn succeeded",
			Remedy:  "take another device; this one is cleaned automatically"}
	}
	d.refused(j, f)
}

// unlessBound refuses a bind after a look, of its host or of the appliance, unless the record says that the instance
// has the device: an earlier burn was carried out, and its task lost (F42).
func (d *State) unlessBound(j *Job, refused error) {
	j.Refused = refused
	d.confirm(j, phUnlessBound)
}

func (d *State) boundAfterAll(j *Job, o Outcome) {
	if j.Server.Ownership != "" && !d.oursNow(bindOf(j)) { // by the record, too: what the appliance shows counts
		d.concludePool(device.AskPoolBind, j.Server, nil)
	}
	if !d.hasItByNow(j, o, true) {
		d.refused(j, j.Refused)
	}
}

func (d *State) joinBurnOver(j *Job) bool { return !d.burnInProgress(j.In.(contract.BindInput)) }

// joinBurn waits for the same request's burn and gives the same answer: a client that was killed and repeats its
// request must not get a conflict with itself.
func (d *State) joinBurn(j *Job, _ Outcome) {
	if d.Device.State == device.Unknown {
		d.share(j, phAwaitKnown, phJoined)
		return
	}
	d.joined(j, Outcome{})
}

func (d *State) joined(j *Job, o Outcome) {
	switch {
	case d.hasItByNow(j, o, true):
	case d.Device.LostRace:
		d.refused(j, d.takenFault())
	default:
		d.refused(j, d.refuse(device.CodeConflict, "this request's burn failed",
			"take another device; this one is cleaned automatically"))
	}
}

// grantAgain answers a request whose binding this workflow knows, once the inventory's record confirms it (F36).
func (d *State) grantAgain(j *Job) { d.confirm(j, phGrantAgain) }

func (d *State) grantedAgain(j *Job, o Outcome) {
	_, _, ended := d.existingBinding(bindOf(j))
	switch {
	case d.hasItByNow(j, o, true):
	case ended:
		d.refused(j, d.bindingEnded())
	default:
		d.refused(j, d.refuse(device.CodeConflict, "the inventory's record is newer than what is known of this request: "+
			"the device is "+Phrase(d.DeviceState), "show "+d.Name+", and bind again with a new request"))
	}
}

// adopt gives a binding that was read from the record the request and the tag of its bind.
func (d *State) adopt(j *Job, in contract.BindInput) {
	e := device.Event{Kind: device.BindRepeated, Instance: in.Instance, Request: requestOf(j, in), Tag: in.Tag,
		Managed: in.Managed}
	if d.legal(e) == nil {
		d.must(e)
	}
}

// alreadyGranted answers a request that was granted before.
func (d *State) alreadyGranted(j *Job, number int) {
	d.done(j, contract.Result{Binding: number, Device: d.Status(), Already: true}, nil)
}

func (d *State) takenMeanwhile() error {
	return d.refuse(device.CodeConflict, "the device was taken while the bind waited", "take another device")
}

func (d *State) claimAgain(j *Job) { d.alreadyGranted(j, 0) }

func (d *State) bindingEnded() error {
	return d.refuse(device.CodeBindingEnded, "the binding of this request has ended", "bind again with a new request")
}

// wasBoundTo says that the device was bound to the instance, and is no longer.
func (d *State) wasBoundTo(instance string) bool {
	if d.boundTo(instance) {
		return false
	}
	_, was := d.History.Of(instance, "")
	return was
}

func (d *State) boundTo(instance string) bool {
	b := d.Device.Binding
	return b != nil && device.SameTenant(b.Instance, instance)
}

// claimedFor says that the instance holds a claim, or is being bound.
func (d *State) claimedFor(instance string) bool {
	c := d.Device.Claim
	return c != nil && c.Instance == instance
}

func (d *State) checkUnbind(in contract.UnbindInput) error {
	if d.wasBoundTo(in.Instance) || d.claimedFor(in.Instance) {
		return nil
	}
	return d.legal(device.Event{Kind: device.Unbind, Instance: in.Instance, Automated: true})
}

// unbind ends a binding and answers at once (S3.18). It never writes the reservation (S0.7). A claim of the instance
// ends; of an instance that is being bound, it waits for the burn and ends the binding that the burn made (F30).
func (d *State) unbind(j *Job, in contract.UnbindInput) {
	if j.Claimed = d.claimedFor(in.Instance); j.Claimed {
		d.enter(j, phUnbindAsks) // its bind may find that the instance has the device
		return
	}
	d.unbindLeft(j)
}

func (d *State) unbindAsked(*Job) bool { return !d.bindAsks() }

func (d *State) claimOnly(instance string) bool {
	return d.claimedFor(instance) && !d.Device.Claim.Burning
}

func (d *State) unbindClaimed(j *Job, _ Outcome) {
	if d.claimOnly(j.In.(contract.UnbindInput).Instance) {
		d.confirm(j, phUnbindConfirmed) // its burn may have been carried out, and lost with its task (F42)
		return
	}
	d.enter(j, phUnbindBurns)
}

func (d *State) unbindConfirmed(j *Job, o Outcome) {
	instance := j.In.(contract.UnbindInput).Instance
	switch err := o.err(); {
	case err != nil:
		d.refused(j, err)
	case d.claimOnly(instance):
		d.finished(j, d.apply(device.Event{Kind: device.Unclaim, Instance: instance}))
	default:
		d.enter(j, phUnbindBurns)
	}
}

func (d *State) unbindBurned(j *Job) bool { return !d.claimedFor(j.In.(contract.UnbindInput).Instance) }

func (d *State) unbindAfterBurn(j *Job, _ Outcome) { d.unbindLeft(j) }

func (d *State) unbindLeft(j *Job) {
	in := j.In.(contract.UnbindInput)
	if d.wasBoundTo(in.Instance) || j.Claimed && !d.boundTo(in.Instance) { // it has left, or the burn failed
		j.Claims = d.Claims
		d.confirm(j, phUnbindKnown)
		return
	}
	d.finished(j, d.endFor(in.Instance, in.ByInstance))
}

func (d *State) unbindKnown(j *Job, o Outcome) {
	in := j.In.(contract.UnbindInput)
	switch err := o.err(); {
	case err != nil:
		d.refused(j, err)
	case !d.boundTo(in.Instance) || d.boundSince(j):
		d.unchanged(j)
	default:
		d.finished(j, d.endFor(in.Instance, in.ByInstance))
	}
}

// endFor ends the binding of an instance.
func (d *State) endFor(instance string, byInstance bool) error {
	return d.endBinding(device.Event{Kind: device.Unbind, Instance: instance, ByInstance: byInstance})
}

func (d *State) checkRebuild(in contract.UnbindInput) error {
	return d.legal(device.Event{Kind: device.Rebuild, Instance: in.Instance})
}

// rebuild keeps the device bound to its instance, once the inventory's record confirms that it has it (F36). It is
// neither cleaned nor burned again (S0.18, S3.26).
func (d *State) rebuild(j *Job, _ contract.UnbindInput) { d.rebuildAgain(j) }

func (d *State) rebuildAgain(j *Job) { d.confirm(j, phRebuildConfirmed) }

func (d *State) rebuildConfirmed(j *Job, o Outcome) {
	err := o.err()
	if err == nil {
		err = d.apply(device.Event{Kind: device.Rebuild, Instance: j.In.(contract.UnbindInput).Instance})
	}
	if err == nil && j.Repeated {
		d.unchanged(j)
		return
	}
	d.finished(j, err)
}
