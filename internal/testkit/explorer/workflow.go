package explorer

import (
	"strconv"

	"burnish/internal/device"
)

// This file models workflows/lifecycle: what the workflow asks for next, and what it does
// with an answer. What an answer means, the tables decide.

// turn is one step of the world: w changes.
type turn struct {
	*explorer
	w *world
}

func (t turn) dev() device.Device        { return t.atlas.all[t.w.wf.dev] }
func (t turn) setDev(d device.Device)    { t.w.wf.dev = t.atlas.id(d) }
func (t turn) state() device.State       { return t.dev().State }
func (t turn) legal(e device.Event) bool { return device.Allows(t.dev(), e) }

// apply is record.Apply.
func (t turn) apply(e device.Event) bool {
	was := t.dev()
	next, err := device.Next(was, e)
	if err != nil {
		t.illegal = err
		return false
	}
	t.setDev(next)
	f := &t.w.wf
	t.w.accepted, t.w.held = t.stillAccepted(next), t.heldAfter(next, e.Kind)
	if was.Binding != nil && (next.Binding == nil || next.Binding.Number != was.Binding.Number) {
		f.left = whoIs(was.Binding.Instance)
	}
	if next.Binding != nil && (was.Binding == nil || next.Binding.Number != was.Binding.Number) {
		f.burnedFor = noParty
		if p := whoIs(next.Binding.Instance); p == first || p == second {
			f.had[p-first] = true
		}
	}
	if was.Claim != nil && next.Claim == nil && next.State == device.Available {
		f.read = true
	}
	if device.MustReserve(was, next, e.Kind) && !(t.without.lostReturn && was.State == device.Cleaning) &&
		!(t.without.raise && next.State == device.Retired) {
		f.ensure = true
	}
	return true
}

// must is for events that cannot be refused.
func (t turn) must(e device.Event) {
	if !t.apply(e) {
		t.broken("illegal event " + string(e.Kind) + ": " + t.illegal.Error())
	}
}

func (t turn) invalidate(fromHost bool) {
	f := &t.w.wf
	if fromHost {
		r := t.w.host.record
		f.cleans, f.seq = max(f.cleans, r.cleans), max(f.seq, r.seq, t.w.host.journal.seq)
		d := t.dev()
		d.Bindings = max(d.Bindings, int(r.bindings))
		t.setDev(d)
	}
	if d := t.dev(); t.without.hold && d.Hold() != device.HoldNone {
		d.State, d.NamedSteps, d.Status, d.Maintenance = device.Unknown, false, device.Enabled, device.MaintenanceOff
		t.setDev(d)
	}
	t.must(device.Event{Kind: device.Invalidated})
	f.cleanUnderWay, f.look = false, true
	if f.main.kind != cleanStep { // which knows what it does until it ends
		f.clean = cleanRun{}
	}
	if t.state() == device.Unknown {
		f.uncertain = true
	} else {
		f.read = true
	}
}

// known is reservation.known.
func (t turn) known() known {
	f := t.w.wf
	k := known{generation: f.generation, provider: f.provider, uncertain: f.uncertain, recorded: f.cleanUnderWay,
		left: t.left(), leftGeneration: t.leftGeneration()}
	if b := t.dev().Binding; b != nil {
		k.left = whoIs(b.Instance) // it may leave before the answer comes
	}
	return k
}

// knows is DeviceState.Knows.
func (t turn) knows(p who) bool {
	return (p == first || p == second) && (t.w.wf.had[p-first] || t.w.wf.burnedFor == p)
}

// left is reservation.left.
func (t turn) left() who {
	if p := t.w.wf.burnedFor; p != noParty {
		return p
	}
	return t.w.wf.left
}

func (k known) full() device.Known {
	return device.Known{
		Generation: int64(k.generation), Provider: providerName(k.provider), Uncertain: k.uncertain,
		CleanRecorded: k.recorded,
		Left:          k.left.String(), LeftGeneration: int64(k.leftGeneration),
	}
}

