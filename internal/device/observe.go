package device

import "slices"

// Question says why the inventory, or the host, was asked. The same answer can mean
// different things: a reservation that is full is what a clean wants, and a sign of an
// unseen use on a device that is available.
type Question string

// The questions.
const (
	// AskRecheck reads the inventory because somebody reported a change.
	AskRecheck Question = "recheck"
	// AskReserve reserves the device in the inventory: it must not be schedulable.
	AskReserve Question = "reserve"
	// AskBeforeLeaving reads the inventory before an available device leaves the offer.
	AskBeforeLeaving Question = "before leaving the offer"
	// AskToLeave reserves an available device so that it can leave the offer.
	AskToLeave Question = "leave the offer"
	// AskEndMaintenance reserves a device again before its maintenance ends.
	AskEndMaintenance Question = "end maintenance"
	// AskClean is the first call of a clean: it reserves the device and reads its use.
	AskClean Question = "clean"
	// AskReturn reserves a device that goes back to the offer without a clean before.
	AskReturn Question = "return"
	// AskUnreserve is the write that lowers the reservation, or the read after one whose
	// outcome is unknown.
	AskUnreserve Question = "unreserve"
	// AskBind reserves a claimed device for its instance.
	AskBind Question = "bind"
	// AskResolve reserves a device whose state is unknown.
	AskResolve Question = "resolve"
	// AskImport reads the inventory for a device that is being imported.
	AskImport Question = "import"
	// AskReconcile compares the published status of a device with the inventory. Its
	// answer is never an event: it only asks the device to re-check itself.
	AskReconcile Question = "reconcile"
	// AskHost asks the device's host to discover it again.
	AskHost Question = "host"
	// AskLook asks the host to look at a clean device right before it is offered.
	AskLook Question = "look before it is offered"
	// AskBindLook asks the host to look at a claimed device right before it is burned.
	AskBindLook Question = "look before it is bound"
	// AskPool asks a shared pool's appliance who has the server, because a poll found a change.
	AskPool Question = "pool"
	// AskPoolBind asks it before a burn, and AskPoolApplied when a profile was applied for one.
	AskPoolBind    Question = "pool, before a burn"
	AskPoolApplied Question = "pool, during a burn"
	// AskPoolClean asks it before the first step of a clean.
	AskPoolClean Question = "pool, before a clean"
	// AskPoolReturn asks it when Burnish's profile was removed, before the device is returned.
	AskPoolReturn Question = "pool, before the return"
	// AskPoll compares the published status with a page of the appliance's servers. Its answer
	// is never an event: it only asks the device to ask the appliance itself.
	AskPoll Question = "poll"
)

// Questions lists every question, in the order of the table.
func Questions() []Question {
	return []Question{
		AskRecheck, AskReserve, AskBeforeLeaving, AskToLeave, AskEndMaintenance, AskClean, AskReturn, AskUnreserve, AskBind,
		AskResolve, AskImport, AskReconcile, AskHost, AskLook, AskBindLook,
		AskPool, AskPoolBind, AskPoolApplied, AskPoolClean, AskPoolReturn, AskPoll,
	}
}

// Answer is how an inventory call ended.
type Answer string

// The answers.
const (
	// NotAsked: the question was not to the inventory.
	NotAsked Answer = ""
	// Answered: the call succeeded, and Inventory holds its result.
	Answered Answer = "answered"
	// ProviderMissing: the inventory has no provider for the device.
	ProviderMissing Answer = "provider missing"
	// GenerationAhead: the inventory refused a write, because its generation, or its
	// provider, is not the expected one.
	GenerationAhead Answer = "generation ahead"
	// AlreadyReserved: a bind found the device reserved.
	AlreadyReserved Answer = "already reserved"
	// Failed: any other error. A write may or may not have taken effect.
	Failed Answer = "failed"
)

// AnswerOf gives the Answer that a fault's code stands for.
func AnswerOf(c Code) Answer {
	switch c {
	case CodeNoProvider:
		return ProviderMissing
	case CodeInventoryGenerationAhead:
		return GenerationAhead
	case CodeAlreadyBurned:
		return AlreadyReserved
	}
	return Failed
}

// Inventory is what the inventory says of a device at one moment: its provider's reservation and
// use when Used was read, at Generation.
type Inventory struct {
	Generation int64    `json:"generation"`
	Total      int      `json:"total"`
	Reserved   int      `json:"reserved"`
	Used       int      `json:"used"`
	Consumers  []string `json:"consumers,omitempty"`
	// Provider is the provider's UUID where Nova owns it, else "".
	Provider string `json:"provider,omitempty"`
	// Record is what the provider itself records.
	Record
	// Receipt is that of the reservation which this write was; "" where none is given (internal/proof).
	Receipt string `json:"receipt,omitempty"`
}

