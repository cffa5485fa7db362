package device

import "slices"

// fact is a condition on a device and what was observed of it.
type fact struct {
	name  string
	holds func(Device, Snapshot) bool
}

// follow is a FollowUp, and the condition under which a row has it.
type follow struct {
	name string
	does FollowUp
	when func(Device, Snapshot) bool // nil: always
}

// of makes a fact of a condition of the first table.
func of(c cond) fact {
	return fact{c.name, func(d Device, _ Snapshot) bool { return c.holds(d, Event{}) }}
}

func isNot(f fact, name string) fact {
	return fact{name, func(d Device, s Snapshot) bool { return !f.holds(d, s) }}
}

func anyOf(name string, facts ...fact) fact {
	return fact{name, func(d Device, s Snapshot) bool {
		return slices.ContainsFunc(facts, func(f fact) bool { return f.holds(d, s) })
	}}
}

func allOf(name string, facts ...fact) fact {
	return fact{name, func(d Device, s Snapshot) bool {
		return !slices.ContainsFunc(facts, func(f fact) bool { return !f.holds(d, s) })
	}}
}

func answer(name string, a Answer) fact {
	return fact{name, func(_ Device, s Snapshot) bool { return s.Answer == a }}
}

// What the inventory says.
var (
	answered = answer("answered", Answered)
	inUse    = allOf("in use", answered, anyOf("", allocatedBy, recordedUse))
	unused   = allOf("not in use", answered, isNot(inUse, ""))
	open     = fact{"reserved < total", func(_ Device, s Snapshot) bool {
		return s.Inventory.Reserved < s.Inventory.Total
	}}
	closed = isNot(open, "reserved = total")
	single = fact{"total = 1", func(_ Device, s Snapshot) bool { return s.Inventory.Total == 1 }}
	notOne = isNot(single, "total is not 1")
	free   = allOf("reserved = 0 of 1", fact{"", func(_ Device, s Snapshot) bool { return s.Inventory.Reserved == 0 }},
		single)
	notFree = isNot(free, "not free")

	noAnswer = fact{"the call failed", func(_ Device, s Snapshot) bool { return s.Answer != Answered }}
	missing  = answer("no provider", ProviderMissing)
	ahead    = answer("generation ahead", GenerationAhead)
	notAhead = allOf("the call failed, not for the generation", noAnswer, isNot(ahead, ""))

	providerKnown = fact{"a provider is known", func(_ Device, s Snapshot) bool { return s.Known.Provider != "" }}
	otherConsumer = fact{"another instance than the binding's", func(d Device, s Snapshot) bool {
		return recordedUse.holds(d, s) || observedByNova.holds(d, Event{}) && len(s.Inventory.Consumers) > 0 &&
			!slices.Contains(s.Inventory.Consumers, d.Binding.Instance)
	}}
	noOtherConsumer = isNot(otherConsumer, "no other instance")
)

// What the provider records of who has the device (SAFETY F24). Of a device of Nova's its
// allocations are the record.
var (
	allocatedBy = fact{"used > 0", func(_ Device, s Snapshot) bool { return s.Inventory.Used > 0 }}
	// recordedUse: the provider records an instance, and the device knows of no binding, burn
	// or end that explains it: its memory is older.
	recordedUse = fact{"an instance recorded that the device does not know of", func(d Device, s Snapshot) bool {
		return s.Answer == Answered && d.Owner != OwnerNova && s.Inventory.Witness == WitnessBound && !explains(d, s)
	}}
	recordedFree = fact{"recorded that no instance has it", func(d Device, s Snapshot) bool {
		return d.Owner == OwnerNova || s.Inventory.Witness == WitnessFree
	}}
	// recordedEnd: only the first write of a clean records that no instance has the device, after its
	// instance has left. An inventory that was put back to an earlier moment proves nothing.
	recordedEnd = fact{"recorded since that no instance has it", func(d Device, s Snapshot) bool {
		return d.Owner != OwnerNova && s.Inventory.Witness == WitnessFree && s.Inventory.Generation > s.Known.Generation
	}}
	noRecord = isNot(recordedFree, "no record of who has it")
	// recordedHold: SAFETY F43.
	recordedHold = fact{"recorded that an operator holds it", func(_ Device, s Snapshot) bool {
		return s.Inventory.Hold != HoldNone
	}}
	noHold = isNot(recordedHold, "not recorded that an operator holds it")
	// tenantMissing: a bound device without a record. It is asked of a read only: where a store
	// keeps no record, a write would be repeated without end.
	tenantMissing = fact{"its instance is not recorded", func(d Device, s Snapshot) bool {
		return s.Question != AskReserve && d.Owner != OwnerNova && d.Binding != nil &&
			d.Binding.Instance != UnknownConsumer &&
			s.Inventory.Witness != WitnessBound
	}}
	tenantRecorded = isNot(tenantMissing, "its instance is recorded")
)

