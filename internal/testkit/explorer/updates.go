package explorer

import "burnish/internal/device"

// This file models the updates: what tenants and operators ask of the workflow.

// claimed: the claim is of this instance.
func (t turn) claimed(p who) bool {
	c := t.dev().Claim
	return c != nil && c.Instance == p.String()
}

func (t turn) bound(p who) bool {
	b := t.dev().Binding
	return b != nil && b.Instance == p.String()
}

// updating: an update is under way; there is one at a time.
func (t turn) updating() bool { return t.w.wf.upd.kind != none || t.w.wf.queued }

// startBind is the update bind, or claim, up to its first wait.
func (t turn) startBind(p who, a act) {
	f := &t.w.wf
	t.must(device.Event{Kind: device.ClaimEvent, Instance: p.String()})
	t.w.tenants[p-first].denied = noDenial
	if t.without.bindLook {
		t.must(device.Event{Kind: device.BurnStarted, Instance: p.String()})
		f.upd, f.queued = call{act: actBind, who: p}, true
		return
	}
	t.lookFor(a, p)
}

func (t turn) lookFor(a act, p who) {
	t.w.wf.upd = t.ask(lookBeforeBind, false)
	t.w.wf.upd.act, t.w.wf.upd.who = a, p
}

// burnBy is the update burn. Where the hardware of its claim was just looked at, it begins in the
// task of its write, and is lost with it.
func (t turn) burnBy(p who, looks bool) bool {
	f := &t.w.wf
	if !f.exists || t.updating() || !t.claimed(p) {
		return false
	}
	if looks {
		t.lookFor(actBind, p)
		return true
	}
	t.must(device.Event{Kind: device.BurnStarted, Instance: p.String()})
	f.upd, f.queued = call{act: actBind, who: p}, true
	return true
}

// bindAgain is the update bind of an instance that may have the device, as far as workflow or record
// know.
func (t turn) bindAgain(p who) bool {
	t.w.tenants[p-first].denied = noDenial
	switch {
	case t.without.lostBurn:
		t.refused(p)
	case t.without.bound:
		t.bindAnswered(p)
	default:
		t.confirm(actBindAgain, p)
	}
	return true
}

// confirm begins parts.confirm.
func (t turn) confirm(a act, p who) {
	t.w.wf.upd, t.w.wf.queued = call{act: a, who: p}, true
}

// confirmed answers the update, now that it is known who has the device.
func (t turn) confirmed() {
	c := t.w.wf.upd
	t.w.wf.upd = call{}
	if c.act == actUnbind {
		t.unbindAnswered(c.who)
		return
	}
	if c.act == actBind && t.bound(c.who) && t.w.slot != enrolled && t.w.unseen {
		t.broken(c.who.String() + " gets hardware that was swapped while it was offered")
	}
	t.bindAnswered(c.who)
	t.unbindWaiting(c.who)
}

func (t turn) bindAnswered(p who) {
	if !t.bound(p) {
		t.refused(p)
		return
	}
	if again := (device.Event{Kind: device.BindRepeated, Instance: p.String()}); t.legal(again) {
		t.must(again)
	}
	t.granted(p)
}

// refused: the bind is refused, and has no effect (F42).
func (t turn) refused(p who) {
	if mine := &t.w.tenants[p-first]; !mine.has {
		mine.denied = bindRefused
	}
}

// unbindWaiting is what an unbind does that waited for the burn of its instance.
func (t turn) unbindWaiting(p who) {
	if t.w.wf.unbinds == p {
		t.w.wf.unbinds = noParty
		t.unbind(p)
	}
}

// lookedBeforeBind is the end of discovery.BeforeBind.
func (t turn) lookedBeforeBind(c call, result device.HostResult) {
	f := &t.w.wf
	f.upd = call{}
	o := t.observe(device.AskBindLook, result)
	t.record(o)
	switch claimed := o.Needs(device.Proceed) && t.claimed(c.who); {
	case claimed && c.act == actBind:
		t.must(device.Event{Kind: device.BurnStarted, Instance: c.who.String()})
		f.upd = call{kind: burnBegun, act: actBind, who: c.who}
		return
	case !claimed && t.without.lookRefuses:
		t.refused(c.who)
	case !claimed:
		t.confirm(actBindAgain, c.who)
		return
	}
	t.unbindWaiting(c.who)
}

// bindLooked: the host has looked for a bind that is not answered yet. A swap in this moment is not
// seen (F39), also where the burn's answer makes the device unknown first.
func (t turn) bindLooked() bool {
	f := t.w.wf
	claimed := t.dev().Claim != nil && f.upd.kind != lookBeforeBind
	return !t.without.bindLook && (claimed || f.upd.kind == awaitKnown && f.upd.act == actBind)
}

