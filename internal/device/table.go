package device

// Absent is the state of a device that is not enrolled.
const Absent State = ""

// stay keeps the state.
const stay State = "="

// machine is a table of rows; there is one, and the tests' broken copies of it.
type machine []row

// row is one line of the machine: at most one row holds for a device and an event.
type row struct {
	From []State // nil: every state but absent and retired
	On   Kind
	When []cond
	To   State
	Then []effect
}

type cond struct {
	name  string
	holds func(Device, Event) bool
}

type effect struct {
	name  string
	apply func(*Device, Event)
}

func (r row) states() []State {
	if r.From != nil {
		return r.From
	}
	return []State{Unknown, Manageable, Available, Allocated, PendingCleaning, Cleaning, Error}
}

func (r row) from(s State) bool {
	for _, from := range r.states() {
		if from == s {
			return true
		}
	}
	return false
}

// failing names the first condition that does not hold, or nothing.
func (r row) failing(d Device, e Event) string {
	for _, c := range r.When {
		if !c.holds(d, e) {
			return c.name
		}
	}
	return ""
}

func not(c cond, name string) cond {
	return cond{name, func(d Device, e Event) bool { return !c.holds(d, e) }}
}

// The guards: columns of the table.
var (
	dirty       = cond{"a dirty device", func(d Device, _ Event) bool { return d.Dirty }}
	clean       = not(dirty, "a clean device")
	oneTimeUse  = cond{"one-time-use", func(d Device, _ Event) bool { return d.OneTimeUse }}
	reusable    = not(oneTimeUse, "not one-time-use")
	cleanable   = cond{"an erase path", func(d Device, _ Event) bool { return d.Cleanable }}
	uncleanable = not(cleanable, "no erase path")
	automated   = cond{"automated cleaning on", func(_ Device, e Event) bool { return e.Automated }}
	manual      = not(automated, "automated cleaning off")
	vouched     = cond{"the operator vouches", func(_ Device, e Event) bool { return e.Vouched }}
	unvouched   = not(vouched, "nobody vouches")
	claimed     = cond{"a claim", func(d Device, _ Event) bool { return d.Claim != nil }}
	unclaimed   = not(claimed, "no claim")
	burning     = cond{"a burn under way", func(d Device, _ Event) bool { return d.Claim != nil && d.Claim.Burning }}
	notBurning  = not(burning, "no burn under way")
	heldBack    = cond{"a hold", func(d Device, _ Event) bool { return d.HeldBack() }}
	notHeldBack = not(heldBack, "no hold")
	held        = cond{"waiting for the operator's clean", func(d Device, _ Event) bool { return d.Held }}
	notHeld     = not(held, "not waiting for the operator's clean")
	returning   = cond{"returning", func(d Device, _ Event) bool { return d.Returning }}
	notReturn   = not(returning, "not yet returning")
	named       = cond{"named steps", func(d Device, _ Event) bool { return d.NamedSteps }}
	fullPlan    = not(named, "a full plan")
	lostRace    = cond{"a lost race", func(d Device, _ Event) bool { return d.LostRace }}
	takenFor    = cond{"maintenance because it was taken", func(d Device, _ Event) bool { return d.Maintenance == MaintenanceTaken }}
	bound       = cond{"a recorded binding", func(d Device, _ Event) bool { return d.Binding != nil }}
	unbound     = not(bound, "no recorded binding")
	byOwn       = cond{"the binding's own instance", func(d Device, e Event) bool {
		return d.Binding != nil && d.Binding.Instance == e.Instance
	}}
	ownClaim = cond{"the claim's own instance", func(d Device, e Event) bool {
		return d.Claim != nil && d.Claim.Instance == e.Instance
	}}
	ofNova = cond{"a binding observed in Nova's inventory", func(d Device, _ Event) bool {
		return d.Owner == OwnerNova && d.Binding != nil && d.Binding.Observed
	}}
)

