package lifecycle_test

import (
	"fmt"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// oracle knows what is true of a device without asking the machine: who was told that
// it is theirs, what bytes they left, what was erased and read back since, and what
// the inventory says. It speaks up at the first moment that must never be.
type oracle struct {
	w *deviceEnv
	// tenant was told that the device is theirs, and has not asked to be rid of it.
	tenant string
	// vouched: nobody had it yet and the operator's word is taken for it.
	vouched bool
	// erased and verified say of each block what happened since anybody last had it.
	erased, verified [blocks]bool
	// freed: it was lowered when that was lawful, and is free since.
	freed bool
	// anew: Nova made the provider anew, free, of a device that is not to be had, and it is
	// not burned again yet: the one exception of the rules. Who takes such a device takes
	// it as it is; the walk has nobody do so. How long that may last, since tells.
	anew bool
	// since is when reserved and state began to disagree.
	since time.Time
	// faulty: the inventory does not answer as it should; healed says since when not.
	faulty bool
	over   bool // retired, or it found something already
}

func watch(w *deviceEnv) *oracle {
	o := &oracle{w: w}
	w.host.zeroed, w.host.read = o.zeroed, o.read
	w.inventory.wrote = o.wrote
	w.seen = o.moment
	w.answered = o.answered
	return o
}

func (o *oracle) say(format string, args ...any) {
	if !o.over {
		o.over = true
		o.w.Errorf("oracle: "+format, args...)
	}
}

// writes is what everybody does who gets a device: they write all over it.
func (o *oracle) writes(who string) {
	o.w.host.writeAsTenant(who)
	o.erased, o.verified = [blocks]bool{}, [blocks]bool{}
}

// clean: erased and read back, every block, since anybody had it.
func (o *oracle) clean() bool {
	all := [blocks]bool{true, true, true, true}
	return o.w.host.clean() && o.erased == all && o.verified == all
}

// lawful says whether the device may be free though it is not clean: it is not
// one-time-use, and nothing can clean it or automated cleaning is off (D4, D7).
func (o *oracle) lawful() bool {
	w := o.w
	return !w.oneTimeUse && (w.host.facts.Operation == "" || !w.policy.Automated) || o.vouched
}

func (o *oracle) zeroed(block int) {
	if o.tenant != "" {
		o.say("block %d was wiped while %s has the device", block, o.tenant)
	}
	if len(o.w.inventory.consumers) > 0 {
		o.say("block %d was wiped while %v use the device", block, o.w.inventory.consumers)
	}
	o.erased[block] = true // what was read back before stays read back
}

func (o *oracle) read(block int) {
	o.verified[block] = o.erased[block] && o.w.host.blocks[block] == ""
}

// wrote looks at each change of the inventory as it happens.
func (o *oracle) wrote(what string) {
	if o.w.inventory.reserved != 0 {
		o.freed, o.anew = false, false
	}
	if o.over || o.w.inventory.reserved != 0 {
		return
	}
	s := o.w.inventory
	v := o.w.view()
	free := o.clean() || o.freed || o.lawful() && (v.NotSanitized || o.vouched)
	o.freed = free
	switch what {
	case "create":
		o.anew = !free
	case "put":
		returning := v.DeviceState == device.Cleaning && v.CleanStep == nil
		switch {
		case o.tenant != "":
			o.say("lowered while %s has the device", o.tenant)
		case len(s.consumers) > 0:
			o.say("lowered while %v use the device", s.consumers)
		case !free:
			o.say("lowered with erased %v, verified %v, blocks %q", o.erased, o.verified, o.w.host.blocks)
		case !returning && v.DeviceState != device.Available && v.DeviceState != device.Unknown:
			o.say("lowered in state %s", v.DeviceState)
		}
		if len(s.writes) < 2 {
			return
		}
		// F5: the write before it is the clean's own raise, and nothing came between.
		last, before := s.writes[len(s.writes)-1], write{}
		for _, w := range s.writes[:len(s.writes)-1] {
			if w.done {
				before = w
			}
		}
		if before.reserved != 1 || before.generation+1 != last.generation {
			o.say("F5: lowered with generation %d; the raise before it was %+v", last.generation, before)
		}
	case "allocate":
		if !free {
			o.say("a scheduler gave out a device with blocks %q", o.w.host.blocks)
		}
		o.vouched = false
	}
}

// answered looks at each answer as its caller gets it.
func (o *oracle) answered(c *call) {
	if c.err != nil {
		return
	}
	switch c.verb {
	case contract.UpdateBind, contract.UpdateBurn:
		instance := c.in.(contract.BindInput).Instance
		out, _ := c.out.(contract.BindResult)
		switch {
		case o.over:
		case c.abandoned: // its instance asked to be rid of it before it was answered
			return
		case o.w.inventory.reserved != 1:
			o.say("S0.4: %s was told that the device is theirs, and it is not burned", instance)
		case o.tenant != "" && o.tenant != instance:
			o.say("%s was told that the device is theirs, and it is %s's", instance, o.tenant)
		case len(o.w.inventory.consumers) > 0:
			o.say("%s was told that the device is theirs, and %v use it", instance, o.w.inventory.consumers)
		case o.tenant == "" && !o.clean() && !o.lawful() && !out.Already:
			o.say("%s was given a device with blocks %q", instance, o.w.host.blocks)
		}
		if o.tenant == "" {
			o.tenant = instance
			o.writes(instance)
		}
		o.vouched = false
	case contract.UpdateRetire:
		o.over = true // permanently reserved; nobody is asked any more
	}
}

// moment looks at the whole whenever something happened.
func (o *oracle) moment() {
	w := o.w
	if o.over || !w.live || !w.ready || !w.inventory.there {
		return
	}
	v := w.view()
	if v.DeviceState == device.Absent {
		return
	}
	offered := v.DeviceState == device.Available && !v.Maintenance
	free := w.inventory.reserved == 0
	if free && len(w.inventory.consumers) == 0 && !o.clean() && !o.freed && !o.anew {
		o.say("free in the inventory with blocks %q", w.host.blocks)
	}
	if offered && v.Dirty && v.ClaimedBy == "" {
		o.say("available, and dirty")
	}
	// S2.40: both say the same, but for the moment that it takes to write.
	agree := free == offered || free && (v.DeviceState == device.Cleaning && v.CleanStep == nil) || v.ClaimedBy != ""
	if agree || o.faulty || w.inventory.vanished {
		o.since = time.Time{}
	} else if o.since.IsZero() {
		o.since = w.clock()
	} else if late := w.clock().Sub(o.since); late > 3*time.Minute {
		o.say("state %s (maintenance %v) and reserved=%d for %s", v.DeviceState, v.Maintenance, w.inventory.reserved, late)
	}
	if o.tenant != "" && w.updates == 0 && w.inFlight == 0 && !o.faulty {
		if v.InstanceUUID == nil && v.DeviceState != device.Unknown || v.InstanceUUID != nil && *v.InstanceUUID != o.tenant {
			o.say("%s has the device, which is %s to %s", o.tenant, v.DeviceState, name(v.InstanceUUID))
		}
	}
}

func name(instance *string) string {
	if instance == nil {
		return "nobody"
	}
	return fmt.Sprintf("%q", *instance)
}

// leaves is told when an instance asks to be rid of the device.
func (o *oracle) leaves(instance string) {
	if o.tenant == instance {
		o.tenant = ""
	}
}
