package device

import "slices"

// observer is a table of observations; there is one, and the tests' broken copies of it.
type observer []observation

// observation is one line of the second table: exactly one holds for each device and
// Snapshot.
type observation struct {
	Ask   []Question
	From  []State // nil: every state but absent and retired
	When  []fact
	Event EventKind // "" for none
	Then  []follow
	Why   Reason
}

func (r observation) states() []State { return row{From: r.From}.states() }

func (r observation) holds(d Device, s Snapshot) bool {
	return slices.Contains(r.Ask, s.Question) && slices.Contains(r.states(), d.State) &&
		!slices.ContainsFunc(r.When, func(f fact) bool { return !f.holds(d, s) })
}

func does(all ...FollowUp) []follow {
	var f []follow
	for _, one := range all {
		f = append(f, follow{string(one), one, nil})
	}
	return f
}

func ask(q ...Question) []Question { return q }
func given(f ...fact) []fact       { return f }
func todo(f ...follow) []follow    { return f }

// exceptFor is every state but absent and these.
func exceptFor(states ...State) []State {
	return slices.DeleteFunc(States(), func(s State) bool { return slices.Contains(states, s) })
}

// reads are the questions whose answer says how the device stands in the inventory.
var reads = ask(AskRecheck, AskReserve, AskBeforeLeaving, AskToLeave, AskEndMaintenance)

// readOnly are those that read, and write nothing: whatever such an answer shows was written by others.
var readOnly = ask(AskRecheck, AskBeforeLeaving)

// observations is the second table.
var observations = slices.Concat(standingRows, failedReadRows, cleanRows, unreserveRows, bindRows, resolveRows, reconcileRows, hostRows, poolRows)

