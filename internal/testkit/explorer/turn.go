package explorer

import (
	"errors"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// turn is one step of the world: w changes.
type turn struct {
	*explorer
	w      *world
	delays bool // the answers of calls
	of     *cloud
}

func (t turn) dev() device.Device {
	if t.w.d == nil {
		return device.Device{}
	}
	return t.w.d.Device
}

func (t turn) state() device.State { return t.dev().State }

func (t turn) fault() bool {
	if t.w.faults == 0 {
		return false
	}
	t.w.faults--
	return true
}

func (t turn) acts() bool {
	if t.w.acts == 0 || t.w.d == nil {
		return false
	}
	t.w.acts--
	return true
}

// decide tells the workflow what happened. What only looks things up is answered at once.
func (t turn) decide(in lifecycle.Input) {
	before := t.w.d
	t.w.d = before.Clone()
	t.w.d.Acts, t.w.d.Recent = nil, nil
	t.w.d.Decide(in, t.w.now, settings{t})
	for t.lookedUp() {
	}
	if err := t.w.d.Defect; err != nil {
		t.broken("a defect: " + err.Error())
	}
	if t.of != nil {
		t.of.signaled(t.w.d.Mail)
	}
	t.w.d.Mail = nil
	t.answered()
	t.follow(before.Device)
}

// lookedUp answers one call that asks neither the provider nor the hardware, and ends the pause between two of them.
func (t turn) lookedUp() bool {
	for _, c := range t.w.d.Due() {
		o := lifecycle.Outcome{}
		switch c.Activity {
		case contract.ActivityFindBySerial:
			o.Found = &contract.DeviceBySerial{}
		case contract.ActivityAskInstance:
			if o.Found = (&contract.InstanceAnswer{}); t.of != nil {
				o = t.of.says(t.w.name())
			}
		case contract.ActivityFindPreviousRun:
			o.Found = t.previousRun()
		default:
			continue
		}
		t.w.d.Decide(lifecycle.Ended{Key: c.Key, Outcome: o}, t.w.now, settings{t})
		return true
	}
	for _, j := range t.w.d.Jobs {
		if strings.HasPrefix(string(j.Phase), "unknown: a pause") {
			t.w.now = j.Until
			t.w.d.Decide(lifecycle.Come{}, t.w.now, settings{t})
			return true
		}
	}
	return false
}

// previousRun is what a listing says of the device's last workflow that ended.
func (t turn) previousRun() *contract.PreviousRun {
	if t.w.runs == 0 {
		return &contract.PreviousRun{}
	}
	p := &contract.PreviousRun{RunID: string(rune('0' + t.w.runs)), State: device.Error, Hold: t.w.ended,
		EndedAt: t.w.lostAt}
	if t.w.endedWith != noParty {
		p.State, p.Instance = device.Allocated, t.w.endedWith.id()
	}
	return p
}

// asks sends a request. It says whether the request was not refused at once.
func (t turn) asks(v contract.Verb, in contract.Input) bool {
	if t.w.d == nil {
		return false
	}
	t.w.ids++
	asked := lifecycle.Asked{ID: "u" + string(rune('A'+t.w.ids)), Verb: v, In: in}
	if t.w.d.Refuses(asked, settings{t}) {
		return false
	}
	if off, _ := in.(contract.MaintenanceInput); off.Off || v.Name == contract.VerbProvide.Name {
		t.w.held = false // what its operator gives up, it may get before the answer
	}
	t.decide(asked)
	return true
}

// answered takes the answers to requests to those who asked.
func (t turn) answered() {
	for again := true; again; {
		again = false
		for _, j := range t.w.d.Jobs {
			if j.Ended {
				_, _, _ = t.w.d.Answer(j.ID)
				if t.answer(j); t.of != nil {
					t.of.answered(t.w, j)
				}
				again = true
				break
			}
		}
	}
}

func (t turn) answer(j *lifecycle.Job) {
	refusal, _ := contract.RefusalOf(j.Err)
	if j.Err != nil {
		t.explorer.refusal = j.Verb.Name + ": " + j.Err.Error()
	}
	unknown := refusal.Fault.Code == device.CodeReservationUnknown || refusal.Fault.Class == device.Transient
	switch in := j.In.(type) {
	case contract.BindInput:
		p := whoIs(in.Instance)
		t.w.open[p-first] = t.w.open[p-first] && unknown
		switch {
		case t.w.gone == p:
			t.w.gone, t.w.open[p-first] = noParty, true
		case j.Verb.Name == contract.VerbUnclaim.Name:
			if j.Err == nil {
				t.w.tenants[p-first].denied = unbindAnswered
			}
		case j.Err == nil && (j.Verb.Name != contract.VerbClaim.Name || j.Result.Binding > 0):
			if left := t.unaccounted(); !j.Result.Already && left != noParty && left != p {
				t.broken(p.String() + " gets the bytes of " + left.String())
			}
			t.granted(p)
		case j.Err != nil && !unknown && j.Verb.Name != contract.VerbClaim.Name:
			t.refused(p)
		}
	case contract.UnbindInput:
		mine := tenant{denied: unbindAnswered}
		switch {
		case unknown:
			mine.denied = noDenial
		case j.Err != nil:
			mine.denied = unbindRefused
		}
		t.w.tenants[whoIs(in.Instance)-first] = mine
	case contract.TenantInput, contract.RetireInput, contract.MaintenanceInput:
		if off, _ := in.(contract.MaintenanceInput); j.Err == nil && !j.Result.Already || off.Off {
			lost, _ := in.(contract.RetireInput) // a step that runs may still be on its way
			t.w.held = t.atRest() && t.dev().Hold() != device.HoldNone && !lost.Lost
		}
	case contract.CleanInput:
		if j.Err == nil && !in.Manual() {
			t.w.held = false
		}
	case contract.ReasonInput, contract.OverrideInput:
		if j.Err == nil {
			t.w.held = t.w.held && j.Verb.Name == contract.VerbAbort.Name
		}
	}
	if j.Err != nil && errors.As(j.Err, new(*device.IllegalError)) {
		t.broken("a request ended with a defect: " + j.Err.Error())
	}
}

// atRest: nothing is done to the device that an operator has.
func (t turn) atRest() bool {
	d := t.dev()
	return d.State != device.Unknown && d.State != device.Allocated && !d.BeingCleaned() && !d.Returning
}

// follow keeps what people believe of the device true after a decision.
func (t turn) follow(was device.Device) {
	d := t.dev()
	if was.Returning && !d.Returning && d.State == device.Available && d.Hold() != device.HoldNone {
		t.w.held = true // it was returned into its maintenance
	}
	// A use that the record names is a later tenant's than its operator's command.
	t.w.held = t.w.held && (d.State != device.Allocated || d.Binding != nil && d.Binding.Held)
	// An override ends when the device is dirty again. The write under way was right when it was sent (F30 undoes it).
	// What an unknown device is, its inventory says: the bind that was being answered may have been carried out.
	inUse := d.State == device.Available || d.State == device.Allocated || d.State == device.Unknown
	t.w.accepted = t.w.accepted && (!d.Dirty || inUse || t.beingLowered())
}

// granted: the bind is answered, and the tenant writes its data.
func (t turn) granted(p who) {
	mine := &t.w.tenants[p-first]
	if mine.denied == unbindAnswered {
		return // its client gave up and unbound it meanwhile
	}
	if t.w.tenants[second-p].has {
		t.broken("two tenants have the device")
	}
	mine.has = true
	t.writes(p)
}

// refused: the bind is refused, and has no effect (F42).
func (t turn) refused(p who) {
	if mine := &t.w.tenants[p-first]; !mine.has {
		mine.denied = bindRefused
	}
}

// writes: the tenant writes its data.
func (t turn) writes(p who) {
	t.w.bytes[t.w.slot], t.w.accepted, t.w.acceptedOnce = p, false, false
}

// unaccounted are whose bytes are in the slot, unless an override is about them. A server that is offered as not
// sanitized is so whoever had it (F34).
func (t turn) unaccounted() who {
	if (t.w.accepted || t.shared && t.dev().NotSanitized) && t.w.slot == enrolled {
		return noParty
	}
	return t.w.bytes[t.w.slot]
}

func (t turn) beingLowered() bool { return t.w.call(contract.ActivityUnreserve) != nil }

// bindLooked: the host has looked for a bind that is not answered yet. A swap in this moment is not
// seen (F39), also where the burn's answer makes the device unknown first.
func (t turn) bindLooked() bool {
	j := t.w.request()
	if j == nil {
		return false
	}
	_, binds := j.In.(contract.BindInput)
	return binds && (j.Call == nil || j.Call.Activity != contract.ActivityDiscover || t.w.answering(j.Call))
}

// jobs are what the device has under way, by what a story calls them.
var jobs = []string{"the clean", "the reconciliation", "the look", "the request"}

// owed is the call of a job that is due, nil if there is none.
func (t turn) owed(of int) *lifecycle.Call {
	if t.w.d == nil {
		return nil
	}
	id := []string{"work", "reconcile", "look", ""}[of]
	for _, j := range t.w.d.Jobs {
		if j.Call == nil || j.Ended || (j.Verb.Name != "") != (id == "") || id != "" && j.ID != id {
			continue
		}
		for _, c := range t.w.d.Due() {
			if c.Key == j.Call.Key && !t.w.answering(&c) {
				return &c
			}
		}
	}
	return nil
}

// end gives the outcome of a call to the job that made it.
func (t turn) end(of int, c *lifecycle.Call, o lifecycle.Outcome) {
	if t.delays {
		t.w.answer = &lateAnswer{of, *c, o}
		return
	}
	t.w.attempts[of] = 0
	t.explorer.ended = &lateAnswer{of, *c, o}
	t.decide(lifecycle.Ended{Key: c.Key, Outcome: o})
}

// pass lets time pass, with all that comes meanwhile.
func (t turn) pass(by time.Duration) {
	until := t.w.now.Add(by)
	for t.w.d != nil {
		at, _ := t.w.d.Next()
		if at.IsZero() || at.After(until) {
			break
		}
		if at.After(t.w.now) {
			t.w.now = at
		}
		t.decide(lifecycle.Come{})
	}
	t.w.now = until
}