// startLeave is manage, retire or maintain.
func (t turn) startLeave(a act, kind device.EventKind) bool {
	f := &t.w.wf
	if t.updating() || !t.mayLeave(a) {
		return false
	}
	if !t.dev().Allocatable() && !t.asksRecord(a) {
		t.must(device.Event{Kind: kind})
		return true
	}
	f.upd, f.queued = call{act: a}, true
	return true
}

// asksRecord: an instance that the record names is to be named first (F31). What leaves the offer is read
// where it is reserved.
func (t turn) asksRecord(a act) bool {
	return (a == actManage || a == actRetire) && t.state() != device.Available
}

// recordAsked is the end of operations.withdraw of such a device.
func (t turn) recordAsked(c call, found device.Inventory, code device.Code) {
	named := found.Used > 0 || found.Witness == device.WitnessBound && whoIs(found.Tenant) != t.left()
	if (code == "" && !named || code == device.CodeNoProvider) && t.asksRecord(c.act) && t.mayLeave(c.act) {
		t.must(device.Event{Kind: leaves[c.act]})
	}
}

// mayLeave: an operator who names no instance ends no binding (F31).
func (t turn) mayLeave(a act) bool {
	return t.legal(device.Event{Kind: leaves[a]}) && (a == actMaintain || !t.taken())
}

func (t turn) taken() bool {
	d := t.dev()
	return d.Binding != nil || d.Claim != nil && d.Claim.Burning
}

func (t turn) startEndMaintenance() bool {
	f := &t.w.wf
	if t.updating() || t.dev().Status == device.Enabled || t.state() != device.Available &&
		!t.legal(device.Event{Kind: device.MaintainOff}) {
		return false
	}
	if t.state() != device.Available {
		t.must(device.Event{Kind: device.MaintainOff})
		return true
	}
	f.upd, f.queued = call{act: actMaintainOff}, true
	return true
}

// startProvide is the update provide.
func (t turn) startProvide() bool {
	f := &t.w.wf
	if t.updating() || t.state() != device.Manageable {
		return false
	}
	if !t.dev().Dirty && t.without.look {
		return t.apply(device.Event{Kind: device.Seen}) && t.apply(device.Event{Kind: device.Provide})
	}
	if !t.dev().Dirty {
		f.upd = t.ask(lookBeforeProvide, false)
		f.upd.act = actProvide
		return true
	}
	return t.apply(device.Event{Kind: device.Provide})
}

var leaves = map[act]device.EventKind{actManage: device.Manage, actRetire: device.Retire, actMaintain: device.Maintain}

// updateGoesOn is what the update does once it has the lock.
func (t turn) updateGoesOn() {
	f := &t.w.wf
	a, p := f.upd.act, f.upd.who
	switch {
	case a == actBind && t.claimed(p):
		f.upd = t.ask(bindReserve, true)
		f.upd = f.upd.recordOf(t)
		f.upd.bindings++
		f.upd.tenant, f.upd.who, f.burnedFor = writeTenant, p, p
		f.upd.inTask = true
	case a == actBind, a == actBindAgain && t.state() == device.Unknown, a == actUnbind && t.state() == device.Unknown:
		f.upd.kind, f.lock = awaitKnown, free
	case a == actBindAgain, a == actUnbind:
		f.upd = t.ask(readReservation, false)
	case t.asksRecord(a) && t.mayLeave(a):
		f.upd = t.ask(readReservation, false)
	case a == actMaintainOff && t.state() == device.Available && t.dev().InMaintenance():
		f.upd = t.ask(lookBeforeEndMaintenance, false)
	case leaves[a] != "" && t.mayLeave(a) && t.dev().Allocatable() && t.nova:
		f.upd = t.ask(readToLeave, false)
	case leaves[a] != "" && t.mayLeave(a) && t.dev().Allocatable():
		f.upd = t.ask(leaveReserve, true).clearsFor(t, leaves[a])
	default: // refused, or nothing to reserve any more
		if k := leaves[a]; k != "" && t.mayLeave(a) {
			t.must(device.Event{Kind: k})
		}
		f.upd, f.lock = call{}, free
		return
	}
	f.upd.act, f.upd.who = a, p
}