// standingRows: how the device stands in the inventory.
//
// A generation that none of our writes explains may be a use that has ended (SAFETY F28).
var standingRows = observer{
	{reads, in(PendingCleaning, Cleaning), given(inUse, of(notReturn), cleanStarted), "", does(StopClean),
		"the inventory shows the device in use: the running clean stops first"},
	{reads, in(PendingCleaning, Cleaning), given(inUse, of(notReturn), notStarted), ObservedInUse, todo(reserveOpen),
		"the inventory shows the device in use: it is not cleaned"},
	{reads, in(Cleaning), given(inUse, of(returning)), ObservedInUse, todo(reserveOpen),
		"the inventory shows the device in use: it is not returned"},
	{reads, in(Allocated), given(inUse, of(bound), otherConsumer), ObservedInUse, todo(reserveOpen),
		"the inventory shows another consumer than the binding's"},
	{reads, in(Allocated), given(inUse, of(bound), noOtherConsumer), "", todo(reserveBound),
		"the device is in use, as recorded"},
	{reads, in(Allocated), given(inUse, of(unbound)), ObservedInUse, todo(reserveOpen),
		"the inventory shows the device in use, and no binding is recorded"},
	{reads, in(Available), given(inUse, of(burning)), "", nil,
		"a bind is under way: its own answer shows whether the device is in use"},
	{reads, in(Available), given(inUse, of(notBurning)), ObservedInUse, todo(reserveOpen),
		"the inventory shows the device in use"},
	{reads, in(Unknown, Manageable, Error), given(inUse), ObservedInUse, todo(reserveOpen),
		"the inventory shows the device in use"},
	{reads, in(Retired), given(inUse), "", nil,
		"a retired device stays reserved, whoever uses it"},

	{ask(AskRecheck), in(Manageable, Available, PendingCleaning, Cleaning), given(unused, recreatedWhileKept, noStepRuns),
		Invalidated, todo(reserveHeld),
		"its provider was re-created while it was kept clean: somebody may have used it"},
	{readOnly, in(Available), given(unused, recreatedWhileOffered), ObservedUnused, nil,
		"its provider was re-created although it was available: it is cleaned"},
	{readOnly, in(Available), given(unused, sameKept, unexplained, offeredByNova), ObservedUnused, todo(reserveOpen),
		"its provider was written since it was offered, and not by Burnish: it may have been used, and is cleaned"},
	{readOnly, in(Available), given(unused, sameKept, unexplained, isNot(offeredByNova, "not offered by Nova")), Invalidated, todo(reserveHeld),
		"the inventory is newer than this workflow"},
	{readOnly, in(Unknown, Manageable, Allocated, PendingCleaning, Cleaning, Error),
		given(unused, sameKept, unexplained, noStepRuns), Invalidated, todo(reserveHeld),
		"the inventory is newer than this workflow"},
	{readOnly, in(PendingCleaning, Cleaning), given(unused, notCredible, stepMayRun), "",
		append(does(RestartClean), reserveOpen),
		"another writer changed the provider of a device that is being cleaned: the running clean stops first"},

	{ask(AskRecheck, AskReserve, AskBeforeLeaving, AskEndMaintenance), in(Available), given(unused, credible, usedUnseen, recordedFree), ObservedUnused, nil,
		"the inventory shows it reserved and unused although it was available: it is cleaned"},
	{ask(AskRecheck, AskReserve, AskBeforeLeaving, AskEndMaintenance), in(Available), given(unused, credible, usedUnseen, noRecord), Invalidated, nil,
		"the inventory shows it reserved although it was available, and does not record for whom"},
	{reads, in(Available), given(unused, credible, seenAll, exposed), "", todo(reserveIt),
		"the inventory offers the device although it is not allocatable: it is reserved again"},
	{reads, in(Available), given(unused, credible, seenAll, notExposed), "", does(Proceed),
		"the inventory shows what is expected"},
	{reads, in(Allocated), given(unused, credible, of(unbound)), BindingMissing, nil,
		"the device is unused and no binding is recorded"},
	{reads, in(Allocated), given(unused, credible, of(observedByNova)), Released, todo(reserveOperators),
		"the observed consumer is gone"},
	{reads, in(Allocated), given(unused, credible, boundHere, exposed), "", todo(reserveIt),
		"the inventory offers the device although it is bound: it is reserved again"},
	{ask(AskRecheck, AskBeforeLeaving, AskToLeave, AskEndMaintenance), in(Allocated), given(unused, credible, boundHere, notExposed, tenantMissing), "", todo(reserveIt),
		"the record of the device's instance is missing: it is written again"},
	{reads, in(Allocated), given(unused, credible, boundHere, notExposed, tenantRecorded), "", nil,
		"only the unbind of its instance ends this binding"},
	// A clean whose reservation is gone cannot return the device (SAFETY F5): what stops here ends
	// in vain anyway. Its next step would begin on a device that a scheduler may have allocated.
	{reads, in(PendingCleaning, Cleaning), given(unused, credible, exposed, cleanReserved), "", does(EnsureReserved, RestartClean),
		"the reservation of the running clean is gone: the clean stops, and begins again with it"},
	{reads, in(PendingCleaning, Cleaning), given(unused, credible, exposed, notReserved), "", todo(reserveIt),
		"the inventory offers the device although it is to be cleaned: it is reserved again"},
	{reads, in(Unknown, Manageable, Error, Retired), given(unused, credible, exposed), "", todo(reserveIt),
		"the inventory offers the device although it is not allocatable: it is reserved again"},
	{reads, in(Unknown, Manageable, PendingCleaning, Cleaning, Error, Retired), given(unused, credible, notExposed), "", nil,
		"the inventory shows what is expected"},
}

