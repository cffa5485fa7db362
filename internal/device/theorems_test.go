package device

import (
	"fmt"
	"slices"
)

// The theorems of proof_test.go, each as a check of one device, one step or one graph. A check
// gives the reason why the theorem does not hold, or "".

func allocatableIsNotDirty(d Device, _ history) string {
	return unless(!d.Allocatable() || !d.Dirty, "it is allocatable")
}

func allocatableIsSeen(d Device, _ history) string {
	return unless(!d.Allocatable() || !d.Unseen, "it is allocatable")
}

func onlyALookEndsUnseen(s step) string {
	if !s.before.Unseen || s.after.Unseen {
		return ""
	}
	return unless(s.event.Kind == Seen || s.event.Kind == CleanDone && !s.before.NamedSteps, "its host has not seen it")
}

// leavingIsUnseen checks every event after which the hardware may be touched, and those that
// lead to a return without a full plan.
func leavingIsUnseen(s step) string {
	switch {
	case s.after.Dirty:
		return ""
	case slices.Contains([]EventKind{Enroll, Import, Manage, Maintain, StepsDone, Override}, s.event.Kind):
		return unless(s.after.Unseen, "it counts as seen")
	case s.event.Kind == Returned && s.after.InMaintenance():
		return unless(s.after.Unseen, "it is on hold, and counts as seen")
	case exemptionOf(s.before, s.event) != "":
		return unless(s.after.Unseen, "it is returned without a clean, and counts as seen")
	case s.event.Kind == Provide && s.after.Returning && !s.before.Dirty:
		return unless(!s.before.Unseen, "it is provided, and its host has not seen it")
	}
	return ""
}

func allocatableIsAccountedFor(d Device, p history) string {
	if !d.Allocatable() {
		return ""
	}
	switch p {
	case sanitized, operatorAsserted, foundFree:
		return ""
	case uncleaned, overridden:
		return unless(d.NotSanitized, "it is allocatable and not marked NotSanitized")
	}
	return "it is allocatable"
}

func tenantsMeanDirty(d Device, p history) string {
	return unless(p != used || d.Dirty, "it counts as clean")
}

func onlyThreeExemptions(s step) string {
	if !s.before.Dirty || s.after.Dirty {
		return ""
	}
	if s.event.Kind == CleanDone {
		return unless(s.before.State == Cleaning && !s.before.NamedSteps && !s.before.Returning, "no full plan was running")
	}
	return joinReasons(
		unless(exemptionOf(s.before, s.event) != "", "this is not one of the three exemptions"),
		unless(s.after.NotSanitized, "NotSanitized is not set"))
}

func namedStepsClearNothing(s step) string {
	switch s.event.Kind {
	case StepsDone:
		return joinReasons(
			unless(s.before.NamedSteps, "no named steps were running"),
			unless(s.after.Dirty == s.before.Dirty, "they change Dirty"),
			unless(s.after.State == Manageable && !s.after.NamedSteps, "they end in manageable"))
	case CleanDone:
		return unless(s.before.State == Cleaning && !s.before.NamedSteps && !s.before.Returning, "no full plan was running")
	case CleanSteps:
		return unless(s.after.NamedSteps && s.before.State == Manageable, "named steps start from manageable only")
	}
	return ""
}

func oneTimeUseIsCleaned(d Device, p history) string {
	return joinReasons(
		unless(!d.OneTimeUse || p != uncleaned, "a one-time-use device was returned without a clean"),
		unless(!d.OneTimeUse || !d.NotSanitized || p == overridden || d.Dirty, "not sanitized, and no override said so"))
}

// takenIsNotReturned: others may write to it until a poll finds that they have left, and then it
// is cleaned.
func takenIsNotReturned(s step) string {
	returned := s.after.Returning && s.before.Dirty && (s.event.Kind == Override || s.event.Kind == Provide)
	return unless(!returned || !s.before.LostRace && s.before.Maintenance != MaintenanceTaken,
		"others may have its server")
}

