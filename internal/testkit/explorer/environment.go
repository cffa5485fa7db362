package explorer

import "burnish/internal/device"

// This file is what can happen: answers, and what tenants, operators, other services,
// faults and the hardware do.

// move is one kind of thing that can happen. It says whether it can.
type move struct {
	name string
	do   func(turn) bool
}

// owed are the calls of the workflow that wait for their answer.
func (t turn) owed(of int) *call {
	return []*call{&t.w.wf.main, &t.w.wf.rec, &t.w.wf.upd}[of]
}

func (c call) ofInventory() bool {
	return c.kind != none && c.kind != cleanStep && c.kind != burnBegun && c.kind != awaitKnown && !c.looks()
}

// reads: it writes nothing to the inventory.
func (c call) reads() bool {
	return c.kind == readReservation || c.kind == lowerRead || c.kind == readToLeave
}

func (c call) looks() bool {
	switch c.kind {
	case discover, cleanDiscover, lookBeforeReturn, lookBeforeProvide, lookBeforeEndMaintenance, lookBeforeBind:
		return true
	}
	return false
}

func (t turn) fault() bool {
	if t.w.faults == 0 {
		return false
	}
	t.w.faults--
	return true
}

func (t turn) acts() bool {
	if t.w.acts == 0 || !t.w.wf.exists {
		return false
	}
	t.w.acts--
	return true
}

// deliver gives the answer to a call to the coroutine that made it.
func (t turn) deliver(of int, c call, found device.Inventory, code device.Code) {
	switch of {
	case 0:
		t.answeredMain(c, found, code)
	case 1:
		t.answeredRec(c, found, code)
	default:
		t.answeredUpd(c, found, code)
	}
}

// inventoryMoves are the ends of the inventory calls of one coroutine.
func inventoryMoves(of int, by string) []move {
	asked := func(t turn) (call, bool) {
		c := *t.owed(of)
		return c, t.w.wf.exists && c.ofInventory() && !(of == 2 && t.w.wf.queued)
	}
	return []move{
		{by + ": its call of the inventory is answered", func(t turn) bool {
			c, ok := asked(t)
			if !ok {
				return false
			}
			found, code := t.carryOut(c)
			t.deliver(of, c, found, code)
			return true
		}},
		{by + ": the answer of the inventory is lost", func(t turn) bool {
			c, ok := asked(t)
			if !ok || c.reads() || !t.fault() {
				return false
			}
			t.carryOut(c)
			t.failed(of, c)
			return true
		}},
		{by + ": the inventory does not answer", func(t turn) bool {
			c, ok := asked(t)
			if !ok || !t.fault() {
				return false
			}
			t.failed(of, c)
			return true
		}},
		{by + ": its request is carried out, and will be once more", func(t turn) bool {
			c, ok := asked(t)
			if !ok || t.w.late.kind != none || c.reads() || !t.fault() {
				return false
			}
			found, code := t.carryOut(c)
			t.w.late = c
			t.w.late.asked, t.w.late.known = 0, known{}
			t.deliver(of, c, found, code)
			return true
		}},
	}
}

// failed: the call failed, and it is not known whether it took effect. What is retried is
// asked again.
func (t turn) failed(of int, c call) {
	switch c.kind {
	case cleanReserve, returnReserve, bindReserve, lowerRead, readReservation, resolve, ensureReserved:
		if t.owed(of).attempt++; c.kind != readReservation && c.kind != resolve && c.kind != ensureReserved {
			return
		}
	}
	t.deliver(of, c, device.Inventory{}, device.CodeInventoryUnavailable)
}

var lateMoves = []move{{"a request is carried out once more, late", func(t turn) bool {
	if t.w.late.kind == none {
		return false
	}
	c := t.w.late
	t.w.late = call{}
	c.attempt++
	t.carryOut(c)
	return true
}}}

