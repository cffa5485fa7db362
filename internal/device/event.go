package device

import (
	"fmt"
	"strings"
	"time"
)

// Kind names an event.
type EventKind string

// The events, by who causes them.
const (
	// The operator, or a program in the operator's name.
	Enroll      EventKind = "enroll"
	Import      EventKind = "import"
	Provide     EventKind = "provide"
	Manage      EventKind = "manage"
	Clean       EventKind = "clean"       // the full clean: again, or the awaited one (D7)
	CleanSteps  EventKind = "clean_steps" // named steps; never clears Dirty
	Maintain    EventKind = "maintain"
	MaintainOff EventKind = "maintain_off"
	Retire      EventKind = "retire"
	Lost        EventKind = "lost" // the hardware is gone
	Forget      EventKind = "forget"
	Replace     EventKind = "replace"  // other hardware is in the device's slot
	Move        EventKind = "move"     // the hardware is in another slot, and continues there
	Override    EventKind = "override" // D2
	Power       EventKind = "power"    // on, off or reset

	// The tenant's side.
	ClaimEvent   EventKind = "claim"
	Unclaim      EventKind = "unclaim"
	ClaimExpired EventKind = "claim_expired"
	BurnStarted  EventKind = "burn_started"
	Burned       EventKind = "burned"
	BurnFailed   EventKind = "burn_failed" // failed, or its outcome is unknown
	LostRace     EventKind = "lost_race"
	// BindRepeated: the instance of a binding that was read from the record sends its bind again.
	BindRepeated EventKind = "bind_repeated"
	Rebuild      EventKind = "rebuild"
	Unbind       EventKind = "unbind"

	// Observations, and the workflow's own steps.
	ObservedInUse  EventKind = "observed_in_use"
	ObservedUnused EventKind = "observed_unused" // reserved and unused
	ObservedFree   EventKind = "observed_free"   // neither reserved nor used
	ObservedHeld   EventKind = "observed_held"   // unused, and recorded that an operator holds it (F43)
	Released       EventKind = "released"        // the observed consumer is gone
	// the inventory records that the instance of an unknown device has left
	BindingEnded     EventKind = "binding_ended"
	BindingMissing   EventKind = "binding_missing"    // allocated, but no binding is recorded (S2.69)
	PreviousRunFound EventKind = "previous_run_found" // an ended run of the workflow says which instance had it, or none
	NoWitness        EventKind = "no_witness"         // nothing outside Temporal records who has an unknown device
	Invalidated      EventKind = "invalidated"        // host or inventory is newer than the workflow
	IdentityChanged  EventKind = "identity_changed"   // another identity or layout
	// its host saw the enrolled identity, right before the device is offered
	Seen              EventKind = "seen"
	LookFailed        EventKind = "look_failed" // its host cannot say that it is the enrolled device
	Taken             EventKind = "taken"
	Freed             EventKind = "freed"
	CleanStarted      EventKind = "clean_started"
	CleanDone         EventKind = "clean_done" // a full plan
	StepsDone         EventKind = "steps_done" // named steps
	CleanFailed       EventKind = "clean_failed"
	WearLimitExceeded EventKind = "wear_limit_exceeded" // over the limits of wear (S0.32)
	// before it was lowered somebody else wrote it, or may have used the device
	ReservationChanged EventKind = "reservation_changed"
	Returned           EventKind = "returned" // reserved = 0 was read back, or maintenance keeps it reserved
)

// Event is what happened, with what the table must know of it.
type Event struct {
	Kind     EventKind
	Instance string
	Request  string
	Tag      string
	Deadline time.Time
	// Automated is the setting BURNISH_AUTOMATED_CLEAN when it happened (S3.6).
	Automated bool
	// AssertedClean: the operator asserts that it is clean, and cleaning on enrollment is off.
	AssertedClean bool
	// Recorded (ObservedInUse): the inventory records that Burnish gave the device to this
	// instance (SAFETY F24), which ends whatever binding an older memory has.
	Recorded bool
	// Number (ObservedInUse) is the recorded number of that binding, 0 if there is none; Hold
	// (ObservedHeld) how an operator holds the device.
	Number int
	Hold   Hold
	// BoundSince (PreviousRunFound): the device's present binding began after that run had
	// ended, so that the run says nothing about it.
	BoundSince bool
	// Managed (ClaimEvent): the instance's own workflow claims the device. ByInstance (Unbind):
	// it ends the binding itself.
	Managed, ByInstance bool
}

// IllegalError says that an event is not legal in a device's state.
type IllegalError struct {
	State State
	Event EventKind
	why   func() string // what would have to hold, or where the event is legal
}

// Error names state, event and what would have been legal.
func (e *IllegalError) Error() string {
	return fmt.Sprintf("%s is not possible while the device is %s: %s", e.Event, e.State, e.why())
}

// Next gives the device after the event. The device given is not changed. An event
// that the table does not allow gives an *IllegalError.
func Next(d Device, e Event) (Device, error) { return table.next(d, e) }

// Allows says whether the table allows the event: it is Next for who asks nothing more.
func Allows(d Device, e Event) bool { return table.row(d, e) != nil }

func (m machine) next(d Device, e Event) (Device, error) {
	if r := m.row(d, e); r != nil {
		return r.apply(d, e), nil
	}
	return d, m.illegal(d, e)
}

// row finds the one row that holds, or nil.
func (m machine) row(d Device, e Event) *row {
	for i := range m {
		if r := &m[i]; r.On == e.Kind && r.from(d.State) && r.unmet(d, e) == "" {
			return r
		}
	}
	return nil
}

func (r *row) apply(d Device, e Event) Device {
	next := d.clone()
	if r.To != noChange {
		next.State = r.To
	}
	for _, effect := range r.Then {
		effect.apply(&next, e)
	}
	return next
}

func (m machine) illegal(d Device, e Event) *IllegalError {
	return &IllegalError{State: d.State, Event: e.Kind, why: func() string { return m.why(d, e) }}
}

// why says what is missing, or in which states the event is legal.
func (m machine) why(d Device, e Event) string {
	var near []string
	for _, r := range m {
		if r.On == e.Kind && r.from(d.State) {
			near = append(near, r.unmet(d, e))
		}
	}
	if len(near) == 0 {
		return "it is legal when " + strings.Join(m.legalIn(e.Kind), ", ")
	}
	return "it needs " + strings.Join(near, ", or ")
}

func (m machine) legalIn(k EventKind) []string {
	var states []string
	seen := map[State]bool{}
	for _, row := range m {
		if row.On != k {
			continue
		}
		for _, s := range row.states() {
			if !seen[s] {
				seen[s] = true
				states = append(states, s.String())
			}
		}
	}
	return states
}

func (d Device) clone() Device {
	if d.Claim != nil {
		c := *d.Claim
		d.Claim = &c
	}
	if d.Binding != nil {
		b := *d.Binding
		d.Binding = &b
	}
	return d
}

// String gives the state's name; the absent device's is a dash.
func (s State) String() string {
	if s == Absent {
		return "–"
	}
	return string(s)
}
