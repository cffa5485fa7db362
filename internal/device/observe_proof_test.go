package device

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome is one observation with the decision of the second table, and the device after the
// event that the decision names.
type outcome struct {
	observed
	observation Observation
	why         Reason
	next        Device
	illegal     error
}

func (c outcome) String() string {
	return fmt.Sprintf("%v gives %+v (%s), %s", c.observed, c.observation, c.why, describe(c.next))
}

// observationTheorem is one theorem on each observation. It gives the reason why it does not
// hold, or "".
type observationTheorem struct {
	name  string
	holds func(outcome) string
}

func observationTheorems() []observationTheorem {
	return []observationTheorem{
		{"an event that an observation gives is legal", func(c outcome) string { return unless(c.illegal == nil, "%v", c.illegal) }},
		{"the reason is one line", func(c outcome) string {
			return unless(isOneLine(c.why), "it has several lines, or a requirement's number")
		}},
		{"a retired device stays retired", func(c outcome) string {
			return unless(c.device.State != Retired || c.observation.Event == "", "its state changes")
		}},
		{"only reading back reserved = 0 makes a device allocatable", onlyLoweringOffers},
		{"unreserve is repeated only with the same generation, and only for a device that may be offered", repeatsSafely},
		{"an operation goes on only with an unused device", proceedsUnused},
		// F6
		{"no observation ends a binding of a self-owned device", keepsOwnBinding},
		// F6, S2.49, S2.52
		{"reconciliation never changes the state", func(c outcome) string {
			return unless(c.snapshot.Question != AskReconcile || c.observation.Event == "", "reconciliation changes the state")
		}},
		// F10
		{"a generation that nothing explains makes the device Dirty", unexplainedIsDirty},
		// D9
		{"a provider that was re-created under a clean device makes it Dirty", recreatedIsDirty},
		{"a use is never ignored", useIsSeen},
		// S2.40
		{"what is not allocatable does not stay schedulable", exposedIsReserved},
		{"reconciliation reports what a re-check would act on", reconcileAgrees},
		{"a call that failed proves nothing", failureProvesNothing},
		{"only a positive result of the host changes the identity", hostIsBelieved},
		{"the same answer a second time changes nothing", actsOnce},
		// F27
		{"the reservation stays lowered only for a device that was seen", loweredWasSeen},
		// F30
		{"a device that left returning is reserved again", leftReturningIsReserved},
		// F28
		{"an available device with a generation that nothing explains is not believed", newerIsNotBelieved},
		// F24
		{"a recorded instance that the device does not know of has the device", recordedUseIsSeen},
		// F24, D16
		{"an unknown device is cleaned automatically only where the record says that no instance has it", recordDecides},
		// F24
		{"a bound device is recorded again, and nothing else is", recordedAgain},
		{"a server that others have is neither used, cleaned nor returned", takenIsLeftAlone},
		// F34
		{"a server that others may have used unseen is not offered, nor a tenant's", freeIsNotUnused},
		{"a server counts as freed only by the appliance's own answer, and is cleaned", freedIsCleaned},
		// S4.17
		{"a poll asks for what the device would do, and nothing else", pollAgrees},
	}
}

var oneLine, number = regexp.MustCompile(`^[^\n]+$`), regexp.MustCompile(`\b[SFD]\d`)

// isOneLine remembers what it said: there are few reasons, and millions of observations.
func isOneLine(why Reason) bool {
	known, ok := oneLines.Load(why)
	if !ok {
		known = oneLine.MatchString(string(why)) && !number.MatchString(string(why))
		oneLines.Store(why, known)
	}
	return known.(bool)
}

var oneLines sync.Map

// evaluate applies the table to one observation.
func (m observer) evaluate(c observed) outcome {
	r := outcome{observed: c, next: c.device}
	r.observation, r.why = m.observe(c.device, c.snapshot)
	if r.observation.Event == "" {
		return r
	}
	// Whether cleaning is automated makes no difference to whether the event is legal.
	next, err := Next(c.device, r.observation.EventOf(true))
	r.next, r.illegal = next, err
	return r
}

func onlyLoweringOffers(c outcome) string {
	if c.observation.Event == Returned {
		i := c.snapshot.Inventory
		return unless(c.snapshot.Question == AskUnreserve && c.snapshot.Answer == Answered && i.Reserved == 0 &&
			i.Provider == c.snapshot.Known.Provider,
			"reserved = 0 was not read back")
	}
	if c.observation.Event == Unclaim { // a claimed device is not reserved before its burn
		return unless(c.device.Claim != nil && !c.device.Claim.Burning && !c.device.Dirty, "its burn may have begun")
	}
	return unless(c.device.Allocatable() || !c.next.Allocatable(), "it is offered")
}

