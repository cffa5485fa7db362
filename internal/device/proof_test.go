package device

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proof is one theorem on a machine: of its rows, of what can be reached under one
// setting, or under all settings together. It gives a counter-example, or nil.
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

// TestProofs proves each theorem of the machine; TestMutations shows of each that it
// can fail.
func TestProofs(t *testing.T) {
	graphs := walks(table)
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

// refute gives a counter-example to one of the theorems on a machine, or nil.
func refute(m machine, all ...proof) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the machine panics: %v", r)
		}
	}()
	var graphs []*graph
	for _, start := range settings() {
		graphs = append(graphs, explore(m, start))
		for _, p := range all {
			if p.walk != nil {
				if err := p.walk(graphs[len(graphs)-1]); err != nil {
					return err // the other settings would take long, and tell no more
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
		{name: "S3.20 what operator, tenant and workflow may do is never refused", walk: allowedIsNeverRefused},
		{name: "S2.48 no traps: allocatable again, in steps that Burnish and its operator can take", walk: noTraps},
		{name: "no traps: retire and forget end every device", walk: everyDeviceCanEnd},
		{name: "S2.40 allocatable is never Dirty", walk: ofPlace(allocatableIsNotDirty)},
		{name: "S0.8 allocatable: a full plan completed since the last cause of dirt, or NotSanitized says that none did", walk: ofPlace(allocatableIsAccountedFor)},
		{name: "F7 what had a tenant since is Dirty, whatever the state", walk: ofPlace(tenantsMeanDirty)},
		{name: "F7 only a full plan and three edges clear Dirty", walk: ofStep(onlyThreeExemptions)},
		{name: "F7 named steps clear nothing", walk: ofStep(namedStepsClearNothing)},
		{name: "S0.1 a one-time-use device comes back by a full plan or an override alone", walk: ofPlace(oneTimeUseIsCleaned)},
		{name: "D2 D4 D7 NotSanitized begins at an edge and ends with a full plan", walk: ofStep(notSanitizedIsKept)},
		{name: "S2.40 four events alone make a device allocatable", walk: ofStep(fourWaysIntoThePool)},
		{name: "S2.42 a claim excludes every other", walk: claimExcludes},
		{name: "S0.27 a binding comes from its own instance's burn", walk: ofStep(bindingsComeFromBurns)},
		{name: "S0.6 a burn's failure does not lead to available", walk: ofStep(failedBurnIsCleaned)},
		{name: "F6 nothing but its own unbind ends a binding of a self-owned device", walk: ofStep(bindingEndsByUnbind)},
		{name: "F6 an observed tenancy ends when it is observed to", walk: ofStep(observedBindingEnds)},
		{name: "S2.51 S4.10 a hold ends by whoever set it", walk: ofStep(holdsEndByTheirOwn)},
		{name: "D7 automated cleaning off: held until the operator's clean", walk: ofStep(heldUntilCleaned)},
		{name: "S2.66 a running clean ends by its own end, a use, a doubt or a loss", walk: ofStep(cleanRuns)},
		{name: "S3.23 a failure is error and maintenance, and ends by the operator's act", walk: ofStep(failureNeedsOperator)},
		{name: "S2.49 the marks say what the state says", walk: ofPlace(marksFitTheState)},
	}
}

// ofPlace and ofStep make theorems of what must hold at each.
func ofPlace(check func(Device, history) string) func(*graph) error {
	return func(g *graph) error {
		for _, p := range g.visited {
			if d := p.device(); d.State != Absent {
				if why := check(d, p.past); why != "" {
					return fmt.Errorf("%s, whose data are %s: %s", describe(d), p.past, why)
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

// oneRowHolds looks at every pair of rows for one event under every mark that a
// device can have, reachable or not: both never hold.
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
					d.State = common[0] // guards ask for marks; rows ask for the state
					if a.unmet(d, e) == "" && b.unmet(d, e) == "" {
						return fmt.Errorf("rows %d and %d both hold for %s on %s", j, i, describeEvent(e), describe(d))
					}
				}
			}
		}
	}
	return nil
}

// product is every combination of marks, in no state.
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
		func(d *Device) { d.Claim = &Claim{Instance: own} }, func(d *Device) { d.Claim = &Claim{Instance: own, Burning: true} })
	vary(func(*Device) {},
		func(d *Device) { d.Binding = &Binding{Instance: own} }, func(d *Device) { d.Binding = &Binding{Instance: own, Observed: true} })
	flag(func(d *Device) { d.Dirty = true })
	flag(func(d *Device) { d.NotSanitized = true })
	flag(func(d *Device) { d.Returning = true })
	flag(func(d *Device) { d.NamedSteps = true })
	flag(func(d *Device) { d.AwaitingManualClean = true })
	flag(func(d *Device) { d.LostRace = true })
	flag(func(d *Device) { d.OneTimeUse = true })
	flag(func(d *Device) { d.Cleanable = true })
	return all
})

// noRowIsDead: each row is used by some device that can be, from each of its states.
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
				return fmt.Errorf("row %d: no device that is %s ever meets %s", i, from, r.On)
			}
		}
	}
	return nil
}

func everyStateIsReached(g *graph) error {
	for _, s := range States() {
		if !slices.ContainsFunc(g.visited, func(p visited) bool { return p.flat.State == s }) {
			return fmt.Errorf("%s is never reached by a device that is %s", s, describe(g.start))
		}
	}
	return nil
}

// noTraps: whatever happened, the device can be offered again without an override,
// without giving it up, and without help from doubts or other systems. What nothing
// can erase is out of luck where it is one-time-use (D4): there an override counts.
func noTraps(g *graph) error {
	luck := []EventKind{
		rediscovered, Import, Invalidated, IdentityChanged, Taken, LostRace, PreviousRunFound, ObservedInUse, ObservedUnused, ObservedFree,
		Retire, Lost, Forget, Replace, Move,
	}
	ok := g.reaching(Device.Allocatable, func(s step) bool {
		switch {
		case s.before.State == Unknown && (s.event.Kind == ObservedInUse || s.event.Kind == ObservedUnused):
			return true // the one way out of unknown: a look always has an answer
		case s.event.Kind == Override:
			return s.before.OneTimeUse && !s.before.Cleanable
		case s.event.Kind == CleanDone:
			return s.before.Cleanable
		}
		return !slices.Contains(luck, s.event.Kind)
	})
	for n, p := range g.visited {
		if d := p.device(); !ok[n] && d.State != Retired && d.State != Absent {
			return fmt.Errorf("%s never becomes allocatable", describe(d))
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