// The effects. Only sanitise and returnUnsanitised ever clear Dirty; sanitise
// belongs to a full plan alone (SAFETY F7).
var (
	soil     = effect{"Dirty", func(d *Device, _ Event) { d.Dirty = true }}
	sanitise = effect{"not Dirty, returning", func(d *Device, _ Event) {
		d.Dirty, d.NotSanitised, d.Returning = false, false, true
	}}
	returnUnsanitised = effect{"NotSanitised, returning", func(d *Device, _ Event) {
		d.Dirty, d.NotSanitised, d.Returning = false, true, true
	}}
	startReturn = effect{"returning", func(d *Device, _ Event) { d.Returning = true }}
	endReturn   = effect{"no longer returning", func(d *Device, _ Event) { d.Returning = false }}
	takeClaim   = effect{"Claim", func(d *Device, e Event) {
		d.Claim = &Claim{Instance: e.Instance, Request: e.Request, Tag: e.Tag, Deadline: e.Deadline}
	}}
	dropClaim = effect{"no Claim", func(d *Device, _ Event) { d.Claim = nil }}
	startBurn = effect{"Dirty, burning", func(d *Device, _ Event) { d.Dirty, d.Claim.Burning = true, true }}
	bind      = effect{"Binding", func(d *Device, _ Event) {
		d.Bindings++
		d.Binding = &Binding{Number: d.Bindings, Instance: d.Claim.Instance, Request: d.Claim.Request, Tag: d.Claim.Tag}
		d.Claim = nil
	}}
	bindObserved = effect{"Dirty, Binding as observed", func(d *Device, e Event) {
		d.Dirty, d.Held, d.Returning, d.NamedSteps, d.LostRace, d.Claim = true, false, false, false, false, nil
		switch {
		case e.Instance == "": // in use, and the inventory does not say by whom
			return
		case d.Binding != nil && (d.Owner == OwnerSelf || d.Binding.Instance == e.Instance):
			return // on a device of our own only its own unbind ends a binding (F6)
		}
		d.Bindings++
		d.Binding = &Binding{Number: d.Bindings, Instance: e.Instance, Observed: true}
	}}
	rebind = effect{"Binding as the ended run had it, Dirty if it had one", func(d *Device, e Event) {
		if e.Instance == "" {
			d.Binding = nil
			return
		}
		d.Dirty = true
		if d.Binding == nil || d.Binding.Instance != e.Instance {
			d.Bindings++
			d.Binding = &Binding{Number: d.Bindings, Instance: e.Instance, Observed: d.Owner == OwnerNova}
		}
	}}
	nameSteps  = effect{"named steps", func(d *Device, _ Event) { d.NamedSteps = true }}
	stepsOver  = effect{"no named steps", func(d *Device, _ Event) { d.NamedSteps = false }}
	unbind     = effect{"no Binding", func(d *Device, _ Event) { d.Binding = nil }}
	holdClean  = effect{"held", func(d *Device, _ Event) { d.Held = true }}
	freeClean  = effect{"not held", func(d *Device, _ Event) { d.Held = false }}
	holdUnless = effect{"held if automated cleaning is off", func(d *Device, e Event) { d.Held = !e.Automated }}
	blame      = effect{"maintenance: clean failed", func(d *Device, _ Event) {
		d.Returning, d.NamedSteps, d.Held = false, false, false
		// What another system's hold or a quarantine says outlasts a failed clean.
		if d.Maintenance != MaintenanceTaken && d.Maintenance != MaintenanceQuarantined {
			d.Maintenance = MaintenanceCleanFailed
		}
	}}
	quarantine = effect{"maintenance: quarantined", func(d *Device, _ Event) {
		if d.Maintenance != MaintenanceTaken {
			d.Maintenance = MaintenanceQuarantined
		}
	}}
	// endQuarantine: a full plan has looked at the wear too, or the operator says so; the
	// device is Dirty then, so that the next plan looks again.
	endQuarantine = effect{"no quarantine", func(d *Device, _ Event) {
		if d.Maintenance == MaintenanceQuarantined {
			d.Maintenance = MaintenanceOff
		}
	}}
	forgive = effect{"no maintenance for a failed clean", func(d *Device, _ Event) {
		if d.Maintenance == MaintenanceCleanFailed {
			d.Maintenance = MaintenanceOff
		}
		d.LostRace = false
	}}
	hold = effect{"maintenance: operator", func(d *Device, _ Event) {
		d.Status = Maintaining
		if d.Maintenance == MaintenanceOff {
			d.Maintenance = MaintenanceOperator
		}
	}}
	unhold = effect{"no maintenance by the operator", func(d *Device, _ Event) {
		d.Status = Enabled
		if d.Maintenance == MaintenanceOperator {
			d.Maintenance = MaintenanceOff
		}
	}}
	takeAway = effect{"Dirty, maintenance: taken", func(d *Device, _ Event) {
		d.Dirty, d.Maintenance, d.LostRace = true, MaintenanceTaken, false
	}}
	giveBack = effect{"no maintenance", func(d *Device, _ Event) { d.Maintenance = MaintenanceOff }}
	loseRace = effect{"Dirty, lost race", func(d *Device, _ Event) { d.Dirty, d.LostRace, d.Claim = true, true, nil }}
	end      = effect{"burned for ever", func(d *Device, _ Event) {
		d.Dirty, d.Claim, d.Binding = true, nil, nil
		d.Returning, d.NamedSteps, d.Held, d.LostRace = false, false, false, false
	}}
	doubt = effect{"Dirty, no Claim", func(d *Device, _ Event) {
		d.Dirty, d.Claim = true, nil
		d.Returning, d.NamedSteps, d.Held, d.LostRace = false, false, false, false
	}}
	nextUnit = effect{"Dirty, the next unit", func(d *Device, _ Event) {
		d.Dirty, d.LostRace = true, false
		d.Unit = Unit{Number: d.Unit.Number + 1}
		// What was said of the old piece does not hold for this one; what an operator
		// or another system holds is the place.
		if d.Maintenance == MaintenanceCleanFailed || d.Maintenance == MaintenanceQuarantined {
			d.Maintenance = MaintenanceOff
		}
	}}
	enrolled = effect{"enabled", func(d *Device, _ Event) {
		d.Status, d.Maintenance = Enabled, MaintenanceOff
		if d.Unit.Number == 0 {
			d.Unit.Number = 1
		}
	}}
)

