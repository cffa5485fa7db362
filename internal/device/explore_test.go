package device

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// This file explores a table: every device that any order of events can produce from an absent
// one, under every setting. proof_test.go proves its theorems of all these devices, for the
// real table and for broken copies of it.

// kinds are all kinds of events.
func kinds() []EventKind {
	return []EventKind{
		Enroll, Import, Provide, Manage, Clean, CleanSteps, Maintain, MaintainOff, Retire, Lost, Forget, Replace, Move,
		Override, Power,
		ClaimEvent, Unclaim, ClaimExpired, BurnStarted, Burned, BurnFailed, LostRace, BindRepeated, Rebuild, Unbind,
		ObservedInUse, ObservedUnused, ObservedFree, ObservedHeld, Released, BindingMissing, BindingEnded, PreviousRunFound,
		NoWitness, Invalidated, IdentityChanged, Seen, LookFailed, Taken, Freed,
		CleanStarted, CleanDone, StepsDone, CleanFailed, WearLimitExceeded, ReservationChanged, Returned,
	}
}

// Two instances are enough: a guard only compares two instances.
const own, other = "own", "other"

// allEvents are all events under all settings.
func allEvents() []Event {
	var all []Event
	for _, kind := range kinds() {
		for _, instance := range []string{"", own, other} {
			for _, automated := range []bool{false, true} {
				for _, vouched := range []bool{false, true} {
					for _, since := range []bool{false, true} {
						e := Event{Kind: kind, Instance: instance, Automated: automated, AssertedClean: vouched, BoundSince: since}
						all = append(all, e)
						e.Recorded = true
						all = append(all, e)
						e.Recorded, e.Hold = false, HoldMaintenance
						all = append(all, e)
					}
				}
			}
		}
	}
	return all
}

// alphabet leaves out of allEvents the settings that make no difference, as
// TestSettingsThatMakeNoDifference proves.
var alphabet = sync.OnceValue(func() []Event {
	return slices.DeleteFunc(allEvents(), func(e Event) bool {
		return e.Automated && !uses(e.Kind, "automated") || e.AssertedClean && !uses(e.Kind, "asserted-clean") ||
			e.BoundSince && !uses(e.Kind, "bound-since") ||
			e.Hold != HoldNone && !uses(e.Kind, "hold") ||
			e.Recorded && (!uses(e.Kind, "recorded") || e.Instance == "") ||
			e.Instance != "" && !uses(e.Kind, "instance") ||
			// A claim and an unbind always name an instance.
			e.Instance == "" && uses(e.Kind, "instance") && e.Kind != ObservedInUse && e.Kind != PreviousRunFound
	})
})

func uses(k EventKind, setting string) bool { return slices.Contains(settingsUsed[setting], k) }

var settingsUsed = map[string][]EventKind{
	"automated":      {ObservedUnused, ObservedFree, Freed, BurnFailed, BindingMissing, BindingEnded, Unbind, Released},
	"asserted-clean": {Enroll},
	"bound-since":    {PreviousRunFound},
	"recorded":       {ObservedInUse},
	"hold":           {ObservedHeld},
	"instance":       {ClaimEvent, Unclaim, BurnStarted, BindRepeated, Rebuild, Unbind, ObservedInUse, PreviousRunFound},
}

// history is what happened to a device's data according to the events alone, without the
// table's own Dirty.
type history string

const (
	unrecorded       history = "not recorded"                    // imported: the inventory's record decides (D8)
	operatorAsserted history = "asserted clean"                  // by the operator, at enrollment
	used             history = "a tenant's or unknown"           // something set Dirty, and nothing cleared it since
	sanitized        history = "erased and verified"             // a full plan completed since
	uncleaned        history = "returned without a clean"        // by one of the three exemptions
	overridden       history = "returned by an override"         // D2
	foundFree        history = "free by the inventory's records" // imported, and found free (D8)
)

// after gives the history after an event that the table accepted.
func (p history) after(d Device, e Event) history {
	switch e.Kind {
	case Enroll:
		if e.AssertedClean && p == unrecorded {
			return operatorAsserted
		}
		return used
	case BurnStarted, Burned, ObservedInUse, ObservedUnused, ObservedHeld, BindingMissing, NoWitness, Invalidated,
		IdentityChanged, LookFailed, Taken, Freed, LostRace, ReservationChanged,
		Retire, Lost, Replace:
		return used
	case PreviousRunFound:
		if e.Instance != "" && (d.Binding == nil || !e.BoundSince) {
			return used
		}
	case CleanFailed, WearLimitExceeded:
		if d.State == Cleaning { // partly erased, or not returned: the data are unknown
			return used
		}
	case ObservedFree:
		if d.Binding != nil {
			return used
		}
		if p == unrecorded {
			return foundFree
		}
	case CleanDone:
		if !d.NamedSteps {
			return sanitized
		}
	case Override:
		return overridden
	default:
		if exemptionOf(d, e) != "" {
			return uncleaned
		}
	}
	return p
}

