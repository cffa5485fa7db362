package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proof is one theorem on a table: on its rows, on what can be reached under one setting, or
// under all settings together. It gives a counter-example, or nil.
type proof struct {
	name   string
	rows   func(machine) error
	walk   func(*graph) error
	walked func(machine, []*graph) error
}

func (p proof) holds(m machine, graphs []*graph) error {
	switch {
	case p.rows != nil:
		return p.rows(m)
	case p.walked != nil:
		return p.walked(m, graphs)
	}
	for _, g := range graphs {
		if err := p.walk(g); err != nil {
			return err
		}
	}
	return nil
}

// TestProofs proves each theorem of the table; TestMutations shows that each can fail.
func TestProofs(t *testing.T) {
	graphs := explored()
	for _, p := range proofs() {
		t.Run(p.name, func(t *testing.T) { require.NoError(t, p.holds(table, graphs)) })
	}
}

func walks(m machine) []*graph {
	var all []*graph
	for _, start := range settings() {
		all = append(all, explore(m, start))
	}
	return all
}

// refute gives a counter-example to one of the theorems on a table, or nil.
func refute(m machine, all ...proof) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the table panics: %v", r)
		}
	}()
	var graphs []*graph
	for _, start := range settings() {
		graphs = append(graphs, explore(m, start))
		for _, p := range all {
			if p.walk != nil {
				if err := p.walk(graphs[len(graphs)-1]); err != nil {
					return err // one counter-example is enough
				}
			}
		}
	}
	for _, p := range all {
		if err := p.holds(m, graphs); err != nil {
			return err
		}
	}
	return nil
}

func proofs() []proof {
	return []proof{
		{name: "at most one row holds", rows: oneRowHolds},
		{name: "no row is dead", walked: noRowIsDead},
		{name: "every state is reached", walk: everyStateIsReached},
		{name: "an allowed event of operator, tenant or workflow is never refused", walk: allowedIsNeverRefused},
		{name: "no traps: allocatable again, by Burnish and its operator alone", walk: noTraps(false)},
		// D2
		{name: "no traps with overrides: without another erase path too", walk: noTraps(true)},
		{name: "no traps: retire and forget end every device", walk: everyDeviceCanEnd},
		// S2.40
		{name: "allocatable is never Dirty", walk: ofPlace(allocatableIsNotDirty)},
		// F27
		{name: "allocatable is never unseen", walk: ofPlace(allocatableIsSeen)},
		// F27
		{name: "only a full plan and its host's look end unseen", walk: ofStep(onlyALookEndsUnseen)},
		// F27
		{name: "a device that leaves the offer clean is unseen", walk: ofStep(leavingIsUnseen)},
		// S0.8
		{name: "allocatable means that a full plan ended since the last use, or NotSanitized is set", walk: ofPlace(allocatableIsAccountedFor)},
		// F7
		{name: "a device that was used since its last clean is Dirty in every state", walk: ofPlace(tenantsMeanDirty)},
		// F7
		{name: "only a full plan and three exemptions clear Dirty", walk: ofStep(onlyThreeExemptions)},
		// S0.8, D2
		{name: "the safety cut: a tenant's data are offered after a full plan, an override, or by D4 or D7 alone", walked: cutIsComplete},
		// F7
		{name: "named steps clear nothing", walk: ofStep(namedStepsClearNothing)},
		// S0.1
		{name: "a one-time-use device returns to the offer only by a full plan or an override", walk: ofPlace(oneTimeUseIsCleaned)},
		{name: "no operator returns without a clean what others took", walk: ofStep(takenIsNotReturned)},
		// D2, D4, D7
		{name: "NotSanitized is set by an exemption and cleared by a full plan", walk: ofStep(notSanitizedIsKept)},
		// S2.40
		{name: "four events alone make a device allocatable", walk: ofStep(fourWaysIntoThePool)},
		{name: "a claim excludes every other request", walk: claimExcludes},
		// S0.27
		{name: "a binding comes from its own instance's burn", walk: ofStep(bindingsComeFromBurns)},
		// S0.6
		{name: "a failed burn does not lead to available", walk: ofStep(failedBurnIsCleaned)},
		// F6
		{name: "only its own unbind ends a binding of a self-owned device", walk: ofStep(bindingEndsByUnbind)},
		// F6
		{name: "an observed binding ends when its end is observed", walk: ofStep(observedBindingEnds)},
		{name: "maintenance ends by the system that began it", walk: ofStep(holdsEndByTheirOwn)},
		// F43
		{name: "what an operator holds is neither cleaned nor offered by itself", walk: ofStep(heldByOperator)},
		// D7, F24, D16
		{name: "automated cleaning off, or no record: the device waits for the operator's clean", walk: ofStep(heldUntilCleaned)},
		{name: "a running clean ends by its own end, a use, an invalidation or a loss", walk: ofStep(cleanRuns)},
		{name: "a failed clean leads to error and maintenance, until the operator acts", walk: ofStep(failureNeedsOperator)},
		{name: "the fields fit the state", walk: ofPlace(marksFitTheState)},
	}
}

