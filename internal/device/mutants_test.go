package device

// mutant is a table with one broken rule, and a part of the name of the proof that must
// detect it.
type mutant struct {
	name    string
	change  change
	refuted string
}

const (
	notDirty    = "allocatable is never Dirty"
	usedIsDirty = "a device that was used since its last clean is Dirty"
	exemptions  = "only a full plan and three exemptions"
	namedOnly   = "named steps clear nothing"
	oneTime     = "a one-time-use device"
	unsanitized = "NotSanitized is set by"
	notUnseen   = "allocatable is never unseen"
	looked      = "only a full plan and its host's look"
	leaves      = "a device that leaves the offer clean"
	pool        = "four events alone"
	claims      = "a claim excludes"
	burns       = "a binding comes from"
	burnFails   = "a failed burn"
	unbinds     = "only its own unbind"
	observes    = "an observed binding"
	maintained  = "maintenance ends by"
	waits       = "automated cleaning off"
	runs        = "a running clean"
	fails       = "a failed clean leads"
	fieldsFit   = "the fields fit the state"
	oneRow      = "at most one row"
	dead        = "no row is dead"
	states      = "every state"
	traps       = "no traps: allocatable again"
	wayOut      = "no traps with overrides"
	safetyCut   = "the safety cut"
	allowed     = "an allowed event"
	ends        = "no traps: retire and forget"
)

