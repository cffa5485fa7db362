package device

import "time"

// Blink is the time in which no other user takes a free server, uses it and leaves it: a server
// needs longer to start. What others do within it, between the last look at a server and the act
// that follows, cannot be seen (F34).
const Blink = 2 * time.Second

// poolRows: who has a server of a shared pool, by its appliance (S4.1 to S4.3). Polls only
// give hints; these rows decide by the appliance's own answer (F6).
var poolRows = observer{
	{ask(AskPool), in(Available), given(byOthers, of(unclaimed)), Taken, nil,
		"others took the server while it was available"},
	{ask(AskPool), in(Available), given(byOthers, of(claimed)), "", nil,
		"a bind is under way: it asks the appliance itself"},
	{ask(AskPool), in(Error), given(byOthers, of(lostRace)), Taken, nil,
		"others took the server before Burnish could use it"},
	{ask(AskPool), in(Error), given(byOthers, of(not(lostRace, "no lost race"))), "", nil,
		"the device is in error for another reason"},
	{ask(AskPool), in(Available), given(notOthers, poolChanged, of(unclaimed), of(notInMaintenance)), ObservedUnused, nil,
		"others may have used the server and left it between two polls"},
	{ask(AskPool), in(Available), given(notOthers, leftAlone), "", nil,
		"no other user has the server"},
	{ask(AskPool), in(Error), given(notOthers, of(raceLostAlone)), Freed, nil,
		"the others have left the server before a poll saw them: it is cleaned"},
	{ask(AskPool), in(Error), given(notOthers, of(not(raceLostAlone, "no lost race alone"))), "", nil,
		"the device is in error for another reason"},
	{ask(AskPool), exceptFor(Available, Error), given(byOthers), "", nil,
		"only an available device, or one that lost a race, leaves its state because the server is taken"},
	{ask(AskPool), in(Manageable), given(notOthers, of(maintenanceTaken), of(notMaintained)), Freed, nil,
		"the others have left the server: it is cleaned"},
	{ask(AskPool), in(Manageable), given(notOthers, keptOut), "", nil,
		"the device is in maintenance for another reason, or in none"},
	{ask(AskPool), exceptFor(Manageable, Available, Error), given(notOthers), "", nil,
		"no other user has the server"},
	{ask(AskPool), exceptFor(), given(noPool), "", nil,
		"the appliance did not answer: the next poll asks again"},

	{ask(AskPoolBind), in(Available), given(byOthers, of(claimed)), LostRace, nil,
		"others took the server before the bind"},
	{ask(AskPoolBind), in(Available), given(notOthers, poolChanged, of(claimed), of(notBurning)), ObservedUnused, nil,
		"others may have used the server and left it between two polls"},
	{ask(AskPoolBind), in(Available), given(notOthers, of(claimed), anyOf("unchanged, or a burn under way", poolUnchanged, of(burning))), "", does(Proceed),
		"no other user has the server"},
	{ask(AskPoolBind), in(Available), given(noPool, of(claimed), of(notBurning)), Unclaim, nil,
		"the appliance did not answer: the bind is refused, and the device stays as it is"},
	{ask(AskPoolBind), in(Available), given(noPool, of(burning)), "", nil,
		"the same request's burn is under way"},
	{ask(AskPoolBind), in(Available), given(of(unclaimed)), "", nil,
		"the claim ended meanwhile"},

	{ask(AskPoolApplied), in(Available), given(byOthers, of(burning)), LostRace, nil,
		"others took the server during the bind"},
	{ask(AskPoolApplied), in(Available), given(poolOurs, poolUnchanged, of(burning)), "", does(Proceed),
		"the server has Burnish's profile"},
	// SAFETY F34: nothing shows that the tenant's is the first profile on it since.
	{ask(AskPoolApplied), in(Available), given(poolOurs, poolChanged, of(burning)), BurnFailed, nil,
		"others may have used the server during the bind: the device is cleaned"},
	{ask(AskPoolApplied), in(Available), given(anyOf("no profile is on it, or the appliance did not answer", poolFree, noPool), of(burning)), BurnFailed, nil,
		"the profile was not applied: the device is cleaned"},
	{ask(AskPoolApplied), in(Available), given(of(notBurning)), "", nil,
		"the claim ended meanwhile"},
	{ask(AskPoolBind, AskPoolApplied), exceptFor(Available), nil, "", nil,
		"the claim ended meanwhile"},

	{ask(AskPoolClean), in(PendingCleaning, Cleaning), given(of(notReturn), byOthers), LostRace, nil,
		"others have the server: it is not cleaned"},
	{ask(AskPoolClean), in(PendingCleaning), given(of(notReturn), notOthers, of(maintenanceTaken)), Freed, does(Proceed),
		"the others have left the server"},
	{ask(AskPoolClean), in(PendingCleaning), given(of(notReturn), notOthers, isNot(of(maintenanceTaken), "no maintenance because it was taken")), "", does(Proceed),
		"no other user has the server"},
	{ask(AskPoolClean), in(Cleaning), given(of(notReturn), notOthers), "", does(Proceed),
		"no other user has the server"},
	{ask(AskPoolClean), in(PendingCleaning, Cleaning), given(of(notReturn), noPool), "", does(RetryLater),
		"the appliance did not answer: it is not cleaned meanwhile"},
	{ask(AskPoolClean), in(Cleaning), given(of(returning)), "", nil,
		"the clean ended meanwhile"},
	{ask(AskPoolClean), exceptFor(PendingCleaning, Cleaning), nil, "", nil,
		"the clean ended meanwhile"},

	{ask(AskPoolReturn), in(Cleaning), given(of(returning), byOthers), LostRace, nil,
		"others took the server before it was returned"},
	// SAFETY F34: free is not unused. What is not sanitized is offered as such, whoever had it.
	{ask(AskPoolReturn), in(Cleaning), given(of(returning), poolFree, poolChanged, of(not(notSanitized, "sanitized"))), ReservationChanged, nil,
		"others may have used the server since Burnish's profile was on it"},
	{ask(AskPoolReturn), in(Cleaning), given(of(returning), poolFree, anyOf("unchanged, or not sanitized", poolUnchanged, of(notSanitized))), "", does(Proceed),
		"Burnish has no profile on the server any more"},
	{ask(AskPoolReturn), in(Cleaning), given(of(returning), anyOf("ours, or the appliance did not answer", poolOurs, noPool)), "", does(RetryLater),
		"Burnish's profile is not removed yet"},
	{ask(AskPoolReturn), in(Cleaning), given(of(notReturn)), "", nil,
		"the return ended meanwhile"},
	{ask(AskPoolReturn), exceptFor(Cleaning), nil, "", nil,
		"the return ended meanwhile"},

	{ask(AskPoll), in(Available), given(byOthers), "", does(RequestRecheck),
		"others took the server while it was available"},
	{ask(AskPoll), in(Available), given(notOthers, poolChanged, of(unclaimed), of(notInMaintenance)), "", does(RequestRecheck),
		"others may have used the server and left it between two polls"},
	{ask(AskPoll), in(Available), given(notOthers, leftAlone), "", nil,
		"no other user has the server"},
	{ask(AskPoll), in(Error), given(notOthers, of(raceLostAlone)), "", does(RequestRecheck),
		"the others have left the server before a poll saw them"},
	{ask(AskPoll), in(Error), given(notOthers, of(not(raceLostAlone, "no lost race alone"))), "", nil,
		"the device is in error for another reason"},
	{ask(AskPoll), in(Error), given(byOthers, of(lostRace)), "", does(RequestRecheck),
		"others took the server before Burnish could use it"},
	{ask(AskPoll), in(Error), given(byOthers, of(not(lostRace, "no lost race"))), "", nil,
		"the device is in error for another reason"},
	{ask(AskPoll), in(Manageable), given(notOthers, of(maintenanceTaken), of(notMaintained)), "", does(RequestRecheck),
		"the others have left the server"},
	{ask(AskPoll), in(Manageable), given(notOthers, keptOut), "", nil,
		"the device is in maintenance for another reason, or in none"},
	{ask(AskPoll), exceptFor(Available, Error), given(byOthers), "", nil,
		"only an available device, or one that lost a race, leaves its state because the server is taken"},
	{ask(AskPoll), exceptFor(Manageable, Available, Error), given(notOthers), "", nil,
		"no other user has the server"},
	{ask(AskPoll), exceptFor(), given(noPool), "", nil,
		"the appliance did not answer"},
}

// notSanitized: it is offered without a clean, and shown as that.
var notSanitized = cond{"not sanitized", func(d Device, _ Event) bool { return d.NotSanitized }}

// keptOut: no poll ends why a manageable device is out of the offer (S4.10).
var keptOut = isNot(allOf("", of(maintenanceTaken), of(notMaintained)), "not in maintenance because it was taken alone")

// leftAlone: nothing says that others used an available server, or the next look after a claim
// or a maintenance decides.
var leftAlone = isNot(allOf("", poolChanged, of(unclaimed), of(notInMaintenance)), "unchanged since it was returned, or claimed, or in maintenance")