// explains says that the device knows why the provider records this instance: it has the
// device, it left and nothing was written since, or the record is of an earlier binding than the
// device's own. An unknown device explains nothing by what it remembers of earlier instances.
// Whatever a burn under way has recorded, its own answer shows.
func explains(d Device, s Snapshot) bool {
	i, k := s.Inventory, s.Known
	switch {
	case d.Binding != nil && i.HeldBy(d.Binding.Instance) && i.Bindings <= d.Binding.Number:
		return true
	case d.Binding != nil && i.Bindings > 0 && i.Bindings < d.Binding.Number:
		return true // the inventory was put back to an earlier binding, which this device has ended
	case d.State == Unknown || !i.HeldBy(k.Left):
		return false
	case s.Question == AskReconcile: // which knows no generation
		return true
	}
	return i.Generation <= k.LeftGeneration
}

// What the device is, beside its state.
var (
	ownedByNova  = fact{"owner nova", func(d Device, _ Snapshot) bool { return d.Owner == OwnerNova }}
	ownedHere    = isNot(ownedByNova, "owner self")
	notAway      = isNot(allOf("", missing, ownedByNova), "not a provider of Nova's that is gone")
	allocatable  = fact{"allocatable", func(d Device, _ Snapshot) bool { return d.Allocatable() }}
	withheld     = isNot(allocatable, "not allocatable")
	boundHere    = allOf("a binding that was not observed", of(bound), isNot(of(observedByNova), ""))
	cleanStarted = fact{"the clean has begun", func(_ Device, s Snapshot) bool { return s.CleanStarted }}
	notStarted   = isNot(cleanStarted, "the clean has not begun")
	// cleanReserved: the clean has made its reservation; before, it is about to.
	cleanReserved = fact{"the clean has reserved it", func(_ Device, s Snapshot) bool { return s.CleanReserved }}
	notReserved   = isNot(cleanReserved, "no clean has reserved it")
	// stepMayRun: it must stop before the device is in a state from which its operator takes or retires it.
	stepMayRun = fact{"a step of its clean may run", func(d Device, s Snapshot) bool {
		return s.CleanReserved && d.BeingCleaned()
	}}
	noStepRuns = isNot(stepMayRun, "no step of a clean runs")

	// keptClean is asked twice: of the device when the question was asked, and now.
	keptNow = fact{"kept clean", func(d Device, s Snapshot) bool { return s.Known.KeepsClean(d) }}

	// reservedInUse: its reservation, or the record of its instance, was to be written.
	reservedInUse = fact{"", func(d Device, s Snapshot) bool { return s.Question == AskReserve && d.State == Allocated }}

	// recreatedWhileKept and recreatedWhileOffered: the provider was free for a while.
	recreatedWhileKept = fact{"provider re-created while kept clean", func(d Device, s Snapshot) bool {
		return s.Question == AskRecheck && s.keptClean && s.Known.KeepsClean(d) && s.Inventory.Provider != s.Known.Provider
	}}
	recreatedWhileOffered = fact{"provider re-created while allocatable", func(d Device, s Snapshot) bool {
		return slices.Contains(readOnly, s.Question) && d.Allocatable() && s.Known.recreated(d, s.Inventory)
	}}
	recreated = fact{"provider re-created", func(d Device, s Snapshot) bool { return s.Known.recreated(d, s.Inventory) }}
	sameOne   = isNot(recreated, "the same provider")
	// unexplained: none of our writes explains the generation. An answer to our own write is
	// explained by it; a clean begins with such a write.
	unexplained = fact{"generation not explained", func(d Device, s Snapshot) bool {
		return slices.Contains(readOnly, s.Question) && s.detects && s.Inventory.Generation > s.Known.Generation &&
			d.State != Retired
	}}
	// offeredByNova: Nova's scheduler may allocate it, and no bind is under way.
	offeredByNova = allOf("owner nova, neither on hold nor being bound", ownedByNova,
		allOf("", of(notInMaintenance), of(notBurning)))
	sameKept    = isNot(anyOf("", recreatedWhileKept, recreatedWhileOffered), "provider not re-created while clean")
	notCredible = anyOf("provider or generation not explained", recreatedWhileKept, recreatedWhileOffered, unexplained)
	credible    = isNot(notCredible, "provider and generation explained")

	// usedUnseen: it is reserved although it was offered, and not because we just reserved
	// it to leave the offer (D9).
	usedUnseen = fact{"reserved = total though allocatable", func(d Device, s Snapshot) bool {
		return s.Question != AskToLeave && d.Allocatable() && s.Inventory.Reserved >= s.Inventory.Total
	}}
	seenAll = isNot(usedUnseen, "not (reserved = total though allocatable)")
	// exposed: a scheduler could allocate what is not allocatable (S2.40).
	exposed = fact{"reserved < total though not allocatable", func(d Device, s Snapshot) bool {
		return s.Inventory.Reserved < s.Inventory.Total && !d.Allocatable() && !d.Returning && d.Claim == nil
	}}
	notExposed = isNot(exposed, "reserved as it must be")
)

