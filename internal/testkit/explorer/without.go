package explorer

import (
	"burnish/internal/device"
	"burnish/internal/host"
)

// without takes fixes out, to see that the explorer finds what they mend.
type without struct {
	witness     bool // F24: who has a device is known to the workflow alone
	sameWork    bool // F26: a recorded "done" counts by its number, and the workflow takes any result
	discovered  bool // F26: a clean begins whatever its host's discovery knows
	inspection  bool // F26: a recorded "done" counts for whatever hardware is there now
	oneHold     bool // F37: a verify's recorded "done" counts
	look        bool // F27: a clean device is offered without a look of its host
	bindLook    bool // F39: a device is bound without a look of its host
	lookFailed  bool // F27: an available device stays available whatever its host's look ends with
	unexplained bool // F28: a generation that nothing explains means nothing
	leaving     bool // F28: nor does it before an operator takes the device out of the offer
	compares    bool // F34: any answer replaces what is known of a device that is kept clean
	raise       bool // F30: a reservation that was lowered too late stays so
	unbind      bool // F30: an unbind does not wait for the burn of its own instance
	sweeps      bool // no fix: an inventory in files is not reconciled
	lostReturn  bool // F5: a clean that ends after its last step leaves the reservation as it is
	bound       bool // F36: "already bound" is answered from memory
	unbound     bool // F36: "already unbound", and the refusal of an unbind, are answered from memory
	lostBurn    bool // F42: a bind whose burn was lost with its task is refused
	unclaim     bool // F42: a claim is given back without a read
	hold        bool // F43: what an operator holds becomes unknown when its workflow is behind
	holdRecord  bool // F43: neither record nor listing says that an operator holds a device
	lookRefuses bool // F42: a bind is refused after a look whatever the device has become meanwhile
	lease       bool // F32: a frozen attempt does not ask the server before it writes
}

// losesTasks: what other fixes mend is found without the loss of a task, and much sooner.
func (w without) losesTasks() bool {
	return w == (without{}) || w.lostReturn || w.lostBurn || w.unclaim || w.lookRefuses || w.compares
}

// decide is device.Observe.
func (t turn) decide(s device.Snapshot) device.Observation {
	if t.without.unexplained && s.Answer == device.Answered && s.Question != device.AskUnreserve {
		s.Inventory.Generation = min(s.Inventory.Generation, s.Known.Generation)
	}
	if t.without.leaving && s.Answer == device.Answered && s.Question == device.AskBeforeLeaving {
		s.Inventory.Generation, s.Inventory.Provider = s.Known.Generation, s.Known.Provider
	}
	o, _ := device.Observe(t.dev(), s)
	switch {
	case t.without.lookFailed && o.Event == device.LookFailed,
		t.without.raise && s.Question == device.AskUnreserve && !t.dev().Returning && t.state() != device.Available:
		return device.Observation{}
	}
	return o
}

// answer is what an answer shows of the tenant.
func (w without) answer(i device.Inventory) device.Inventory {
	if w.witness {
		i.Witness, i.Tenant = device.WitnessFree, ""
	}
	i.Hold = w.held(i.Hold)
	return i
}

// held is what an answer shows of an operator's hold.
func (w without) held(h device.Hold) device.Hold {
	if w.holdRecord {
		return device.HoldNone
	}
	return h
}

// admit is host.Admit.
func (w without) admit(stored host.Entry, found bool, want host.Entry) host.Admission {
	if w.sameWork && stored.Seq == want.Seq {
		stored.Clean, stored.Step, stored.Serial = want.Clean, want.Step, want.Serial
	}
	want.Reads = want.Reads && !w.oneHold
	return host.Admit(stored, found, want)
}

// observe is what a discovery means.
func (t turn) observe(q device.Question, result device.HostResult) device.Observation {
	s := device.Ask(q, t.dev(), device.Known{})
	s.Host = result
	return t.decide(s)
}