func notSanitizedIsKept(s step) string {
	return joinReasons(
		unless(!s.before.NotSanitized || s.after.NotSanitized || s.event.Kind == CleanDone,
			"NotSanitized ends without a full plan"),
		unless(s.before.NotSanitized || !s.after.NotSanitized || exemptionOf(s.before, s.event) != "",
			"NotSanitized is set outside of the three exemptions"),
		unless(s.event.Kind != CleanDone || !s.after.NotSanitized, "NotSanitized is still set after a full plan"))
}

func fourWaysIntoThePool(s step) string {
	if s.before.Allocatable() || !s.after.Allocatable() {
		return ""
	}
	return unless(slices.Contains([]EventKind{Returned, MaintainOff, Unclaim, ClaimExpired}, s.event.Kind),
		"reserved = 0 was not read back")
}

// claimExcludes checks refused events, too: the claim's own end must be possible.
func claimExcludes(g *graph) error {
	for _, s := range g.steps {
		c := s.before.Claim
		if c == nil {
			if s.after.Claim != nil && (s.event.Kind != ClaimEvent || !s.before.Allocatable() || s.after.Claim.Burning) {
				return fmt.Errorf("%v: a claim begins without the event claim on an allocatable device", s)
			}
			continue
		}
		if c.Burning &&
			!slices.Contains([]EventKind{Burned, BurnFailed, LostRace, Invalidated, Lost, MaintainOff, rediscovered},
				s.event.Kind) {
			return fmt.Errorf("%v: the burn is under way", s)
		}
		switch s.event.Kind {
		case ClaimEvent, Maintain, Manage, Retire, Taken:
			return fmt.Errorf("%v: the device is claimed", s)
		case Unclaim, BurnStarted:
			if c.Instance != s.event.Instance {
				return fmt.Errorf("%v: it is %s's claim", s, c.Instance)
			}
			if s.event.Kind == BurnStarted && (s.after.Claim == nil || !s.after.Claim.Burning) {
				return fmt.Errorf("%v: the burn is not recorded", s)
			}
		}
		if k := s.after.Claim; k != nil && (k.Instance != c.Instance || c.Burning && !k.Burning) {
			return fmt.Errorf("%v: the claim changed its instance, or is not burning any more", s)
		}
		if s.after.Claim != nil && s.after.State != Available {
			return fmt.Errorf("%v: a claim is left on a device that is not available", s)
		}
	}
	return g.each(func(d Device, e Event) error {
		c := d.Claim
		if c == nil {
			return nil
		}
		if c.Burning && (e.Kind == Burned || e.Kind == BurnFailed) ||
			!c.Burning && (e.Kind == ClaimExpired || c.Instance == e.Instance && (e.Kind == Unclaim || e.Kind == BurnStarted)) {
			return fmt.Errorf("%s on %s is refused: the claim could not end", describeEvent(e), describe(d))
		}
		return nil
	})
}

func bindingsComeFromBurns(s step) string {
	b := s.after.Binding
	if s.event.Kind == Burned || s.event.Kind == ObservedInUse {
		if s.after.State != Allocated || b == nil && (s.event.Kind == Burned || s.event.Instance != "") {
			return "it is in use and has no binding"
		}
	}
	if b == nil || s.before.Binding != nil && s.before.Binding.Instance == b.Instance {
		return ""
	}
	switch s.event.Kind {
	case Burned:
		c := s.before.Claim
		return unless(c != nil && c.Burning && c.Instance == b.Instance && !b.Observed,
			"it is bound to another instance than the burn's")
	case ObservedInUse:
		c := s.before.Claim // F42: the burn that was lost with its task
		return unless(b.Instance == s.event.Instance &&
			(b.Observed || s.event.Recorded && c != nil && c.Instance == b.Instance),
			"it is bound to another instance than the observed one")
	case PreviousRunFound:
		return unless(b.Instance == s.event.Instance && s.before.State == Unknown,
			"it is bound to another instance than the previous run's")
	}
	return "the event does not justify a binding"
}