// providerName is a provider's UUID as the workflow knows it: "" for our own.
func providerName(p int8) string {
	if p == 0 {
		return ""
	}
	return strconv.Itoa(int(p))
}

// ask begins a call.
func (t turn) ask(kind callKind, conditional bool) call {
	c := call{kind: kind, attempt: 1, asked: t.w.wf.dev, known: t.known()}
	if conditional {
		c.demand(t)
	}
	return c
}

// clears is reservation.cleared.
func (c call) clears(t turn) call {
	c.tenant, c.left, c.leftGeneration = clearTenant, t.left(), t.leftGeneration()
	return c.recordOf(t)
}

// clearsFor is reservation.clearedFor.
func (c call) clearsFor(t turn, kind device.EventKind) call {
	c = c.clears(t)
	if next, err := device.Next(t.dev(), device.Event{Kind: kind}); err == nil {
		c.hold = next.Hold()
	}
	return c
}

// recordOf is reservation.recordOf.
func (c call) recordOf(t turn) call {
	d := t.dev()
	c.hold, c.bindings, c.cleans = d.Hold(), int8(d.Bindings), t.w.wf.cleans
	return c
}

// leftGeneration is reservation.leftGeneration.
func (t turn) leftGeneration() int16 {
	if f := t.w.wf; f.uncertain || f.burnedFor != noParty {
		return f.generation + 1
	}
	return t.w.wf.generation
}

// records is reservation.recorded.
func (c call) records(t turn) call {
	switch d := t.dev(); {
	case d.State == device.Unknown:
	case d.Binding != nil && d.Binding.Instance != device.UnknownConsumer:
		c.tenant, c.who = writeTenant, whoIs(d.Binding.Instance)
		return c.recordOf(t)
	case d.State == device.Retired:
		c.tenant = clearTenant
		return c.recordOf(t)
	case d.Binding == nil && d.Claim == nil && d.State != device.Allocated &&
		(t.left() != noParty || d.Hold() != device.HoldNone):
		return c.clears(t)
	}
	return c
}

func (c *call) demand(t turn) {
	generation, provider := c.known.full().Expects(t.dev())
	if generation != nil {
		c.expects, c.expect = true, int16(*generation)
	}
	if provider != "" {
		n, _ := strconv.Atoi(provider)
		c.provider = int8(n)
	}
}

// snapshot is the question with its answer. A code of "" means that it was answered.
func (t turn) snapshot(q device.Question, c call, found device.Inventory, code device.Code) device.Snapshot {
	k := c.known.full()
	switch {
	case c.tenant == keepTenant:
	case c.kind == ensureReserved, c.kind == leaveReserve, c.kind == endMaintenance:
		k.LeftGeneration++ // this write's own
	}
	s := device.Ask(q, t.atlas.all[c.asked], k)
	f := t.w.wf
	s.CleanStarted = f.cleanUnderWay
	s.CleanReserved = f.cleanUnderWay && (f.clean.generation != 0 || f.clean.provider != 0)
	if code != "" {
		return s.Failed(code)
	}
	s = s.Answered(found)
	if f.cleanUnderWay {
		s = s.WroteFirst(int(f.cleans), t.dev().Hold())
	}
	return s
}

// remember is the end of reservation.call.
func (t turn) remember(c call, found device.Inventory, code device.Code) {
	f := &t.w.wf
	switch code {
	case "":
		if c.tenant != keepTenant && found.Witness != device.WitnessBound {
			f.burnedFor = noParty
		}
		compared := c.expects || c.kind == lower || c.kind == lowerRead || t.without.compares
		k, readAgain := t.known().full().After(t.dev(), found, compared)
		n, _ := strconv.Atoi(k.Provider)
		f.generation, f.provider, f.uncertain = int16(k.Generation), int8(n), k.Uncertain
		f.read = f.read || readAgain
	case device.CodeConflict, device.CodeInUse, device.CodeAlreadyBurned, device.CodeInventoryGenerationAhead,
		device.CodeNoProvider:
	default:
		f.uncertain = f.uncertain || !c.reads()
	}
	if code == "" {
		t.takeNumbers(found.Record)
	}
}