// failedReadRows: a read or a reservation that failed.
var failedReadRows = observer{
	{ask(AskRecheck, AskReserve), in(Manageable, Available, PendingCleaning, Cleaning), given(ahead, keptNow, noStepRuns),
		Invalidated, todo(reserveHeld),
		"another writer changed the provider of a device that is kept clean"},
	{ask(AskRecheck, AskReserve), in(PendingCleaning, Cleaning), given(ahead, keptNow, stepMayRun), "",
		does(RestartClean, RetryLater),
		"another writer changed the provider of a device that is being cleaned: the running clean stops first"},
	{ask(AskReserve), in(Allocated), given(ahead), "", does(ReadAgain, StopReserving),
		"another writer changed the provider of a device in use: it is read first"},
	{ask(AskRecheck), nil, given(missing, providerKnown), "", does(AwaitProvider),
		"the device has no provider; reconciliation reports when there is one"},
	{ask(AskReserve), nil, given(missing, providerKnown), "", does(AwaitProvider, RetryLater),
		"the device has no provider, and must be reserved as soon as there is one"},
	{ask(AskRecheck, AskReserve), in(Retired), given(missing, providerKnown), "", does(AwaitProvider, StopReserving),
		"a retired device without a provider cannot be allocated"},
	{ask(AskRecheck, AskReserve), exceptFor(),
		given(noAnswer, isNot(allOf("", ahead, anyOf("", keptNow, reservedInUse)), "neither kept clean nor in use"),
			isNot(allOf("", missing, providerKnown), "not a known provider that is gone")), "", does(RetryLater),
		"the inventory did not answer"},
	{ask(AskBeforeLeaving), exceptFor(), given(noAnswer), "", nil,
		"the inventory did not answer: the device stays where it is"},
	{ask(AskToLeave), exceptFor(), given(noAnswer), "", does(ReadAgain),
		"whether the device is reserved now is unknown"},
	{ask(AskEndMaintenance), nil, given(ahead), Invalidated, nil,
		"it may have been used while it was in maintenance"},
	{ask(AskEndMaintenance), in(Retired), given(ahead), "", nil,
		"the device was retired meanwhile"},
	{ask(AskEndMaintenance), exceptFor(), given(notAhead), "", nil,
		"the inventory did not answer: the maintenance goes on"},
}

// cleanRows: the first call of a clean (SAFETY F4).
var cleanRows = observer{
	{ask(AskClean), in(PendingCleaning, Cleaning), given(of(notReturn), inUse), ObservedInUse, nil,
		"not cleaned: the inventory shows the device in use"},
	{ask(AskClean), in(PendingCleaning, Cleaning), given(of(notReturn), unused), "", does(Proceed),
		"the device is reserved and unused"},
	{ask(AskClean), in(PendingCleaning, Cleaning), given(of(notReturn), ahead), Invalidated, nil,
		"the inventory is newer than this workflow"},
	{ask(AskClean), in(PendingCleaning, Cleaning), given(of(notReturn), missing, ownedByNova), "", does(RetryLater),
		"its provider is gone until Nova makes it again: the clean waits for it"},
	{ask(AskClean), in(PendingCleaning, Cleaning), given(of(notReturn), notAhead, notAway), CleanFailed, nil,
		"the inventory does not let the clean begin"},
	{ask(AskClean), in(Cleaning), given(of(returning)), "", nil,
		"the clean ended meanwhile"},
	{ask(AskClean), exceptFor(PendingCleaning, Cleaning), nil, "", nil,
		"the clean ended meanwhile"},
}