func failedBurnIsCleaned(s step) string {
	c := s.before.Claim
	if c == nil || !c.Burning || s.event.Kind == Burned || s.after.Claim != nil && s.after.Claim.Burning {
		return ""
	}
	return joinReasons(
		unless(s.after.State != Available, "it is available again"),
		unless(s.after.Dirty && s.after.Claim == nil, "it is not Dirty, or still claimed"),
		unless(s.event.Kind != BurnFailed || s.after.State == PendingCleaning, "it is not cleaned"))
}

// bindingEndsByUnbind allows two exceptions: a device that is retired, and a previous run that
// had a later binding than a run that was reset (PreviousRunFound).
func bindingEndsByUnbind(s step) string {
	b := s.before.Binding
	if b == nil || s.before.Owner != OwnerSelf {
		return ""
	}
	kept := s.after.Binding != nil && s.after.Binding.Instance == b.Instance && s.after.Binding.Observed == b.Observed
	if kept {
		return unless(s.after.State == Allocated || s.after.State == Unknown, "it is bound, and in state %s", s.after.State)
	}
	switch s.event.Kind {
	case Unbind:
		return unless(s.event.Instance == b.Instance, "an unbind by another instance ends the binding of %s", b.Instance)
	case Retire, Lost:
		return unless(s.after.State == Retired, "it is not retired")
	case ObservedInUse:
		return unless(s.event.Recorded && s.after.Binding != nil && s.after.Binding.Instance == s.event.Instance,
			"the inventory records no later bind")
	case BindingEnded:
		return joinReasons(unless(s.before.State == Unknown, "the device was not unknown"),
			unless(s.after.State == PendingCleaning || b.Held && s.after.State == Manageable, "it is not cleaned"))
	case ObservedHeld:
		return unless(s.before.State == Unknown && s.after.State == Manageable, "its operator does not have it")
	case BindRepeated:
		return unless(s.after.Binding != nil && SameTenant(b.Instance, s.after.Binding.Instance) &&
			b.Number == s.after.Binding.Number, "it is another binding")
	case PreviousRunFound:
		return joinReasons(unless(s.before.State == Unknown, "the device was not unknown"),
			unless(!s.event.BoundSince, "a run ends a binding that is younger than it"))
	}
	return fmt.Sprintf("the binding of %s ends", b.Instance)
}

func observedBindingEnds(s step) string {
	b := s.before.Binding
	if b == nil || s.before.Owner != OwnerNova {
		return ""
	}
	switch s.event.Kind {
	case Unbind:
		return unless(s.event.Instance == b.Instance, "an unbind by another instance ends the binding of %s", b.Instance)
	case Released:
		return unless(b.Observed, "the binding was not observed")
	case PreviousRunFound:
		if !s.event.BoundSince {
			return ""
		}
	case ObservedInUse, Retire, Lost:
		return ""
	}
	return unless(s.after.Binding != nil && s.after.Binding.Instance == b.Instance, "the binding of %s ends", b.Instance)
}

func holdsEndByTheirOwn(s step) string {
	if s.before.State == Absent {
		return ""
	}
	was, is := s.before.Maintenance, s.after.Maintenance
	return joinReasons(
		unless(s.before.Status != Maintaining || s.after.Status == Maintaining || s.event.Kind == MaintainOff,
			"the operator's maintenance ends"),
		unless(s.before.Status == Maintaining || s.after.Status != Maintaining || s.event.Kind == Maintain ||
			s.event.Hold == HoldMaintenance, "maintenance begins"),
		unless(s.event.Kind != Maintain || s.after.InMaintenance(), "it is not in maintenance"),
		unless(was != MaintenanceTaken || is == MaintenanceTaken || s.event.Kind == Freed, "another system still has it"),
		unless(was == MaintenanceTaken || is != MaintenanceTaken || s.event.Kind == Taken, "it was not taken"),
		unless(s.event.Kind != Freed || was == MaintenanceTaken || s.before.State == Error && s.before.LostRace &&
			(was == MaintenanceOff || was == MaintenanceCleanFailed),
			"the maintenance has another reason"),
		unless(s.event.Kind != Freed || s.before.Status == Enabled || s.before.State == s.after.State,
			"it leaves its state while the operator works at it"),
		unless(s.before.Status != Maintaining || s.event.Kind != Freed || is == MaintenanceOperator,
			"the operator's reason is lost"),
		unless(s.event.Kind != Freed || s.after.State == PendingCleaning,
			"it is not cleaned after the other system freed it"))
}