// takeNumbers is reservation.takeNumbers.
func (t turn) takeNumbers(r device.Record) {
	t.w.wf.cleans = max(t.w.wf.cleans, int8(r.Cleans))
	if d := t.dev(); r.Witness == device.WitnessFree && r.Bindings > d.Bindings {
		d.Bindings = r.Bindings
		t.setDev(d)
	}
}

// conclude is reservation.Conclude.
func (t turn) conclude(s device.Snapshot) device.Observation {
	o := t.decide(s)
	t.record(o)
	if o.Needs(device.StopClean) && o.Event == "" {
		s.CleanStarted, s.CleanReserved = false, false // by then
		t.w.wf.inUse = useOf(t.decide(s))
	}
	t.w.wf.unreserved = t.w.wf.unreserved || o.Needs(device.RestartClean)
	return o
}

func useOf(o device.Observation) use { return use{whoIs(o.Instance), o.Recorded, int8(o.Number)} }

func (t turn) record(o device.Observation) {
	switch o.Event {
	case "":
	case device.Invalidated:
		t.invalidate(false)
	case device.CleanFailed:
		t.must(device.Event{Kind: device.CleanFailed})
	default:
		known := t.knows(whoIs(o.Instance))
		t.must(o.EventOf(true))
		if o.Event == device.ObservedInUse {
			t.w.wf.backAgain = noParty
			if o.Recorded && known {
				t.w.wf.backAgain = whoIs(o.Instance)
			}
		}
	}
	f := &t.w.wf
	f.ensure = (f.ensure || o.Needs(device.EnsureReserved)) && !o.Needs(device.StopReserving)
	f.read = (f.read || o.Needs(device.ReadAgain)) && !o.Needs(device.AwaitProvider)
}

func (t turn) cleanDue() bool { return t.dev().BeingCleaned() }

// cleanUnderWay is Cleaning.CleanUnderWay.
func (t turn) cleanUnderWay() bool { return t.w.wf.cleanUnderWay && t.cleanDue() }

// settle starts what the workflow starts by itself, until it waits.
func (t turn) settle() {
	f := &t.w.wf
	for t.broke == "" && f.exists {
		d := t.dev()
		switch {
		case f.queued && f.lock == free:
			f.queued, f.lock = false, byUpd
			t.updateGoesOn()
		case f.upd.kind == awaitKnown && f.inUse.by == noParty && (d.State != device.Unknown || d.AwaitingManualClean):
			t.confirmed()
		case f.rec.kind == none && !d.Returning && f.lock == free && (f.read || f.ensure):
			f.lock = byRec
			if f.ensure {
				f.rec = t.ask(ensureReserved, f.known(t).KeepsClean(d)).records(t)
			} else {
				f.rec = t.ask(readReservation, false)
			}
		case f.rec.kind == none && f.look && d.State != device.Retired && d.State != device.Unknown && !t.cleanDue() &&
			!d.Returning:
			f.look = false
			f.rec = t.ask(discover, false)
		case f.main.kind == none && f.lock == free && d.State == device.Unknown && !d.AwaitingManualClean:
			f.lock, f.main = byMain, t.ask(resolve, false)
		case f.main.kind == none && f.lock == free && d.Returning:
			t.startReturn()
		case f.main.kind == none && f.lock == free && t.cleanDue() && !d.AwaitingManualClean:
			f.cleans++
			f.cleanUnderWay, f.inUse, f.unreserved = true, use{}, false
			f.clean = cleanRun{id: f.run*8 + f.cleans}
			if d.NamedSteps {
				f.clean.next = verify
			}
			f.lock, f.main = byMain, t.ask(cleanReserve, true).clears(t)
			f.main.inTask = true
		default:
			return
		}
	}
}

func (f *workflow) known(t turn) device.Known { return t.known().full() }