func mutations() []mutant {
	return []mutant{
		// What makes Dirty.
		{"enrollment leaves it clean", dropEffect(Absent, Enroll, markDirty), usedIsDirty},
		{"the start of a burn leaves it clean", everywhere(startBurn, func(d *Device, _ Event) { d.Claim.Burning = true }), usedIsDirty},
		// D9
		{"used between two readings, and clean", dropEffect(Available, ObservedUnused, markDirty), usedIsDirty},

		// What clears it.
		{"named steps count as a full plan", dropGuard(Cleaning, CleanDone, fullPlan), namedOnly},
		{"StepsDone sanitizes", addEffect(Cleaning, StepsDone, sanitize), namedOnly},
		{"StepsDone clears Dirty", addEffect(Cleaning, StepsDone, clearDirt), exemptions},
		{"unbind clears Dirty", addEffect(Allocated, Unbind, clearDirt), exemptions},
		{"provide returns what is Dirty", dropGuard(Manageable, Provide, clean), oneRow},
		{"provide returns what is Dirty, and cleans nothing", leadTo(Manageable, Provide, Available, dirty, cleanable), notDirty},
		{"unknown and free is returned, Dirty or not", dropGuard(Unknown, ObservedFree, clean), oneRow},
		{"unknown, free and Dirty is returned", both(leadTo(Unknown, ObservedFree, Cleaning, dirty), addEffect(Unknown, ObservedFree, startReturn)), fieldsFit},
		{"returned without being returned", dropGuard(Cleaning, Returned, returning), notDirty},
		{"a clean that failed is returned", leadTo(Cleaning, CleanFailed, Available), fails},

		// The three exemptions.
		{"a full plan stays NotSanitized", everywhere(sanitize, but(sanitize, func(b Device, d *Device) { d.NotSanitized = b.NotSanitized })), unsanitized},
		{"a claim clears NotSanitized", addEffect(Available, ClaimEvent, effect{"mutant", func(d *Device, _ Event) { d.NotSanitized = false }}), unsanitized},
		// D4
		{"an uncleanable one-time-use device is returned", both(leadTo(Allocated, Unbind, Cleaning, uncleanable, oneTimeUse), swapEffect(Allocated, Unbind, setCleanFailed, returnUnsanitized)), oneTime},
		{"an uncleanable one-time-use device is provided without a clean", both(leadTo(Manageable, Provide, Cleaning, uncleanable, oneTimeUse), swapEffect(Manageable, Provide, setCleanFailed, returnUnsanitized)), oneTime},
		// D7
		{"a one-time-use device is returned with automated cleaning off", both(leadTo(Allocated, Unbind, Cleaning, manual, oneTimeUse), swapEffect(Allocated, Unbind, awaitManualClean, returnUnsanitized)), oneTime},
		{"manage is an override too", both(leadTo(Error, Manage, Cleaning), addEffect(Error, Manage, returnUnsanitized)), safetyCut},
		{"no override", dropRow(Error, Override), wayOut},

		// F27
		{"a device that was managed is provided without a look", dropGuard(Manageable, Provide, seen), leaves},
		{"maintenance ends without a look", dropGuard(Available, MaintainOff, seen), notUnseen},
		{"a device is returned without a look", dropGuard(Cleaning, Returned, seen), notUnseen},
		{"manage leaves it seen", dropEffect(Available, Manage, markUnseen), leaves},
		{"an unbind is a look", addEffect(Allocated, Unbind, markSeen), looked},

		// Claims and burns.
		{"a second claim", dropGuard(Available, ClaimEvent, unclaimed), claims},
		{"a claim of a device in maintenance", dropGuard(Available, ClaimEvent, notInMaintenance), claims},
		{"a burn that was not started", dropGuard(Available, Burned, burning), burns},
		{"a burn under way loses no race", edit(Available, LostRace, nil, func(r *row) bool { r.When = append(r.When, notBurning); return true }), allowed},
		{"a clean loses no race", dropRow(Cleaning, LostRace), allowed},
		{"a failed burn stays available", leadTo(Available, BurnFailed, noChange), burnFails},
		{"a failed burn is returned", both(leadTo(Available, BurnFailed, Cleaning), addEffect(Available, BurnFailed, startReturn)), burnFails},
		{"a burn binds another instance", everywhere(bind, but(bind, func(_ Device, d *Device) { d.Binding.Instance = other })), burns},

		// Bindings.
		{"an unbind by another instance", dropGuard(Allocated, Unbind, byBoundInstance), unbinds},
		{"used = 0 ends a binding of a self-owned device", dropGuard(Allocated, Released, observedByNova), unbinds},
		{"used = 0 ends a binding that was not observed", everyGuard(observedByNova, func(d Device, _ Event) bool { return d.Owner == OwnerNova && d.Binding != nil }), observes},
		{"the binding stays after its unbind", dropEffect(Allocated, Unbind, unbind), fieldsFit},

		// Waiting for the operator, and maintenance.
		{"it does not wait for the operator (unbind)", dropEffect(Allocated, Unbind, awaitManualClean), waits},
		{"it does not wait for the operator (released)", dropEffect(Allocated, Released, awaitManualClean), waits},
		{"maintain --off ends the maintenance of another system", everywhere(clearMaintenance, but(clearMaintenance, func(_ Device, d *Device) { d.Maintenance = MaintenanceOff })), maintained},
		{"a failed clean ends the maintenance of another system", everywhere(setCleanFailed, but(setCleanFailed, func(_ Device, d *Device) { d.Maintenance = MaintenanceCleanFailed })), maintained},
		{"taken ends a quarantine", everywhere(setTaken, but(setTaken, func(_ Device, d *Device) { d.Maintenance = MaintenanceTaken })), fails},
		{"provide makes it allocatable at once", leadTo(Manageable, Provide, Available, clean), pool},

		// The running clean, and its failure.
		{"retire under a running step", edit(Error, Retire, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},
		{"manage under a running step", edit(Error, Manage, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},

		// No device is stuck, and no row is superfluous.
		{"error has no way out", both(dropRow(Error, Clean), dropRow(Error, Manage)), traps},
		{"maintenance never ends", dropEvent(MaintainOff), traps},
		{"a retired device is never forgotten", dropRow(Retired, Forget), ends},
		{"lost hardware is never retired", dropRow(Error, Lost), ends},
		{"nothing is retired", both(dropEvent(Retire), dropEvent(Lost)), states},
		{"a row that nothing reaches", func(m machine) { m[len(m)-1] = row{in(Available), Returned, when(returning), noChange, nil} }, dead},
	}
}