// unreserveRows: the return to the offer (SAFETY F5).
//
// It is lowered only for a device that its host has seen (SAFETY F27). Of a device that has
// left returning meanwhile it is raised again, whatever became of the write: a newer write
// voids one that may still be under way (SAFETY F30).
var unreserveRows = observer{
	{ask(AskReturn), in(Cleaning), given(of(returning), inUse), ObservedInUse, nil,
		"the inventory shows the device in use"},
	{ask(AskReturn), in(Cleaning), given(of(returning), unused), "", does(Proceed),
		"the device is reserved and unused: its reservation may be lowered"},
	{ask(AskReturn), in(Cleaning), given(of(returning), ahead), Invalidated, nil,
		"the inventory is newer than this workflow"},
	{ask(AskReturn), in(Cleaning), given(of(returning), missing, ownedByNova), "", does(RetryLater),
		"its provider is gone until Nova makes it again: the return waits for it"},
	{ask(AskReturn), in(Cleaning), given(of(returning), notAhead, notAway), CleanFailed, todo(reserveIt),
		"the inventory does not let the device be returned"},

	// Not Returned, with another read: the use may end before that read, and leave no trace in it.
	{ask(AskUnreserve), in(Cleaning), given(of(returning), lowered, inUse), ObservedInUse, todo(reserveOpen),
		"the reservation is lowered, and the device is in use already"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), lowered, unused, of(notInMaintenance), of(seen)), Returned, nil,
		"the reservation is lowered"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), lowered, unused, of(notInMaintenance), of(unseen)), "", nil,
		"it was in maintenance while the reservation was lowered: the return begins again, with a look by its host"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), lowered, unused, of(inMaintenance)), Returned, todo(reserveIt),
		"maintenance began while the reservation was lowered: it is reserved again"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), changedHands, ownedHere), Invalidated, nil,
		"somebody else wrote the reservation before the device was returned"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), changedHands, ownedByNova), ReservationChanged, nil,
		"the reservation changed before the device was returned: it is cleaned again"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), repeatable), "", does(RepeatWrite),
		"the write did not take effect"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), ahead), Invalidated, nil,
		"the inventory is newer than this workflow"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), missing, ownedByNova), ReservationChanged, nil,
		"its provider is gone until Nova makes it again: it is cleaned again, with that one's reservation"},
	{ask(AskUnreserve), in(Cleaning), given(of(returning), failedForGood, notAway), CleanFailed, todo(reserveIt),
		"the inventory refuses the return: a newer write voids what may still be under way"},

	{ask(AskUnreserve), in(Available), given(lowered, inUse, of(notBurning)), ObservedInUse, todo(reserveOpen),
		"the reservation is lowered, and the device is in use already"},
	{ask(AskUnreserve), in(Available), given(lowered, inUse, of(burning)), "", nil,
		"a bind is under way: its own answer shows whether the device is in use"},
	{ask(AskUnreserve), in(Available), given(lowered, unused, of(notInMaintenance)), "", nil,
		"the reservation is lowered"},
	{ask(AskUnreserve), in(Available), given(lowered, unused, of(inMaintenance)), "", todo(reserveIt),
		"maintenance began while the reservation was lowered: it is reserved again"},
	{ask(AskUnreserve), in(Available), given(allocatable, repeatable), "", does(RepeatWrite),
		"the write did not take effect"},
	{ask(AskUnreserve), in(Available), given(allocatable, lostWrite), ObservedUnused, nil,
		"whether the reservation is lowered is unknown: the device is cleaned"},
	{ask(AskUnreserve), in(Available), given(withheld, notLowered, of(unclaimed)), "", todo(reserveIt),
		"the device is not offered any more: it is reserved again"},
	{ask(AskUnreserve), in(Available), given(withheld, notLowered, of(claimed)), "", nil,
		"the device is claimed: its bind reserves it"},

	{ask(AskUnreserve), in(Cleaning), given(of(notReturn)), "", todo(reserveIt),
		"the return ended meanwhile: it is reserved again"},
	{ask(AskUnreserve), exceptFor(Cleaning, Available), given(isNot(missing, "not for a missing provider")), "", todo(reserveIt),
		"the return ended meanwhile: it is reserved again"},
	{ask(AskUnreserve), exceptFor(Cleaning, Available), given(missing), "", nil,
		"the return ended meanwhile, and there is no provider"},
	{ask(AskReturn), in(Cleaning), given(of(notReturn)), "", nil,
		"the return ended meanwhile"},
	{ask(AskReturn), exceptFor(Cleaning), nil, "", nil,
		"the return ended meanwhile"},
}