// Burned says that no scheduler allocates the device: reserved == total (S0.3).
func (i Inventory) Burned() bool { return i.Total > 0 && i.Reserved == i.Total }

// UnknownConsumer is the instance of a use whose consumer the inventory does not name.
const UnknownConsumer = "an unknown consumer"

// Consumer names the first consumer of a device that is in use.
func (i Inventory) Consumer() string {
	if len(i.Consumers) == 0 {
		return UnknownConsumer
	}
	return i.Consumers[0]
}

// User names who has a device that is in use: its first consumer, or else the instance that
// the provider records.
func (i Inventory) User() string {
	if i.Used == 0 && i.Witness == WitnessBound {
		return i.Tenant
	}
	return i.Consumer()
}

// HostResult is how the host's discovery of the device ended.
type HostResult string

// The results of a discovery.
const (
	// HostNotAsked: the question was not to the host.
	HostNotAsked HostResult = ""
	// HostSame: the enrolled device is there.
	HostSame HostResult = "same"
	// HostOther: another serial, identity or a serial that another device has.
	HostOther HostResult = "other"
	// HostAbsent: nothing is there.
	HostAbsent HostResult = "absent"
	// HostUnfit: the enrolled device is there, but the erase policy excludes it or its
	// namespace layout changed while it had no binding.
	HostUnfit HostResult = "unfit"
	// HostWritten: the enrolled device is there, and somebody else wrote to it since Burnish did.
	HostWritten HostResult = "written"
	// HostFailed: the discovery failed in another way, and reports no identity.
	HostFailed HostResult = "failed"
	// HostUnreachable: no worker of the host took the discovery.
	HostUnreachable HostResult = "unreachable"
)

// HostResultOf gives the result of a discovery that ended with the fault, or with nil.
func HostResultOf(f *Fault) HostResult {
	if f == nil {
		return HostSame
	}
	switch f.Code {
	case CodeIdentityChanged, CodeSerialMismatch, CodeDuplicateSerial:
		return HostOther
	case CodeTargetMissing:
		return HostAbsent
	case CodeHostUnreachable, CodeWorkerRestarted, CodeWorkerStopping: // a look that was cut short is none
		return HostUnreachable
	case CodeForeignWrite:
		return HostWritten
	}
	return HostFailed
}

// Known is what a device's workflow recorded of the inventory after its last call.
type Known struct {
	Generation int64
	// Provider is the one that the Generation is of, where Nova owns it.
	Provider string
	// Uncertain: the outcome of the last write is not known, so that the generation
	// proves nothing.
	Uncertain bool
	// Bindings (AskReconcile) is the published number of bindings; 0: not known.
	Bindings int
	// CleanRecorded: a clean has reserved the device, and returns it from the generation of that.
	CleanRecorded bool
	// Left is the instance of the last binding that ended, or of a later burn that failed
	// and may have recorded it; "" where there is none. A record of it is explained at a
	// generation up to LeftGeneration: at a later one the instance has the device again.
	Left           string
	LeftGeneration int64
}

// KeepsClean says that the device is clean, or being cleaned, and stays so for as long as its provider
// is the one that Burnish reserved, at the known generation (SAFETY F34). A provider of Nova's that was
// re-created was free for a while, so that somebody may have used the device; the clean of such a device
// compares by itself what it reserved.
func (k Known) KeepsClean(d Device) bool {
	switch {
	case d.Owner == OwnerNova && k.Provider == "", d.Owner != OwnerNova && k.Generation == 0:
		return false
	case d.Owner != OwnerNova && k.CleanRecorded && (d.State == PendingCleaning || d.State == Cleaning):
		return true
	case d.Dirty:
		return false
	}
	switch d.State {
	case Available:
		return d.InMaintenance()
	case Manageable:
		return true
	case Cleaning: // returned without a clean before it, or running steps that prove nothing
		// One that is returned as not sanitized is not clean, but of a one-time-use device only
		// the data that was there is accepted (D2).
		return d.NamedSteps || d.Returning && !k.CleanRecorded && (!d.NotSanitized || d.OneTimeUse)
	}
	return false
}

// DetectsForeignWrites says that a generation past the known one means another writer:
// only Burnish writes to a provider of its own, and to one of Nova's that is unused while
// the device is available (SAFETY F28). While it is offered this holds also after a write of
// unknown outcome: such a write reserves it, which a read shows.
func (k Known) DetectsForeignWrites(d Device) bool {
	ours := d.Owner != OwnerNova || d.State == Available
	return ours && (!k.Uncertain || d.Allocatable()) || k.KeepsClean(d)
}