// hostMoves are the ends of the host's activities, and what can happen to its worker.
var hostMoves = []move{
	{"the step runs", func(t turn) bool {
		return t.w.wf.main.kind == cleanStep && t.w.wf.exists && t.runStep(true)
	}},
	{"the verify runs, and its samples miss what is left", func(t turn) bool {
		if t.w.wf.main.kind != cleanStep || t.w.wf.stepDone || t.w.wf.clean.next != verify ||
			t.w.bytes[t.w.slot] == noParty || !t.w.wf.exists {
			return false
		}
		if t.w.slot == enrolled && t.w.bytes[enrolled] == stranger {
			return false // what was written after the erase is not what samples are for (F37)
		}
		left := t.w.bytes[t.w.slot]
		t.w.bytes[t.w.slot] = noParty
		ran := t.runStep(true)
		if t.w.bytes[t.w.slot] == noParty {
			t.w.bytes[t.w.slot] = left
		}
		return ran
	}},
	{"somebody else writes to it between two attempts of its verify", func(t turn) bool {
		f, j := &t.w.wf, t.w.host.journal
		if f.main.kind != cleanStep || f.stepDone || !f.exists || t.w.slot != enrolled || t.w.bytes[enrolled] != noParty ||
			f.clean.next != verify || j.step != verify || j.seq != f.seq || !t.fault() {
			return false
		}
		t.w.bytes[enrolled] = stranger
		return true
	}},
	{"the step runs, and the worker is killed before it answers", func(t turn) bool {
		return t.w.wf.main.kind == cleanStep && t.w.wf.exists && t.fault() && t.runStep(false) && t.killed()
	}},
	{"the worker is killed in the middle of a step", func(t turn) bool {
		if t.w.wf.main.kind != cleanStep || t.w.wf.stepDone || !t.w.wf.exists || !t.fault() {
			return false
		}
		t.w.wf.main.attempt++
		return t.killed()
	}},
	{"the step is canceled", func(t turn) bool {
		if !t.w.wf.exists || t.w.wf.main.kind != cleanStep && t.w.wf.main.kind != cleanDiscover || !t.mustStop() {
			return false
		}
		t.interrupted(device.CodeAborted)
		return true
	}},
	{"the attempt is frozen, and another begins", func(t turn) bool {
		if t.w.wf.main.kind != cleanStep || t.w.wf.stepDone || t.w.wf.clean.next != zero || t.w.host.frozen ||
			!t.w.wf.exists || t.w.slot != enrolled || !t.fault() {
			return false
		}
		t.w.host.frozen, t.w.host.frozenUnit = true, t.w.slot
		t.w.wf.main.attempt++
		return true
	}},
	{"the frozen attempt wakes", func(t turn) bool {
		if !t.w.host.frozen {
			return false
		}
		t.w.host.frozen = false
		if !t.without.lease {
			return true // it asks the server, which does not know it any more
		}
		t.wipe(t.w.host.frozenUnit)
		return true
	}},
	{"the burn goes on in its next task", func(t turn) bool {
		f := &t.w.wf
		if !f.exists || f.upd.kind != burnBegun {
			return false
		}
		f.upd.kind, f.queued = none, true
		return true
	}},
	{"the host's worker reports the device", func(t turn) bool { return t.w.host.started && t.reported() }},
}

func (t turn) killed() bool {
	t.w.host.started, t.w.attended = true, false
	return true
}

func (t turn) whatIsThere() device.HostResult {
	if t.w.slot == enrolled {
		return device.HostSame
	}
	return device.HostOther
}

// lookMoves are the ends of the discoveries of one coroutine.
func lookMoves(of int, by string) []move {
	end := func(t turn, result device.HostResult, faulty bool) bool {
		at := t.owed(of)
		if !t.w.wf.exists || !at.looks() || faulty && !t.fault() {
			return false
		}
		if result != device.HostUnreachable {
			t.w.unseen = false
		}
		t.w.attended = t.w.attended || result == device.HostSame && at.kind != lookBeforeBind
		t.looked(at, result)
		return true
	}
	return []move{
		{by + ": the host looks", func(t turn) bool { return end(t, t.whatIsThere(), false) }},
		{by + ": the host's look fails", func(t turn) bool { return end(t, device.HostFailed, true) }},
		{by + ": the host does not answer", func(t turn) bool {
			return t.owed(of).kind != cleanDiscover && end(t, device.HostUnreachable, true)
		}},
	}
}

// wipe erases hardware.
func (t turn) wipe(u unit) {
	for n, tenant := range t.w.tenants {
		if p := first + who(n); tenant.has && t.w.bytes[u] == p {
			t.broken("the bytes of " + p.String() + ", who has the device, are wiped")
		}
	}
	if t.w.held {
		t.broken("an operator holds the device, and it is wiped")
	}
	t.w.bytes[u] = noParty
}