func in(s ...State) []State     { return s }
func when(c ...cond) []cond     { return c }
func then(e ...effect) []effect { return e }

// releaseRows are the ways in which a tenancy ends (D4, D7): the same whether the
// instance unbinds or the inventory shows that it is gone.
func releaseRows(kind Kind, whose cond) []row {
	return []row{
		{in(Allocated), kind, when(whose, cleanable, automated), PendingCleaning, then(unbind)},
		{in(Allocated), kind, when(whose, cleanable, manual, oneTimeUse), PendingCleaning, then(unbind, holdClean)},
		{in(Allocated), kind, when(whose, cleanable, manual, reusable), Cleaning, then(unbind, returnUnsanitised)},
		{in(Allocated), kind, when(whose, uncleanable, oneTimeUse), Error, then(unbind, blame)},
		{in(Allocated), kind, when(whose, uncleanable, reusable), Cleaning, then(unbind, returnUnsanitised)},
	}
}

// table is the machine. A device in `cleaning` with Returning set has no step left:
// its reservation is being lowered.
var table = concat(
	[]row{
		{in(Absent), Enroll, when(unvouched), Manageable, then(soil, enrolled)},
		{in(Absent), Enroll, when(vouched), Manageable, then(enrolled)},
		{in(Absent), Import, nil, Unknown, then(enrolled)},
		{nil, Doubted, nil, Unknown, then(doubt, forgive)},
		{in(Absent), Doubted, nil, Unknown, then(doubt, enrolled)},

		{in(Unknown), Recalled, nil, stay, then(rebind)},
		{in(Unknown), ObservedInUse, nil, Allocated, then(bindObserved)},
		{in(Unknown), ObservedUnused, when(unbound), PendingCleaning, then(soil, holdUnless)},
		{in(Unknown), ObservedUnused, when(bound), Allocated, then(soil)},
		{in(Unknown), ObservedFree, when(unbound, clean), Cleaning, then(startReturn)},
		{in(Unknown), ObservedFree, when(unbound, dirty), PendingCleaning, then(holdUnless)},
		{in(Unknown), ObservedFree, when(bound), Allocated, then(soil)},

		{in(Manageable), Provide, when(dirty, cleanable), PendingCleaning, nil},
		{in(Manageable), Provide, when(clean), Cleaning, then(startReturn)},
		{in(Manageable), Provide, when(dirty, uncleanable, reusable), Cleaning, then(returnUnsanitised)},
		{in(Manageable), Provide, when(dirty, uncleanable, oneTimeUse), Error, then(blame)},
		{in(Manageable), CleanSteps, nil, Cleaning, then(nameSteps)},
		{in(Manageable), Freed, when(takenFor), PendingCleaning, then(soil, giveBack, holdUnless)},
		{in(Manageable), ObservedInUse, nil, Allocated, then(bindObserved)},

		{in(Available), ClaimEvent, when(notHeldBack, unclaimed), stay, then(takeClaim)},
		{in(Available), Unclaim, when(ownClaim, notBurning), stay, then(dropClaim)},
		{in(Available), ClaimExpired, when(claimed, notBurning), stay, then(dropClaim)},
		{in(Available), BurnStarted, when(ownClaim, notBurning), stay, then(startBurn)},
		{in(Available), Burned, when(burning), Allocated, then(bind)},
		{in(Available), BurnFailed, when(burning), PendingCleaning, then(dropClaim, holdUnless)},
		{in(Available), LostRace, when(claimed, notBurning), Error, then(loseRace)},
		{in(Available), ObservedInUse, when(notBurning), Allocated, then(bindObserved)},
		{in(Available), ObservedUnused, when(notBurning, notHeldBack), PendingCleaning, then(soil, dropClaim, holdUnless)},
		{in(Available), Manage, when(unclaimed), Manageable, nil},
		{in(Available), Taken, when(unclaimed), Manageable, then(takeAway)},
		{in(Available), Changed, when(notBurning), Error, then(soil, dropClaim, blame)},

		{in(Allocated), Rebuild, when(byOwn), stay, nil},
		{in(Allocated), Unowned, when(unbound), PendingCleaning, then(soil, holdUnless)},
		{in(Allocated), ObservedInUse, when(unbound), stay, then(bindObserved)},
		// A migration gives the allocation another consumer, and back (S0.21, S0.22).
		{in(Allocated), ObservedInUse, when(ofNova), stay, then(bindObserved)},
	},
	releaseRows(Unbind, byOwn),
	releaseRows(Released, ofNova),
	[]row{
		{in(PendingCleaning), Clean, when(held), stay, then(freeClean)},
		{in(PendingCleaning), CleanStarted, when(notHeld), Cleaning, nil},
		{in(PendingCleaning), CleanFailed, nil, Error, then(blame)},
		{in(PendingCleaning), ObservedInUse, nil, Allocated, then(bindObserved)},

		{in(Cleaning), CleanDone, when(notReturn, fullPlan), stay, then(sanitise, forgive, endQuarantine)},
		{in(Cleaning), StepsDone, when(notReturn, named), Manageable, then(stepsOver)},
		{in(Cleaning), CleanFailed, nil, Error, then(soil, blame)},
		{in(Cleaning), WornOut, when(notReturn), Error, then(soil, blame, quarantine)},
		{in(Cleaning), Reclaimed, when(returning), PendingCleaning, then(soil, endReturn)},
		{in(Cleaning), ObservedInUse, nil, Allocated, then(bindObserved)},
		{in(Cleaning), Returned, when(returning), Available, then(endReturn)},

		{in(Error), Clean, when(cleanable), PendingCleaning, then(forgive)},
		{in(Error), Manage, nil, Manageable, then(forgive)},
		{in(Error), Override, nil, Cleaning, then(returnUnsanitised, forgive)},
		{in(Error), Taken, when(lostRace), Manageable, then(takeAway)},
		{in(Error), ObservedInUse, nil, Allocated, then(bindObserved, forgive)},

		{in(Unknown, Manageable, Allocated, Error), Changed, nil, stay, then(soil)},
		{nil, Maintain, when(unclaimed), stay, then(hold)},
		{nil, MaintainOff, nil, stay, then(unhold, endQuarantine)},
		{in(Unknown, Manageable, Available, Allocated, PendingCleaning, Error), Retire, when(unclaimed), Retired, then(end)},
		{nil, Lost, nil, Retired, then(end)},
		{in(Manageable), Replace, nil, stay, then(nextUnit)},
		{in(Error, Retired), Replace, nil, Manageable, then(nextUnit)},
		{in(Manageable, Error), Move, nil, Absent, then(soil, forgive)},
		{in(Retired), Forget, nil, Absent, nil},
	},
)

func concat(parts ...[]row) machine {
	var all machine
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
