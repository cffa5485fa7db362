package device

// mutant is a machine with one rule of safety broken, and a part of the name of the
// proof that must notice.
type mutant struct {
	name    string
	change  change
	refuted string
}

const (
	notDirty  = "S2.40 allocatable is never Dirty"
	since     = "F7 what had a tenant since"
	accounted = "S0.8 allocatable"
	edges     = "F7 only a full plan and three edges"
	namedOnly = "F7 named steps"
	oneTime   = "S0.1 a one-time-use device"
	unsanited = "NotSanitized begins at an edge"
	pool      = "four events alone"
	claims    = "a claim excludes"
	burns     = "S0.27"
	burnFails = "S0.6"
	unbinds   = "F6 nothing but its own unbind"
	observes  = "F6 an observed tenancy"
	holds     = "S2.51 S4.10"
	waits     = "D7 automated cleaning off"
	runs      = "S2.66"
	fails     = "S3.23"
	marks     = "S2.49"
	oneRow    = "at most one row"
	dead      = "no row is dead"
	states    = "every state"
	traps     = "S2.48 no traps"
	may       = "S3.20 what"
	ends      = "no traps: retire and forget"
)

func mutations() []mutant {
	return []mutant{
		// What makes Dirty.
		{"enrolment leaves it clean", dropEffect(Absent, Enroll, markDirty), since},
		{"the start of a burn leaves it clean", everywhere(startBurn, func(d *Device, _ Event) { d.Claim.Burning = true }), since},
		{"an allocation seen leaves it clean", everywhere(bindObserved, but(bindObserved, keepDirt)), since},
		{"used between two looks, and clean (D9)", dropEffect(Available, ObservedUnused, markDirty), since},
		{"unknown and unused is clean", dropEffect(Unknown, ObservedUnused, markDirty), since},
		{"an unowned tenancy left nothing", both(dropEffect(Allocated, BindingMissing, markDirty), addEffect(Allocated, BindingMissing, clearDirt)), since},
		{"doubt leaves it clean", everywhere(invalidate, but(invalidate, keepDirt)), since},
		{"a changed device in the pool is clean", dropEffect(Available, IdentityChanged, markDirty), since},
		{"a changed device is clean", dropEffect(Manageable, IdentityChanged, markDirty), since},
		{"taken leaves it clean", everywhere(setTaken, but(setTaken, keepDirt)), since},
		{"S4.28 freed leaves it clean", dropEffect(Manageable, Freed, markDirty), since},
		{"a lost race leaves it clean", everywhere(markRaceLost, but(markRaceLost, keepDirt)), since},
		{"an ended run's tenant left nothing", everywhere(restoreBinding, but(restoreBinding, keepDirt)), since},
		{"a reclaimed device is clean", dropEffect(Cleaning, ReservationChanged, markDirty), since},
		{"a failed clean is clean", dropEffect(Cleaning, CleanFailed, markDirty), since},
		{"another piece is clean", everywhere(replaceUnit, but(replaceUnit, func(_ Device, d *Device) { d.Dirty = false })), since},
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
		{"a look at a retired piece clears Dirty", both(leadTo(Retired, Forget, Manageable), addEffect(Retired, Forget, clearDirt)), edges},
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
		{"D4 counts for one-time-use devices", both(leadTo(Allocated, Unbind, Cleaning, uncleanable, oneTimeUse), swapEffect(Allocated, Unbind, setCleanFailed, returnUnsanitized)), oneTime},
		{"D4 counts for one-time-use devices that are provided", both(leadTo(Manageable, Provide, Cleaning, uncleanable, oneTimeUse), swapEffect(Manageable, Provide, setCleanFailed, returnUnsanitized)), oneTime},
		{"D7 counts for one-time-use devices", both(leadTo(Allocated, Unbind, Cleaning, manual, oneTimeUse), swapEffect(Allocated, Unbind, awaitManualClean, returnUnsanitized)), oneTime},
		{"D7 counts for observed one-time-use devices", both(leadTo(Allocated, Released, Cleaning, manual, oneTimeUse), swapEffect(Allocated, Released, awaitManualClean, returnUnsanitized)), oneTime},
		{"D7 counts with automated cleaning on", both(leadTo(Allocated, Unbind, Cleaning, cleanable, automated), addEffect(Allocated, Unbind, returnUnsanitized)), edges},
		{"an override from manageable", edit(Error, Override, nil, func(r *row) bool { r.From = append(r.From, Manageable); return true }), edges},

		// Claims and burns.
		{"a second claim", dropGuard(Available, ClaimEvent, unclaimed), claims},
		{"a claim of a held device", dropGuard(Available, ClaimEvent, notInMaintenance), claims},
		{"a claim in error", edit(Available, ClaimEvent, nil, func(r *row) bool { r.From = append(r.From, Error); return true }), claims},
		{"another's burn", dropGuard(Available, BurnStarted, byClaimInstance), claims},
		{"a burn that is not recorded", everywhere(startBurn, func(d *Device, _ Event) { d.Dirty = true }), claims},
		{"another's unclaim", dropGuard(Available, Unclaim, byClaimInstance), claims},
		{"unclaim in mid-burn", dropGuard(Available, Unclaim, notBurning), notDirty},
		{"expiry in mid-burn", dropGuard(Available, ClaimExpired, notBurning), notDirty},
		{"a burn that nobody started", dropGuard(Available, Burned, burning), burns},
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
		{"a burn binds somebody else", everywhere(bind, but(bind, func(_ Device, d *Device) { d.Binding.Instance = other })), burns},

		// Tenancies.
		{"another's unbind", dropGuard(Allocated, Unbind, byBoundInstance), unbinds},
		{"used = 0 ends a tenancy of our own", dropGuard(Allocated, Released, observedByNova), unbinds},
		{"used = 0 ends a tenancy that was bound here", everyGuard(observedByNova, func(d Device, _ Event) bool { return d.Owner == OwnerNova && d.Binding != nil }), observes},
		{"unowned ends a recorded tenancy", dropGuard(Allocated, BindingMissing, unbound), unbinds},
		{"doubt ends a tenancy", addEffect(Allocated, Invalidated, loseBind), unbinds},
		{"unknown and unused is cleaned under its tenant", leadTo(Unknown, ObservedUnused, PendingCleaning, bound), unbinds},
		{"unknown and free is cleaned under its tenant", leadTo(Unknown, ObservedFree, PendingCleaning, bound), unbinds},
		{"another's allocation ends a tenancy of our own", everywhere(bindObserved, but(bindObserved, func(_ Device, d *Device) {
			if d.Binding != nil {
				d.Binding = &Binding{Number: d.Bindings, Instance: other, Observed: true}
			}
		})), unbinds},
		{"a use is seen and not recorded", everywhere(bindObserved, but(bindObserved, keepBinds)), burns},
		{"a tenancy outlives its unbind", dropEffect(Allocated, Unbind, unbind), marks},

		// Holds.
		{"held is not held (unbind)", dropEffect(Allocated, Unbind, awaitManualClean), waits},
		{"held is not held (released)", dropEffect(Allocated, Released, awaitManualClean), waits},
		{"held is not held (unused)", dropEffect(Available, ObservedUnused, awaitManualCleanIfOff), waits},
		{"held is not held (unknown, unused)", dropEffect(Unknown, ObservedUnused, awaitManualCleanIfOff), waits},
		{"held is not held (unknown, free)", dropEffect(Unknown, ObservedFree, awaitManualCleanIfOff), waits},
		{"held is not held (freed)", dropEffect(Manageable, Freed, awaitManualCleanIfOff), waits},
		{"held is not held (failed burn)", dropEffect(Available, BurnFailed, awaitManualCleanIfOff), waits},
		{"held is not held (unowned)", dropEffect(Allocated, BindingMissing, awaitManualCleanIfOff), waits},
		{"a held clean begins by itself", dropGuard(PendingCleaning, CleanStarted, notAwaitingManualClean), waits},
		{"nothing frees a held clean", dropEffect(PendingCleaning, Clean, allowClean), waits},
		{"maintain --off ends what another system took", everywhere(clearMaintenance, but(clearMaintenance, func(_ Device, d *Device) { d.Maintenance = MaintenanceOff })), holds},
		{"a failed clean ends what another system took", everywhere(setCleanFailed, but(setCleanFailed, func(_ Device, d *Device) { d.Maintenance = MaintenanceCleanFailed })), holds},
		{"freed ends any maintenance", dropGuard(Manageable, Freed, maintenanceTaken), holds},
		{"S4.28 freed is not cleaned", leadTo(Manageable, Freed, Available), holds},
		{"a full plan ends the operator's hold", addEffect(Cleaning, CleanDone, freeDevice), holds},
		{"provide makes it allocatable at once", leadTo(Manageable, Provide, Available, clean), pool},

		// The running clean, and its failure.
		{"retire under a running step", edit(Error, Retire, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},
		{"manage under a running step", edit(Error, Manage, nil, func(r *row) bool { r.From = append(r.From, Cleaning); return true }), runs},
		{"a step reclaimed", dropGuard(Cleaning, ReservationChanged, returning), runs},
		{"a failure without maintenance", everywhere(setCleanFailed, func(d *Device, _ Event) { d.Returning, d.NamedSteps, d.AwaitingManualClean = false, false, false }), fails},
		{"a failure does not need the operator", leadTo(Cleaning, CleanFailed, PendingCleaning), fails},
		{"a clean of what nothing can clean", dropGuard(Error, Clean, cleanable), fails},
		{"taken from error without a lost race", dropGuard(Error, Taken, lostRace), fails},
		{"error is left by itself", edit(PendingCleaning, CleanStarted, nil, func(r *row) bool { r.From = append(r.From, Error); return true }), fails},
		{"maintenance for a failed clean outlives the next", dropEffect(Error, Clean, clearCleanFailed), fails},

		// Nothing is stuck, nothing is superfluous.
		{"error has no way out", both(dropRow(Error, Clean), dropRow(Error, Manage)), traps},
		{"uncleanable, one-time-use, and no override", dropRow(Error, Override), traps},
		{"taken for ever", dropRow(Manageable, Freed), traps},
		{"held for ever", dropRow(PendingCleaning, Clean), may},
		{"no clean from error (S3.20)", dropRow(Error, Clean), may},
		{"no manage from error (S3.20)", dropRow(Error, Manage), may},
		{"no named steps (S3.22)", dropRow(Manageable, CleanSteps), may},
		{"named steps for ever", dropRow(Cleaning, StepsDone), may},
		{"another's unbind of what nothing can clean", dropGuard(Allocated, Unbind, byBoundInstance, uncleanable), unbinds},
		{"no unbind with automated cleaning off", dropRow(Allocated, Unbind, manual, oneTimeUse), may},
		{"an operator's hold for ever", dropEvent(MaintainOff), traps},
		{"an operator's hold for ever in the pool", dropRow(Available, MaintainOff), may},
		{"a claim for ever", both(dropRow(Available, ClaimExpired), dropRow(Available, Unclaim)), claims},
		{"a burn for ever", both(dropRow(Available, Burned), dropRow(Available, BurnFailed)), claims},
		{"retired for ever", dropRow(Retired, Forget), ends},
		{"hardware that is gone for ever", dropRow(Error, Lost), ends},
		{"nothing is retired", both(dropEvent(Retire), dropEvent(Lost)), states},
		{"two rows for one event", func(m machine) {
			m[len(m)-1] = row{in(Retired), Invalidated, nil, Unknown, nil}
			m[len(m)-2] = m[len(m)-1]
		}, oneRow},
		{"a row that nothing reaches", func(m machine) { m[len(m)-1] = row{in(Available), Returned, when(returning), noChange, nil} }, dead},
	}
}