// runStep is one attempt of the present step on the host: admitted by the journal, under the
// fence and with the identity checked.
func (t turn) runStep(answers bool) bool {
	f, h := &t.w.wf, &t.w.host
	if f.stepDone {
		if answers {
			t.stepEnded(h.journal.workDone, "")
		}
		return answers
	}
	want := f.clean.next
	if t.nova && t.w.inv.used != noParty && t.w.tenants[t.w.inv.used-first].has {
		return false // its guest holds the device, and the step waits (F12, F21)
	}
	stored, work := h.journal.entry(), f.work(t.w.slot)
	verdict := t.without.admit(stored, h.journal.found, work.entry())
	end := func(of workDone, code device.Code) bool {
		if answers {
			t.stepEnded(of, code)
		} else {
			f.main.attempt++
		}
		return true
	}
	switch {
	case verdict.Fault != nil:
		return end(work, verdict.Fault.Code)
	// the identity is read again, also of what was done before
	case t.w.slot != enrolled && !(verdict.Done && t.without.inspection):
		return end(work, device.CodeIdentityChanged)
	case verdict.Done:
		t.w.attended = t.w.attended || h.journal.step == verify
		return end(h.journal.workDone, "")
	}
	h.record.seq, h.record.cleans = max(h.record.seq, f.seq), max(h.record.cleans, f.cleans)
	h.record.bindings = max(h.record.bindings, int8(t.dev().Bindings))
	j := &h.journal
	j.found, j.workDone, j.done = true, work, false
	switch want {
	case zero:
		t.wipe(t.w.slot)
	case verify:
		t.w.attended, t.w.aged = true, false
		if t.w.bytes[t.w.slot] != noParty {
			return end(work, device.CodeVerifyFailed)
		}
	}
	j.done = true
	return end(work, "")
}

// work is what the present attempt is to do.
func (f *workflow) work(u unit) workDone {
	return workDone{seq: f.seq, attempt: f.main.attempt, clean: f.clean.id, generation: f.clean.generation,
		provider: f.clean.provider, step: f.clean.next, unit: u}
}

// reported: the host's worker has started and reports the device with its record.
func (t turn) reported() bool {
	f, r := &t.w.wf, t.w.host.record
	t.w.host.started = false
	d := t.dev()
	switch {
	case !f.exists:
		t.revive()
	case d.State == device.Retired:
	case r.seq > f.seq || int(r.bindings) > d.Bindings || r.cleans > f.cleans:
		t.invalidate(true)
	default:
		f.read, f.look = true, true
	}
	return true
}

// revive starts the workflow from the host's record.
func (t turn) revive() {
	r := t.w.host.record
	d := device.Device{Owner: device.OwnerSelf, OneTimeUse: true, Cleanable: true}
	if t.nova {
		d.Owner = device.OwnerNova
	}
	t.w.wf = workflow{exists: true, run: t.w.wf.run + 1, undiscovered: true, ended: t.w.wf.ended}
	d.Bindings = int(r.bindings)
	t.setDev(d)
	t.invalidate(true)
}