// bindRows: the reservation for an instance (S0.4 to S0.6).
var bindRows = observer{
	{ask(AskBind), in(Available), given(of(burning), answered, sameOne), Burned, nil,
		"the device is reserved for its instance"},
	{ask(AskBind), in(Available), given(of(burning), answered, recreated), BurnFailed, nil,
		"its provider was re-created although it was available: who used it before is not known"},
	{ask(AskBind), in(Available), given(of(burning), ahead), Invalidated, nil,
		"the inventory is newer than this workflow"},
	{ask(AskBind), in(Available), given(of(burning), answer("already reserved", AlreadyReserved), ownedHere), Invalidated, nil,
		"somebody else reserved the device, or this workflow forgot a binding"},
	{ask(AskBind), in(Available), given(of(burning), notAhead, isNot(allOf("", answer("", AlreadyReserved), ownedHere), "not reserved before")), BurnFailed, nil,
		"whether the device is reserved for its instance is unknown: it is cleaned"},
	{ask(AskBind), in(Available), given(of(notBurning)), "", nil,
		"the claim ended meanwhile"},
	{ask(AskBind), exceptFor(Available), nil, "", nil,
		"the claim ended meanwhile"},
}

// resolveRows: an unknown device, and one that is imported (D8). The record of who has it
// decides (SAFETY F24); without one the device waits for its operator (D16).
var resolveRows = observer{
	{ask(AskResolve), in(Unknown), given(inUse), ObservedInUse, nil,
		"the inventory shows the device in use, or records who has it"},
	{ask(AskResolve), in(Unknown), given(unused, of(unbound), recordedHold), ObservedHeld, nil,
		"the inventory records that an operator holds the device"},
	{ask(AskResolve), in(Unknown), given(unused, of(unbound), noHold, recordedFree), ObservedUnused, nil,
		"the inventory records that no instance has the device"},
	{ask(AskResolve), in(Unknown), given(unused, of(unbound), noHold, noRecord), NoWitness, nil,
		"nothing records who has the device: it waits for the operator"},
	{ask(AskResolve), in(Unknown), given(unused, of(bound), recordedEnd, recordedHold), ObservedHeld, nil,
		"the inventory records that its instance has left, and that an operator holds the device"},
	{ask(AskResolve), in(Unknown), given(unused, of(bound), recordedEnd, noHold), BindingEnded, nil,
		"the inventory records that its instance has left: the clean began that this workflow does not know of"},
	{ask(AskResolve), in(Unknown), given(unused, of(bound), isNot(recordedEnd, "not recorded that its instance has left")), ObservedUnused, todo(recordAgain),
		"the device is bound, as far as it knows"},
	{ask(AskResolve), in(Unknown), given(noAnswer), "", does(RetryLater),
		"the inventory did not answer"},
	{ask(AskImport), in(Unknown), given(inUse), ObservedInUse, todo(reserveOpen),
		"the inventory shows the device in use"},
	{ask(AskImport), in(Unknown), given(unused, free, fact{"the imported provider", isImported}), ObservedFree, todo(reserveUnless),
		"the inventory shows the imported provider free"},
	{ask(AskImport), in(Unknown), given(unused, free, isNot(fact{"", isImported}, "another provider than the imported one")), ObservedUnused, todo(reserveIt),
		"its provider was re-created while it was imported: it is cleaned"},
	{ask(AskImport), in(Unknown), given(unused, notFree), ObservedUnused, todo(reserveOpen),
		"the inventory shows the device reserved and unused: it is cleaned"},
	{ask(AskImport), in(Unknown), given(missing), "", does(EndImport, RetryLater),
		"the imported provider is gone"},
	{ask(AskImport), in(Unknown), given(noAnswer, isNot(missing, "not for a missing provider")), "", does(RetryLater),
		"the inventory did not answer"},
	{ask(AskResolve, AskImport), exceptFor(Unknown), nil, "", nil,
		"the device was resolved meanwhile"},
}

func isImported(_ Device, s Snapshot) bool { return s.Inventory.Provider == s.Imported }