// ofPlace and ofStep make a theorem of a check on each device or step.
func ofPlace(check func(Device, history) string) func(*graph) error {
	return func(g *graph) error {
		for _, p := range g.visited {
			if d := p.device(); d.State != Absent {
				if why := check(d, p.past); why != "" {
					return fmt.Errorf("%s, with data %s: %s", describe(d), p.past, why)
				}
			}
		}
		return nil
	}
}

func ofStep(check func(step) string) func(*graph) error {
	return func(g *graph) error {
		for _, s := range g.steps {
			if s.event.Kind == rediscovered {
				continue
			}
			if why := check(s); why != "" {
				return fmt.Errorf("%v: %s", s, why)
			}
		}
		return nil
	}
}

// oneRowHolds checks that no two rows for one event both hold, for any fields that a device
// can have, reachable or not.
func oneRowHolds(m machine) error {
	for i, a := range m {
		for j, b := range m[:i] {
			if a.On != b.On {
				continue
			}
			common := slices.DeleteFunc(slices.Clone(a.states()), func(s State) bool { return !b.from(s) })
			if len(common) == 0 {
				continue
			}
			for _, e := range alphabet() {
				if e.Kind != a.On {
					continue
				}
				for _, d := range product() {
					d.State = common[0] // guards do not check the state; rows do
					if a.unmet(d, e) == "" && b.unmet(d, e) == "" {
						return fmt.Errorf("rows %d and %d both hold for %s on %s", j, i, describeEvent(e), describe(d))
					}
				}
			}
		}
	}
	return nil
}

// product is every combination of fields, without a state.
var product = sync.OnceValue(func() []Device {
	all := []Device{{}}
	vary := func(variants ...func(*Device)) {
		var more []Device
		for _, d := range all {
			for _, variant := range variants {
				next := d
				variant(&next)
				more = append(more, next)
			}
		}
		all = more
	}
	flag := func(set func(*Device)) { vary(func(*Device) {}, set) }
	vary(func(d *Device) { d.Status = Enabled }, func(d *Device) { d.Status = Maintaining })
	vary(func(d *Device) { d.Owner = OwnerSelf }, func(d *Device) { d.Owner = OwnerNova })
	vary(func(*Device) {},
		func(d *Device) { d.Maintenance = MaintenanceOperator }, func(d *Device) { d.Maintenance = MaintenanceCleanFailed },
		func(d *Device) { d.Maintenance = MaintenanceTaken }, func(d *Device) { d.Maintenance = MaintenanceQuarantined })
	vary(func(*Device) {},
		func(d *Device) { d.Claim = &Claim{Instance: own} },
		func(d *Device) { d.Claim = &Claim{Instance: own, Burning: true} })
	vary(func(*Device) {},
		func(d *Device) { d.Binding = &Binding{Instance: own} },
		func(d *Device) { d.Binding = &Binding{Instance: own, Observed: true} },
		func(d *Device) { d.Binding = &Binding{Instance: own, Observed: true, Held: true} })
	flag(func(d *Device) { d.Dirty = true })
	flag(func(d *Device) { d.NotSanitized = true })
	flag(func(d *Device) { d.Returning = true })
	flag(func(d *Device) { d.NamedSteps = true })
	flag(func(d *Device) { d.AwaitingManualClean = true })
	flag(func(d *Device) { d.LostRace = true })
	flag(func(d *Device) { d.Unseen = true })
	flag(func(d *Device) { d.OneTimeUse = true })
	flag(func(d *Device) { d.Cleanable = true })
	return all
})

// noRowIsDead checks that each row applies to some reachable device in each of its states.
func noRowIsDead(m machine, graphs []*graph) error {
	type use struct {
		row  int
		from State
	}
	used := map[use]bool{}
	for _, g := range graphs {
		for _, s := range g.steps {
			for i, r := range m {
				if r.On == s.event.Kind && r.from(s.before.State) && r.unmet(s.before, s.event) == "" {
					used[use{i, s.before.State}] = true
				}
			}
		}
	}
	for i, r := range m {
		for _, from := range r.states() {
			if !used[use{i, from}] {
				return fmt.Errorf("row %d: no device in state %s is changed by %s", i, from, r.On)
			}
		}
	}
	return nil
}

