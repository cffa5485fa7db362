package device

import (
	"fmt"
	"strings"
	"time"
)

// Kind names an event.
type Kind string

// The events, by who causes them.
const (
	// The operator, or a program in the operator's name.
	Enroll      Kind = "enroll"
	Import      Kind = "import"
	Provide     Kind = "provide"
	Manage      Kind = "manage"
	Clean       Kind = "clean"       // the full clean, again or released from D7's hold
	CleanSteps  Kind = "clean_steps" // named steps; never clears Dirty
	Maintain    Kind = "maintain"
	MaintainOff Kind = "maintain_off"
	Retire      Kind = "retire"
	Lost        Kind = "lost" // the hardware is gone
	Forget      Kind = "forget"
	Replace     Kind = "replace"  // another piece of hardware took the device's place
	Move        Kind = "move"     // the piece has another place, and goes on there
	Override    Kind = "override" // D2

	// The tenant's side.
	ClaimEvent   Kind = "claim"
	Unclaim      Kind = "unclaim"
	ClaimExpired Kind = "claim_expired"
	BurnStarted  Kind = "burn_started"
	Burned       Kind = "burned"
	BurnFailed   Kind = "burn_failed" // failed, or its outcome is unknown
	LostRace     Kind = "lost_race"
	Rebuild      Kind = "rebuild"
	Unbind       Kind = "unbind"

	// The workflow's own looks and steps.
	ObservedInUse  Kind = "observed_in_use"
	ObservedUnused Kind = "observed_unused" // burned, and nobody uses it
	ObservedFree   Kind = "observed_free"   // neither burned nor used
	Released       Kind = "released"        // the observed consumer is gone
	Unowned        Kind = "unowned"         // allocated, but no binding is recorded (S2.69)
	Recalled       Kind = "recalled"        // an ended run tells who had it, or that nobody had
	Doubted        Kind = "doubted"         // host or inventory knows newer than the workflow
	Changed        Kind = "changed"         // another identity or layout
	Taken          Kind = "taken"
	Freed          Kind = "freed"
	CleanStarted   Kind = "clean_started"
	CleanDone      Kind = "clean_done" // a full plan
	StepsDone      Kind = "steps_done" // named steps
	CleanFailed    Kind = "clean_failed"
	WornOut        Kind = "worn_out"  // over the limits of wear (S0.32)
	Reclaimed      Kind = "reclaimed" // the reservation changed hands before it was lowered
	Returned       Kind = "returned"  // reserved = 0 was read back, or a hold keeps it
)

// Event is what happened, with what the machine must know of it.
type Event struct {
	Kind     Kind
	Instance string
	Request  string
	Tag      string
	Deadline time.Time
	// Automated is the setting BURNISH_AUTOMATED_CLEAN when it happened (S3.6).
	Automated bool
	// Vouched: the operator vouches and cleaning on enrolment is off.
	Vouched bool
}

// IllegalError says that an event is not legal in a device's state.
type IllegalError struct {
	State State
	Event Kind
	Why   string // what would have to hold, or where the event is legal
}

// Error names state, event and what would have been legal.
func (e *IllegalError) Error() string {
	return fmt.Sprintf("%s is not possible while the device is %s: %s", e.Event, e.State, e.Why)
}

// Next gives the device after the event. The device given is not changed. An event
// that the table does not allow gives an *IllegalError.
func Next(d Device, e Event) (Device, error) { return table.next(d, e) }

func (m machine) next(d Device, e Event) (Device, error) {
	if r := m.row(d, e); r != nil {
		return r.lead(d, e), nil
	}
	return d, m.illegal(d, e)
}

// row finds the one row that holds, or nil.
func (m machine) row(d Device, e Event) *row {
	for i := range m {
		if r := &m[i]; r.On == e.Kind && r.from(d.State) && r.failing(d, e) == "" {
			return r
		}
	}
	return nil
}

func (r *row) lead(d Device, e Event) Device {
	next := d.clone()
	if r.To != stay {
		next.State = r.To
	}
	for _, effect := range r.Then {
		effect.apply(&next, e)
	}
	return next
}

// illegal says what is missing, or in which states the event is legal.
func (m machine) illegal(d Device, e Event) *IllegalError {
	var near []string
	for _, r := range m {
		if r.On == e.Kind && r.from(d.State) {
			near = append(near, r.failing(d, e))
		}
	}
	why := "it needs " + strings.Join(near, ", or ")
	if len(near) == 0 {
		why = "it is legal when " + strings.Join(m.legalIn(e.Kind), ", ")
	}
	return &IllegalError{State: d.State, Event: e.Kind, Why: why}
}

func (m machine) legalIn(k Kind) []string {
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
