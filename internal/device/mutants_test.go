package device

// mutant is a machine with one rule of safety broken, and a part of the name of the
// proof that must notice.
type mutant struct {
	name    string
	change  change
	refuted string
}

const (
	notDirty  = "an allocatable device is never Dirty"
	since     = "what had a tenant since"
	accounted = "an allocatable device had"
	edges     = "only a full plan and three edges"
	namedOnly = "named steps"
	oneTime   = "a one-time-use device"
	unsanited = "NotSanitized begins at an edge"
	pool      = "only four events"
	claims    = "a claim excludes"
	burns     = "a binding comes from"
	burnFails = "a failed burn"
	unbinds   = "only its own unbind"
	observes  = "an observed binding"
	holds     = "maintenance ends by"
	waits     = "with automated cleaning off"
	runs      = "a running clean"
	fails     = "a failure is error"
	marks     = "the marks fit"
	oneRow    = "at most one row"
	dead      = "no row is dead"
	states    = "every state"
	traps     = "no traps: each device"
	may       = "what operator"
	ends      = "no traps: retire and forget"
)

func mutations() []mutant {
	return []mutant{
		// What makes Dirty.
		{"enrolment leaves it clean", dropEffect(Absent, Enroll, markDirty), since},
		{"the start of a burn leaves it clean", everywhere(startBurn, func(d *Device, _ Event) { d.Claim.Burning = true }), since},
		{"an allocation seen leaves it clean", everywhere(bindObserved, but(bindObserved, keepDirt)), since},
		{"used between two looks, and clean ", dropEffect(Available, ObservedUnused, markDirty), since},
		{"unknown and unused is clean", dropEffect(Unknown, ObservedUnused, markDirty), since},
		{"a tenancy without a binding left nothing", both(dropEffect(Allocated, BindingMissing, markDirty), addEffect(Allocated, BindingMissing, clearDirt)), since},
		{"an invalidation leaves it clean", everywhere(invalidate, but(invalidate, keepDirt)), since},
		{"a changed device in the pool is clean", dropEffect(Available, IdentityChanged, markDirty), since},
		{"a changed device is clean", dropEffect(Manageable, IdentityChanged, markDirty), since},
		{"taken leaves it clean", everywhere(setTaken, but(setTaken, keepDirt)), since},
		{"freed leaves it clean", dropEffect(Manageable, Freed, markDirty), since},
		{"a lost race leaves it clean", everywhere(markRaceLost, but(markRaceLost, keepDirt)), since},
		{"a previous run's tenant left nothing", everywhere(restoreBinding, but(restoreBinding, keepDirt)), since},
		{"a reservation that changed leaves it clean", dropEffect(Cleaning, ReservationChanged, markDirty), since},
		{"a failed clean is clean", dropEffect(Cleaning, CleanFailed, markDirty), since},
		{"other hardware is clean", everywhere(replaceUnit, but(replaceUnit, func(_ Device, d *Device) { d.Dirty = false })), since},
		{"a retired device is clean", everywhere(retire, but(retire, func(_ Device, d *Device) { d.Dirty = false })), since},

		// What clears it.
		{"named steps count as a full plan", dropGuard(Cleaning, CleanDone, fullPlan), namedOnly},
		{"StepsDone sanitizes", addEffect(Cleaning, StepsDone, sanitize), namedOnly},
		{"StepsDone clears Dirty", addEffect(Cleaning, StepsDone, clearDirt), edges},
		{"a full plan's steps are done by StepsDone", dropGuard(Cleaning, StepsDone, named), namedOnly},
		{"a second clean_done while it is returned", dropGuard(Cleaning, CleanDone, notReturn), namedOnly},
		{"unbind clears Dirty", addEffect(Allocated, Unbind, clearDirt), edges},
		{"the start of a clean clears Dirty", addEffect(PendingCleaning, CleanStarted, clearDirt), edges},
		{"the operator's clean clears Dirty", addEffect(Error, Clean, clearDirt), edges},
		{"manage clears Dirty", addEffect(Error, Manage, clearDirt), edges},
		{"a rebuild clears Dirty", addEffect(Allocated, Rebuild, clearDirt), edges},
		{"maintain --off clears Dirty", addEffect(Manageable, MaintainOff, clearDirt), edges},
		{"a look at a retired device clears Dirty", both(leadTo(Retired, Forget, Manageable), addEffect(Retired, Forget, clearDirt)), edges},
		{"provide returns what is Dirty", dropGuard(Manageable, Provide, clean), oneRow},
		{"provide returns what is Dirty, and cleans nothing", leadTo(Manageable, Provide, Available, dirty, cleanable), notDirty},
		{"unknown and free is returned, Dirty or not", dropGuard(Unknown, ObservedFree, clean), oneRow},
		{"unknown, free and Dirty is returned", both(leadTo(Unknown, ObservedFree, Cleaning, dirty), addEffect(Unknown, ObservedFree, startReturn)), marks},
		{"returned without being returned", dropGuard(Cleaning, Returned, returning), notDirty},
		{"a clean that failed is returned", leadTo(Cleaning, CleanFailed, Available), fails},

		// The three edges.
		{"an override hides itself", everywhere(returnUnsanitized, but(returnUnsanitized, func(b Device, d *Device) { d.NotSanitized = b.NotSanitized })), edges},
		{"a full plan stays NotSanitized", everywhere(sanitize, but(sanitize, func(b Device, d *Device) { d.NotSanitized = b.NotSanitized })), unsanited},
		{"NotSanitized is forgotten at the next claim", addEffect(Available, ClaimEvent, effect{"mutant", func(d *Device, _ Event) { d.NotSanitized = false }}), unsanited},
		{"returned without a clean counts for one-time-use devices", both(leadTo(Allocated, Unbind, Cleaning, uncleanable, oneTimeUse), swapEffect(Allocated, Unbind, setCleanFailed, returnUnsanitized)), oneTime},
		{"returned without a clean counts for one-time-use devices that are provided", both(leadTo(Manageable, Provide, Cleaning, uncleanable, oneTimeUse), swapEffect(Manageable, Provide, setCleanFailed, returnUnsanitized)), oneTime},
		{"returned at once counts for one-time-use devices", both(leadTo(Allocated, Unbind, Cleaning, manual, oneTimeUse), swapEffect(Allocated, Unbind, awaitManualClean, returnUnsanitized)), oneTime},
		{"returned at once counts for observed one-time-use devices", both(leadTo(Allocated, Released, Cleaning, manual, oneTimeUse), swapEffect(Allocated, Released, awaitManualClean, returnUnsanitized)), oneTime},
		{"returned without a clean although automated cleaning is on", both(leadTo(Allocated, Unbind, Cleaning, cleanable, automated), addEffect(Allocated, Unbind, returnUnsanitized)), edges},
		{"an override from manageable", edit(Error, Override, nil, func(r *row) bool { r.From = append(r.From, Manageable); return true }), edges},

		// Claims and burns.
		{"a second claim", dropGuard(Available, ClaimEvent, unclaimed), claims},
		{"a claim of a device in maintenance", dropGuard(Available, ClaimEvent, notInMaintenance), claims},
		{"a claim in error", edit(Available, ClaimEvent, nil, func(r *row) bool { r.From = append(r.From, Error); return true }), claims},
		{"another's burn", dropGuard(Available, BurnStarted, byClaimInstance), claims},
		{"a burn that is not recorded", everywhere(startBurn, func(d *Device, _ Event) { d.Dirty = true }), claims},
		{"another's unclaim", dropGuard(Available, Unclaim, byClaimInstance), claims},
		{"unclaim in mid-burn", dropGuard(Available, Unclaim, notBurning), notDirty},
		{"expiry in mid-burn", dropGuard(Available, ClaimExpired, notBurning), notDirty},
		{"a burn that was not started", dropGuard(Available, Burned, burning), burns},
		{"maintain in mid-claim", dropGuard(Available, Maintain, unclaimed), claims},
		{"manage in mid-claim", dropGuard(Available, Manage, unclaimed), claims},
		{"retire in mid-claim", dropGuard(Available, Retire, unclaimed), claims},
		{"taken in mid-claim", dropGuard(Available, Taken, unclaimed), claims},
		{"a lost race in mid-burn", dropGuard(Available, LostRace, notBurning), claims},
		{"an allocation seen in mid-burn", dropGuard(Available, ObservedInUse, notBurning), claims},
		{"unused in mid-burn", dropGuard(Available, ObservedUnused, notBurning), claims},
		{"changed in mid-burn", dropGuard(Available, IdentityChanged, notBurning), claims},
		{"a failed burn stays available", leadTo(Available, BurnFailed, noChange), burnFails},
		{"a failed burn is returned", both(leadTo(Available, BurnFailed, Cleaning), addEffect(Available, BurnFailed, startReturn)), burnFails},
		{"a failed burn keeps its claim", dropEffect(Available, BurnFailed, dropClaim), claims},
		{"a burn binds another instance", everywhere(bind, but(bind, func(_ Device, d *Device) { d.Binding.Instance = other })), burns},

		// Tenancies.
		{"another's unbind", dropGuard(Allocated, Unbind, byBoundInstance), unbinds},
		{"used = 0 ends a tenancy of our own", dropGuard(Allocated, Released, observedByNova), unbinds},
		{"used = 0 ends a tenancy that was bound here", everyGuard(observedByNova, func(d Device, _ Event) bool { return d.Owner == OwnerNova && d.Binding != nil }), observes},
		{"binding_missing ends a recorded binding", dropGuard(Allocated, BindingMissing, unbound), unbinds},
		{"an invalidation ends a binding", addEffect(Allocated, Invalidated, loseBind), unbinds},
		{"an unknown, unused device is cleaned under its tenant", leadTo(Unknown, ObservedUnused, PendingCleaning, bound), unbinds},
		{"an unknown, free device is cleaned under its tenant", leadTo(Unknown, ObservedFree, PendingCleaning, bound), unbinds},
		{"another's allocation ends a tenancy of our own", everywhere(bindObserved, but(bindObserved, func(_ Device, d *Device) {
			if d.Binding != nil {
				d.Binding = &Binding{Number: d.Bindings, Instance: other, Observed: true}
			}
		})), unbinds},
		{"a use is seen and not recorded", everywhere(bindObserved, but(bindObserved, keepBinds)), burns},
		{"a tenancy outlives its unbind", dropEffect(Allocated, Unbind, unbind), marks},

		// Holds.
		{"no manual clean is awaited (unbind)", dropEffect(Allocated, Unbind, awaitManualClean), waits},
		{"no manual clean is awaited (released)", dropEffect(Allocated, Released, awaitManualClean), waits},
		{"no manual clean is awaited (unused)", dropEffect(Available, ObservedUnused, awaitManualCleanIfOff), waits},
		{"no manual clean is awaited (unknown, unused)", dropEffect(Unknown, ObservedUnused, awaitManualCleanIfOff), waits},
		{"no manual clean is awaited (unknown, free)", dropEffect(Unknown, ObservedFree, awaitManualCleanIfOff), waits},
		{"no manual clean is awaited (freed)", dropEffect(Manageable, Freed, awaitManualCleanIfOff), waits},
		{"no manual clean is awaited (failed burn)", dropEffect(Available, BurnFailed, awaitManualCleanIfOff), waits},
		{"no manual clean is awaited (binding missing)", dropEffect(Allocated, BindingMissing, awaitManualCleanIfOff), waits},
		{"a clean that is awaited begins by itself", dropGuard(PendingCleaning, CleanStarted, notAwaitingManualClean), waits},
		{"nothing allows an awaited clean", dropEffect(PendingCleaning, Clean, allowClean), waits},
		{"maintain --off ends what another system took", everywhere(clearMaintenance, but(clearMaintenance, func(_ Device, d *Device) { d.Maintenance = MaintenanceOff })), holds},
		{"a failed clean ends what another system took", everywhere(setCleanFailed, but(setCleanFailed, func(_ Device, d *Device) { d.Maintenance = MaintenanceCleanFailed })), holds},
		{"freed ends any maintenance", dropGuard(Manageable, Freed, maintenanceTaken), holds},
		{"freed is not cleaned", leadTo(Manageable, Freed, Available), holds},
		{"a full plan ends the operator's maintenance", addEffect(Cleaning, CleanDone, freeDevice), holds},
		{"provide makes it allocatable at once", leadTo(Manageable, Provide, Available, clean), pool},

		// The running clean, and its failure.
		{"retire under a running step", edit(Error, Retire, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},
		{"manage under a running step", edit(Error, Manage, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},
		{"the reservation changed during a step", dropGuard(Cleaning, ReservationChanged, returning), runs},
		{"a failure without maintenance", everywhere(setCleanFailed, func(d *Device, _ Event) { d.Returning, d.NamedSteps, d.AwaitingManualClean = false, false, false }), fails},
		{"a failure does not need the operator", leadTo(Cleaning, CleanFailed, PendingCleaning), fails},
		{"a clean of what nothing can clean", dropGuard(Error, Clean, cleanable), fails},
		{"taken from error without a lost race", dropGuard(Error, Taken, lostRace), fails},
		{"error is left by itself", edit(PendingCleaning, CleanStarted, nil, func(r *row) bool { r.From = append(r.From, Error); return true }), fails},
		{"maintenance for a failed clean outlives the next", dropEffect(Error, Clean, clearCleanFailed), fails},

		// Nothing is stuck, nothing is superfluous.
		{"error has no way out", both(dropRow(Error, Clean), dropRow(Error, Manage)), traps},
		{"uncleanable, one-time-use, and no override", dropRow(Error, Override), traps},
		{"taken without end", dropRow(Manageable, Freed), traps},
		{"awaiting a manual clean without end", dropRow(PendingCleaning, Clean), may},
		{"no clean from error", dropRow(Error, Clean), may},
		{"no manage from error", dropRow(Error, Manage), may},
		{"no named steps", dropRow(Manageable, CleanSteps), may},
		{"named steps without end", dropRow(Cleaning, StepsDone), may},
		{"another's unbind of what nothing can clean", dropGuard(Allocated, Unbind, byBoundInstance, uncleanable), unbinds},
		{"no unbind with automated cleaning off", dropRow(Allocated, Unbind, manual, oneTimeUse), may},
		{"an operator's maintenance without end", dropEvent(MaintainOff), traps},
		{"an operator's maintenance of an available device without end", dropRow(Available, MaintainOff), may},
		{"a claim without end", both(dropRow(Available, ClaimExpired), dropRow(Available, Unclaim)), claims},
		{"a burn without end", both(dropRow(Available, Burned), dropRow(Available, BurnFailed)), claims},
		{"retired without end", dropRow(Retired, Forget), ends},
		{"hardware that is gone without end", dropRow(Error, Lost), ends},
		{"nothing is retired", both(dropEvent(Retire), dropEvent(Lost)), states},
		{"two rows for one event", func(m machine) {
			m[len(m)-1] = row{in(Retired), Invalidated, nil, Unknown, nil}
			m[len(m)-2] = m[len(m)-1]
		}, oneRow},
		{"a row that nothing reaches", func(m machine) { m[len(m)-1] = row{in(Available), Returned, when(returning), noChange, nil} }, dead},
	}
}