// exemptionOf names the rule by which an event may clear Dirty without a full plan.
func exemptionOf(d Device, e Event) string {
	ends := e.Kind == Unbind || e.Kind == Released
	switch {
	case e.Kind == Override && d.State == Error:
		return "D2"
	case (ends || e.Kind == Provide && d.Dirty) && !d.Cleanable && !d.OneTimeUse:
		return "D4"
	case ends && !e.Automated && !d.OneTimeUse:
		return "D7"
	}
	return ""
}

// visited is one device that can exist, and its history. Pointers are replaced by values so
// that two of them can be compared; counters are left out.
type visited struct {
	flat    Device
	claim   Claim
	binding Binding
	claims  bool
	binds   bool
	past    history
}

func visitedOf(d Device, p history) visited {
	pl := visited{flat: d, past: p}
	if d.Claim != nil {
		pl.claim, pl.claims = *d.Claim, true
	}
	if d.Binding != nil {
		pl.binding, pl.binds = *d.Binding, true
		pl.binding.Number = 1
	}
	pl.flat.Claim, pl.flat.Binding, pl.flat.Bindings = nil, nil, 0
	pl.flat.Unit.Number = min(d.Unit.Number, 1)
	return pl
}

func (p visited) device() Device {
	d := p.flat
	if p.claims {
		c := p.claim
		d.Claim = &c
	}
	if p.binds {
		b := p.binding
		d.Binding, d.Bindings = &b, 1
	}
	return d
}

// step is one event that the table accepted.
type step struct {
	from, to int
	event    Event
	before   Device
	after    Device
	was, is  history
}

func (s step) String() string {
	return fmt.Sprintf("%s (%s) on %s leads to %s (%s)", describeEvent(s.event), s.was, describe(s.before),
		describe(s.after), s.is)
}

// settings are the fields that never change after enrollment.
func settings() []Device {
	var all []Device
	for _, otu := range []bool{false, true} {
		for _, owner := range []Owner{OwnerSelf, OwnerNova} {
			all = append(all, Device{OneTimeUse: otu, Owner: owner})
		}
	}
	return all
}

// rediscovered is not an event of the table: discovery found an erase path, or found that
// there is none any more. It may happen at any time.
const rediscovered EventKind = "rediscovered"

// graph is all that a table can make of one absent device.
type graph struct {
	machine machine
	start   Device
	visited []visited
	steps   []step
	refused []refusal
}

// refusal is an event, by its index in alphabet, that the table refused.
type refusal struct{ from, event int }

func (g *graph) each(do func(Device, Event) error) error {
	for _, r := range g.refused {
		if err := do(g.visited[r.from].device(), alphabet()[r.event]); err != nil {
			return err
		}
	}
	return nil
}

// explored are the graphs of the real table, one for each setting, made once for all tests.
var explored = sync.OnceValue(func() []*graph { return walks(table) })

// explore applies all events to an absent device and its successors, breadth first.
func explore(m machine, start Device) *graph {
	g := &graph{machine: m, start: start}
	number := map[visited]int{}
	find := func(p visited) int {
		if n, ok := number[p]; ok {
			return n
		}
		number[p] = len(g.visited)
		g.visited = append(g.visited, p)
		return len(g.visited) - 1
	}
	find(visitedOf(start, unrecorded))
	rows := map[EventKind]machine{}
	for _, r := range m {
		rows[r.On] = append(rows[r.On], r)
	}
	candidates := make([]machine, len(alphabet()))
	for i, e := range alphabet() {
		candidates[i] = rows[e.Kind]
	}
	for n := 0; n < len(g.visited); n++ {
		before := g.visited[n].device()
		found := before
		found.Cleanable = !before.Cleanable
		p := g.visited[n].past
		g.steps = append(g.steps, step{n, find(visitedOf(found, p)), Event{Kind: rediscovered}, before, found, p, p})
		for i, e := range alphabet() {
			r := candidates[i].row(before, e)
			if r == nil {
				g.refused = append(g.refused, refusal{n, i})
				continue
			}
			after, is := r.apply(before, e), p.after(before, e)
			g.steps = append(g.steps, step{n, find(visitedOf(after, is)), e, before, after, p, is})
		}
	}
	return g
}