func heldUntilCleaned(s step) string {
	// A clean that is due already stays so when it finds that the others have left.
	ends := s.before.State != PendingCleaning &&
		slices.Contains([]EventKind{Unbind, Released, ObservedUnused, ObservedFree, Freed, BurnFailed, BindingMissing},
			s.event.Kind)
	pending := s.after.State == PendingCleaning
	// The rule of a device that no record speaks for does not depend on the setting.
	unknown := s.before.State == Unknown && s.before.AwaitingManualClean
	stays := s.before.State == PendingCleaning && pending
	return joinReasons(
		unless(s.event.Kind != NoWitness || s.after.State == Unknown && s.after.AwaitingManualClean && s.after.Dirty,
			"a device for which no record speaks does not wait for the operator"),
		unless(!unknown || s.after.State == Unknown ||
			slices.Contains([]EventKind{Clean, Manage, Retire, Lost, ObservedInUse, ObservedUnused, ObservedFree, ObservedHeld},
				s.event.Kind), "it does not wait for the operator"),
		unless(!ends || !pending || s.event.Automated || s.after.AwaitingManualClean,
			"it would be cleaned without the operator"),
		unless(!ends || !pending || !s.event.Automated || !s.after.AwaitingManualClean,
			"it waits for the operator although cleaning is automated"),
		unless(s.event.Kind != CleanStarted || !s.before.AwaitingManualClean, "a clean begins that the operator must start"),
		unless(!stays || !s.before.AwaitingManualClean || s.after.AwaitingManualClean || s.event.Kind == Clean,
			"it does not wait for the operator any more"),
		unless(s.event.Kind != Clean || !s.before.AwaitingManualClean || pending && !s.after.AwaitingManualClean,
			"the operator's clean does not start it"))
}

// heldByOperator: nothing but a command of the operator has a device cleaned or offered that the
// operator holds. Of others' use, and of servers that others took, other theorems speak.
func heldByOperator(s step) string {
	was, is := s.before, s.after
	if was.Binding != nil && was.Binding.Held && is.Binding == nil {
		returned := is.Dirty && (is.Hold() != HoldNone || is.Maintenance == MaintenanceTaken)
		return unless(returned || slices.Contains([]State{Unknown, Allocated, Retired}, is.State),
			"its use has ended, and its operator does not have it")
	}
	if was.Hold() == HoldNone || !was.NamedSteps &&
		!(was.State == Manageable || was.State == Error || was.State == Available && !was.LostRace) ||
		slices.Contains([]EventKind{Provide, Clean, CleanSteps, MaintainOff, Override}, s.event.Kind) {
		return ""
	}
	cleaned := is.State == PendingCleaning || is.State == Cleaning && !is.NamedSteps || is.State == Unknown
	return joinReasons(
		unless(is.State != Allocated || s.event.Recorded || is.Binding == nil || is.Binding.Held || was.State == Available,
			"a use takes it from its operator"),
		unless(!was.NamedSteps || is.Hold() != HoldNone || is.State == Allocated || is.Maintenance == MaintenanceTaken,
			"its operator does not hold it any more"),
		unless(!cleaned || s.event.Kind == Freed && was.Maintenance == MaintenanceTaken,
			"it is cleaned without its operator"),
		unless(!is.Allocatable(), "it is offered without its operator"))
}