// worldMoves are what tenants, operators, other services, the database and the hardware do.
var worldMoves = []move{
	{"first binds it", func(t turn) bool { return t.bindBy(first, actBind) }},
	{"second binds it", func(t turn) bool { return t.bindBy(second, actBind) }},
	{"first unbinds it", func(t turn) bool { return t.unbindBy(first) }},
	{"second unbinds it", func(t turn) bool { return t.unbindBy(second) }},
	{"first claims it", func(t turn) bool { return t.bindBy(first, actClaim) }},
	{"first burns its claim", func(t turn) bool { return t.burnBy(first, false) }},
	{"first burns its claim, some time after the look", func(t turn) bool { return t.burnBy(first, true) }},
	{"the claim expires", func(t turn) bool {
		return t.w.wf.exists && t.dev().Claim != nil && !t.updating() && t.apply(device.Event{Kind: device.ClaimExpired})
	}},

	{"the operator manages it", func(t turn) bool { return t.acts() && t.startLeave(actManage, device.Manage) }},
	{"the operator provides it", func(t turn) bool { return t.acts() && t.startProvide() }},
	{"the operator cleans it", func(t turn) bool {
		return t.acts() && t.legal(device.Event{Kind: device.Clean}) && t.apply(device.Event{Kind: device.Clean})
	}},
	{"the operator has it verified", func(t turn) bool {
		return t.acts() && t.legal(device.Event{Kind: device.CleanSteps}) && t.apply(device.Event{Kind: device.CleanSteps})
	}},
	{"the operator aborts its clean", func(t turn) bool {
		f := t.w.wf
		switch f.main.kind {
		case cleanReserve, cleanDiscover, cleanStep:
			goesOn := !f.main.inTask && t.cleanUnderWay() && f.inUse.by == noParty && !f.unreserved
			return t.without.losesTasks() && goesOn && t.acts() && t.interrupted(device.CodeAborted)
		}
		return false
	}},
	{"two principals override it", turn.override},
	{"the operator maintains it", func(t turn) bool { return t.acts() && t.startLeave(actMaintain, device.Maintain) }},
	{"the operator ends the maintenance", func(t turn) bool { return t.acts() && t.startEndMaintenance() }},
	{"the operator retires it", func(t turn) bool { return t.acts() && t.startLeave(actRetire, device.Retire) }},
	{"the operator retires it as lost", func(t turn) bool {
		return t.acts() && t.legal(device.Event{Kind: device.Lost}) && !t.taken() && t.state() != device.Retired &&
			t.apply(device.Event{Kind: device.Lost})
	}},

	{"Nova allocates it to first", func(t turn) bool { return t.allocate(first) }},
	{"Nova reserves it", func(t turn) bool {
		i := &t.w.inv
		if !t.nova || i.used == noParty || i.reserved {
			return false
		}
		i.reserved = true
		i.generation++
		return true
	}},
	{"Nova's instance is gone", func(t turn) bool {
		i := &t.w.inv
		if !t.nova || i.used == noParty {
			return false
		}
		t.w.tenants[i.used-first] = tenant{}
		i.used = noParty
		return true
	}},
	{"Nova re-creates the provider", func(t turn) bool {
		if !t.nova || t.w.inv.used != noParty || t.w.recreations == 0 || !t.fault() {
			return false
		}
		t.w.recreations--
		t.w.inv = stock{exists: true, provider: t.w.inv.provider + 1}
		return true
	}},

	{"reconciliation asks it to re-check", func(t turn) bool {
		if !t.w.wf.exists || t.w.wf.read || t.without.sweeps || !t.wantsRecheck() {
			return false
		}
		t.w.wf.read = true
		return true
	}},
	{"the host finds other hardware", func(t turn) bool {
		if !t.w.wf.exists || !t.w.unseen || t.w.wf.look || t.state() == device.Retired {
			return false
		}
		t.w.wf.look, t.w.wf.read = true, true
		return true
	}},
	{"the hardware is swapped", func(t turn) bool {
		if t.w.slot == other || t.w.attended || t.beingLowered() || t.bindLooked() || !t.fault() {
			return false
		}
		for n := range t.w.tenants {
			t.w.tenants[n].has = false // whoever had it lost it with the hardware
		}
		// While a step is under way its own check of the identity is still to come.
		t.w.slot, t.w.unseen, t.w.aged = other, true, t.w.wf.main.kind != cleanStep
		return true
	}},
	{"the database is saved", func(t turn) bool {
		f := t.w.wf
		asks := f.rec.kind != none || t.updating() || t.dev().Claim != nil // whose answers the save would split
		if t.keepDatabase || t.w.backup.exists || !f.exists || asks || t.w.faults == 0 {
			return false
		}
		t.w.backup = t.w.wf
		return true
	}},
	{"the database is put back", func(t turn) bool {
		if !t.w.backup.exists || t.w.backup == t.w.wf || !t.fault() {
			return false
		}
		t.w.held = t.w.held && t.holdRecorded()
		t.w.wf, t.w.backup = t.w.backup, workflow{}
		t.w.accepted = t.w.acceptedOnce
		t.w.unseen = t.w.slot == other // the host's scan forgot what it found, too
		t.forgetUnbind()
		return true
	}},
	{"the workflow is lost", func(t turn) bool {
		if !t.w.wf.exists || !t.fault() {
			return false
		}
		ended := t.dev().Hold()
		if t.state() == device.Unknown {
			ended = t.w.wf.ended // this run knew no more
		}
		t.w.wf, t.w.host.started = workflow{run: t.w.wf.run, dev: t.w.wf.dev, ended: ended}, true
		t.forgetUnbind()
		return true
	}},
}

