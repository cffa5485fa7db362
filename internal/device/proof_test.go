package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// proof is one theorem on a machine. holds gets the walks under all settings and
// gives a counter-example, or nil.
type proof struct {
	name  string
	holds func(machine, []*graph) error
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

// refutes gives the names of the proofs that fail for a machine, and the first
// counter-example.
func refutes(m machine) (names []string, first error) {
	graphs := walks(m)
	for _, p := range proofs() {
		if err := p.holds(m, graphs); err != nil {
			names = append(names, p.name)
			if first == nil {
				first = fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return names, first
}

func proofs() []proof {
	return []proof{
		{"at most one row holds", ofMachine(oneRowHolds)},
		{"no row is dead", noRowIsDead},
		{"every state is reached", everyStateIsReached},
		{"S2.48 no traps: allocatable again, in steps that Burnish and its operator can take", ofGraph(noTraps)},
		{"no traps: retire and forget end every device", ofGraph(everyDeviceCanEnd)},
		{"S2.40 allocatable is never Dirty", ofPlace(allocatableIsNotDirty)},
		{"S0.8 allocatable: a full plan completed since the last cause of dirt, or NotSanitised says that none did", ofPlace(allocatableIsAccountedFor)},
		{"F7 what had a tenant since is Dirty, whatever the state", ofPlace(tenantsMeanDirty)},
		{"F7 only a full plan and three edges clear Dirty", ofStep(onlyThreeEdges)},
		{"F7 named steps clear nothing", ofStep(namedStepsClearNothing)},
		{"S0.1 a one-time-use device comes back by a full plan or an override alone", ofPlace(oneTimeUseIsCleaned)},
		{"D2 D4 D7 NotSanitised begins at an edge and ends with a full plan", ofStep(notSanitisedIsKept)},
		{"S2.40 four events alone make a device allocatable", ofStep(waysIntoThePool)},
		{"S2.42 a claim excludes every other", ofGraph(claimExcludes)},
		{"S0.27 a binding comes from its own instance's burn", ofStep(bindingsComeFromBurns)},
		{"S0.6 a burn's failure does not lead to available", ofStep(failedBurnIsCleaned)},
		{"F6 nothing but its own unbind ends a binding of a self-owned device", ofStep(bindingEndsByUnbind)},
		{"F6 an observed tenancy ends when it is observed to", ofStep(observedBindingEnds)},
		{"S2.51 S4.10 a hold ends by whoever set it", ofStep(holdsEndByTheirOwn)},
		{"D7 automated cleaning off: held until the operator's clean", ofStep(heldUntilCleaned)},
		{"S2.66 a running clean ends by its own end, a use, a doubt or a loss", ofStep(cleanRuns)},
		{"S3.23 a failure is error and maintenance, and ends by the operator's act", ofStep(failureNeedsOperator)},
		{"S2.49 the marks say what the state says", ofPlace(marksFitTheState)},
	}
}

// ofPlace, ofStep, ofGraph and ofMachine make theorems of what must hold at each.

func ofPlace(check func(Device, past) string) func(machine, []*graph) error {
	return ofGraph(func(g *graph) error {
		for _, p := range g.places {
			if d := p.device(); d.State != Absent {
				if why := check(d, p.past); why != "" {
					return fmt.Errorf("%s, whose data are %s: %s", describe(d), p.past, why)
				}
			}
		}
		return nil
	})
}

func ofStep(check func(step) string) func(machine, []*graph) error {
	return ofGraph(func(g *graph) error {
		for _, s := range g.steps {
			if s.event.Kind == rediscovered {
				continue
			}
			if why := check(s); why != "" {
				return fmt.Errorf("%v: %s", s, why)
			}
		}
		return nil
	})
}

func ofGraph(check func(*graph) error) func(machine, []*graph) error {
	return func(_ machine, graphs []*graph) error {
		for _, g := range graphs {
			if err := check(g); err != nil {
				return err
			}
		}
		return nil
	}
}

func ofMachine(check func(machine) error) func(machine, []*graph) error {
	return func(m machine, _ []*graph) error { return check(m) }
}

// oneRowHolds looks at every pair of rows for one event under every mark that a
// device can have, reachable or not: both never hold.
func oneRowHolds(m machine) error {
	devices := product()
	for i, a := range m {
		for j, b := range m[:i] {
			if a.On != b.On {
				continue
			}
			common := slices.DeleteFunc(slices.Clone(a.states()), func(s State) bool { return !b.from(s) })
			if len(common) == 0 {
				continue
			}
			for _, e := range allEvents() {
				if e.Kind != a.On {
					continue
				}
				for _, d := range devices {
					d.State = common[0] // guards ask for marks; rows ask for the state
					if a.failing(d, e) == "" && b.failing(d, e) == "" {
						return fmt.Errorf("rows %d and %d both hold for %s on %s", j, i, describeEvent(e), describe(d))
					}
				}
			}
		}
	}
	return nil
}

// product is every combination of marks, in no state.
func product() []Device {
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
	flag(func(d *Device) { d.NotSanitised = true })
	flag(func(d *Device) { d.Returning = true })
	flag(func(d *Device) { d.NamedSteps = true })
	flag(func(d *Device) { d.Held = true })
	flag(func(d *Device) { d.LostRace = true })
	flag(func(d *Device) { d.OneTimeUse = true })
	flag(func(d *Device) { d.Cleanable = true })
	return all
}

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
				if r.On == s.event.Kind && r.from(s.before.State) && r.failing(s.before, s.event) == "" {
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

func everyStateIsReached(_ machine, graphs []*graph) error {
	for _, g := range graphs {
		for _, s := range States() {
			if !slices.ContainsFunc(g.places, func(p place) bool { return p.flat.State == s }) {
				return fmt.Errorf("%s is never reached by a device that is %s", s, describe(g.start))
			}
		}
	}
	return nil
}

// noTraps: whatever happened, the device can be offered again without an override,
// without giving it up, and without help from doubts or other systems. What nothing
// can erase is out of luck where it is one-time-use (D4): there an override counts.
func noTraps(g *graph) error {
	luck := []Kind{
		rediscovered, Import, Doubted, Changed, Taken, LostRace, Recalled, ObservedInUse, ObservedUnused, ObservedFree,
		Retire, Lost, Forget,
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
	for n, p := range g.places {
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
	for n, p := range g.places {
		switch {
		case !ok[n]:
			return fmt.Errorf("%s cannot be retired and forgotten", describe(p.device()))
		case !lost[n]:
			return fmt.Errorf("%s cannot be forgotten when its hardware is gone", describe(p.device()))
		}
	}
	return nil
}

func counted(errs ...string) string {
	return strings.Join(slices.DeleteFunc(errs, func(s string) bool { return s == "" }), "; ")
}

func must(holds bool, format string, args ...any) string {
	if holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