// Expects gives what a write must find: the generation, nil where any will do, and the
// provider, "" where any will do.
func (k Known) Expects(d Device) (generation *int64, provider string) {
	if k.DetectsForeignWrites(d) && (k.Generation > 0 || k.Provider != "") {
		g := k.Generation
		generation = &g
	}
	if k.KeepsClean(d) {
		provider = k.Provider
	}
	return generation, provider
}

// After gives what is known once a call was answered; compared says that it was a write which what
// is known did permit. The provider of an available device is kept when another one answers, and all
// that is known of one that is kept clean when an answer differs that compared nothing: the device
// must re-check itself (readAgain), and what was known until then is what it compares with (SAFETY
// F34), unless an instance has it. It may be kept clean only since the question was asked.
func (k Known) After(d Device, i Inventory, compared bool) (known Known, readAgain bool) {
	taken := d.Owner != OwnerNova && (i.Used > 0 || i.Witness == WitnessBound)
	if !compared && !taken && k.KeepsClean(d) && (i.Generation != k.Generation || i.Provider != k.Provider) {
		return k, true
	}
	readAgain = k.recreated(d, i)
	known = Known{Generation: i.Generation, Provider: i.Provider, CleanRecorded: k.CleanRecorded, Left: k.Left,
		LeftGeneration: k.LeftGeneration}
	if readAgain {
		known.Provider = k.Provider
	}
	// Nothing follows from an instance that the provider of a retired device records: it stays
	// unexplained, and no later write takes it for one that has left.
	if d.State == Retired && d.Owner != OwnerNova && i.Witness == WitnessBound &&
		!(i.HeldBy(k.Left) && i.Generation <= k.LeftGeneration) {
		known.Generation = k.Generation
	}
	return known, readAgain
}

// recreated says that an available device has another provider than the one that it was
// offered by: who used the device before that one was made left no trace in it (D9).
func (k Known) recreated(d Device, i Inventory) bool {
	return d.State == Available && k.Provider != "" && i.Provider != k.Provider
}

// Snapshot is one observation: the question, what was known when it was asked, and the
// answer of inventory or host. Ask begins one.
type Snapshot struct {
	Question  Question
	Known     Known
	Answer    Answer
	Inventory Inventory
	Host      HostResult
	// Pool is who has the server by its pool's appliance; "" where it did not answer, or was
	// not asked.
	Pool Ownership
	// PoolChanged: the appliance has changed the server since it was returned, or nothing shows that
	// it was not used between two acts of Burnish. Others may have used it and left.
	PoolChanged bool
	// CleanStarted: the clean under way has begun, so that a use stops its running step
	// before it becomes an event.
	CleanStarted bool
	// CleanReserved: it has reserved the device, so that a read which finds that undone stops it.
	CleanReserved bool
	// Refused (AskUnreserve): the inventory refused the write for good.
	Refused bool
	// Imported (AskImport) is the provider that the import was asked for.
	Imported string
	// Duplicate (AskHost and the looks): the serial was seen at another name (SAFETY F23).
	Duplicate bool

	// What held when the question was asked; the device may have changed since.
	detects, keptClean bool
}

// Ask begins the Snapshot of a question about the device. It must be called before the
// inventory is, because an answer is judged by what was true when it was asked for. With
// AskUnreserve, Known holds the generation and the provider that were written with.
func Ask(q Question, d Device, k Known) Snapshot {
	return Snapshot{Question: q, Known: k, detects: k.DetectsForeignWrites(d), keptClean: k.KeepsClean(d)}
}

// Answered is the Snapshot with the inventory's answer.
func (s Snapshot) Answered(i Inventory) Snapshot {
	s.Answer, s.Inventory = Answered, i
	return s
}

// WroteFirst counts as known what the first call of a clean wrote in a task that was lost: the record
// names this clean and holds the device as it does, and nothing was written since (SAFETY F43).
func (s Snapshot) WroteFirst(clean int, hold Hold) Snapshot {
	i := s.Inventory
	if s.Answer == Answered && !s.CleanReserved && i.Generation == s.Known.Generation+1 &&
		i.Witness == WitnessFree && i.Cleans == clean && i.Hold == hold {
		s.Known.Generation = i.Generation
	}
	return s
}

// Failed is the Snapshot of a call that ended with a fault of this code.
func (s Snapshot) Failed(c Code) Snapshot {
	s.Answer, s.Inventory = AnswerOf(c), Inventory{}
	return s
}

// FollowUp is something to do because of an observation, beside its event.
type FollowUp string

