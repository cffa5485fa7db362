package explorer

import (
	"fmt"
	"strconv"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
	"burnish/internal/oneview"
	"burnish/workflows/contract"
)

// appliance is that of a shared pool, with the server of the device. It answers as internal/oneview does.
type appliance struct {
	// profile is on the server: none, that of others, or Burnish's, by their number; made is the last of those. undoubted:
	// nothing came between Burnish's last act and this profile of a tenant's (F34).
	profile, made int8
	undoubted     bool
	tag           int16 // another one after each change of the server
}

// theirs is the profile of others.
const theirs = -1

func (a *appliance) put(profile int8) { a.profile, a.tag = profile, a.tag+1 }

func (a *appliance) text() string { return strconv.Itoa(int(a.tag)) }

func (a *appliance) uri() string {
	return map[bool]string{true: fmt.Sprint("/rest/server-profiles/", a.profile)}[a.profile != 0]
}

// owner says who has the server, by what the product makes of its profile.
func (a *appliance) owner(in contract.PoolRequest) device.Ownership {
	name := in.UUID
	if a.profile == theirs {
		name = "theirs"
	}
	return oneview.Server{UUID: in.UUID, Recorded: in.State.Profile, Applying: in.State.Applying}.Owner(a.uri(), name)
}

// make is the creation of a profile by Burnish.
func (a *appliance) make(in contract.PoolRequest, prompt bool) {
	a.made++
	a.put(a.made)
	a.undoubted = in.State.Tag != "" && prompt
}

// ask is one call of the appliance. used: others use the server between what it does and its answer.
func (t turn) ask(c lifecycle.Call, used bool) lifecycle.Outcome {
	in, a := c.In.(contract.PoolRequest), &t.w.appliance
	last := in.State.Tag
	switch owner := a.owner(in); {
	case c.Activity == contract.ActivityApplyProfile && owner == device.PoolTaken:
		return lifecycle.Outcome{Fault: &device.Fault{Class: device.NeedsOperator, Code: device.CodeServerTaken,
			Message: "others have the server"}}
	case c.Activity == contract.ActivityApplyProfile && owner == device.PoolFree && (last == "" || last == a.text()):
		a.make(in, true)
	case c.Activity == contract.ActivityRemoveProfile && owner == device.PoolOurs:
		for n, mine := range t.w.tenants {
			if mine.has && t.state() != device.Retired { // as lost
				t.broken("the profile is removed while " + (first + who(n)).String() + " has the server")
			}
		}
		a.put(0)
		last = a.text()
	}
	if used && a.profile == 0 {
		t.othersTake()
		a.put(0)
	}
	found := contract.PoolSnapshot{Ownership: a.owner(in), Profile: a.uri(), Tag: a.text()}
	switch {
	case c.Activity == contract.ActivityReadPool || found.Ownership == device.PoolTaken:
	case found.Ownership == device.PoolFree:
		found.Gap = last != found.Tag && (last != "" || c.Activity == contract.ActivityRemoveProfile)
	case c.Activity == contract.ActivityApplyProfile:
		found.Gap = last != "" && !a.undoubted
	}
	return lifecycle.Outcome{Found: &found}
}

// arrives: a request to change the server comes long after the call that sent it, and what that had looked at.
func (t turn) arrives(c lifecycle.Call) {
	in, a := c.In.(contract.PoolRequest), &t.w.appliance
	switch {
	case c.Activity == contract.ActivityApplyProfile && a.profile == 0:
		a.make(in, false)
	case c.Activity == contract.ActivityRemoveProfile && a.profile > 0 && a.uri() == in.State.Profile:
		a.put(0)
	}
}

func (t turn) othersTake() {
	t.w.appliance.put(theirs)
	t.writes(stranger)
}

func isPool(c lifecycle.Call) bool {
	_, is := c.In.(contract.PoolRequest)
	return is
}

// poolMoves are the ends of the calls of the appliance of one job.
func poolMoves(of int) []move {
	asked := func(t turn) *lifecycle.Call {
		if c := t.owed(of); c != nil && isPool(*c) {
			return c
		}
		return nil
	}
	// A call for which a client waits is given up at last, any other one is made again.
	givenUp := func(c *lifecycle.Call) bool { return c.How.Client || c.How.Within > 0 }
	changes := func(c *lifecycle.Call) bool { return c.Activity != contract.ActivityReadPool }
	by := jobs[of]
	return []move{
		{name: by + ": the appliance answers", answers: true, do: func(t turn) bool {
			c := asked(t)
			if c == nil {
				return false
			}
			t.end(of, c, t.ask(*c, false))
			return true
		}},
		{name: by + ": the appliance answers, after others have used the server", do: func(t turn) bool {
			c := asked(t)
			if c == nil || c.Activity != contract.ActivityRemoveProfile || t.w.others == 0 ||
				t.w.appliance.profile == theirs {
				return false
			}
			t.w.others--
			t.end(of, c, t.ask(*c, true))
			return true
		}},
		{name: by + ": the answer of the appliance is lost", do: func(t turn) bool {
			c := asked(t)
			if c == nil || !changes(c) || !t.fault() {
				return false
			}
			if t.ask(*c, false); givenUp(c) {
				t.failed(of, c)
			}
			return true
		}},
		{name: by + ": the appliance does not answer", do: func(t turn) bool {
			c := asked(t)
			if c == nil || !givenUp(c) || !t.fault() {
				return false
			}
			t.failed(of, c)
			return true
		}},
		{name: by + ": its request is on its way to the appliance", do: func(t turn) bool {
			c := asked(t)
			if c == nil || !changes(c) || t.w.late != nil || !t.fault() {
				return false
			}
			if t.w.late = (&lateCall{*c, 0}); givenUp(c) {
				t.failed(of, c)
			}
			return true
		}},
	}
}

// othersMoves are what the other users of a pool do, and the polls.
var othersMoves = []move{
	{name: "others take the server", do: func(t turn) bool {
		if t.w.appliance.profile != 0 || t.w.others == 0 {
			return false
		}
		t.w.others--
		t.othersTake()
		return true
	}},
	{name: "others leave the server", do: func(t turn) bool {
		if t.w.appliance.profile != theirs {
			return false
		}
		t.w.appliance.put(0)
		return true
	}},
	{name: "a poll finds a difference", do: func(t turn) bool { return t.wantsPoll() && t.polled() }},
	{name: "the hint of a poll comes late", do: func(t turn) bool {
		return t.w.d != nil && !t.w.d.Intent.ReadPool && t.fault() && t.polled()
	}},
}

func (t turn) polled() bool {
	t.decide(lifecycle.Hinted{Signal: contract.SignalFreed, Hint: contract.Hint{Source: "poll"}})
	return true
}

// wantsPoll is what the polls make of the device, as it is published.
func (t turn) wantsPoll() bool {
	if t.w.d == nil || t.w.d.Intent.ReadPool {
		return false
	}
	d, a, owner, known := t.dev(), &t.w.appliance, device.PoolTaken, contract.PoolState{}
	if p := t.w.d.Pool; p != nil {
		known = *p
	}
	switch {
	case a.profile == 0:
		owner = device.PoolFree
	case a.uri() == known.Profile || known.Applying && d.State == device.Available:
		owner = device.PoolOurs
	}
	o, _ := device.Observe(device.Device{State: d.State, Status: d.Status, Owner: d.Owner, LostRace: d.LostRace,
		Maintenance: d.Maintenance}, device.Snapshot{Question: device.AskPoll, Pool: owner,
		PoolChanged: known.ChangedBy(a.text())})
	return o.Needs(device.RequestRecheck)
}