func cleanRuns(s step) string {
	was, is := s.before, s.after
	if was.State != Cleaning || is.State == Cleaning && is.Returning == was.Returning && is.NamedSteps == was.NamedSteps {
		return ""
	}
	ends := []EventKind{CleanDone, StepsDone, CleanFailed, LostRace, WearLimitExceeded, ObservedInUse, Invalidated, Lost}
	if was.Returning {
		ends = []EventKind{Returned, CleanFailed, LostRace, ReservationChanged, ObservedInUse, Invalidated, Lost}
	}
	return unless(slices.Contains(ends, s.event.Kind), "a step may be running")
}

func failureNeedsOperator(s step) string {
	was, is := s.before, s.after
	leaves := was.State == Error && is.State != Error
	lost := s.event.Kind == LostRace && was.State != Available && !was.NamedSteps
	return joinReasons(
		unless(!lost && s.event.Kind != CleanFailed && s.event.Kind != WearLimitExceeded || is.State == Error &&
			is.InMaintenance() && is.Dirty, "it is not in error, in maintenance and Dirty"),
		unless(s.event.Kind != WearLimitExceeded || is.Maintenance == MaintenanceQuarantined ||
			is.Maintenance == MaintenanceTaken, "it is not quarantined"),
		unless(was.Maintenance != MaintenanceTaken || is.Maintenance != MaintenanceQuarantined,
			"the quarantine replaces the maintenance of another system"),
		unless(was.Maintenance == MaintenanceQuarantined || is.Maintenance != MaintenanceQuarantined ||
			s.event.Kind == WearLimitExceeded, "it is quarantined without wear"),
		unless(was.Maintenance != MaintenanceQuarantined || is.Maintenance == MaintenanceQuarantined || was.State == Absent ||
			slices.Contains([]EventKind{CleanDone, Replace, MaintainOff}, s.event.Kind),
			"the quarantine ends without a check of the wear"),
		unless(s.event.Kind != CleanDone || is.Maintenance != MaintenanceQuarantined,
			"a full plan did not end the quarantine"),
		unless(s.event.Kind != LostRace || was.NamedSteps || is.State == Error && is.Dirty && is.LostRace && is.Claim == nil,
			"a lost race does not lead to error"),
		unless(s.event.Kind != LostRace || !was.NamedSteps || is.State == Manageable && is.Dirty && !is.LostRace,
			"its operator does not have it"),
		unless(s.event.Kind != CleanFailed || was.State == PendingCleaning || was.State == Cleaning,
			"no clean was under way"),
		unless(!leaves ||
			slices.Contains([]EventKind{Clean, Manage, Override, Taken, Freed, ObservedInUse, Invalidated, Retire, Lost, Replace,
				Move}, s.event.Kind),
			"it leaves error without the operator"),
		unless(s.event.Kind != Clean || !leaves || is.State == PendingCleaning && was.Cleanable,
			"the operator's clean does not lead to pending_cleaning"),
		unless(!leaves || s.event.Kind != Taken && s.event.Kind != Freed || was.LostRace && !is.LostRace,
			"it had not lost a race"),
		unless(!leaves || is.State == Retired || is.Maintenance != MaintenanceCleanFailed,
			"the maintenance outlives its reason"))
}