// holdRecorded: the provider records that an operator holds the device, and no late write replaces
// that. One of Nova's never does, and of a device that was not offered the record comes after the answer.
// A clean or a return that was under way when the database was saved goes on without a look at it.
func (t turn) holdRecorded() bool {
	i, f := t.w.inv, t.w.wf
	return i.hold != device.HoldNone && i.tenant == noParty && !f.ensure && f.rec.kind == none && t.w.late.kind == none &&
		t.w.backup.main.kind == none
}

// forgetUnbind: only the lost history knew that the recorded instance has left. The device
// stays its own, which is what an operator sees.
func (t turn) forgetUnbind() {
	if p := t.w.inv.tenant; p == first || p == second {
		t.w.tenants[p-first].denied = noDenial
	}
}

// beingLowered: the write is under way, which is limited to less time than a swap takes.
func (t turn) beingLowered() bool {
	f := t.w.wf
	return f.exists && (f.main.kind == lower || f.upd.kind == lower)
}

func (t turn) busy() bool {
	f := t.w.wf
	return f.main.kind != none || f.rec.kind != none || t.updating() || t.dev().Claim != nil
}

func (t turn) bindBy(p who, a act) bool {
	f := &t.w.wf
	if t.nova || !f.exists || t.updating() {
		return false
	}
	if d := t.dev(); d.Binding != nil {
		// Its tenant repeats its bind, or who has the device where the workflow does not know of it.
		known, recorded := d.Binding.Instance == p.String(), d.State == device.Allocated && t.w.inv.tenant == p
		return a == actBind && (known && !t.w.tenants[p-first].has || !known && recorded) && t.bindAgain(p)
	}
	refused := !t.legal(device.Event{Kind: device.ClaimEvent, Instance: p.String()})
	if refused || t.w.binds == 0 || p == second && t.dev().Bindings == 0 {
		return false
	}
	t.w.binds--
	t.startBind(p, a)
	return true
}

// unbindBy: who never had the device, and asked for none, does not unbind it.
func (t turn) unbindBy(p who) bool {
	f, mine := t.w.wf, t.w.tenants[p-first]
	if t.nova || !f.exists || mine.denied == unbindAnswered || !mine.has && !f.had[p-first] && !t.claimed(p) {
		return false
	}
	return t.unbind(p)
}

func (t turn) allocate(p who) bool {
	i := &t.w.inv
	if !t.nova || i.used != noParty || i.reserved || t.w.binds == 0 || !i.exists {
		return false
	}
	if t.w.wf.exists && t.w.wf.main.kind == cleanStep {
		return false // no guest starts with a device that the host's step holds
	}
	t.w.binds--
	i.used = p
	i.generation++
	t.w.tenants[p-first] = tenant{has: true}
	t.writes(p)
	return true
}

// wantsRecheck is what reconciliation makes of the device.
func (t turn) wantsRecheck() bool {
	d := t.dev()
	listed := device.Device{State: d.State, Status: device.Enabled, Owner: d.Owner}
	if d.InMaintenance() {
		listed.Maintenance = device.MaintenanceOperator
	}
	if d.Binding != nil {
		listed.Binding = &device.Binding{Number: d.Bindings, Instance: d.Binding.Instance,
			Observed: d.Owner == device.OwnerNova}
	}
	published := device.Known{Provider: providerName(t.w.wf.provider), Bindings: d.Bindings}
	if t.nova && d.Allocatable() && !t.w.wf.uncertain {
		published.Generation = int64(t.w.wf.generation)
	}
	s := device.Ask(device.AskReconcile, listed, published)
	found, code := t.carryOut(call{kind: readReservation, attempt: 1})
	if code != "" {
		s = s.Failed(code)
	} else {
		s = s.Answered(found)
	}
	if t.without.unexplained {
		s.Inventory.Generation = 0
	}
	o, _ := device.Observe(listed, s)
	return o.Needs(device.RequestRecheck)
}