func everyStateIsReached(g *graph) error {
	for _, s := range States() {
		if !slices.ContainsFunc(g.visited, func(p visited) bool { return p.flat.State == s }) {
			return fmt.Errorf("%s is never reached from %s", s, describe(g.start))
		}
	}
	return nil
}

// noTraps checks that each device can become allocatable again by Burnish and its operators
// alone: by what they can do in this build, without retiring it, and without events of other
// systems. With overrides nothing else is needed. Without them (BURNISH_API_KEY is unset, or
// there is no second operator) a one-time-use device that nothing can erase needs a policy or a
// host that can erase it, so that the next discovery finds a way (D4).
func noTraps(overrides bool) func(*graph) error {
	notCounted := []EventKind{
		Import, Invalidated, IdentityChanged, LookFailed, Taken, LostRace, PreviousRunFound, ObservedInUse, ObservedUnused,
		ObservedFree, ObservedHeld,
		Retire, Lost, Forget, Replace, Move,
	}
	return func(g *graph) error {
		ok := g.reaching(Device.Allocatable, func(s step) bool {
			switch {
			case s.before.State == Unknown && (s.event.Kind == ObservedInUse || s.event.Kind == ObservedUnused):
				return true // reading the inventory always ends with one of these, or with no witness
			case s.event.Kind == rediscovered:
				return !overrides && s.before.OneTimeUse && !s.before.Cleanable
			case s.event.Kind == CleanDone:
				return s.before.Cleanable
			case s.event.Kind == Override:
				return overrides
			}
			return !slices.Contains(notCounted, s.event.Kind)
		})
		for n, p := range g.visited {
			if d := p.device(); !ok[n] && d.State != Retired && d.State != Absent {
				return fmt.Errorf("%s never becomes allocatable", describe(d))
			}
		}
		return nil
	}
}

// cut are the edges that alone lead from a device that holds a tenant's data to one that is
// offered: a full plan, and the three exemptions.
var cut = map[string]func(step) bool{
	"a full plan":                    func(s step) bool { return s.event.Kind == CleanDone },
	"an override (D2)":               func(s step) bool { return s.event.Kind == Override },
	"no erase path (D4)":             func(s step) bool { return exemptionOf(s.before, s.event) == "D4" },
	"automated cleaning is off (D7)": func(s step) bool { return exemptionOf(s.before, s.event) == "D7" },
}

// cutIsComplete checks that no device that holds a tenant's data is offered if the edges of the
// cut are taken away, and that each edge of it is needed under some setting.
func cutIsComplete(_ machine, graphs []*graph) error {
	used := func(p visited) bool { return p.past == used }
	for _, without := range append([]string{""}, slices.Sorted(maps.Keys(cut))...) {
		var found error
		for _, g := range graphs {
			ok := g.reachingFrom(used, func(s step) bool {
				for name, is := range cut {
					if name != without && is(s) {
						return false
					}
				}
				return true
			})
			for n, p := range g.visited {
				if d := p.device(); ok[n] && d.Allocatable() {
					found = fmt.Errorf("%s is reached with a tenant's data", describe(d))
				}
			}
		}
		switch {
		case without == "" && found != nil:
			return found
		case without != "" && found == nil:
			return fmt.Errorf("the edge %q is not needed", without)
		}
	}
	return nil
}

func everyDeviceCanEnd(g *graph) error {
	ok := g.reaching(func(d Device) bool { return d.State == Absent }, func(s step) bool { return s.event.Kind != Lost })
	lost := g.reaching(func(d Device) bool { return d.State == Absent }, func(s step) bool {
		return s.event.Kind == Lost || s.event.Kind == Forget
	})
	for n, p := range g.visited {
		switch {
		case !ok[n]:
			return fmt.Errorf("%s cannot be retired and forgotten", describe(p.device()))
		case !lost[n]:
			return fmt.Errorf("%s cannot be forgotten when its hardware is gone", describe(p.device()))
		}
	}
	return nil
}

func joinReasons(errs ...string) string {
	return strings.Join(slices.DeleteFunc(errs, func(s string) bool { return s == "" }), "; ")
}

func unless(holds bool, format string, args ...any) string {
	if holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