// allowedIsNeverRefused checks that none of these events is refused.
func allowedIsNeverRefused(g *graph) error {
	return g.each(func(d Device, e Event) error {
		full := d.State == Cleaning && !d.Returning && !d.NamedSteps
		alive := d.State != Absent && d.State != Retired
		may := false
		switch e.Kind {
		case Clean:
			may = d.State == Error && d.Cleanable || d.AwaitingManualClean
		case Manage:
			may = d.State == Error || d.State == Available && d.Claim == nil || d.State == Unknown && d.AwaitingManualClean
		case Override:
			may = d.State == Error && !d.LostRace && d.Maintenance != MaintenanceTaken
		case CleanSteps:
			may = d.State == Manageable
		case Provide:
			uncleaned := !d.Cleanable && !d.OneTimeUse
			may = d.State == Manageable && (d.Dirty || !d.Unseen) && !(uncleaned && d.Maintenance == MaintenanceTaken)
		case Maintain:
			may = alive && d.Claim == nil
		case Retire:
			may = alive && d.Claim == nil && d.State != Cleaning
		case Power:
			may = d.Claim == nil && slices.Contains([]State{Manageable, Available, Allocated, Error, Retired}, d.State)
		case Lost, Invalidated:
			may = alive
		case MaintainOff:
			may = alive && (d.State != Available || !d.Unseen)
		case Seen:
			may = d.State == Manageable && !d.Dirty || d.Allocatable() || d.State == Available && d.InMaintenance() ||
				d.Returning
		case ClaimEvent:
			may = d.Allocatable()
		case Unbind, Rebuild:
			may = d.State == Allocated && d.Binding != nil && d.Binding.Instance == e.Instance
		case Released:
			may = d.State == Allocated && d.Owner == OwnerNova && d.Binding != nil && d.Binding.Observed
		case BindingMissing:
			may = d.State == Allocated && d.Binding == nil
		case CleanStarted:
			may = d.State == PendingCleaning && !d.AwaitingManualClean
		case CleanFailed:
			may = d.State == PendingCleaning || d.State == Cleaning
		case CleanDone, WearLimitExceeded:
			may = full
		case StepsDone:
			may = d.NamedSteps
		case ReservationChanged:
			may = d.Returning
		case Returned:
			may = d.Returning && (d.InMaintenance() || !d.Unseen)
		case ObservedInUse:
			may = alive && d.State != Allocated && (d.Claim == nil || !d.Claim.Burning)
		case ObservedUnused:
			may = d.State == Unknown || d.Allocatable()
		case LookFailed:
			may = d.Allocatable()
		case LostRace:
			may = d.State == Available && d.Claim != nil || d.State == PendingCleaning || d.State == Cleaning
		case Taken:
			may = d.State == Available && d.Claim == nil || d.State == Error && d.LostRace
		case Freed:
			may = d.State == Manageable && d.Maintenance == MaintenanceTaken && d.Status == Enabled
		case IdentityChanged:
			may = d.State == Allocated || d.Allocatable()
		}
		if may {
			return fmt.Errorf("%s on %s is refused", describeEvent(e), describe(d))
		}
		return nil
	})
}

func marksFitTheState(d Device, _ history) string {
	in := func(states ...State) bool { return slices.Contains(states, d.State) }
	burning := d.Claim != nil && d.Claim.Burning
	return joinReasons(
		unless(d.Dirty || !in(Allocated, PendingCleaning, Error, Retired) && !burning, "it must be Dirty there"),
		unless(d.Dirty || !in(Cleaning) || d.Returning || d.NamedSteps, "it must be Dirty until its clean is done"),
		unless(!d.Dirty || !d.Returning, "it is Dirty while it returns to the offer"),
		unless(!d.Returning || in(Cleaning), "returning"),
		unless(!d.NamedSteps || in(Cleaning) && !d.Returning, "named steps"),
		unless(!d.Unseen || !in(Available) || d.InMaintenance(), "unseen"),
		unless(!d.AwaitingManualClean || in(PendingCleaning) || in(Unknown) && d.Dirty && d.Binding == nil, "held"),
		unless(!d.LostRace || in(Error), "a lost race"),
		unless(d.Claim == nil || in(Available) && !d.InMaintenance(), "a claim"),
		unless(d.Binding == nil || in(Allocated, Unknown), "a binding"),
		unless(d.Maintenance != MaintenanceCleanFailed || in(Error, Retired), "maintenance for a failed clean"),
		unless(d.Status == Enabled || d.Status == Maintaining, "no status"),
		unless(d.Unit.Number > 0, "no unit"))
}