// startReturn is ReturnToOffer.
func (t turn) startReturn() {
	f := &t.w.wf
	f.lock = byMain
	if !f.cleanUnderWay {
		f.main = t.ask(returnReserve, true).clears(t)
		return
	}
	generation, provider := f.clean.generation, f.clean.provider
	if t.nova {
		f.generation, f.provider = generation, provider
	}
	f.cleanUnderWay, f.clean = false, cleanRun{}
	t.lowerFor(&f.main, noAct, generation, provider)
}

// lowerFor begins unreserve, with the host's look where it is due.
func (t turn) lowerFor(at *call, a act, generation int16, provider int8) {
	d := t.dev()
	if at == &t.w.wf.main && d.InMaintenance() {
		t.must(device.Event{Kind: device.Returned})
		*at, t.w.wf.lock = call{}, free
		return
	}
	*at = call{kind: lower, act: a, attempt: 1, asked: t.w.wf.dev, generation: generation, provider: provider,
		known: known{generation: generation, provider: provider}, inTask: a == noAct}
	if (d.Unseen || t.w.aged) && !t.without.look {
		at.kind = lookBeforeReturn
	}
}

// interrupted is cleaning.interrupted: the clean must not go on.
func (t turn) interrupted(code device.Code) bool {
	f := &t.w.wf
	switch {
	case !t.cleanUnderWay():
	case f.inUse.by != noParty:
		t.record(device.Observation{
			Event: device.ObservedInUse, Instance: f.inUse.by.String(), Recorded: f.inUse.recorded, Number: int(f.inUse.number),
		})
	case f.unreserved: // the next clean begins at once
	case code == "":
		return false
	case code == device.CodeInventoryGenerationAhead, code == device.CodeSuperseded:
		t.invalidate(code == device.CodeSuperseded && !t.without.sameWork)
	default:
		t.must(device.Event{Kind: device.CleanFailed})
	}
	f.cleanUnderWay, f.clean, f.main, f.unreserved, f.inUse = false, cleanRun{}, call{}, false, use{}
	return true
}

// mustStop is cleaning.MustStop.
func (t turn) mustStop() bool {
	f := t.w.wf
	called := f.main.kind == cleanReserve || f.main.kind == cleanDiscover || f.main.kind == cleanStep
	return called && (!t.cleanUnderWay() || f.inUse.by != noParty || f.unreserved)
}

// nextStep schedules the next step of the plan, or ends it.
func (t turn) nextStep() {
	f := &t.w.wf
	if f.undiscovered {
		f.main = t.ask(cleanDiscover, false)
		return
	}
	if f.clean.next < planLength {
		if t.state() == device.PendingCleaning {
			t.must(device.Event{Kind: device.CleanStarted})
		}
		f.seq++
		f.main = t.ask(cleanStep, false)
		return
	}
	f.main = call{}
	if t.dev().NamedSteps {
		t.must(device.Event{Kind: device.StepsDone})
		f.cleanUnderWay, f.clean = false, cleanRun{}
		return
	}
	t.must(device.Event{Kind: device.CleanDone})
}

// answeredMain goes on after an answer to the main coroutine's call of the inventory.
func (t turn) answeredMain(c call, found device.Inventory, code device.Code) {
	f := &t.w.wf
	t.remember(c, found, code)
	switch c.kind {
	case resolve:
		f.main, f.lock = call{}, free
		if t.state() != device.Unknown {
			return
		}
		if code == "" {
			if found.Hold == device.HoldNone && found.Witness != device.WitnessNone {
				found.Hold = t.without.held(f.ended) // by the listing
			}
			f.ended = device.HoldNone
		}
		t.conclude(t.snapshot(device.AskResolve, c, found, code))
	case cleanReserve:
		f.main, f.lock = call{}, free
		if t.interrupted(code) {
			return
		}
		if o := t.decide(t.snapshot(device.AskClean, c, found, code)); !o.Needs(device.Proceed) {
			f.inUse = useOf(o)
			t.interrupted("")
			return
		}
		f.clean.generation, f.clean.provider = int16(found.Generation), providerNumber(found)
		t.nextStep()
	case returnReserve:
		f.main = call{}
		if !t.conclude(t.snapshot(device.AskReturn, c, found, code)).Needs(device.Proceed) {
			f.lock = free
			return
		}
		t.lowerFor(&f.main, noAct, int16(found.Generation), providerNumber(found))
	case lower, lowerRead:
		t.lowered(&f.main, c, found, code)
	}
}