// The follow-ups.
const (
	// EnsureReserved: the reservation must be raised to the total.
	EnsureReserved FollowUp = "reserve it"
	// ReadAgain: read the inventory again.
	ReadAgain FollowUp = "read the inventory again"
	// RequestRecheck (AskReconcile, AskPoll): signal the device to re-check itself.
	RequestRecheck FollowUp = "ask the device to re-check"
	// ReportMismatch (AskReconcile): no binding explains the difference.
	ReportMismatch FollowUp = "report a mismatch"
	// StopClean: cancel the running step and wait for it: the inventory shows a use. It is read again then, and
	// that answer becomes an event.
	StopClean FollowUp = "stop the running clean"
	// RestartClean: cancel the running step and wait for it: the reservation is gone, or another client has written
	// it. The inventory is read again then, and the clean begins again, with the reservation.
	RestartClean FollowUp = "stop the running clean and begin it again"
	// RetryLater: ask again after a pause.
	RetryLater FollowUp = "ask again later"
	// RepeatWrite (AskUnreserve): write once more with the same generation.
	RepeatWrite FollowUp = "repeat the write with the same generation"
	// Proceed: the operation that asked goes on.
	Proceed FollowUp = "go on"
	// AwaitProvider: do not read again until reconciliation finds a provider.
	AwaitProvider FollowUp = "wait until there is a provider"
	// StopReserving: nothing is left that must be reserved.
	StopReserving FollowUp = "stop reserving it"
	// EndImport: the import's source is gone; resolve the device as any unknown one.
	EndImport FollowUp = "end the import"
)

// Reason says in one line, for operators, why an observation means what it means.
type Reason string

// Observation is what follows from a Snapshot. Event is "" where no event does; Instance
// goes with it. An event that depends on automated cleaning (see UsesAutomated) needs that
// setting from the caller.
type Observation struct {
	Event    EventKind
	Instance string
	// Recorded: the Instance is the one that the provider records (F24), with the Number of its
	// binding, 0 if that is not recorded.
	Recorded bool
	Number   int
	// Hold (ObservedHeld) is how the record says that an operator holds the device.
	Hold Hold
	Then []FollowUp
}

// EventOf is the observation's event; automated is the setting of automated cleaning.
func (o Observation) EventOf(automated bool) Event {
	return Event{
		Kind: o.Event, Instance: o.Instance, Recorded: o.Recorded, Number: o.Number, Hold: o.Hold,
		Automated: automated && o.Event.UsesAutomated(),
	}
}

// Needs says whether the observation has this follow-up.
func (o Observation) Needs(f FollowUp) bool { return slices.Contains(o.Then, f) }

// Differs says that the observation has any consequence.
func (o Observation) Differs() bool {
	return o.Event != "" || slices.ContainsFunc(o.Then, func(f FollowUp) bool { return f != Proceed })
}

// UsesAutomated says that Next minds Event.Automated of events of this kind.
func (k EventKind) UsesAutomated() bool {
	switch k {
	case ObservedUnused, ObservedFree, Freed, BurnFailed, BindingMissing, BindingEnded, Unbind, Released:
		return true
	}
	return false
}

// BeingCleaned says that a clean is due or running; not that the device is returning.
func (d Device) BeingCleaned() bool {
	return (d.State == PendingCleaning || d.State == Cleaning) && !d.Returning
}

// Observe says what an observation of inventory or host means for the device as it is
// now. It changes nothing and decides by one row of the table. Only the workflow, import,
// recovery and reconciliation call it, and nothing else interprets reserved, used, a
// generation, a provider or an identity.
func Observe(d Device, s Snapshot) (Observation, Reason) { return observations.observe(d, s) }

// undecided is the reason where no row holds: a device that is not enrolled.
const undecided Reason = "no device is enrolled"

func (m observer) observe(d Device, s Snapshot) (Observation, Reason) {
	r := m.row(d, s)
	if r == nil {
		return Observation{}, undecided
	}
	o := Observation{Event: r.Event}
	if r.Event == ObservedInUse {
		o.Instance = s.Inventory.Consumer()
		if recordedUse.holds(d, s) && (s.Inventory.Used == 0 || d.Binding != nil) {
			o.Instance, o.Recorded, o.Number = s.Inventory.Tenant, true, s.Inventory.Bindings
		}
	}
	if r.Event == ObservedHeld {
		o.Hold = s.Inventory.Hold
	}
	if r.Event == Unclaim {
		o.Instance = d.Claim.Instance
	}
	for _, f := range r.Then {
		if f.when == nil || f.when(d, s) {
			o.Then = append(o.Then, f.does)
		}
	}
	return o, r.Why
}

// row finds the one row that holds, or nil.
func (m observer) row(d Device, s Snapshot) *observation {
	for i := range m {
		if m[i].holds(d, s) {
			return &m[i]
		}
	}
	return nil
}