// What the published status shows: no claim, no returning, no dirty flag.
var (
	recreatedFree = allOf("owner nova, unused, provider re-created", ownedByNova, allOf("", unused, recreated))
	notRecreated  = isNot(recreatedFree, "not (owner nova, unused, provider re-created)")
	// newerThanPublished: the published generation is 0 where the device does not compare it.
	newerThanPublished = fact{"newer than the published generation or binding", func(_ Device, s Snapshot) bool {
		return s.Known.Generation > 0 && s.Inventory.Generation > s.Known.Generation ||
			s.Known.Bindings > 0 && s.Inventory.Bindings > s.Known.Bindings
	}}
	notNewer   = isNot(newerThanPublished, "not newer")
	asBound    = allOf("used > 0, reserved = total, no other consumer", inUse, allOf("", closed, noOtherConsumer))
	notAsBound = allOf("unused, not reserved, or another consumer", answered, isNot(asBound, ""))
)

// reconcileRows: the published status against the inventory (S2.52). A mismatch is what no
// binding explains.
var reconcileRows = observer{
	{ask(AskReconcile), in(Unknown), nil, "", nil,
		"an unknown device resolves itself"},
	{ask(AskReconcile), in(Retired), given(missing), "", nil,
		"a retired device without a provider cannot be allocated"},
	{ask(AskReconcile), exceptFor(Unknown, Retired), given(missing), "", does(RequestRecheck),
		"the device has no provider"},
	{ask(AskReconcile), exceptFor(Unknown), given(noAnswer, isNot(missing, "not for a missing provider")), "", nil,
		"the inventory did not answer"},
	{ask(AskReconcile), exceptFor(Unknown), given(answered, notOne), "", does(RequestRecheck, ReportMismatch),
		"one device has one provider with total = 1"},
	{ask(AskReconcile), in(Allocated), given(single, ownedByNova, notAsBound), "", does(RequestRecheck),
		"the device was released, is not reserved, or has another consumer"},
	{ask(AskReconcile), in(Allocated), given(single, ownedByNova, asBound), "", nil,
		"the device is in use, as recorded"},
	{ask(AskReconcile), in(Allocated), given(answered, single, ownedHere, open), "", does(RequestRecheck, ReportMismatch),
		"the inventory offers the device although it is bound"},
	{ask(AskReconcile), in(Allocated), given(answered, single, ownedHere, closed, recordedUse), "", does(RequestRecheck, ReportMismatch),
		"the inventory records another instance than the device is bound to"},
	{ask(AskReconcile), in(Allocated), given(answered, single, ownedHere, closed, isNot(recordedUse, "no other instance recorded"), tenantMissing), "", does(RequestRecheck),
		"the inventory does not record the instance that has the device"},
	{ask(AskReconcile), in(Allocated), given(answered, single, ownedHere, closed, isNot(recordedUse, "no other instance recorded"), tenantRecorded, newerThanPublished), "", does(RequestRecheck),
		"the inventory is newer than what the device has published"},
	{ask(AskReconcile), in(Allocated), given(answered, single, ownedHere, closed, isNot(recordedUse, "no other instance recorded"), tenantRecorded, notNewer), "", nil,
		"only the unbind of its instance ends this binding"},
	{ask(AskReconcile), in(Available), given(single, recreatedFree), "", does(RequestRecheck),
		"its provider was re-created"},
	{ask(AskReconcile), in(Available), given(single, notRecreated, inUse), "", does(RequestRecheck),
		"the device is in use"},
	{ask(AskReconcile), in(Available), given(single, notRecreated, unused, of(notInMaintenance), open, newerThanPublished), "", does(RequestRecheck),
		"its provider was written since the device was offered"},
	{ask(AskReconcile), in(Available), given(single, notRecreated, unused, of(notInMaintenance), open, notNewer), "", nil,
		"the inventory shows what is expected"},
	{ask(AskReconcile), in(Available), given(single, notRecreated, unused, of(notInMaintenance), closed), "", does(RequestRecheck, ReportMismatch),
		"the device is reserved although it is available"},
	{ask(AskReconcile), in(Available), given(single, notRecreated, unused, of(inMaintenance), open), "", does(RequestRecheck, ReportMismatch),
		"the inventory offers the device although it is in maintenance"},
	{ask(AskReconcile), in(Available), given(single, notRecreated, unused, of(inMaintenance), closed), "", nil,
		"the inventory shows what is expected"},
	{ask(AskReconcile), in(Manageable, Error, Retired), given(single, inUse), "", does(RequestRecheck, ReportMismatch),
		"the device is in use, and no binding is recorded"},
	{ask(AskReconcile), in(PendingCleaning, Cleaning), given(single, inUse, allocatedBy), "", does(RequestRecheck, ReportMismatch),
		"the device is in use, and no binding is recorded"},
	{ask(AskReconcile), in(PendingCleaning, Cleaning), given(single, inUse, isNot(allocatedBy, "used = 0")), "", does(RequestRecheck),
		"the record names an instance until the clean begins"},
	{ask(AskReconcile), in(Cleaning), given(single, unused, open), "", does(RequestRecheck),
		"the inventory offers the device: it is being returned, or must be reserved"},
	{ask(AskReconcile), in(Manageable, PendingCleaning, Error, Retired), given(single, unused, open), "", does(RequestRecheck, ReportMismatch),
		"the inventory offers the device although it is not allocatable"},
	{ask(AskReconcile), in(Manageable, PendingCleaning, Cleaning, Error, Retired), given(single, unused, closed, newerThanPublished), "", does(RequestRecheck),
		"the inventory is newer than what the device has published"},
	{ask(AskReconcile), in(Manageable, PendingCleaning, Cleaning, Error, Retired), given(single, unused, closed, notNewer), "", nil,
		"the inventory shows what is expected"},
}

