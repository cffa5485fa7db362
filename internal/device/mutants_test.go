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
	leaves      = "a device that leaves the pool clean"
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
		{"an observed allocation leaves it clean", everywhere(bindObserved, but(bindObserved, keepDirt)), usedIsDirty},
		// D9
		{"used between two readings, and clean", dropEffect(Available, ObservedUnused, markDirty), usedIsDirty},
		{"unknown and unused is clean", dropEffect(Unknown, ObservedUnused, markDirty), usedIsDirty},
		{"a missing binding leaves it clean", both(dropEffect(Allocated, BindingMissing, markDirty), addEffect(Allocated, BindingMissing, clearDirt)), usedIsDirty},
		{"invalidation leaves it clean", everywhere(invalidate, but(invalidate, keepDirt)), usedIsDirty},
		{"a changed device in the pool is clean", dropEffect(Available, IdentityChanged, markDirty), usedIsDirty},
		{"a changed device is clean", dropEffect(Manageable, IdentityChanged, markDirty), usedIsDirty},
		{"taken leaves it clean", everywhere(setTaken, but(setTaken, keepDirt)), usedIsDirty},
		{"freed leaves it clean", dropEffect(Manageable, Freed, markDirty), usedIsDirty},
		{"a lost race leaves it clean", everywhere(markRaceLost, but(markRaceLost, keepDirt)), usedIsDirty},
		{"the instance of a previous run leaves it clean", everywhere(restoreBinding, but(restoreBinding, keepDirt)), usedIsDirty},
		{"a changed reservation leaves it clean", dropEffect(Cleaning, ReservationChanged, markDirty), usedIsDirty},
		{"a failed clean is clean", dropEffect(Cleaning, CleanFailed, markDirty), usedIsDirty},
		{"replaced hardware is clean", everywhere(replaceUnit, but(replaceUnit, func(_ Device, d *Device) { d.Dirty = false })), usedIsDirty},
		{"a retired device is clean", everywhere(retire, but(retire, func(_ Device, d *Device) { d.Dirty = false })), usedIsDirty},

		// What clears it.
		{"named steps count as a full plan", dropGuard(Cleaning, CleanDone, fullPlan), namedOnly},
		{"StepsDone sanitizes", addEffect(Cleaning, StepsDone, sanitize), namedOnly},
		{"StepsDone clears Dirty", addEffect(Cleaning, StepsDone, clearDirt), exemptions},
		{"a full plan's steps are done by StepsDone", dropGuard(Cleaning, StepsDone, named), namedOnly},
		{"a second clean_done while it is returned", dropGuard(Cleaning, CleanDone, notReturn), namedOnly},
		{"unbind clears Dirty", addEffect(Allocated, Unbind, clearDirt), exemptions},
		{"the start of a clean clears Dirty", addEffect(PendingCleaning, CleanStarted, clearDirt), exemptions},
		{"the operator's clean clears Dirty", addEffect(Error, Clean, clearDirt), exemptions},
		{"manage clears Dirty", addEffect(Error, Manage, clearDirt), exemptions},
		{"a rebuild clears Dirty", addEffect(Allocated, Rebuild, clearDirt), exemptions},
		{"maintain --off clears Dirty", addEffect(Manageable, MaintainOff, clearDirt), exemptions},
		{"forget clears Dirty", both(leadTo(Retired, Forget, Manageable), addEffect(Retired, Forget, clearDirt)), exemptions},
		{"provide returns what is Dirty", dropGuard(Manageable, Provide, clean), oneRow},
		{"provide returns what is Dirty, and cleans nothing", leadTo(Manageable, Provide, Available, dirty, cleanable), notDirty},
		{"unknown and free is returned, Dirty or not", dropGuard(Unknown, ObservedFree, clean), oneRow},
		{"unknown, free and Dirty is returned", both(leadTo(Unknown, ObservedFree, Cleaning, dirty), addEffect(Unknown, ObservedFree, startReturn)), fieldsFit},
		{"returned without being returned", dropGuard(Cleaning, Returned, returning), notDirty},
		{"a clean that failed is returned", leadTo(Cleaning, CleanFailed, Available), fails},

		// The three exemptions.
		{"an override does not set NotSanitized", everywhere(returnUnsanitized, but(returnUnsanitized, func(b Device, d *Device) { d.NotSanitized = b.NotSanitized })), exemptions},
		{"a full plan stays NotSanitized", everywhere(sanitize, but(sanitize, func(b Device, d *Device) { d.NotSanitized = b.NotSanitized })), unsanitized},
		{"a claim clears NotSanitized", addEffect(Available, ClaimEvent, effect{"mutant", func(d *Device, _ Event) { d.NotSanitized = false }}), unsanitized},
		// D4
		{"an uncleanable one-time-use device is returned", both(leadTo(Allocated, Unbind, Cleaning, uncleanable, oneTimeUse), swapEffect(Allocated, Unbind, setCleanFailed, returnUnsanitized)), oneTime},
		{"an uncleanable one-time-use device is provided without a clean", both(leadTo(Manageable, Provide, Cleaning, uncleanable, oneTimeUse), swapEffect(Manageable, Provide, setCleanFailed, returnUnsanitized)), oneTime},
		// D7
		{"a one-time-use device is returned with automated cleaning off", both(leadTo(Allocated, Unbind, Cleaning, manual, oneTimeUse), swapEffect(Allocated, Unbind, awaitManualClean, returnUnsanitized)), oneTime},
		{"an observed one-time-use device is returned with automated cleaning off", both(leadTo(Allocated, Released, Cleaning, manual, oneTimeUse), swapEffect(Allocated, Released, awaitManualClean, returnUnsanitized)), oneTime},
		{"a device is returned without a clean with automated cleaning on", both(leadTo(Allocated, Unbind, Cleaning, cleanable, automated), addEffect(Allocated, Unbind, returnUnsanitized)), exemptions},
		{"an override from manageable", edit(Error, Override, nil, func(r *row) bool { r.From = append(r.From, Manageable); return true }), exemptions},
		{"manage is an override too", both(leadTo(Error, Manage, Cleaning), addEffect(Error, Manage, returnUnsanitized)), safetyCut},
		{"no override", dropRow(Error, Override), wayOut},

		// F27
		{"a device that was managed is provided without a look", dropGuard(Manageable, Provide, seen), leaves},
		{"maintenance ends without a look", dropGuard(Available, MaintainOff, seen), notUnseen},
		{"a device is returned without a look", dropGuard(Cleaning, Returned, seen), notUnseen},
		{"manage leaves it seen", dropEffect(Available, Manage, markUnseen), leaves},
		{"a return without a clean leaves it seen", everywhere(returnUnsanitized, func(d *Device, _ Event) { d.Dirty, d.NotSanitized, d.Returning = false, true, true }), leaves},
		{"maintenance leaves it seen", everywhere(setMaintenance, but(setMaintenance, func(b Device, d *Device) { d.Unseen = b.Unseen })), leaves},
		{"a device returned on hold is seen", swapEffect(Cleaning, Returned, endOnHold, endReturn), leaves},
		{"an unbind is a look", addEffect(Allocated, Unbind, markSeen), looked},
		{"an enrolled device is seen", everywhere(enrolled, but(enrolled, func(b Device, d *Device) { d.Unseen = b.Unseen })), leaves},
		{"a failed look leaves it clean", dropEffect(Available, LookFailed, markDirty), usedIsDirty},

		// Claims and burns.
		{"a second claim", dropGuard(Available, ClaimEvent, unclaimed), claims},
		{"a claim of a device in maintenance", dropGuard(Available, ClaimEvent, notInMaintenance), claims},
		{"a claim in error", edit(Available, ClaimEvent, nil, func(r *row) bool { r.From = append(r.From, Error); return true }), claims},
		{"a burn by another instance", dropGuard(Available, BurnStarted, byClaimInstance), claims},
		{"a burn that is not recorded", everywhere(startBurn, func(d *Device, _ Event) { d.Dirty = true }), claims},
		{"an unclaim by another instance", dropGuard(Available, Unclaim, byClaimInstance), claims},
		{"unclaim during a burn", dropGuard(Available, Unclaim, notBurning), notDirty},
		{"expiry during a burn", dropGuard(Available, ClaimExpired, notBurning), notDirty},
		{"a burn that was not started", dropGuard(Available, Burned, burning), burns},
		{"maintain during a claim", dropGuard(Available, Maintain, unclaimed), claims},
		{"manage during a claim", dropGuard(Available, Manage, unclaimed), claims},
		{"retire during a claim", dropGuard(Available, Retire, unclaimed), claims},
		{"taken during a claim", dropGuard(Available, Taken, unclaimed), claims},
		{"a burn under way loses no race", edit(Available, LostRace, nil, func(r *row) bool { r.When = append(r.When, notBurning); return true }), allowed},
		{"a clean loses no race", dropRow(Cleaning, LostRace), allowed},
		{"an observed allocation during a burn", dropGuard(Available, ObservedInUse, notBurning), claims},
		{"observed unused during a burn", dropGuard(Available, ObservedUnused, notBurning), claims},
		{"identity changed during a burn", dropGuard(Available, IdentityChanged, notBurning), claims},
		{"a failed burn stays available", leadTo(Available, BurnFailed, noChange), burnFails},
		{"a failed burn is returned", both(leadTo(Available, BurnFailed, Cleaning), addEffect(Available, BurnFailed, startReturn)), burnFails},
		{"a failed burn keeps its claim", dropEffect(Available, BurnFailed, dropClaim), claims},
		{"a burn binds another instance", everywhere(bind, but(bind, func(_ Device, d *Device) { d.Binding.Instance = other })), burns},

		// Bindings.
		{"an unbind by another instance", dropGuard(Allocated, Unbind, byBoundInstance), unbinds},
		{"used = 0 ends a binding of a self-owned device", dropGuard(Allocated, Released, observedByNova), unbinds},
		{"used = 0 ends a binding that was not observed", everyGuard(observedByNova, func(d Device, _ Event) bool { return d.Owner == OwnerNova && d.Binding != nil }), observes},
		{"binding_missing ends a recorded binding", dropGuard(Allocated, BindingMissing, unbound), unbinds},
		{"invalidation ends a binding", addEffect(Allocated, Invalidated, loseBind), unbinds},
		{"unknown and unused is cleaned while it is bound", leadTo(Unknown, ObservedUnused, PendingCleaning, bound), unbinds},
		{"unknown and free is cleaned while it is bound", leadTo(Unknown, ObservedFree, PendingCleaning, bound), unbinds},
		{"an observed allocation ends a binding of a self-owned device", everywhere(bindObserved, but(bindObserved, func(_ Device, d *Device) {
			if d.Binding != nil {
				d.Binding = &Binding{Number: d.Bindings, Instance: other, Observed: true}
			}
		})), unbinds},
		{"an observed use is not recorded", everywhere(bindObserved, but(bindObserved, keepBinds)), burns},
		{"the binding stays after its unbind", dropEffect(Allocated, Unbind, unbind), fieldsFit},

		// Waiting for the operator, and maintenance.
		{"it does not wait for the operator (unbind)", dropEffect(Allocated, Unbind, awaitManualClean), waits},
		{"it does not wait for the operator (released)", dropEffect(Allocated, Released, awaitManualClean), waits},
		{"it does not wait for the operator (unused)", dropEffect(Available, ObservedUnused, awaitManualCleanIfOff), waits},
		{"it does not wait for the operator (unknown, unused)", dropEffect(Unknown, ObservedUnused, awaitManualCleanIfOff), waits},
		{"it does not wait for the operator (unknown, free)", dropEffect(Unknown, ObservedFree, awaitManualCleanIfOff), waits},
		{"it does not wait for the operator (freed)", dropEffect(Manageable, Freed, awaitManualCleanIfOff), waits},
		{"it does not wait for the operator (failed burn)", dropEffect(Available, BurnFailed, awaitManualCleanIfOff), waits},
		{"it does not wait for the operator (binding missing)", dropEffect(Allocated, BindingMissing, awaitManualCleanIfOff), waits},
		{"a clean that waits for the operator begins by itself", dropGuard(PendingCleaning, CleanStarted, notAwaitingManualClean), waits},
		{"the operator's clean does not start it", dropEffect(PendingCleaning, Clean, allowClean), waits},
		{"maintain --off ends the maintenance of another system", everywhere(clearMaintenance, but(clearMaintenance, func(_ Device, d *Device) { d.Maintenance = MaintenanceOff })), maintained},
		{"a failed clean ends the maintenance of another system", everywhere(setCleanFailed, but(setCleanFailed, func(_ Device, d *Device) { d.Maintenance = MaintenanceCleanFailed })), maintained},
		{"freed while the operator works at it", dropGuard(Manageable, Freed, notMaintained), maintained},
		{"the operator's reason is lost when others leave", everywhere(clearTaken, func(d *Device, _ Event) { d.Maintenance = MaintenanceOff }), maintained},
		{"taken ends a quarantine", everywhere(setTaken, but(setTaken, func(_ Device, d *Device) { d.Maintenance = MaintenanceTaken })), fails},
		{"a lost race is cleaned at once", leadTo(Available, LostRace, PendingCleaning), fails},
		{"freed ends any maintenance", dropGuard(Manageable, Freed, maintenanceTaken), maintained},
		{"freed is not cleaned", leadTo(Manageable, Freed, Available), maintained},
		{"a full plan ends the operator's maintenance", addEffect(Cleaning, CleanDone, freeDevice), maintained},
		{"provide makes it allocatable at once", leadTo(Manageable, Provide, Available, clean), pool},

		// The running clean, and its failure.
		{"retire under a running step", edit(Error, Retire, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},
		{"manage under a running step", edit(Error, Manage, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},
		{"reservation_changed while a step runs", dropGuard(Cleaning, ReservationChanged, returning), runs},
		{"a failure without maintenance", everywhere(setCleanFailed, func(d *Device, _ Event) { d.Returning, d.NamedSteps, d.AwaitingManualClean = false, false, false }), fails},
		{"a failed clean does not lead to error", leadTo(Cleaning, CleanFailed, PendingCleaning), fails},
		{"a clean of what nothing can clean", dropGuard(Error, Clean, cleanable), fails},
		{"taken from error without a lost race", dropGuard(Error, Taken, lostRace), fails},
		{"error is left by itself", edit(PendingCleaning, CleanStarted, nil, func(r *row) bool { r.From = append(r.From, Error); return true }), fails},
		{"maintenance for a failed clean stays during the next", dropEffect(Error, Clean, clearCleanFailed), fails},

		// No device is stuck, and no row is superfluous.
		{"error has no way out", both(dropRow(Error, Clean), dropRow(Error, Manage)), traps},
		{"taken is never freed", dropRow(Manageable, Freed), allowed},
		{"a clean that waits for the operator never starts", dropRow(PendingCleaning, Clean), allowed},
		{"no clean from error", dropRow(Error, Clean), allowed},
		{"no manage from error", dropRow(Error, Manage), allowed},
		{"no named steps", dropRow(Manageable, CleanSteps), allowed},
		{"named steps never end", dropRow(Cleaning, StepsDone), allowed},
		{"an unbind of an uncleanable device by another instance", dropGuard(Allocated, Unbind, byBoundInstance, uncleanable), unbinds},
		{"no unbind with automated cleaning off", dropRow(Allocated, Unbind, manual, oneTimeUse), allowed},
		{"maintenance never ends", dropEvent(MaintainOff), traps},
		{"an available device's maintenance never ends", dropRow(Available, MaintainOff), allowed},
		{"a claim never ends", both(dropRow(Available, ClaimExpired), dropRow(Available, Unclaim)), claims},
		{"a burn never ends", both(dropRow(Available, Burned), dropRow(Available, BurnFailed)), claims},
		{"a retired device is never forgotten", dropRow(Retired, Forget), ends},
		{"lost hardware is never retired", dropRow(Error, Lost), ends},
		{"nothing is retired", both(dropEvent(Retire), dropEvent(Lost)), states},
		{"two rows for one event", func(m machine) {
			m[len(m)-1] = row{in(Retired), Invalidated, nil, Unknown, nil}
			m[len(m)-2] = m[len(m)-1]
		}, oneRow},
		{"a row that nothing reaches", func(m machine) { m[len(m)-1] = row{in(Available), Returned, when(returning), noChange, nil} }, dead},
	}
}
