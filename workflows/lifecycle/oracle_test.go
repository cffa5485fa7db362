package lifecycle_test

import (
	"fmt"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// oracle knows a device's true condition independently of the workflow: the instance that it is
// bound to, the data on it, what was erased and read back since, and the inventory's state. It
// reports the first violation of an invariant.
type oracle struct {
	w *deviceEnv
	// instance got a successful bind, and has not requested its end.
	instance string
	// assertedClean: it was not used yet, and the operator or the inventory says that it is clean.
	assertedClean bool
	// erased and verified say for each block what happened since the last use.
	erased, verified [blocks]bool
	// overridden: two principals allowed it to be offered as it is, until it is Dirty again.
	overridden bool
	// freed: it was unreserved when that was allowed, and is free since.
	freed bool
	// recreatedUnreserved: Nova re-created the provider, unreserved, of a device that is not
	// allocatable, and it is not reserved again yet. This is an exception of the rules, for a
	// limited time (see since); the walk does not allocate such a device. The other one is
	// cleanedUnread.
	recreatedUnreserved bool
	// since is the time from which reserved and the state disagree.
	since time.Time
	// faulty: the inventory has injected faults.
	faulty bool
	// retired: no instance gets it, nothing is written to it and it stays reserved.
	retired  bool
	finished bool // a violation was reported
}

func newOracle(w *deviceEnv) *oracle {
	o := &oracle{w: w}
	w.host.zeroed, w.host.read = o.zeroed, o.read
	w.inventory.OnWrite = o.inventoryWritten
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

// writesAll fills the device with an instance's data.
func (o *oracle) writesAll(who string) {
	o.w.host.writeAsTenant(who)
	o.erased, o.verified, o.overridden = [blocks]bool{}, [blocks]bool{}, false
}

// clean says whether every block was erased and read back since the last use.
func (o *oracle) clean() bool {
	all := [blocks]bool{true, true, true, true}
	return o.w.host.clean() && o.erased == all && o.verified == all
}

// mayReturnUncleaned says whether the device may be free though it is not clean: it is not
// one-time-use, and nothing can clean it or automated cleaning is off (D4, D7), or it was
// overridden (D2).
func (o *oracle) mayReturnUncleaned() bool {
	w := o.w
	return !w.oneTimeUse && (w.host.discovery.Operation == "" || !w.policy.Automated) || o.assertedClean || o.overridden
}

func (o *oracle) zeroed(block int) {
	if o.retired {
		o.report("block %d was erased after the device was retired", block)
	}
	if o.instance != "" {
		o.report("block %d was erased while the device is bound to %s", block, o.instance)
	}
	if len(o.w.inventory.Consumers) > 0 {
		o.report("block %d was erased while %v use the device", block, o.w.inventory.Consumers)
	}
	o.erased[block] = true // verified stays as it is
}

// cleanedUnread: Nova re-created the provider, unreserved, while a step runs or waits for its
// host, and no answer of the inventory has shown that to the workflow yet. No workflow can stop
// a step before that answer; from it on the step erases nothing. The walk does not allocate in
// between.
func (o *oracle) cleanedUnread() bool {
	return o.w.view().CleanStep != nil && o.w.publishedMemo.Provider != o.w.inventory.NovaProvider
}

func (o *oracle) read(block int) {
	o.verified[block] = o.erased[block] && o.w.host.blocks[block] == ""
}

// inventoryWritten checks each change of the inventory.
func (o *oracle) inventoryWritten(what string) {
	if o.w.inventory.Reserved != 0 {
		o.freed, o.recreatedUnreserved = false, false
	}
	if o.finished || o.w.inventory.Reserved != 0 {
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
		returning := v.DeviceState == device.Cleaning && v.CleanStep == nil && !v.Dirty
		switch {
		case o.instance != "":
			o.report("unreserved while it is bound to %s", o.instance)
		case len(s.Consumers) > 0:
			o.report("unreserved while %v use the device", s.Consumers)
		case !free:
			o.report("unreserved with erased %v, verified %v, blocks %q", o.erased, o.verified, o.w.host.blocks)
		case !returning && v.DeviceState != device.Available && v.DeviceState != device.Unknown:
			o.report("unreserved in state %s", v.DeviceState)
		}
		if len(s.Writes) < 2 {
			return
		}
		// F5: the last write before it is the clean's own reservation.
		last, before := s.Writes[len(s.Writes)-1], inventorysim.Write{}
		for _, w := range s.Writes[:len(s.Writes)-1] {
			if w.Done {
				before = w
			}
		}
		if before.Reserved != 1 || before.Generation+1 != last.Generation {
			o.report("unreserved with generation %d; the last write before it was %+v", last.Generation, before)
		}
	case "allocate":
		if !free {
			o.report("a scheduler allocated a device with blocks %q", o.w.host.blocks)
		}
		o.assertedClean = false
	}
}

// answered checks each answer to an update.
func (o *oracle) answered(c *call) {
	if c.err != nil {
		return
	}
	switch c.verb {
	case contract.VerbBind.Update(), contract.VerbBurn.Update():
		instance := c.in.(contract.BindInput).Instance
		out, _ := c.out.(contract.Result)
		switch {
		case o.finished:
		case c.abandoned: // the instance was unbound before the answer
			return
		case o.w.inventory.Reserved != 1:
			o.report("bind of %s succeeded, and the device is not burned", instance)
		case o.instance != "" && o.instance != instance:
			o.report("bind of %s succeeded, and the device is bound to %s", instance, o.instance)
		case len(o.w.inventory.Consumers) > 0:
			o.report("bind of %s succeeded, and %v use the device", instance, o.w.inventory.Consumers)
		case o.instance == "" && !o.clean() && !o.mayReturnUncleaned() && !out.Already:
			o.report("bind of %s succeeded, and the blocks are %q", instance, o.w.host.blocks)
		}
		if o.instance == "" {
			o.instance = instance
			o.writesAll(instance)
		}
		o.assertedClean = false
	case contract.VerbOverride.Update():
		in, out := c.in.(contract.OverrideInput), c.out.(contract.Result)
		if in.Approve == "" || out.Already {
			return
		}
		if a := o.w.view().Override; a == nil || a.Approved == nil || a.Approved.ApprovedAs == a.Approved.RequestedAs ||
			!o.w.view().NotSanitized {
			o.report("an override was approved, and not by two principals, or it is not marked: %+v", a)
		}
		o.overridden = true
	case contract.VerbRetire.Update():
		o.retired, o.instance, o.assertedClean = true, "", false
	}
}

// checkInvariants checks inventory and state after every event.
func (o *oracle) checkInvariants() {
	w := o.w
	if o.finished || !w.live || !w.ready || !w.inventory.Exists {
		return
	}
	v := w.view()
	if v.DeviceState == device.Absent {
		return
	}
	if v.Dirty && v.DeviceState != device.Available && v.DeviceState != device.Allocated {
		o.overridden = false
	}
	quiet := w.updates == 0 && w.activitiesInFlight == 0 && !o.faulty
	if o.retired && quiet && v.DeviceState != device.Retired {
		o.report("retired, and its state is %s", v.DeviceState)
	}
	offered := v.DeviceState == device.Available && !v.Maintenance
	free := w.inventory.Reserved == 0
	if free && len(w.inventory.Consumers) == 0 && !o.clean() && !o.freed && !o.recreatedUnreserved {
		o.report("free in the inventory with blocks %q", w.host.blocks)
	}
	if offered && v.Dirty && v.ClaimedBy == "" {
		o.report("available and dirty")
	}
	// Both agree, except during the time that a write takes.
	agree := free == offered || free && (v.DeviceState == device.Cleaning && v.CleanStep == nil) || v.ClaimedBy != ""
	if agree || o.faulty || w.inventory.ProviderGone {
		o.since = time.Time{}
	} else if o.since.IsZero() {
		o.since = w.clock()
	} else if late := w.clock().Sub(o.since); late > 3*time.Minute {
		o.report("state %s (maintenance %v) and reserved=%d for %s", v.DeviceState, v.Maintenance, w.inventory.Reserved, late)
	}
	if o.instance != "" && quiet {
		if t := w.inventory.Tenant; w.owner != device.OwnerNova && (t == nil || *t != o.instance) {
			o.report("the device is bound to %s, and the inventory does not record it", o.instance)
		}
		if v.InstanceUUID == nil && v.DeviceState != device.Unknown || v.InstanceUUID != nil &&
			*v.InstanceUUID != o.instance {
			o.report("the device is bound to %s, and its state is %s with instance %s", o.instance, v.DeviceState,
				quoteInstance(v.InstanceUUID))
		}
	}
}

func quoteInstance(instance *string) string {
	if instance == nil {
		return "none"
	}
	return fmt.Sprintf("%q", *instance)
}

// bindingEnded records that an instance requested the end of its binding.
func (o *oracle) bindingEnded(instance string) {
	if o.instance == instance {
		o.instance = ""
	}
}