// What became of the write that lowers the reservation. Known holds the generation that
// was written with, and the provider of it.
var (
	otherProvider = fact{"", func(_ Device, s Snapshot) bool { return s.Inventory.Provider != s.Known.Provider }}
	// A generation past our own write's means that others wrote since: unless the device is
	// in use, it may have been used and freed.
	lowered = fact{"reserved = 0 by our own write, or in use", func(d Device, s Snapshot) bool {
		return s.Answer == Answered && !otherProvider.holds(d, s) && s.Inventory.Reserved == 0 &&
			(s.Inventory.Used > 0 || s.Inventory.Generation <= s.Known.Generation+1)
	}}
	changedHands = fact{"in use, or another provider or generation", func(d Device, s Snapshot) bool {
		return s.Answer == Answered && !lowered.holds(d, s) &&
			(inUse.holds(d, s) || otherProvider.holds(d, s) || s.Inventory.Generation != s.Known.Generation)
	}}
	unwritten = fact{"the generation is the same", func(d Device, s Snapshot) bool {
		return s.Answer == Answered && !lowered.holds(d, s) && !changedHands.holds(d, s)
	}}
	refused       = fact{"the write was refused for good", func(_ Device, s Snapshot) bool { return s.Refused }}
	notRefused    = isNot(refused, "the write may be repeated")
	notLowered    = isNot(lowered, "not lowered")
	repeatable    = allOf("the generation is the same, the write may be repeated", unwritten, notRefused)
	lostWrite     = isNot(anyOf("", lowered, repeatable), "changed, refused or no answer")
	failedForGood = anyOf("refused or no answer", allOf("", unwritten, refused), notAhead)
)

// What the host says.
func host(name string, is ...HostResult) fact {
	return fact{name, func(_ Device, s Snapshot) bool { return slices.Contains(is, s.Host) }}
}

var (
	duplicate   = fact{"", func(_ Device, s Snapshot) bool { return s.Duplicate }}
	otherDevice = anyOf("another device, none, or a serial seen twice", host("", HostOther, HostAbsent), duplicate)
	unfit       = allOf("unfit, no serial seen twice", host("", HostUnfit), isNot(duplicate, ""))
	enrolledOne = allOf("the enrolled device", host("", HostSame), isNot(duplicate, ""))
	written     = allOf("written to by others, no serial seen twice", host("", HostWritten), isNot(duplicate, ""))
	lookFailed  = allOf("the look failed", host("", HostFailed), isNot(duplicate, ""))
	noWorker    = allOf("no worker took it", host("", HostUnreachable, HostNotAsked), isNot(duplicate, ""))
)

// What the appliance of a shared pool says.
func inPool(name string, is ...Ownership) fact {
	return fact{name, func(_ Device, s Snapshot) bool { return slices.Contains(is, s.Pool) }}
}

var (
	byOthers  = inPool("others have the server", PoolTaken)
	notOthers = inPool("free or ours", PoolFree, PoolOurs)
	poolFree  = inPool("free", PoolFree)
	poolOurs  = inPool("ours", PoolOurs)
	noPool    = inPool("the appliance did not answer", "")

	poolChanged   = fact{"changed since it was returned", func(_ Device, s Snapshot) bool { return s.PoolChanged }}
	poolUnchanged = isNot(poolChanged, "unchanged since it was returned")
)

// What is to be done.
var (
	reserveIt    = follow{"reserve it", EnsureReserved, nil}
	reserveOpen  = follow{"reserve it if reserved < total", EnsureReserved, open.holds}
	reserveBound = follow{"reserve it if reserved < total, or if its instance is not recorded", EnsureReserved,
		func(d Device, s Snapshot) bool {
			return open.holds(d, s) || tenantMissing.holds(d, s)
		}}
	reserveHeld = follow{"reserve it if an operator holds it", EnsureReserved, func(d Device, _ Snapshot) bool {
		return d.Hold() != HoldNone && d.State != Allocated
	}}
	reserveOperators = follow{"reserve it if it is an operator's", EnsureReserved, func(d Device, _ Snapshot) bool {
		return d.Binding != nil && d.Binding.Held
	}}
	recordAgain   = follow{"record its instance again", EnsureReserved, tenantMissing.holds}
	reserveUnless = follow{"reserve it unless it is returning", EnsureReserved, func(d Device, _ Snapshot) bool {
		return d.Dirty || d.Binding != nil
	}}
)