func repeatsSafely(c outcome) string {
	if !c.observation.Needs(RepeatWrite) {
		return ""
	}
	i := c.snapshot.Inventory
	return joinReasons(
		unless(c.device.Returning || c.device.Allocatable(), "the device is not offered"),
		unless(!c.device.Dirty, "the device is dirty"),
		unless(!c.snapshot.Refused, "the inventory refused it for good"),
		unless(i.Used == 0 && !otherRecorded(c.device, c.snapshot), "somebody has the device"),
		unless(i.Generation == c.snapshot.Known.Generation && i.Provider == c.snapshot.Known.Provider,
			"another writer changed the provider"))
}

func proceedsUnused(c outcome) string {
	if !c.observation.Needs(Proceed) || slices.Contains(poolQuestions, c.snapshot.Question) ||
		c.snapshot.Question == AskBindLook {
		return ""
	}
	i := c.snapshot.Inventory
	return joinReasons(
		unless(c.snapshot.Answer == Answered && i.Used == 0, "it may be in use"),
		unless(c.observation.Event == "" && len(c.observation.Then) == 1, "the decision has other parts"),
		unless(c.snapshot.Question != AskClean || c.device.BeingCleaned(), "no clean is pending"),
		unless(c.snapshot.Question != AskReturn || c.device.Returning, "it is not returning"))
}

func keepsOwnBinding(c outcome) string {
	b := c.device.Binding
	if b == nil || c.device.Owner == OwnerNova {
		return ""
	}
	return unless(c.next.Binding != nil && c.next.Binding.Instance == b.Instance || otherRecorded(c.device, c.snapshot) ||
		endRecorded(c), "the binding ends")
}

// endRecorded: an unknown device whose provider records that no instance has it.
func endRecorded(c outcome) bool {
	return c.device.State == Unknown && c.snapshot.Question == AskResolve && c.snapshot.Inventory.Witness == WitnessFree
}

func unexplainedIsDirty(c outcome) string {
	s, d := c.snapshot, c.device
	if !slices.Contains(readOnly, s.Question) || s.Answer != Answered || (s.Inventory.Used > 0 || otherRecorded(d, s)) ||
		!s.detects || s.Inventory.Generation <= s.Known.Generation {
		return ""
	}
	dirty := c.next.Dirty &&
		(c.next.Hold() != HoldNone || slices.Contains([]State{Unknown, PendingCleaning}, c.next.State))
	return unless(stopsFirst(c) || d.State == Retired || c.observation.Event == ObservedInUse ||
		dirty, "it still counts as clean")
}

// stopsFirst says that a running clean stops; the next one compares first.
func stopsFirst(c outcome) bool { return c.snapshot.CleanReserved && c.observation.Needs(RestartClean) }

func recreatedIsDirty(c outcome) string {
	s, d := c.snapshot, c.device
	if s.Answer != Answered || s.Known.Provider == "" || s.Inventory.Provider == s.Known.Provider ||
		s.Inventory.Used > 0 || otherRecorded(d, s) {
		return ""
	}
	switch {
	case slices.Contains(readOnly, s.Question) && d.Allocatable(), s.Question == AskRecheck && s.keptClean &&
		s.Known.KeepsClean(d),
		s.Question == AskBind && d.Claim != nil && d.Claim.Burning:
		return unless(stopsFirst(c) || c.next.Dirty && (c.next.Hold() != HoldNone || c.next.State == Unknown ||
			c.next.State == PendingCleaning), "it still counts as clean")
	case s.Question == AskReconcile && d.Allocatable() && d.Owner == OwnerNova:
		return unless(c.observation.Needs(RequestRecheck), "it is not re-checked")
	}
	return ""
}

func useIsSeen(c outcome) string {
	s, d := c.snapshot, c.device
	if s.Answer != Answered || s.Inventory.Used == 0 {
		return ""
	}
	burns := d.State == Available && d.Claim != nil && d.Claim.Burning
	switch s.Question {
	case AskReconcile:
		return unless(d.State == Unknown || d.State == Allocated || c.observation.Needs(RequestRecheck),
			"it is not re-checked")
	case AskUnreserve:
		return unless(c.observation.Event != Returned || c.observation.Needs(ReadAgain), "it is not re-checked")
	case AskBind:
		return "" // ReserveForBind itself refuses a device that is in use
	case AskClean, AskReturn, AskResolve, AskImport:
		return unless(!c.observation.Needs(Proceed), "the operation goes on")
	}
	return joinReasons(
		unless(c.next.State == Allocated || c.observation.Needs(StopClean) || d.Returning || d.State == Retired ||
			burns, "the use is ignored"),
		unless(c.next.State != Allocated || s.Inventory.Reserved >= s.Inventory.Total || c.observation.Needs(EnsureReserved),
			"a scheduler may allocate it to another instance"),
		unless(c.observation.Event != ObservedInUse || otherRecorded(d, s) ||
			c.observation.Instance == s.Inventory.Consumer(), "the event names another consumer"))
}