func providerNumber(i device.Inventory) int8 {
	n, _ := strconv.Atoi(i.Provider)
	return int8(n)
}

// lowered goes on after the write that lowers, or after the read that follows a failed one.
func (t turn) lowered(at *call, c call, found device.Inventory, code device.Code) {
	if c.kind == lower && code != "" {
		at.kind, at.attempt, at.inTask = lowerRead, 1, false
		return
	}
	s := t.snapshot(device.AskUnreserve, c, found, code)
	o := t.decide(s)
	if o.Needs(device.RepeatWrite) {
		t.lowerFor(at, c.act, c.generation, c.provider)
		at.inTask = false
		return
	}
	t.record(o)
	*at, t.w.wf.lock = call{}, free
}

// answeredRec goes on after an answer to a reconciliation's call.
func (t turn) answeredRec(c call, found device.Inventory, code device.Code) {
	f := &t.w.wf
	t.remember(c, found, code)
	q, intent := device.AskRecheck, &f.read
	if c.kind == ensureReserved {
		q, intent = device.AskReserve, &f.ensure
	}
	f.rec, f.lock = call{}, free
	if code == "" {
		*intent = false
	}
	o := t.conclude(t.snapshot(q, c, found, code))
	if code != "" && o.Event == device.Invalidated && t.state() == device.Unknown {
		f.ensure = false
	}
}

// looked goes on after a discovery of the host, of the coroutine whose call it is.
func (t turn) looked(at *call, result device.HostResult) {
	f, c := &t.w.wf, *at
	seq, cleans := f.seq, f.cleans
	if result == device.HostSame {
		r := t.w.host.record
		f.cleans, f.seq = max(f.cleans, r.cleans), max(f.seq, r.seq)
	}
	switch c.kind {
	case cleanDiscover:
		*at = call{}
		code := device.Code("")
		switch result {
		case device.HostSame:
			if f.undiscovered = false; (f.seq != seq || f.cleans != cleans) && !t.without.discovered {
				code = device.CodeSuperseded
			}
		case device.HostFailed:
			code = device.CodeIO
		default:
			code = device.CodeIdentityChanged
		}
		if !t.interrupted(code) {
			t.nextStep()
		}
	case discover:
		*at = call{}
		t.record(t.observe(device.AskHost, result))
	case lookBeforeBind:
		f.look = false
		t.lookedBeforeBind(c, result)
	default:
		t.lookedBeforeOffer(at, c, result)
	}
}

// lookedBeforeOffer is the end of discovery.BeforeOffer.
func (t turn) lookedBeforeOffer(at *call, c call, result device.HostResult) {
	f := &t.w.wf
	f.look = false
	o := t.observe(device.AskLook, result)
	t.record(o)
	t.w.aged = t.w.aged && result != device.HostSame
	*at = call{}
	if o.Event != device.Seen {
		if c.kind != lookBeforeProvide {
			f.lock = free
		}
		return
	}
	switch c.kind {
	case lookBeforeReturn:
		t.lowerFor(at, c.act, c.generation, c.provider)
	case lookBeforeProvide:
		if t.legal(device.Event{Kind: device.Provide}) {
			t.must(device.Event{Kind: device.Provide})
		}
	case lookBeforeEndMaintenance:
		*at = t.ask(endMaintenance, true).clearsFor(t, device.MaintainOff)
		at.act = actMaintainOff
	}
}

// stepEnded goes on after a step.
func (t turn) stepEnded(of workDone, code device.Code) {
	f := &t.w.wf
	f.main, f.stepDone = call{}, false
	if code == "" && (of.step != f.clean.next || of.clean != f.clean.id || of.seq != f.seq) && !t.without.sameWork {
		code = device.CodeResultMismatch
	}
	if t.interrupted(code) {
		return
	}
	f.clean.next++
	t.nextStep()
}