// answeredUpd goes on after an answer to the update's call.
func (t turn) answeredUpd(c call, found device.Inventory, code device.Code) {
	f := &t.w.wf
	t.remember(c, found, code)
	switch c.kind {
	case bindReserve:
		f.upd.kind, f.lock = awaitKnown, free
		if t.claimed(c.who) && t.conclude(t.snapshot(device.AskBind, c, found, code)).Event == device.BurnFailed {
			f.uncertain = true // an attempt before the last one may have written
		}
	case readReservation:
		f.lock = free
		if leaves[c.act] != "" {
			f.upd = call{}
			t.recordAsked(c, found, code)
			return
		}
		f.upd.kind = awaitKnown
		if t.conclude(t.snapshot(device.AskRecheck, c, found, code)); code != "" {
			f.upd = call{} // it is not known, which the answer says
		}
	case readToLeave:
		o := t.conclude(t.snapshot(device.AskBeforeLeaving, c, found, code))
		if code != "" || o.Event != "" || !t.mayLeave(c.act) {
			f.upd, f.lock = call{}, free
			return
		}
		f.upd = t.ask(leaveReserve, true).clearsFor(t, leaves[c.act])
		f.upd.act, f.upd.expects, f.upd.expect, f.upd.provider = c.act, true, int16(found.Generation), providerNumber(found)
	case leaveReserve:
		f.upd, f.lock = call{}, free
		o := t.conclude(t.snapshot(device.AskToLeave, c, found, code))
		if code != "" || o.Event != "" || !t.mayLeave(c.act) {
			return
		}
		t.must(device.Event{Kind: leaves[c.act]})
		f.ensure = false
	case endMaintenance:
		f.upd = call{}
		o := t.conclude(t.snapshot(device.AskEndMaintenance, c, found, code))
		if code != "" || o.Event != "" || !t.legal(device.Event{Kind: device.MaintainOff}) {
			f.lock = free
			return
		}
		t.must(device.Event{Kind: device.MaintainOff})
		if !t.dev().Allocatable() {
			f.lock = free
			return
		}
		t.lowerFor(&f.upd, actMaintainOff, int16(found.Generation), providerNumber(found))
	case lower, lowerRead:
		t.lowered(&f.upd, c, found, code)
	}
}

// granted: the bind is answered, and the tenant writes its data.
func (t turn) granted(p who) {
	mine := &t.w.tenants[p-first]
	if mine.denied == unbindAnswered {
		return // its client gave up and unbound it meanwhile
	}
	if theirs := t.w.tenants[second-p]; theirs.has {
		t.broken("two tenants have the device")
	}
	mine.has = true
	t.writes(p)
}

// writes: the tenant writes its data.
func (t turn) writes(p who) {
	t.w.bytes[t.w.slot], t.w.accepted, t.w.acceptedOnce = p, false, false
}

// unaccounted are whose bytes are in the slot, unless an override is about them.
func (t turn) unaccounted() who {
	if t.w.accepted && t.w.slot == enrolled {
		return noParty
	}
	return t.w.bytes[t.w.slot]
}

// override is the approval of an override: a return without a clean.
func (t turn) override() bool {
	if t.without != (without{}) && !t.without.compares || !t.acts() || !t.legal(device.Event{Kind: device.Override}) {
		return false
	}
	f := &t.w.wf
	f.cleanUnderWay, f.clean = false, cleanRun{}
	t.w.accepted = t.w.slot == enrolled
	t.w.acceptedOnce = t.w.accepted
	return t.apply(device.Event{Kind: device.Override})
}

// heldAfter says whether an operator holds the device after an event: since a command that was
// answered, until another one, or until a tenant has it.
func (t turn) heldAfter(next device.Device, by device.EventKind) bool {
	switch by {
	case device.Manage, device.Maintain, device.MaintainOff, device.Retire, device.Returned:
		atRest := next.State != device.Unknown && next.State != device.Allocated && !next.BeingCleaned() && !next.Returning
		return atRest && next.Hold() != device.HoldNone
	case device.Clean, device.Provide, device.Override:
		return false
	}
	return t.w.held && next.State != device.Allocated
}

// unbind is the update unbind of an instance. It says whether it was accepted. One that
// finds a burn of the same instance waits for it, and ends what it made (F30).
func (t turn) unbind(p who) bool {
	f := &t.w.wf
	switch waits := t.updating(); {
	case t.claimed(p) && waits && !t.without.unbind:
		if f.unbinds == p {
			return false
		}
		f.unbinds = p
	case t.legal(unbindOf(p)), t.without.unbound, t.without.unbind, t.without.unclaim && t.claimed(p):
		t.unbindAnswered(p)
	case waits:
		return false
	default:
		t.w.tenants[p-first] = tenant{}
		t.confirm(actUnbind, p)
	}
	return true
}

func unbindOf(p who) device.Event {
	return device.Event{Kind: device.Unbind, Instance: p.String(), Automated: true}
}

// unbindAnswered is the end of an unbind.
func (t turn) unbindAnswered(p who) {
	answer := unbindAnswered
	switch claim := t.dev().Claim; {
	case t.legal(unbindOf(p)):
		t.must(unbindOf(p))
		t.w.wf.backAgain = noParty
	case t.claimed(p) && !claim.Burning:
		t.must(device.Event{Kind: device.Unclaim, Instance: p.String()})
	case !t.w.wf.had[p-first]:
		answer = unbindRefused
	}
	t.w.tenants[p-first] = tenant{denied: answer}
}

// stillAccepted: an override ends when the device is Dirty again. The write under way was
// right when it was sent (F30 undoes it).
func (t turn) stillAccepted(next device.Device) bool {
	inUse := next.State == device.Available || next.State == device.Allocated
	return t.w.accepted && (!next.Dirty || inUse || t.beingLowered())
}