// looks are the questions to the host before a device is offered, or bound.
var looks = ask(AskHost, AskLook, AskBindLook)

// hostRows: the host's discovery. An available device whose discovery does not succeed is
// reserved, whatever the fault: what is there now may be another device. It is not cleaned
// by itself, because it may be another owner's. Only where no worker of the host took the
// discovery the device stays: nothing was found out, and the host's next start discovers it.
// Every device is looked at again before it is offered (SAFETY F27), and before it is bound
// (SAFETY F39). A bind whose host does not answer is refused, and the device stays as it is.
var hostRows = observer{
	{looks, in(Unknown, Manageable, Allocated, Error), given(otherDevice), IdentityChanged, nil,
		"the host found another device, none, or its serial twice"},
	{looks, in(Available), given(otherDevice, of(notBurning)), IdentityChanged, nil,
		"the host found another device, none, or its serial twice"},
	{looks, in(Available), given(unfit, of(notBurning)), IdentityChanged, nil,
		"the erase policy excludes the device, or its layout changed while it had no binding"},
	{looks, in(Available), given(written, of(notBurning), of(notInMaintenance)), ObservedUnused, nil,
		"others wrote to it while it was offered: it may have been used, and is cleaned"},
	{ask(AskHost, AskBindLook), in(Available), given(written, of(inMaintenance)), "", nil,
		"the device is on hold: its host looks at it again before it is offered"},
	{ask(AskLook), in(Available), given(written, of(inMaintenance)), IdentityChanged, nil,
		"others wrote to it while it was on hold: its operator decides"},
	{ask(AskHost, AskLook), in(Manageable), given(written), IdentityChanged, nil,
		"others wrote to it: it is cleaned before it is offered"},
	{ask(AskHost), exceptFor(Available, Manageable), given(written), "", nil,
		"only a clean device is cleaned for this"},
	{looks, in(Available), given(lookFailed, of(notBurning), of(notInMaintenance)), LookFailed, nil,
		"the host cannot say that it is the enrolled device: it is not offered"},
	{looks, in(Available), given(lookFailed, of(inMaintenance)), "", nil,
		"the device is on hold: its host looks at it again before it is offered"},
	{looks, in(Available), given(of(burning), isNot(anyOf("", enrolledOne, noWorker), "not the enrolled device as it was")), "", nil,
		"a bind is under way: its clean discovers the device again"},
	{ask(AskHost), in(PendingCleaning, Cleaning), given(otherDevice), "", nil,
		"the running clean checks the identity by itself"},
	{ask(AskHost, AskLook), in(Retired), given(otherDevice), "", nil,
		"a retired device has no identity to keep"},
	{ask(AskHost), exceptFor(Available), given(unfit), "", nil,
		"only an available device leaves the offer for this"},
	{ask(AskHost), exceptFor(), given(enrolledOne), "", nil,
		"the host found the enrolled device"},
	{ask(AskHost), exceptFor(Available), given(lookFailed), "", nil,
		"the host reports no identity"},
	{ask(AskHost), exceptFor(), given(noWorker), "", nil,
		"the host reports no identity"},

	{ask(AskLook), in(Manageable, Available), given(enrolledOne, of(clean)), Seen, nil,
		"the host found the enrolled device"},
	{ask(AskLook), in(Manageable, Available), given(enrolledOne, of(dirty)), "", nil,
		"the device is dirty: a clean looks at it"},
	{ask(AskLook), in(Cleaning), given(enrolledOne, of(returning)), Seen, nil,
		"the host found the enrolled device"},
	{ask(AskLook), in(Cleaning), given(written, of(returning)), ReservationChanged, nil,
		"others wrote to it before it was returned: it is cleaned again"},
	{ask(AskLook), in(Cleaning), given(of(returning), anyOf("another device, unfit, or the look failed", otherDevice, unfit, lookFailed)), CleanFailed, todo(reserveIt),
		"the host does not find the enrolled device as it was: it is not returned"},
	{ask(AskLook), in(Cleaning), given(of(returning), noWorker), "", does(RetryLater),
		"the host does not answer: the device is not returned unseen"},
	{ask(AskLook), in(Cleaning), given(of(notReturn)), "", nil,
		"the return ended meanwhile"},
	{ask(AskLook), in(Available), given(noWorker, of(notBurning), of(notInMaintenance)), LookFailed, nil,
		"the host does not answer: the device is not offered unseen"},
	{ask(AskLook), in(Available), given(noWorker, of(burning)), "", nil,
		"a bind is under way: its clean discovers the device again"},
	{ask(AskLook), in(Available), given(noWorker, of(inMaintenance)), "", nil,
		"the host does not answer: the maintenance goes on"},
	{ask(AskLook), in(Manageable), given(anyOf("unfit, or no identity", unfit, lookFailed, noWorker)), "", nil,
		"the host does not find the enrolled device as it was: it is not offered"},
	{ask(AskLook), in(Unknown, Allocated, PendingCleaning, Error, Retired), given(isNot(otherDevice, "no other device")), "", nil,
		"the device is not about to be offered any more"},
	{ask(AskLook), in(PendingCleaning), given(otherDevice), "", nil,
		"the running clean checks the identity by itself"},

	{ask(AskBindLook), in(Available), given(enrolledOne, of(claimed), of(notBurning)), "", does(Proceed),
		"the host found the enrolled device"},
	{ask(AskBindLook), in(Available), given(noWorker, of(claimed), of(notBurning)), Unclaim, nil,
		"the host does not answer: the bind is refused, and the device stays as it is"},
	{ask(AskBindLook), in(Available), given(anyOf("the enrolled device, or no worker took it", enrolledOne, noWorker), anyOf("no claim, or a burn under way", of(unclaimed), of(burning))), "", nil,
		"the claim ended meanwhile, or the same request's burn is under way"},
	{ask(AskBindLook), in(Unknown, Manageable, Allocated, Error), given(isNot(otherDevice, "no other device")), "", nil,
		"the claim ended meanwhile"},
	{ask(AskBindLook), in(PendingCleaning, Cleaning, Retired), nil, "", nil,
		"the claim ended meanwhile"},
}
