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
	instance string
	// vouched: nobody had it yet and the operator's word is taken for it.
	assertedClean bool
	// erased and verified say of each block what happened since anybody last had it.
	erased, verified [blocks]bool
	// freed: it was lowered when that was lawful, and is free since.
	freed bool
	// anew: Nova made the provider anew, free, of a device that is not to be had, and it is
	// not burned again yet: the one exception of the rules. Who takes such a device takes
	// it as it is; the walk has nobody do so. How long that may last, since tells.
	recreatedUnreserved bool
	// since is when reserved and state began to disagree.
	since time.Time
	// faulty: the inventory does not answer as it should; healed says since when not.
	faulty   bool
	finished bool // retired, or it found something already
}

func newOracle(w *deviceEnv) *oracle {
	o := &oracle{w: w}
	w.host.zeroed, w.host.read = o.zeroed, o.read
	w.inventory.onWrite = o.inventoryWritten
	w.onChange = o.checkInvariants
	w.answered = o.answered
	return o
}

func (o *oracle) report(format string, args ...any) {
	if !o.finished {
		o.finished = true
		o.w.Errorf("oracle: "+format, args...)
	}
}

// writes is what everybody does who gets a device: they write all over it.
func (o *oracle) writesAll(who string) {
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
func (o *oracle) mayReturnUncleaned() bool {
	w := o.w
	return !w.oneTimeUse && (w.host.discovery.Operation == "" || !w.policy.Automated) || o.assertedClean
}

func (o *oracle) zeroed(block int) {
	if o.instance != "" {
		o.report("block %d was wiped while %s has the device", block, o.instance)
	}
	if len(o.w.inventory.consumers) > 0 {
		o.report("block %d was wiped while %v use the device", block, o.w.inventory.consumers)
	}
	o.erased[block] = true // what was read back before stays read back
}

func (o *oracle) read(block int) {
	o.verified[block] = o.erased[block] && o.w.host.blocks[block] == ""
}

// wrote looks at each change of the inventory as it happens.
func (o *oracle) inventoryWritten(what string) {
	if o.w.inventory.reserved != 0 {
		o.freed, o.recreatedUnreserved = false, false
	}
	if o.finished || o.w.inventory.reserved != 0 {
		return
	}
	s := o.w.inventory
	v := o.w.view()
	free := o.clean() || o.freed || o.mayReturnUncleaned() && (v.NotSanitized || o.assertedClean)
	o.freed = free
	switch what {
	case "create":
		o.recreatedUnreserved = !free
	case "put":
		returning := v.DeviceState == device.Cleaning && v.CleanStep == nil
		switch {
		case o.instance != "":
			o.report("lowered while %s has the device", o.instance)
		case len(s.consumers) > 0:
			o.report("lowered while %v use the device", s.consumers)
		case !free:
			o.report("lowered with erased %v, verified %v, blocks %q", o.erased, o.verified, o.w.host.blocks)
		case !returning && v.DeviceState != device.Available && v.DeviceState != device.Unknown:
			o.report("lowered in state %s", v.DeviceState)
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
			o.report("F5: lowered with generation %d; the raise before it was %+v", last.generation, before)
		}
	case "allocate":
		if !free {
			o.report("a scheduler gave out a device with blocks %q", o.w.host.blocks)
		}
		o.assertedClean = false
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
		case o.finished:
		case c.abandoned: // its instance asked to be rid of it before it was answered
			return
		case o.w.inventory.reserved != 1:
			o.report("S0.4: %s was told that the device is theirs, and it is not burned", instance)
		case o.instance != "" && o.instance != instance:
			o.report("%s was told that the device is theirs, and it is %s's", instance, o.instance)
		case len(o.w.inventory.consumers) > 0:
			o.report("%s was told that the device is theirs, and %v use it", instance, o.w.inventory.consumers)
		case o.instance == "" && !o.clean() && !o.mayReturnUncleaned() && !out.Already:
			o.report("%s was given a device with blocks %q", instance, o.w.host.blocks)
		}
		if o.instance == "" {
			o.instance = instance
			o.writesAll(instance)
		}
		o.assertedClean = false
	case contract.UpdateRetire:
		o.finished = true // permanently reserved; nobody is asked any more
	}
}

// moment looks at the whole whenever something happened.
func (o *oracle) checkInvariants() {
	w := o.w
	if o.finished || !w.live || !w.ready || !w.inventory.exists {
		return
	}
	v := w.view()
	if v.DeviceState == device.Absent {
		return
	}
	offered := v.DeviceState == device.Available && !v.Maintenance
	free := w.inventory.reserved == 0
	if free && len(w.inventory.consumers) == 0 && !o.clean() && !o.freed && !o.recreatedUnreserved {
		o.report("free in the inventory with blocks %q", w.host.blocks)
	}
	if offered && v.Dirty && v.ClaimedBy == "" {
		o.report("available, and dirty")
	}
	// S2.40: both say the same, but for the moment that it takes to write.
	agree := free == offered || free && (v.DeviceState == device.Cleaning && v.CleanStep == nil) || v.ClaimedBy != ""
	if agree || o.faulty || w.inventory.providerGone {
		o.since = time.Time{}
	} else if o.since.IsZero() {
		o.since = w.clock()
	} else if late := w.clock().Sub(o.since); late > 3*time.Minute {
		o.report("state %s (maintenance %v) and reserved=%d for %s", v.DeviceState, v.Maintenance, w.inventory.reserved, late)
	}
	if o.instance != "" && w.updates == 0 && w.activitiesInFlight == 0 && !o.faulty {
		if v.InstanceUUID == nil && v.DeviceState != device.Unknown || v.InstanceUUID != nil && *v.InstanceUUID != o.instance {
			o.report("%s has the device, which is %s to %s", o.instance, v.DeviceState, quoteInstance(v.InstanceUUID))
		}
	}
}

func quoteInstance(instance *string) string {
	if instance == nil {
		return "nobody"
	}
	return fmt.Sprintf("%q", *instance)
}

// leaves is told when an instance asks to be rid of the device.
func (o *oracle) bindingEnded(instance string) {
	if o.instance == instance {
		o.instance = ""
	}
}