func exposedIsReserved(c outcome) string {
	s, d := c.snapshot, c.device
	standing := slices.Contains(reads, s.Question) || s.Question == AskImport && d.State == Unknown
	if !standing || s.Answer != Answered || s.Inventory.Used > 0 || otherRecorded(d, s) ||
		s.Inventory.Reserved >= s.Inventory.Total ||
		d.Allocatable() || d.Returning || d.Claim != nil || c.next.Returning {
		return ""
	}
	// A clean and the resolution of an unknown device begin with a reservation.
	begins := c.observation.Event != "" && (c.next.State == PendingCleaning || c.next.State == Unknown)
	return joinReasons(
		unless(begins && s.Question != AskImport || c.observation.Needs(EnsureReserved), "a scheduler may allocate it"),
		unless(!s.CleanReserved || !d.BeingCleaned() || c.observation.Event != "" || c.observation.Needs(RestartClean),
			"its clean goes on without its reservation"))
}

// reconcileAgrees leaves out what the status does not show: claims, the return to the offer, a
// missing binding and the generation at which an instance left.
func reconcileAgrees(c outcome) string {
	s, d := c.snapshot, c.device
	if s.Question != AskReconcile || s.Answer != Answered || d.State == Unknown || d.Claim != nil || d.Returning ||
		d.State == Allocated && (d.Binding == nil || d.Binding.Observed != (d.Owner == OwnerNova)) ||
		d.Owner != OwnerNova && s.Known.Provider != s.Inventory.Provider ||
		s.Inventory.HeldBy(s.Known.Left) && s.Inventory.Generation > s.Known.LeftGeneration {
		return ""
	}
	recheck := s
	recheck.Question = AskRecheck
	o, _ := observations.observe(d, recheck)
	return joinReasons(
		unless(!o.Differs() || c.observation.Needs(RequestRecheck), "a re-check would find %+v", o),
		unless(c.observation.Differs() == c.observation.Needs(RequestRecheck), "it does more than request a re-check"))
}

func failureProvesNothing(c outcome) string {
	s := c.snapshot
	switch {
	case s.Answer == NotAsked || s.Answer == Answered || c.observation.Event == "":
		return ""
	case s.Answer == GenerationAhead:
		return unless(c.observation.Event == Invalidated || c.observation.Event == ObservedUnused,
			"a newer generation of the inventory has another consequence")
	}
	writes := []Question{AskClean, AskReturn, AskUnreserve, AskBind}
	return unless(slices.Contains(writes, s.Question) && c.next.Dirty, "it changes the state")
}

func hostIsBelieved(c outcome) string {
	s, d := c.snapshot, c.device
	if !slices.Contains(looks, s.Question) {
		return ""
	}
	if c.observation.Needs(Proceed) {
		return unless(s.Question == AskBindLook && s.Host == HostSame && !s.Duplicate && c.next.Claim != nil,
			"its host did not see it")
	}
	if c.observation.Event == Unclaim {
		return unless(s.Question == AskBindLook && (s.Host == HostUnreachable || s.Host == HostNotAsked),
			"the host has answered")
	}
	if s.Host == HostWritten && !s.Duplicate {
		offered := d.State == Available && (d.Claim == nil || !d.Claim.Burning) && !d.InMaintenance() ||
			s.Question == AskLook && d.Returning
		return joinReasons(
			unless(!offered || c.next.Dirty && c.next.State == PendingCleaning, "it stays offered, or is not cleaned"),
			unless(offered || c.observation.Event == "" || c.observation.Event == IdentityChanged && c.next.Dirty &&
				c.next.State != PendingCleaning,
				"it is cleaned by itself"),
			unless(s.Question != AskLook || !slices.Contains([]State{Manageable, Available}, d.State) ||
				c.next.Dirty, "it goes on to be offered"))
	}
	if c.observation.Event == Seen {
		return unless(s.Question == AskLook && s.Host == HostSame && !s.Duplicate, "its host did not see it")
	}
	if s.Question == AskLook && d.Returning {
		return unless(c.observation.Event == CleanFailed || c.observation.Needs(RetryLater) && s.Host != HostFailed,
			"it goes on to be offered")
	}
	if s.Host == HostFailed && !s.Duplicate || s.Question == AskLook && c.observation.Event == LookFailed {
		offered := d.Allocatable() || d.State == Available && d.Claim != nil && !d.Claim.Burning
		return unless(c.observation.Event == LookFailed && c.next.State == Error && c.next.Dirty ||
			c.observation.Event == "" && !offered, "it stays offered")
	}
	differs := s.Duplicate || s.Host == HostOther || s.Host == HostAbsent
	return joinReasons(
		unless(differs || s.Host == HostUnfit && d.State == Available || c.observation.Event == "",
			"the host's result does not justify an event"),
		unless(!differs && s.Host != HostUnfit || !c.next.Allocatable(), "it stays allocatable"),
		unless(!differs || !slices.Contains([]State{Unknown, Manageable, Allocated, Error}, d.State) ||
			c.next.Dirty, "it is not Dirty"))
}

