package explorer

import (
	"time"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// This file is what can happen: answers, and what tenants, operators, other services,
// faults and the hardware do.

// move is one kind of thing that can happen. It says whether it can.
type move struct {
	name string
	do   func(turn) bool
	// loses: it is the loss of a task. answers: it is the end of a call, whose answer may be late.
	loses, answers bool
}

var noAnswer = &device.Fault{Class: device.Transient, Code: device.CodeInventoryUnavailable, Message: "no answer"}

// inventoryMoves are the ends of the inventory calls of one job.
func inventoryMoves(of int) []move {
	asked := func(t turn) (*lifecycle.Call, bool) {
		c := t.owed(of)
		if c == nil {
			return nil, false
		}
		_, ok := c.In.(contract.ReservationRequest)
		return c, ok
	}
	reads := func(c *lifecycle.Call) bool { return c.Activity == contract.ActivityReadReservation }
	by := jobs[of]
	return []move{
		{name: by + ": its call of the inventory is answered", answers: true, do: func(t turn) bool {
			c, ok := asked(t)
			if !ok {
				return false
			}
			found, f := t.carryOut(*c, t.w.attempts[of])
			t.end(of, c, lifecycle.Outcome{Found: found, Fault: f})
			return true
		}},
		{name: by + ": the answer of the inventory is lost", do: func(t turn) bool {
			c, ok := asked(t)
			if !ok || reads(c) || !t.fault() {
				return false
			}
			_, _ = t.carryOut(*c, t.w.attempts[of])
			t.failed(of, c)
			return true
		}},
		{name: by + ": the inventory does not answer", do: func(t turn) bool {
			c, ok := asked(t)
			if !ok || !t.fault() {
				return false
			}
			t.failed(of, c)
			return true
		}},
		{name: by + ": its request is carried out, and will be once more", do: func(t turn) bool {
			c, ok := asked(t)
			if !ok || t.w.late != nil || t.w.forgets || reads(c) || !t.fault() {
				return false // generations come again after a put-back, and with one of them what was sent before
			}
			found, f := t.carryOut(*c, t.w.attempts[of])
			t.w.late = &lateCall{*c, t.w.attempts[of] + 1}
			t.end(of, c, lifecycle.Outcome{Found: found, Fault: f})
			return true
		}},
	}
}

// failed: the call failed, and it is not known whether it took effect. What is retried is
// asked again, for as long as nobody waits for it.
func (t turn) failed(of int, c *lifecycle.Call) {
	if c.How.Way != lifecycle.ToInventory {
		t.end(of, c, lifecycle.Outcome{Fault: noAnswer})
		return
	}
	if !c.How.Once && (!c.How.Client || c.Activity == contract.ActivityReserveForBind) {
		t.w.attempts[of]++
		return
	}
	t.end(of, c, lifecycle.Outcome{Fault: noAnswer})
}

// timeMoves are what time brings.
var timeMoves = []move{
	{name: "a request is carried out once more, late", do: func(t turn) bool {
		l := t.w.late
		if l == nil {
			return false
		}
		t.w.late = nil
		if isPool(l.call) {
			t.arrives(l.call)
		} else {
			_, _ = t.carryOut(l.call, l.attempt)
		}
		return true
	}},
	{name: "the late answer comes", do: func(t turn) bool {
		a := t.w.answer
		if a == nil {
			return false
		}
		t.w.answer = nil
		if t.w.d != nil {
			t.end(a.of, &a.call, a.outcome)
		}
		return true
	}},
	{name: "a call that is no longer due has stopped", do: func(t turn) bool {
		if t.w.d == nil {
			return false
		}
		for _, c := range t.w.d.Undue() {
			t.decide(lifecycle.Ended{Key: c.Key, Outcome: lifecycle.NotMade()})
			return true
		}
		return false
	}},
	{name: "its next moment comes", do: func(t turn) bool {
		if t.w.d == nil {
			return false
		}
		at, _ := t.w.d.Next()
		if at.IsZero() || at.Sub(t.w.now) > 10*time.Second && t.w.request() != nil {
			return false
		}
		t.pass(max(at.Sub(t.w.now), 0))
		return true
	}},
	{name: "minutes pass", do: func(t turn) bool {
		if t.w.d == nil || t.w.now.Sub(t.w.d.SeenAt) > 3*time.Minute || t.w.request() != nil || t.beingLowered() {
			return false
		}
		t.pass(4 * time.Minute)
		return true
	}},
}

// hostMoves are the ends of the host's activities, and what can happen to its worker.
var hostMoves = []move{
	{name: "the step runs", answers: true, do: func(t turn) bool { return t.runStep(true) }},
	{name: "the verify runs, and its samples miss what is left", do: func(t turn) bool {
		c := t.w.steps()
		if c == nil || t.w.stepDone || c.Activity != verify || t.w.bytes[t.w.slot] == noParty {
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
	{name: "somebody else writes to it between two attempts of its verify", do: func(t turn) bool {
		c, j := t.w.steps(), t.w.host.journal
		if c == nil || t.w.stepDone || t.w.slot != enrolled || t.w.bytes[enrolled] != noParty || c.Activity != verify ||
			j.step != verify || int64(j.seq) != c.In.(contract.StepInput).Seq || !t.fault() {
			return false
		}
		t.w.bytes[enrolled] = stranger
		return true
	}},
	{name: "the step runs, and the worker is killed before it answers", do: func(t turn) bool {
		return t.w.steps() != nil && t.fault() && t.runStep(false) && t.killed()
	}},
	{name: "the worker is killed in the middle of a step", do: func(t turn) bool {
		if t.w.steps() == nil || t.w.stepDone || !t.fault() {
			return false
		}
		t.w.attempts[0]++
		return t.killed()
	}},
	{name: "the host's worker reports the device", do: func(t turn) bool { return t.w.host.started && t.reported() }},
}

func (t turn) killed() bool {
	t.w.host.started, t.w.attended = true, false
	return true
}

// lookMoves are the ends of the discoveries of one job.
func lookMoves(of int) []move {
	end := func(t turn, code device.Code, faulty bool) bool {
		c := t.owed(of)
		if c == nil || c.Activity != contract.ActivityDiscover || faulty && !t.fault() {
			return false
		}
		o := lifecycle.Outcome{}
		switch {
		case code != "":
			o.Fault = &device.Fault{Class: device.NeedsOperator, Code: code, Message: string(code)}
			o.NotStarted = code == device.CodeHostUnreachable
		case t.w.slot != enrolled:
			o.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeIdentityChanged, Message: "other hardware"}
		default:
			found := t.discovery(t.w)
			found.Written = t.w.written
			o.Found = &found
			t.w.attended = t.w.attended || !t.bindLooks()
		}
		t.w.unseen = t.w.unseen && code == device.CodeHostUnreachable
		t.end(of, c, o)
		return true
	}
	by := jobs[of]
	return []move{
		{name: by + ": the host looks", answers: true, do: func(t turn) bool { return end(t, "", false) }},
		{name: by + ": the host's look fails", do: func(t turn) bool { return end(t, device.CodeIO, true) }},
		{name: by + ": the host does not answer", do: func(t turn) bool {
			c := t.owed(of)
			return c != nil && c.How.Client && end(t, device.CodeHostUnreachable, true)
		}},
	}
}

// bindLooks: the host looks for a bind.
func (t turn) bindLooks() bool {
	j := t.w.request()
	if j == nil {
		return false
	}
	_, binds := j.In.(contract.BindInput)
	return binds
}

// discovery is what the host finds in its slot.
func (e *explorer) discovery(w *world) contract.DiscoveryResult {
	r := w.host.record
	return contract.DiscoveryResult{Identity: device.Identity{Serial: "S1"}, Operation: "shred", ObservedAt: w.now,
		Steps: map[string]int{zero: 1, verify: 1},
		Record: &contract.HostDeviceRecord{Seq: int64(r.seq), Clean: int(r.cleans), Binding: int(r.bindings),
			KnownBefore: true}}
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
	c, h := t.w.steps(), &t.w.host
	if c == nil {
		return false
	}
	in, seen := c.In.(contract.StepInput), t.w.now
	if t.w.stepDone {
		seen = t.w.doneAt
	}
	end := func(of workDone, f *device.Fault) bool {
		if !answers {
			t.w.attempts[0]++
			return true
		}
		t.w.stepDone = false
		o := lifecycle.Outcome{Fault: f}
		if f == nil {
			o.Found = &contract.StepAnswer{SeenAt: seen,
				StepResult: contract.StepResult{Step: of.step, Clean: of.clean, Seq: int64(of.seq)}}
		} else if f.Code == device.CodeSuperseded {
			r := h.record
			o.Known = &contract.HostNumbers{Seq: int64(r.seq), Clean: int(r.cleans), Binding: int(r.bindings)}
		}
		t.end(0, c, o)
		return true
	}
	if t.w.stepDone {
		return answers && end(h.journal.workDone, nil)
	}
	if t.nova && t.w.inv.used != noParty && t.w.tenants[t.w.inv.used-first].has {
		return false // its guest holds the device, and the step waits (F12, F21)
	}
	provider := int8(0)
	if in.Provider != "" {
		provider = int8(in.Provider[0] - '0')
	}
	work := workDone{seq: int8(in.Seq), attempt: t.w.attempts[0], clean: in.Clean, generation: int16(in.Generation),
		provider: provider, step: in.Step, unit: t.w.slot}
	switch verdict := host.Admit(h.journal.entry(), h.journal.found, work.entry()); {
	case verdict.Fault != nil:
		return end(work, verdict.Fault)
	// the identity is read again, also of what was done before
	case t.w.slot != enrolled:
		return end(work, &device.Fault{Class: device.NeedsOperator, Code: device.CodeIdentityChanged})
	case verdict.Done:
		t.w.attended = t.w.attended || h.journal.step == verify
		return end(h.journal.workDone, nil)
	}
	if t.w.appliance.profile == theirs && t.state() != device.Retired { // as lost: its step may still be on its way
		t.broken("a step works at a server that others have")
	}
	h.record.seq, h.record.cleans = max(h.record.seq, work.seq), max(h.record.cleans, int8(in.Number))
	h.record.bindings = max(h.record.bindings, int8(in.Binding))
	j := &h.journal
	j.found, j.workDone, j.done = true, work, false
	switch in.Step {
	case zero:
		t.w.written = false
		t.wipe(t.w.slot)
	case verify:
		t.w.attended = true
		if t.w.bytes[t.w.slot] != noParty {
			return end(work, &device.Fault{Class: device.NeedsOperator, Code: device.CodeVerifyFailed})
		}
	}
	j.done = true
	return end(work, nil)
}

// reported: the host's worker has started and reports the device with its record.
func (t turn) reported() bool {
	r := t.w.host.record
	t.w.host.started = false
	record := &contract.HostDeviceRecord{Enrollment: t.enrollment(t.w), Identity: device.Identity{Serial: "S1"},
		Binding: int(r.bindings), Clean: int(r.cleans), Seq: int64(r.seq)}
	if t.w.d == nil {
		t.w.d = lifecycle.Recover(record, t.w.now, settings{t})
		t.decide(lifecycle.Come{})
		return true
	}
	hint := contract.Hint{Source: "host start", Host: record, Started: true}
	t.decide(lifecycle.Hinted{Signal: contract.SignalObserved, Hint: hint})
	return true
}

// worldMoves are what tenants, operators, other services, the database and the hardware do.
var worldMoves = []move{
	{name: "first binds it", do: func(t turn) bool { return t.binds(first, contract.VerbBind) }},
	{name: "second binds it", do: func(t turn) bool { return t.binds(second, contract.VerbBind) }},
	{name: "first unbinds it", do: func(t turn) bool { return t.unbinds(first) }},
	{name: "second unbinds it", do: func(t turn) bool { return t.unbinds(second) }},
	{name: "first claims it", do: func(t turn) bool { return t.binds(first, contract.VerbClaim) }},
	{name: "first's client is killed while it waits", do: func(t turn) bool {
		j := t.w.request()
		if j == nil || t.w.gone != noParty || j.Verb.Name != contract.VerbBind.Name ||
			whoIs(j.In.(contract.BindInput).Instance) != first || !t.fault() {
			return false
		}
		t.w.gone = first
		return true
	}},
	{name: "first burns its claim", do: func(t turn) bool {
		c := t.dev().Claim
		if c == nil || c.Instance != first.id() || t.w.request() != nil {
			return false
		}
		t.w.tenants[0].denied = noDenial
		return t.asks(contract.VerbBurn, contract.BindInput{Instance: c.Instance, Request: c.Request})
	}},
	{name: "first gives its claim back", do: func(t turn) bool {
		c := t.dev().Claim
		if c == nil || c.Instance != first.id() || t.w.request() != nil {
			return false
		}
		return t.asks(contract.VerbUnclaim, contract.BindInput{Instance: c.Instance, Request: c.Request})
	}},

	operator("manages it", contract.VerbManage, contract.TenantInput{}),
	operator("provides it", contract.VerbProvide, contract.ReasonInput{}),
	operator("maintains it", contract.VerbMaintain, contract.MaintenanceInput{}),
	operator("ends the maintenance", contract.VerbMaintain, contract.MaintenanceInput{Off: true}),
	operator("retires it", contract.VerbRetire, contract.RetireInput{}),
	operator("cleans it", contract.VerbClean, contract.CleanInput{}),
	operator("has it verified", contract.VerbClean, contract.CleanInput{Steps: []string{verify}}),
	operator("aborts its clean", contract.VerbAbort, contract.ReasonInput{}),
	operator("retires it as lost", contract.VerbRetire, contract.RetireInput{Lost: true}),
	{name: "two principals override it", do: turn.override},

	{name: "Nova allocates it to first", do: func(t turn) bool { return t.allocate(first) }},
	{name: "Nova reserves it", do: func(t turn) bool {
		i := &t.w.inv
		if !t.nova || i.used == noParty || i.reserved {
			return false
		}
		i.reserved = true
		i.generation++
		return true
	}},
	{name: "Nova's instance is gone", do: func(t turn) bool {
		i := &t.w.inv
		if !t.nova || i.used == noParty {
			return false
		}
		t.w.tenants[i.used-first] = tenant{}
		i.used = noParty
		return true
	}},
	{name: "Nova re-creates the provider", do: func(t turn) bool {
		if !t.nova || t.w.inv.used != noParty || t.w.others == 0 || !t.fault() {
			return false
		}
		t.w.others--
		t.w.inv = stock{exists: true, provider: t.w.inv.provider + 1}
		return true
	}},

	{name: "reconciliation asks it to re-check", do: func(t turn) bool {
		if t.w.d == nil || t.w.d.Intent.ReadInventory || t.within.Alone || !t.wantsRecheck() {
			return false
		}
		t.decide(lifecycle.Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{Source: "sweep"}})
		return true
	}},
	{name: "the host finds other hardware", do: func(t turn) bool {
		if t.w.d == nil || !t.w.unseen || t.w.d.Intent.Rediscover || t.state() == device.Retired {
			return false
		}
		t.decide(lifecycle.Hinted{Signal: contract.SignalRefresh, Hint: contract.Hint{Source: "scan"}})
		return true
	}},
	{name: "somebody writes to it while it is offered", do: func(t turn) bool {
		if t.nova || t.shared || t.state() != device.Available || t.w.written || t.w.slot == other || t.w.attended ||
			t.beingLowered() || t.bindLooked() || !t.fault() {
			return false
		}
		t.writes(stranger)
		t.w.written, t.w.unseen = true, true
		t.pass(4 * time.Minute) // as below
		return true
	}},
	{name: "the hardware is swapped", do: func(t turn) bool {
		if t.w.slot == other || t.w.attended || t.beingLowered() || t.bindLooked() || !t.fault() {
			return false
		}
		for n := range t.w.tenants {
			t.w.tenants[n].has = false // whoever had it lost it with the hardware
		}
		t.w.slot, t.w.unseen, t.w.written = other, true, false
		t.pass(4 * time.Minute) // which it takes
		return true
	}},
	{name: "the database is saved", do: func(t turn) bool {
		d := t.w.d
		if t.within.KeepDatabase || t.w.backup != nil || d == nil || t.w.faults == 0 || d.Device.Claim != nil ||
			t.w.request() != nil || t.owed(1) != nil { // whose answers the save would split
			return false
		}
		t.w.backup = d
		return true
	}},
	{name: "the inventory is saved", do: func(t turn) bool {
		if t.nova || t.within.KeepDatabase || t.w.hasSaved || t.w.faults == 0 {
			return false
		}
		t.w.hasSaved, t.w.saved = true, t.w.inv
		return true
	}},
	{name: "the inventory is put back", do: func(t turn) bool {
		if !t.w.hasSaved || t.w.saved == t.w.inv || t.w.forgot || t.w.late != nil || !t.fault() {
			return false // that takes longer than any request is on its way
		}
		t.w.inv, t.w.saved, t.w.hasSaved, t.w.forgets = t.w.saved, stock{}, false, true
		return true
	}},
	{name: "the database is put back", do: func(t turn) bool {
		b := t.w.backup
		if b == nil || b == t.w.d || t.w.forgets || t.shared && b.Clean != nil ||
			t.w.held && (b.Device.Maintenance == device.MaintenanceTaken || b.Device.LostRace) || !t.fault() {
			// The server of a clean may be that of others by now, and nothing stops its step. One that others had then is
			// cleaned when they leave, whoever has taken it since.
			return false
		}
		t.w.held = t.w.held && t.holdRecorded()
		t.w.d, t.w.backup, t.w.forgot = t.w.backup, nil, true
		t.w.accepted = t.w.acceptedOnce
		t.w.unseen = t.w.slot == other || t.w.written // the host's scan forgot what it found, too
		t.w.stepDone, t.w.attempts, t.w.gone = false, [4]int8{}, noParty
		t.forgetUnbind()
		return true
	}},
	{name: "the workflow is lost", do: func(t turn) bool {
		if t.w.d == nil || t.w.forgets || !t.fault() {
			return false
		}
		if t.state() != device.Unknown { // else this run knew no more
			t.w.ended, t.w.endedWith = t.dev().Hold(), noParty
			if b := t.dev().Binding; b != nil {
				t.w.endedWith = whoIs(b.Instance)
			}
		}
		t.w.d, t.w.host.started, t.w.lostAt = nil, true, t.w.now.Add(-time.Second)
		t.w.runs++
		t.w.forgot = true
		t.w.stepDone, t.w.attempts, t.w.gone = false, [4]int8{}, noParty
		t.forgetUnbind()
		return true
	}},
}

// operator is a request of an operator.
func operator(does string, v contract.Verb, in contract.Input) move {
	return move{name: "the operator " + does, do: func(t turn) bool {
		atOnce := v.Name == contract.VerbClean.Name || v.Name == contract.VerbAbort.Name
		if r, ok := in.(contract.RetireInput); ok && r.Lost {
			atOnce = t.state() != device.Retired
		}
		return t.acts() && (atOnce || t.w.request() == nil) && t.asks(v, in)
	}}
}

// override is the request and the approval of an override: a return without a clean.
func (t turn) override() bool {
	if t.state() != device.Error || t.w.request() != nil || !t.acts() {
		return false
	}
	t.decide(lifecycle.Asked{ID: "override", Verb: contract.VerbOverride, In: contract.OverrideInput{ID: "o", Reason: "r",
		Principal: "a", ExpiresAt: t.w.now.Add(time.Hour)}})
	if o := t.w.d.Override; o == nil || o.Pending == nil {
		return false
	}
	t.w.accepted = t.w.slot == enrolled
	t.w.acceptedOnce = t.w.accepted
	t.decide(lifecycle.Asked{ID: "approval", Verb: contract.VerbOverride, In: contract.OverrideInput{Approve: "o",
		Principal: "b"}})
	return true
}

// holdRecorded: the provider records that an operator holds the device, and no late write replaces
// that. One of Nova's never does, and of a device that was not offered the record comes after the answer.
// A clean or a return that was under way when the database was saved goes on without a look at it.
func (t turn) holdRecorded() bool {
	i := t.w.inv
	return i.hold != device.HoldNone && i.tenant == noParty && (t.w.d == nil || !t.w.d.Intent.EnsureReserved) &&
		t.owed(1) == nil && t.w.late == nil && len(t.w.backup.Jobs) == 0
}

// forgetUnbind: only the lost history knew that the recorded instance has left. The device
// stays its own, which is what an operator sees.
func (t turn) forgetUnbind() {
	if p := t.w.inv.tenant; p == first || p == second {
		t.w.tenants[p-first].denied = noDenial
	}
}

func (t turn) binds(p who, v contract.Verb) bool {
	if t.nova || t.w.d == nil || t.w.request() != nil {
		return false
	}
	mine := &t.w.tenants[p-first]
	if mine.has && v.Name == contract.VerbClaim.Name {
		return false // its instance's workflow knows which devices it has
	}
	in := func() contract.BindInput {
		return contract.BindInput{Instance: p.id(), Request: p.String() + string(rune('0'+t.w.asked[p-first])),
			Deadline: t.w.now.Add(time.Minute).Format(time.RFC3339)}
	}
	if b := t.dev().Binding; b != nil {
		// Its tenant repeats its bind, or who has the device where the workflow does not know of it.
		known, recorded := b.Instance == p.id(), t.state() == device.Allocated && t.w.inv.tenant == p
		if v.Name != contract.VerbBind.Name || !(known && !mine.has || !known && recorded) {
			return false
		}
		mine.denied = noDenial
		if !t.asks(v, in()) {
			t.refused(p)
		}
		return true
	}
	again := t.w.open[p-first]
	if t.w.binds == 0 && !again || p == second && t.dev().Bindings == 0 && t.of == nil || !device.Allows(t.dev(),
		device.Event{Kind: device.ClaimEvent, Instance: p.id()}) {
		return false
	}
	if !again {
		t.w.binds--
		t.w.asked[p-first]++
	}
	mine.denied = noDenial
	return t.asks(v, in())
}

// unbinds: who never had the device, and asked for none, does not unbind it.
func (t turn) unbinds(p who) bool {
	if t.nova || t.w.d == nil {
		return false
	}
	mine := &t.w.tenants[p-first]
	claimed := t.dev().Claim != nil && t.dev().Claim.Instance == p.id()
	_, had := t.w.d.History.Of(p.id(), "")
	if mine.denied == unbindAnswered || !mine.has && !had && !claimed || t.w.request() != nil && !claimed {
		return false
	}
	for _, j := range t.w.d.Jobs {
		if in, ok := j.In.(contract.UnbindInput); ok && !j.Ended && in.Instance == p.id() {
			return false
		}
	}
	*mine = tenant{}
	if !t.asks(contract.VerbUnbind, contract.UnbindInput{Instance: p.id()}) {
		mine.denied = unbindRefused
	}
	return true
}

func (t turn) allocate(p who) bool {
	i := &t.w.inv
	if !t.nova || i.used != noParty || i.reserved || t.w.binds == 0 || !i.exists || t.w.steps() != nil {
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
	published := device.Known{Provider: t.w.d.Provider, Bindings: d.Bindings}
	if t.nova && d.Allocatable() && !t.w.d.GenerationUncertain {
		published.Generation = t.w.d.Generation
	}
	s := device.Ask(device.AskReconcile, listed, published)
	read := lifecycle.Call{Activity: contract.ActivityReadReservation, In: contract.ReservationRequest{}}
	if found, f := t.carryOut(read, 0); f != nil {
		s = s.Failed(f.Code)
	} else {
		s = s.Answered(*found)
	}
	o, _ := device.Observe(listed, s)
	return o.Needs(device.RequestRecheck)
}

// lost is a move whose task is lost after the call of the inventory that the move makes the workflow begin: what the
// call wrote stays, and the workflow knows nothing of it. What the task handled comes again, perhaps after something
// else: the same answer of an appliance, which is in the history; and so may a request that a client has to send again,
// or does not.
func lost(m move) move {
	return move{name: m.name + ", and the task is lost after its call of the inventory", loses: true,
		do: func(t turn) bool {
			if t.w.faults == 0 || t.w.d == nil {
				return false
			}
			before, after := *t.w, *t.w
			then := turn{explorer: t.explorer, w: &after, of: t.of}
			if t.of != nil {
				was := *t.of
				defer func() { w := *t.w; *t.of = was; *t.w = w }()
			}
			t.explorer.ended = nil
			if !m.do(then) || t.broke != "" || after.faults == 0 || after.d == nil { // a broken promise the move itself shows
				t.explorer.broke = ""
				return false
			}
			c := begunInTask(&before, &after)
			if c == nil {
				return false
			}
			_, _ = then.carryOut(*c, 0)
			w := before
			w.inv, w.attended, w.faults = after.inv, after.attended, after.faults-1
			w.held = before.held && after.held // who lets it go has done so, answered or not
			for n := range w.tenants {         // who asks to unbind has left, answered or not
				w.tenants[n].has = before.tenants[n].has && after.tenants[n].has
				if after.tenants[n].denied == noDenial {
					w.tenants[n].denied = noDenial // whoever asked has no answer
				}
				if after.asked[n] != before.asked[n] {
					w.asked[n], w.binds, w.open[n] = after.asked[n], after.binds, true
				}
			}
			if step := before.steps(); step != nil && (after.steps() == nil || after.steps().Key != step.Key) {
				w.host, w.bytes, w.stepDone, w.doneAt = after.host, after.bytes, true, before.now
			}
			if e := t.explorer.ended; e != nil && isPool(e.call) {
				if w.answer != nil {
					return false
				}
				w.answer, w.appliance = e, after.appliance
				for n := range w.bytes {
					if after.bytes[n] == stranger {
						w.bytes[n] = stranger
					}
				}
			}
			*t.w = w
			return true
		}}
}

// late is the end of a call whose answer comes after whatever happens meanwhile.
func late(m move) move {
	return move{name: m.name + ", and the answer is late", do: func(t turn) bool {
		if t.w.answer != nil || !t.fault() {
			return false
		}
		t.delays = true
		return m.do(t) && t.w.answer != nil
	}}
}

// begunInTask is the call that the workflow began in its task; nil if it began none.
func begunInTask(before, after *world) *lifecycle.Call {
	for _, c := range after.d.Due() {
		_, ok := c.In.(contract.ReservationRequest)
		if !ok || !c.How.InTask {
			continue
		}
		known := false
		for _, j := range before.d.Jobs {
			known = known || j.Call != nil && j.Call.Key == c.Key
		}
		if !known {
			return &c
		}
	}
	return nil
}