// reaching gives the devices from which a good one can be reached by the allowed steps.
func (g *graph) reaching(good func(Device) bool, allowed func(step) bool) []bool {
	back := make([][]int, len(g.visited))
	for _, s := range g.steps {
		if allowed(s) {
			back[s.to] = append(back[s.to], s.from)
		}
	}
	var queue []int
	seen := make([]bool, len(g.visited))
	for n, p := range g.visited {
		if good(p.device()) {
			seen[n] = true
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, from := range back[n] {
			if !seen[from] {
				seen[from] = true
				queue = append(queue, from)
			}
		}
	}
	return seen
}

// reachingFrom gives the devices that the allowed steps reach from the ones that begin.
func (g *graph) reachingFrom(begins func(visited) bool, allowed func(step) bool) []bool {
	seen := make([]bool, len(g.visited))
	for n, p := range g.visited {
		seen[n] = begins(p)
	}
	for more := true; more; {
		more = false
		for _, s := range g.steps {
			if seen[s.from] && !seen[s.to] && allowed(s) {
				seen[s.to], more = true, true
			}
		}
	}
	return seen
}

// words are the words for a device's fields, in the order in which describe writes them.
var words = []struct {
	name string
	has  func(Device) bool
	give func(*Device)
}{
	{"dirty", func(d Device) bool { return d.Dirty }, func(d *Device) { d.Dirty = true }},
	{"not-sanitized", func(d Device) bool { return d.NotSanitized }, func(d *Device) { d.NotSanitized = true }},
	{"returning", func(d Device) bool { return d.Returning }, func(d *Device) { d.Returning = true }},
	{"named-steps", func(d Device) bool { return d.NamedSteps }, func(d *Device) { d.NamedSteps = true }},
	{"awaiting-manual-clean", func(d Device) bool { return d.AwaitingManualClean }, func(d *Device) { d.AwaitingManualClean = true }},
	{"unseen", func(d Device) bool { return d.Unseen }, func(d *Device) { d.Unseen = true }},
	{"lost-race", func(d Device) bool { return d.LostRace }, func(d *Device) { d.LostRace = true }},
	{"maintaining", func(d Device) bool { return d.Status == Maintaining }, func(d *Device) { d.Status = Maintaining }},
	{"one-time-use", func(d Device) bool { return d.OneTimeUse }, func(d *Device) { d.OneTimeUse = true }},
	{"nova", func(d Device) bool { return d.Owner == OwnerNova }, func(d *Device) { d.Owner = OwnerNova }},
	{"cleanable", func(d Device) bool { return d.Cleanable }, func(d *Device) { d.Cleanable = true }},
}

// describe writes a device as read reads it.
func describe(d Device) string {
	all := []string{string(d.State)}
	if d.State == Absent {
		all[0] = "absent"
	}
	for _, w := range words {
		if w.has(d) {
			all = append(all, w.name)
		}
	}
	if d.Maintenance != MaintenanceOff {
		all = append(all, "maintenance:"+string(d.Maintenance))
	}
	if c := d.Claim; c != nil {
		word := "claimed:"
		if c.Burning {
			word = "burning:"
		}
		all = append(all, word+c.Instance)
	}
	if b := d.Binding; b != nil {
		word := "bound:"
		switch {
		case b.Observed && b.Held:
			word = "held:"
		case b.Observed:
			word = "observed:"
		}
		all = append(all, word+b.Instance)
	}
	return strings.Join(all, " ")
}

// read makes a device from the words in which describe writes it.
func read(text string) (Device, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return Device{}, fmt.Errorf("no device in %q", text)
	}
	d := Device{State: State(fields[0]), Status: Enabled, Owner: OwnerSelf, Unit: Unit{Number: 1}}
	if fields[0] == "absent" {
		d.State, d.Status, d.Unit = Absent, "", Unit{}
	} else if !slices.Contains(States(), d.State) {
		return d, fmt.Errorf("%q is not a state", fields[0])
	}
next:
	for _, field := range fields[1:] {
		for _, w := range words {
			if w.name == field {
				w.give(&d)
				continue next
			}
		}
		name, value, _ := strings.Cut(field, ":")
		switch name {
		case "maintenance":
			d.Maintenance = Maintenance(value)
		case "claimed", "burning":
			d.Claim = &Claim{Instance: value, Burning: name == "burning"}
		case "bound", "observed", "held":
			d.Binding, d.Bindings = &Binding{Number: 1, Instance: value, Observed: name != "bound", Held: name == "held"}, 1
		default:
			return d, fmt.Errorf("%q is not a word for a device", field)
		}
	}
	return d, nil
}

func describeEvent(e Event) string {
	text := string(e.Kind)
	if e.Instance != "" {
		text += " by:" + e.Instance
	}
	if uses(e.Kind, "automated") && !e.Automated {
		text += " manual"
	}
	if e.AssertedClean {
		text += " asserted-clean"
	}
	if e.BoundSince {
		text += " bound-since"
	}
	if e.Recorded {
		text += " recorded"
	}
	if e.Hold != HoldNone {
		text += " in-maintenance"
	}
	return text
}

// readEvent makes an event from the words in which describeEvent writes it.
func readEvent(text string) (Event, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 || !slices.Contains(kinds(), EventKind(fields[0])) {
		return Event{}, fmt.Errorf("%q is not an event", text)
	}
	e := Event{Kind: EventKind(fields[0]), Automated: true}
	for _, field := range fields[1:] {
		instance, named := strings.CutPrefix(field, "by:")
		switch {
		case named:
			e.Instance = instance
		case field == "manual":
			e.Automated = false
		case field == "asserted-clean":
			e.AssertedClean = true
		case field == "bound-since":
			e.BoundSince = true
		case field == "recorded":
			e.Recorded = true
		case field == "in-maintenance":
			e.Hold = HoldMaintenance
		default:
			return e, fmt.Errorf("%q is not a word for an event", field)
		}
	}
	return e, nil
}