func loweredWasSeen(c outcome) string {
	d := c.device
	return unless(c.observation.Event != Returned || d.InMaintenance() || !d.Unseen, "it is offered unseen")
}

func leftReturningIsReserved(c outcome) string {
	s, d := c.snapshot, c.device
	if s.Question != AskUnreserve || s.Answer == ProviderMissing || d.Returning || d.State == Available &&
		!d.InMaintenance() {
		return ""
	}
	return unless(c.observation.Needs(EnsureReserved), "it stays as the write left it")
}

func newerIsNotBelieved(c outcome) string {
	s, d, i := c.snapshot, c.device, c.snapshot.Inventory
	if s.Answer != Answered || i.Used > 0 || i.Provider != s.Known.Provider {
		return ""
	}
	switch {
	case s.Question == AskUnreserve && i.Generation > s.Known.Generation+1:
		return unless(c.observation.Event != Returned && !c.next.Allocatable(), "somebody may have used it after our write")
	case s.Question == AskReconcile && d.State == Available && d.Owner == OwnerNova && i.Generation > s.Known.Generation &&
		!d.InMaintenance():
		return unless(c.observation.Needs(RequestRecheck), "it is not re-checked")
	}
	return ""
}

func actsOnce(c outcome) string {
	s := c.snapshot
	repeated := append([]Question{AskClean, AskReturn, AskHost}, reads...)
	if c.observation.Event == "" || s.Answer != Answered && s.Question != AskHost ||
		!slices.Contains(repeated, s.Question) ||
		c.device.Owner != OwnerNova && s.Known.Provider != "" { // which no workflow knows of its own provider
		return ""
	}
	s.Known, _ = s.Known.After(c.device, s.Inventory, !slices.Contains(readOnly, s.Question))
	if s.Question != AskHost {
		// Once the event is applied, only re-checks read the same answer again.
		s.Question, s.Inventory.Reserved = AskRecheck, s.Inventory.Total
	}
	s.CleanStarted, s.CleanReserved = false, false
	if c.next.State == Unknown || c.next.State == Cleaning || c.next.State == Available {
		return "" // the device leaves these states by itself, so the next answer differs
	}
	o, why := observations.observe(c.next, s)
	if o.Event == "" {
		return ""
	}
	again, err := Next(c.next, o.EventOf(true))
	return unless(err == nil && visitedOf(again, "") == visitedOf(c.next, ""), "%s follows (%s)", o.Event, why)
}

// otherRecorded says that the record names an instance, and that neither the device's binding nor
// the instance that left explains it. It repeats no code of the table.
func otherRecorded(d Device, s Snapshot) bool {
	i := s.Inventory
	if s.Answer != Answered || d.Owner == OwnerNova || i.Witness != WitnessBound {
		return false
	}
	if d.Binding != nil && d.Binding.Instance == i.Tenant {
		return false
	}
	return d.State == Unknown || s.Known.Left != i.Tenant || i.Generation > s.Known.LeftGeneration &&
		s.Question != AskReconcile
}

