package device

// Absent is the state of a device that is not enrolled.
const Absent State = ""

// stay keeps the state.
const noChange State = "="

// machine is a table of rows. There is one, and copies that tests break.
type machine []row

// row is one line of the table. At most one row holds for a device and an event.
type row struct {
	From []State // nil: every state but absent and retired
	On   EventKind
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

// unmet names the first condition that does not hold, or nothing.
func (r row) unmet(d Device, e Event) string {
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
	dirty                  = cond{"a dirty device", func(d Device, _ Event) bool { return d.Dirty }}
	clean                  = not(dirty, "a clean device")
	oneTimeUse             = cond{"one-time-use", func(d Device, _ Event) bool { return d.OneTimeUse }}
	reusable               = not(oneTimeUse, "not one-time-use")
	cleanable              = cond{"an erase path", func(d Device, _ Event) bool { return d.Cleanable }}
	uncleanable            = not(cleanable, "no erase path")
	automated              = cond{"automated cleaning on", func(_ Device, e Event) bool { return e.Automated }}
	manual                 = not(automated, "automated cleaning off")
	assertedClean          = cond{"the operator asserts it is clean", func(_ Device, e Event) bool { return e.AssertedClean }}
	notAsserted            = not(assertedClean, "the operator does not assert it is clean")
	claimed                = cond{"a claim", func(d Device, _ Event) bool { return d.Claim != nil }}
	unclaimed              = not(claimed, "no claim")
	burning                = cond{"a burn under way", func(d Device, _ Event) bool { return d.Claim != nil && d.Claim.Burning }}
	notBurning             = not(burning, "no burn under way")
	inMaintenance          = cond{"in maintenance", func(d Device, _ Event) bool { return d.InMaintenance() }}
	notInMaintenance       = not(inMaintenance, "not in maintenance")
	awaitingManualClean    = cond{"awaiting manual clean", func(d Device, _ Event) bool { return d.AwaitingManualClean }}
	notAwaitingManualClean = not(awaitingManualClean, "not awaiting manual clean")
	returning              = cond{"returning", func(d Device, _ Event) bool { return d.Returning }}
	notReturn              = not(returning, "not yet returning")
	named                  = cond{"named steps", func(d Device, _ Event) bool { return d.NamedSteps }}
	fullPlan               = not(named, "a full plan")
	unseen                 = cond{"not seen by its host since", func(d Device, _ Event) bool { return d.Unseen }}
	seen                   = not(unseen, "seen by its host")
	lostRace               = cond{"a lost race", func(d Device, _ Event) bool { return d.LostRace }}
	atWork                 = cond{"in the operator's maintenance", func(d Device, _ Event) bool { return d.Status == Maintaining }}
	notMaintained          = not(atWork, "not in the operator's maintenance")
	// raceLostAlone: nothing but the lost race keeps the device in error (S4.10, S4.12).
	raceLostAlone = cond{"a lost race alone", func(d Device, _ Event) bool {
		return d.LostRace && d.Status != Maintaining && d.Maintenance != MaintenanceQuarantined
	}}
	held             = cond{"held by an operator", func(d Device, _ Event) bool { return d.Hold() != HoldNone }}
	notHeld          = not(held, "not held by an operator")
	maintenanceTaken = cond{"maintenance because it was taken", func(d Device, _ Event) bool { return d.Maintenance == MaintenanceTaken }}
	// takenByOthers: others may use the server now, and write what no operator has accepted.
	takenByOthers   = cond{"a server that others took", func(d Device, _ Event) bool { return d.LostRace || d.Maintenance == MaintenanceTaken }}
	notTaken        = not(takenByOthers, "no server that others took")
	bound           = cond{"a recorded binding", func(d Device, _ Event) bool { return d.Binding != nil }}
	unbound         = not(bound, "no recorded binding")
	byBoundInstance = cond{"the binding's own instance", func(d Device, e Event) bool {
		return d.Binding != nil && SameTenant(d.Binding.Instance, e.Instance)
	}}
	// SAFETY F25: a run is never recalled over a binding that is younger than it.
	boundSince      = cond{"a binding younger than that run", func(d Device, e Event) bool { return d.Binding != nil && e.BoundSince }}
	notBoundSince   = not(boundSince, "no binding younger than that run")
	byClaimInstance = cond{"the claim's own instance", func(d Device, e Event) bool {
		return d.Claim != nil && d.Claim.Instance == e.Instance
	}}
	ownedBySelf     = cond{"owner self", func(d Device, _ Event) bool { return d.Owner != OwnerNova }}
	boundHereBefore = cond{"a binding older than the one that the inventory records", func(d Device, e Event) bool {
		return d.Owner != OwnerNova && d.Binding != nil && e.Recorded
	}}
	observedByNova = cond{"a binding observed in Nova's inventory", func(d Device, _ Event) bool {
		return d.Owner == OwnerNova && d.Binding != nil && d.Binding.Observed
	}}
	// ofOperator: whoever uses the device, its operator has not let it go.
	ofOperator    = cond{"an operator's device", func(d Device, _ Event) bool { return d.Binding != nil && d.Binding.Held }}
	notOfOperator = not(ofOperator, "no operator's device")
	// readBack: the bind of a self-owned device was lost with its task, and its record was read.
	readBack = cond{"a binding read from the record", func(d Device, _ Event) bool {
		return d.Owner != OwnerNova && d.Binding != nil && d.Binding.Observed
	}}
)

// The effects. Only sanitize and returnUnsanitized ever clear Dirty; sanitize
// belongs to a full plan alone (SAFETY F7).
var (
	markDirty = effect{"Dirty", func(d *Device, _ Event) { d.Dirty = true }}
	sanitize  = effect{"not Dirty, seen, returning", func(d *Device, _ Event) {
		d.Dirty, d.NotSanitized, d.Returning, d.Unseen = false, false, true, false
	}}
	returnUnsanitized = effect{"NotSanitized, unseen, returning", func(d *Device, _ Event) {
		d.Dirty, d.NotSanitized, d.Returning, d.Unseen = false, true, true, true
	}}
	startReturn = effect{"returning", func(d *Device, _ Event) { d.Returning = true }}
	endReturn   = effect{"no longer returning", func(d *Device, _ Event) { d.Returning = false }}
	endOnHold   = effect{"no longer returning, unseen", func(d *Device, _ Event) { d.Returning, d.Unseen = false, true }}
	markUnseen  = effect{"unseen", func(d *Device, _ Event) { d.Unseen = true }}
	markSeen    = effect{"seen", func(d *Device, _ Event) { d.Unseen = false }}
	takeClaim   = effect{"Claim", func(d *Device, e Event) {
		d.Claim = &Claim{Instance: e.Instance, Request: e.Request, Tag: e.Tag, Deadline: e.Deadline, Managed: e.Managed}
	}}
	dropClaim = effect{"no Claim", func(d *Device, _ Event) { d.Claim = nil }}
	startBurn = effect{"Dirty, burning", func(d *Device, _ Event) { d.Dirty, d.Claim.Burning = true, true }}
	bind      = effect{"Binding", func(d *Device, _ Event) {
		d.Bindings++
		d.Binding = &Binding{Number: d.Bindings, Instance: d.Claim.Instance, Request: d.Claim.Request, Tag: d.Claim.Tag, Managed: d.Claim.Managed}
		d.Claim = nil
	}}
	bindObserved = effect{"Dirty, Binding as observed", func(d *Device, e Event) {
		claim := d.Claim
		d.Dirty, d.AwaitingManualClean, d.Returning, d.NamedSteps, d.LostRace, d.Claim = true, false, false, false, false, nil
		switch {
		case e.Instance == "": // in use, and the inventory does not say by whom
			return
		case d.Binding != nil && SameTenant(e.Instance, d.Binding.Instance) && e.Number <= d.Binding.Number:
			return
		case d.Binding != nil && d.Owner == OwnerSelf && !e.Recorded:
			return // only its own unbind, or the record of a later bind, ends a binding of a self-owned device (F6, F24)
		}
		d.Bindings = max(d.Bindings+1, e.Number)
		held := d.Binding != nil && d.Binding.Held && !e.Recorded
		d.Binding = &Binding{Number: d.Bindings, Instance: e.Instance, Observed: true, Held: held}
		// SAFETY F42: the burn of this claim was carried out, and its answer lost with its task.
		if claim != nil && e.Recorded && SameTenant(e.Instance, claim.Instance) {
			*d.Binding = Binding{Number: d.Bindings, Instance: claim.Instance, Request: claim.Request, Tag: claim.Tag, Managed: claim.Managed}
		}
	}}
	// keepHold: what the record of a bind names is a later tenant's than what this memory knows (F36).
	keepHold = effect{"the operator's, unless it is recorded", func(d *Device, e Event) {
		if d.Binding != nil {
			d.Binding.Held = !e.Recorded
		}
	}}
	adoptRequest = effect{"the binding's request and tag", func(d *Device, e Event) {
		b := d.Binding
		b.Instance, b.Request, b.Tag, b.Managed, b.Observed, b.Held = e.Instance, e.Request, e.Tag, e.Managed, false, false
	}}
	restoreBinding = effect{"Binding of the previous run, Dirty if it had one", func(d *Device, e Event) {
		if e.Instance == "" {
			d.Binding = nil
			return
		}
		d.Dirty, d.AwaitingManualClean = true, false
		if d.Binding == nil || d.Binding.Instance != e.Instance {
			d.Bindings++
			d.Binding = &Binding{Number: d.Bindings, Instance: e.Instance, Observed: true}
		}
	}}
	nameSteps             = effect{"named steps, unseen", func(d *Device, _ Event) { d.NamedSteps, d.Unseen = true, true }}
	stepsOver             = effect{"no named steps", func(d *Device, _ Event) { d.NamedSteps = false }}
	unbind                = effect{"no Binding", func(d *Device, _ Event) { d.Binding = nil }}
	awaitManualClean      = effect{"awaiting manual clean", func(d *Device, _ Event) { d.AwaitingManualClean = true }}
	allowClean            = effect{"not awaiting manual clean", func(d *Device, _ Event) { d.AwaitingManualClean = false }}
	awaitManualCleanIfOff = effect{"awaiting manual clean if automated cleaning is off", func(d *Device, e Event) { d.AwaitingManualClean = !e.Automated }}
	setCleanFailed        = effect{"maintenance: clean failed", func(d *Device, _ Event) {
		d.Returning, d.NamedSteps, d.AwaitingManualClean = false, false, false
		// Maintenance by another system and a quarantine last longer than a failed clean.
		if d.Maintenance != MaintenanceTaken && d.Maintenance != MaintenanceQuarantined {
			d.Maintenance = MaintenanceCleanFailed
		}
	}}
	quarantine = effect{"maintenance: quarantined", func(d *Device, _ Event) {
		if d.Maintenance != MaintenanceTaken {
			d.Maintenance = MaintenanceQuarantined
		}
	}}
	// endQuarantine: a full plan checked the wear too, or the operator ends it. The device
	// is Dirty then, so that the next plan checks again.
	endQuarantine = effect{"no quarantine", func(d *Device, _ Event) {
		if d.Maintenance == MaintenanceQuarantined {
			d.Maintenance = MaintenanceOff
		}
	}}
	clearCleanFailed = effect{"no maintenance for a failed clean", func(d *Device, _ Event) {
		if d.Maintenance == MaintenanceCleanFailed {
			d.Maintenance = MaintenanceOff
		}
		d.LostRace = false
	}}
	setMaintenance = effect{"maintenance: operator, unseen", func(d *Device, _ Event) {
		d.Status, d.Unseen = Maintaining, true
		if d.Maintenance == MaintenanceOff {
			d.Maintenance = MaintenanceOperator
		}
	}}
	clearMaintenance = effect{"no maintenance by the operator", func(d *Device, _ Event) {
		d.Status = Enabled
		if d.Maintenance == MaintenanceOperator {
			d.Maintenance = MaintenanceOff
		}
	}}
	// setTaken keeps a quarantine, which only the operator or a check of the wear ends. The
	// operator's maintenance is kept by Status (S4.10).
	setTaken = effect{"Dirty, maintenance: taken", func(d *Device, _ Event) {
		d.Dirty, d.LostRace = true, false
		if d.Maintenance != MaintenanceQuarantined {
			d.Maintenance = MaintenanceTaken
		}
	}}
	clearTaken = effect{"no maintenance because it was taken", func(d *Device, _ Event) {
		d.Maintenance = MaintenanceOff
		if d.Status == Maintaining {
			d.Maintenance = MaintenanceOperator
		}
	}}
	markRaceLost = effect{"Dirty, lost race", func(d *Device, _ Event) { d.Dirty, d.LostRace, d.Claim = true, true, nil }}
	retire       = effect{"permanently reserved", func(d *Device, _ Event) {
		d.Dirty, d.Claim, d.Binding = true, nil, nil
		d.Returning, d.NamedSteps, d.AwaitingManualClean, d.LostRace = false, false, false, false
	}}
	invalidate = effect{"Dirty, no Claim", func(d *Device, _ Event) {
		d.Dirty, d.Claim = true, nil
		d.Returning, d.NamedSteps, d.AwaitingManualClean, d.LostRace = false, false, false, false
	}}
	restoreHold = effect{"maintenance if it was recorded", func(d *Device, e Event) {
		if e.Hold == HoldMaintenance {
			setMaintenance.apply(d, e)
		}
	}}
	replaceUnit = effect{"Dirty, the next unit", func(d *Device, _ Event) {
		d.Dirty, d.LostRace = true, false
		d.Unit = Unit{Number: d.Unit.Number + 1}
		// A failed clean and a quarantine belong to the old hardware; maintenance by an
		// operator or another system belongs to the slot.
		if d.Maintenance == MaintenanceCleanFailed || d.Maintenance == MaintenanceQuarantined {
			d.Maintenance = MaintenanceOff
		}
	}}
	enrolled = effect{"enabled, unseen", func(d *Device, _ Event) {
		d.Status, d.Maintenance, d.Unseen = Enabled, MaintenanceOff, true
		if d.Unit.Number == 0 {
			d.Unit.Number = 1
		}
	}}
)

func in(s ...State) []State     { return s }
func when(c ...cond) []cond     { return c }
func then(e ...effect) []effect { return e }

// releaseRows are the ways in which a binding ends (D4, D7): the same whether the
// instance unbinds or the inventory shows that it is gone.
func releaseRows(kind EventKind, whose cond) []row {
	return []row{
		{in(Allocated), kind, when(whose, notOfOperator, cleanable, automated), PendingCleaning, then(unbind)},
		{in(Allocated), kind, when(whose, notOfOperator, cleanable, manual, oneTimeUse), PendingCleaning, then(unbind, awaitManualClean)},
		{in(Allocated), kind, when(whose, notOfOperator, cleanable, manual, reusable), Cleaning, then(unbind, returnUnsanitized)},
		{in(Allocated), kind, when(whose, notOfOperator, uncleanable, oneTimeUse), Error, then(unbind, setCleanFailed)},
		{in(Allocated), kind, when(whose, notOfOperator, uncleanable, reusable), Cleaning, then(unbind, returnUnsanitized)},
		{in(Allocated), kind, when(whose, ofOperator), Manageable, then(unbind)},
	}
}

// table is the first table. A device in `cleaning` with Returning set has no step left:
// its reservation is being lowered.
var table = concat(
	[]row{
		{in(Absent), Enroll, when(notAsserted), Manageable, then(markDirty, enrolled)},
		{in(Absent), Enroll, when(assertedClean), Manageable, then(enrolled)},
		{in(Absent), Import, nil, Unknown, then(enrolled)},
		{in(Unknown), Invalidated, nil, noChange, then(invalidate)},
		{in(Allocated, PendingCleaning), Invalidated, nil, Unknown, then(invalidate)},
		{in(Available), Invalidated, when(notInMaintenance), Unknown, then(invalidate)},
		{in(Cleaning), Invalidated, when(fullPlan), Unknown, then(invalidate)},
		// SAFETY F43: what an operator holds is neither cleaned nor offered by itself.
		{in(Manageable, Error), Invalidated, when(held), noChange, then(invalidate)},
		{in(Manageable, Error), Invalidated, when(notHeld), Unknown, then(invalidate, clearCleanFailed)},
		{in(Available), Invalidated, when(inMaintenance), Manageable, then(invalidate)},
		{in(Cleaning), Invalidated, when(named), Manageable, then(invalidate)},
		{in(Absent), Invalidated, nil, Unknown, then(invalidate, enrolled)},

		{in(Unknown), PreviousRunFound, when(notBoundSince), noChange, then(restoreBinding)},
		{in(Unknown), PreviousRunFound, when(boundSince), noChange, nil},
		{in(Unknown), ObservedInUse, nil, Allocated, then(bindObserved)},
		// SAFETY F24, D16: only the operator decides about a device for which no record speaks.
		{in(Unknown), NoWitness, when(unbound), noChange, then(markDirty, awaitManualClean)},
		{in(Unknown), Clean, when(awaitingManualClean), PendingCleaning, then(allowClean)},
		{in(Unknown), Manage, when(awaitingManualClean), Manageable, then(allowClean)},
		{in(Unknown), ObservedHeld, when(unbound), Manageable, then(markDirty, allowClean, restoreHold)},
		{in(Unknown), ObservedHeld, when(bound, ownedBySelf), Manageable, then(unbind, markDirty, restoreHold)},
		{in(Unknown), ObservedUnused, when(unbound, notMaintained), PendingCleaning, then(markDirty, awaitManualCleanIfOff)},
		{in(Unknown), ObservedUnused, when(unbound, atWork), Manageable, then(markDirty, allowClean)},
		{in(Unknown), ObservedUnused, when(bound), Allocated, then(markDirty)},
		// SAFETY F24: only the first write of a clean records that no instance has the device.
		{in(Unknown), BindingEnded, when(bound, ownedBySelf, notOfOperator), PendingCleaning, then(unbind, markDirty, awaitManualCleanIfOff)},
		{in(Unknown), BindingEnded, when(ownedBySelf, ofOperator), Manageable, then(unbind, markDirty)},
		{in(Unknown), ObservedFree, when(unbound, clean), Cleaning, then(startReturn)},
		{in(Unknown), ObservedFree, when(unbound, dirty), PendingCleaning, then(awaitManualCleanIfOff)},
		{in(Unknown), ObservedFree, when(bound), Allocated, then(markDirty)},

		{in(Manageable), Provide, when(dirty, cleanable), PendingCleaning, nil},
		{in(Manageable), Provide, when(clean, seen), Cleaning, then(startReturn)},
		{in(Manageable), Provide, when(dirty, uncleanable, reusable, notTaken), Cleaning, then(returnUnsanitized)},
		{in(Manageable), Provide, when(dirty, uncleanable, oneTimeUse), Error, then(setCleanFailed)},
		{in(Manageable), CleanSteps, nil, Cleaning, then(nameSteps)},
		// S4.10: while the operator works at it too, what others do changes nothing.
		{in(Manageable), Freed, when(maintenanceTaken, notMaintained), PendingCleaning, then(markDirty, clearTaken, awaitManualCleanIfOff)},
		{in(Manageable), ObservedInUse, when(notHeld), Allocated, then(bindObserved)},
		{in(Manageable), ObservedInUse, when(held), Allocated, then(bindObserved, keepHold)},

		{in(Available), ClaimEvent, when(notInMaintenance, unclaimed), noChange, then(takeClaim)},
		{in(Available), Unclaim, when(byClaimInstance, notBurning), noChange, then(dropClaim)},
		{in(Available), ClaimExpired, when(claimed, notBurning), noChange, then(dropClaim)},
		{in(Available), BurnStarted, when(byClaimInstance, notBurning), noChange, then(startBurn)},
		{in(Available), Burned, when(burning), Allocated, then(bind)},
		{in(Available), BurnFailed, when(burning), PendingCleaning, then(dropClaim, awaitManualCleanIfOff)},
		{in(Available), LostRace, when(claimed), Error, then(markRaceLost)},
		{in(Available), ObservedInUse, when(notBurning), Allocated, then(bindObserved)},
		{in(Available), ObservedUnused, when(notBurning, notInMaintenance), PendingCleaning, then(markDirty, dropClaim, awaitManualCleanIfOff)},
		{in(Available), Manage, when(unclaimed), Manageable, then(markUnseen)},
		{in(Available), Taken, when(unclaimed), Manageable, then(setTaken)},
		{in(Available), IdentityChanged, when(notBurning), Error, then(markDirty, dropClaim, setCleanFailed)},
		// Error, not a clean: what is there now may be another owner's.
		{in(Available), LookFailed, when(notBurning), Error, then(markDirty, dropClaim, setCleanFailed)},

		{in(Allocated), Rebuild, when(byBoundInstance), noChange, nil},
		{in(Allocated), BindRepeated, when(byBoundInstance, readBack), noChange, then(adoptRequest)},
		{in(Allocated), BindingMissing, when(unbound), PendingCleaning, then(markDirty, awaitManualCleanIfOff)},
		{in(Allocated), ObservedInUse, when(unbound), noChange, then(bindObserved)},
		// A migration gives the allocation another consumer, and back (S0.21, S0.22).
		{in(Allocated), ObservedInUse, when(observedByNova), noChange, then(bindObserved)},
		{in(Allocated), ObservedInUse, when(boundHereBefore), noChange, then(bindObserved)},
	},
	releaseRows(Unbind, byBoundInstance),
	releaseRows(Released, observedByNova),
	[]row{
		{in(PendingCleaning), Clean, when(awaitingManualClean), noChange, then(allowClean)},
		{in(PendingCleaning), CleanStarted, when(notAwaitingManualClean), Cleaning, nil},
		{in(PendingCleaning), CleanFailed, nil, Error, then(setCleanFailed)},
		{in(PendingCleaning, Cleaning), LostRace, when(fullPlan), Error, then(markRaceLost, setCleanFailed)},
		// SAFETY F43: what lost a race is cleaned when the others have left; its operator's is not.
		{in(Cleaning), LostRace, when(named), Manageable, then(markDirty, stepsOver)},
		// The clean found that the others have left: the operator provided it before a poll did.
		{in(PendingCleaning), Freed, when(maintenanceTaken), noChange, then(clearTaken)},
		{in(PendingCleaning), ObservedInUse, nil, Allocated, then(bindObserved)},

		{in(Cleaning), CleanDone, when(notReturn, fullPlan), noChange, then(sanitize, clearCleanFailed, endQuarantine)},
		{in(Cleaning), StepsDone, when(notReturn, named), Manageable, then(stepsOver)},
		{in(Cleaning), CleanFailed, nil, Error, then(markDirty, setCleanFailed)},
		{in(Cleaning), WearLimitExceeded, when(notReturn), Error, then(markDirty, setCleanFailed, quarantine)},
		{in(Cleaning), ReservationChanged, when(returning), PendingCleaning, then(markDirty, endReturn)},
		{in(Cleaning), ObservedInUse, when(fullPlan), Allocated, then(bindObserved)},
		{in(Cleaning), ObservedInUse, when(named), Allocated, then(bindObserved, keepHold)},
		{in(Cleaning), Returned, when(returning, notInMaintenance, seen), Available, then(endReturn)},
		{in(Cleaning), Returned, when(returning, inMaintenance), Available, then(endOnHold)},
		{in(Manageable, Available), Seen, when(clean), noChange, then(markSeen)},
		{in(Cleaning), Seen, when(returning), noChange, then(markSeen)},

		{in(Error), Clean, when(cleanable), PendingCleaning, then(clearCleanFailed)},
		{in(Error), Manage, nil, Manageable, then(clearCleanFailed)},
		// An override accepts no later data: others must have left, which a poll finds.
		{in(Error), Override, when(notTaken), Cleaning, then(returnUnsanitized, clearCleanFailed)},
		{in(Error), Taken, when(lostRace), Manageable, then(setTaken)},
		{in(Error), Freed, when(raceLostAlone), PendingCleaning, then(clearTaken, clearCleanFailed, awaitManualCleanIfOff)},
		{in(Error), ObservedInUse, when(notHeld), Allocated, then(bindObserved, clearCleanFailed)},
		{in(Error), ObservedInUse, when(held), Allocated, then(bindObserved, clearCleanFailed, keepHold)},

		{in(Unknown, Manageable, Allocated, Error), IdentityChanged, nil, noChange, then(markDirty)},
		{nil, Maintain, when(unclaimed), noChange, then(setMaintenance)},
		{exceptFor(Available, Retired), MaintainOff, nil, noChange, then(clearMaintenance, endQuarantine)},
		{in(Available), MaintainOff, when(seen), noChange, then(clearMaintenance)},
		{in(Unknown, Manageable, Available, Allocated, PendingCleaning, Error), Retire, when(unclaimed), Retired, then(retire)},
		{nil, Lost, nil, Retired, then(retire)},
		{in(Manageable), Replace, nil, noChange, then(replaceUnit)},
		{in(Error, Retired), Replace, nil, Manageable, then(replaceUnit)},
		{in(Manageable, Error), Move, nil, Absent, then(markDirty, clearCleanFailed)},
		{in(Retired), Forget, nil, Absent, nil},
		// Not while it is cleaned, or while it is unknown who has it.
		{in(Manageable, Available, Allocated, Error, Retired), Power, when(unclaimed), noChange, nil},
	},
)

func concat(parts ...[]row) machine {
	var all machine
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