func recordedUseIsSeen(c outcome) string {
	s, d := c.snapshot, c.device
	if !otherRecorded(d, s) || d.State == Retired {
		return ""
	}
	burns := d.Claim != nil && d.Claim.Burning
	switch s.Question {
	case AskBind, AskUnreserve: // their writes explain themselves, and a re-check follows
		return ""
	case AskReconcile:
		return unless(d.State == Unknown || c.observation.Needs(RequestRecheck), "it is not re-checked")
	case AskClean, AskReturn:
		if !d.BeingCleaned() && !d.Returning || (s.Question == AskReturn) != d.Returning {
			return unless(!c.observation.Needs(Proceed), "the operation goes on")
		}
	case AskResolve, AskImport:
		if d.State != Unknown {
			return ""
		}
	default:
		if d.Returning || burns {
			return ""
		}
	}
	if c.observation.Needs(StopClean) {
		return unless(c.observation.Event == "" && s.Inventory.User() == s.Inventory.Tenant, "the clean ends otherwise")
	}
	return unless(c.next.State == Allocated && c.next.Binding != nil && c.next.Binding.Instance == s.Inventory.Tenant &&
		c.next.Dirty,
		"it is not bound to the recorded instance")
}

func recordDecides(c outcome) string {
	s, d := c.snapshot, c.device
	if s.Question != AskResolve || d.State != Unknown || s.Answer != Answered || d.Owner == OwnerNova {
		return ""
	}
	cleaned := c.next.State == PendingCleaning
	return joinReasons(
		unless(!cleaned || s.Inventory.Witness == WitnessFree, "it is cleaned"),
		unless(s.Inventory.Witness != WitnessNone || d.Binding != nil || s.Inventory.Used > 0 || c.next.State == Unknown &&
			c.next.AwaitingManualClean,
			"it does not wait for the operator"))
}

func recordedAgain(c outcome) string {
	s, d := c.snapshot, c.device
	if s.Question != AskRecheck || s.Answer != Answered || d.State != Allocated || c.observation.Event != "" ||
		s.Inventory.Reserved < s.Inventory.Total {
		return ""
	}
	missing := d.Owner != OwnerNova && d.Binding != nil && s.Inventory.Witness != WitnessBound
	return unless(c.observation.Needs(EnsureReserved) == missing, "its instance is not recorded again, or without need")
}

// asks are the numbers of a question's rows. No other row holds for it.
func (m observer) asks(q Question) (rows []int) {
	for i := range m {
		if slices.Contains(m[i].Ask, q) {
			rows = append(rows, i)
		}
	}
	return rows
}

// oneObservationHolds checks that exactly one row decides each observation of a question.
func oneObservationHolds(m observer, q Question) error {
	rows := m.asks(q)
	return eachObserved([]Question{q}, func(c observed) error {
		held := -1
		for _, i := range rows {
			if !m[i].holds(c.device, c.snapshot) {
				continue
			}
			if held >= 0 {
				return fmt.Errorf("%v: rows %d (%s) and %d (%s) both hold", c, held, m[held].Why, i, m[i].Why)
			}
			held = i
		}
		if held < 0 {
			return fmt.Errorf("%v: no row holds", c)
		}
		return nil
	})
}

func TestEachObservationIsDecidedByOneRow(t *testing.T) {
	for _, q := range Questions() {
		t.Run(string(q), func(t *testing.T) { require.NoError(t, oneObservationHolds(observations, q)) })
	}
}

func TestObservationLaws(t *testing.T) {
	broken, err := counterExamples(observations, Questions(), observationTheorems())
	require.NoError(t, err)
	for i, l := range observationTheorems() {
		t.Run(l.name, func(t *testing.T) { require.Empty(t, broken[i]) })
	}
}

// counterExamples gives the first counter-example to each theorem, or "". A table that does
// not decide an observation is an error.
func counterExamples(m observer, questions []Question, all []observationTheorem) (broken []string, err error) {
	broken = make([]string, len(all))
	return broken, eachObserved(questions, func(c observed) error {
		r := m.evaluate(c)
		if r.why == undecided {
			return fmt.Errorf("%v: no row holds", c)
		}
		for i, l := range all {
			if broken[i] != "" {
				continue
			}
			if why := l.holds(r); why != "" {
				broken[i] = fmt.Sprintf("%v: %s", r, why)
			}
		}
		return nil
	})
}

// Each row decides at least one observation for each of its questions and each of its states.
func TestNoObservationRowIsDead(t *testing.T) {
	type use struct {
		row   int
		asked Question
		from  State
	}
	used := map[use]bool{}
	for _, q := range Questions() {
		rows := observations.asks(q)
		require.NoError(t, eachObserved([]Question{q}, func(c observed) error {
			for _, i := range rows {
				if observations[i].holds(c.device, c.snapshot) {
					used[use{i, q, c.device.State}] = true
				}
			}
			return nil
		}))
	}
	for i, r := range observations {
		for _, q := range r.Ask {
			for _, from := range r.states() {
				require.True(t, used[use{i, q, from}], "row %d (%s): it decides no observation of a device in state %s for "+
					"question %s", i, r.Why, from, q)
			}
		}
	}
}
