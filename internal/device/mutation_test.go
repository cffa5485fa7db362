package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutations breaks one rule after the other and checks that its theorem fails.
func TestMutations(t *testing.T) {
	for _, mutant := range mutations() {
		t.Run(mutant.name, func(t *testing.T) {
			t.Parallel()
			m := copyOf(table)
			mutant.change(m)
			i := slices.IndexFunc(proofs(), func(p proof) bool { return strings.Contains(p.name, mutant.refuted) })
			require.GreaterOrEqual(t, i, 0, "no proof has the name %q", mutant.refuted)
			require.Error(t, refute(m, proofs()[i]), "%q does not detect it", mutant.refuted)
		})
	}
}

// Without any row, guard or effect of the table, a line of the requirements or a theorem fails.
func TestEveryRowGuardAndEffectIsNeeded(t *testing.T) {
	lines := requirements(t)
	check := func(t *testing.T, m machine) {
		for _, line := range lines {
			if line.holds(m) != nil {
				return
			}
		}
		require.Error(t, refute(m, proofs()...), "nothing fails without it")
	}
	for i, r := range table {
		name := fmt.Sprintf("row %d %s from %v", i, r.On, r.states())
		t.Run(name+" itself", func(t *testing.T) { check(t, slices.Delete(copyOf(table), i, i+1)) })
		for j, c := range r.When {
			t.Run(name+" when "+c.name, func(t *testing.T) {
				m := copyOf(table)
				m[i].When = slices.Delete(m[i].When, j, j+1)
				check(t, m)
			})
		}
		for j, e := range r.Then {
			t.Run(name+" then "+e.name, func(t *testing.T) {
				m := copyOf(table)
				m[i].Then = slices.Delete(m[i].Then, j, j+1)
				check(t, m)
			})
		}
		for _, from := range r.From {
			if len(r.From) > 1 {
				t.Run(name+" also from "+from.String(), func(t *testing.T) {
					m := copyOf(table)
					m[i].From = slices.DeleteFunc(m[i].From, func(s State) bool { return s == from })
					check(t, m)
				})
			}
		}
	}
}

func copyOf(m machine) machine {
	c := slices.Clone(m)
	for i := range c {
		c[i].From, c[i].When, c[i].Then = slices.Clone(c[i].From), slices.Clone(c[i].When), slices.Clone(c[i].Then)
	}
	return c
}

// rule finds the rows for an event from a state; with more than one, those with all
// of these guards.
func (m machine) rule(from State, on EventKind, guards ...cond) []*row {
	var found []*row
	for i := range m {
		r := &m[i]
		has := func(c cond) bool {
			return slices.ContainsFunc(r.When, func(have cond) bool { return have.name == c.name })
		}
		if r.On == on && r.from(from) && !slices.ContainsFunc(guards, func(c cond) bool { return !has(c) }) {
			found = append(found, r)
		}
	}
	return found
}

// change is one edit of a table. It panics where it finds nothing to change.
type change func(machine)

func edit(from State, on EventKind, guards []cond, do func(*row) bool) change {
	return func(m machine) {
		done := false
		for _, r := range m.rule(from, on, guards...) {
			done = do(r) || done
		}
		if !done {
			panic(fmt.Sprintf("no such rule: %s from %s", on, from))
		}
	}
}

func dropGuard(from State, on EventKind, guard cond, of ...cond) change {
	return edit(from, on, append(of, guard), func(r *row) bool {
		r.When = slices.DeleteFunc(r.When, func(c cond) bool { return c.name == guard.name })
		return true
	})
}

func swapEffect(from State, on EventKind, was effect, is ...effect) change {
	return edit(from, on, nil, func(r *row) bool {
		i := slices.IndexFunc(r.Then, func(e effect) bool { return e.name == was.name })
		if i < 0 {
			return false
		}
		r.Then = slices.Replace(r.Then, i, i+1, is...)
		return true
	})
}

func dropEffect(from State, on EventKind, was effect) change { return swapEffect(from, on, was) }

func addEffect(from State, on EventKind, is effect) change {
	return edit(from, on, nil, func(r *row) bool { r.Then = append(r.Then, is); return true })
}

func leadTo(from State, on EventKind, to State, of ...cond) change {
	return edit(from, on, of, func(r *row) bool { r.To = to; return true })
}

// dropRow removes the state from every row for the event.
func dropRow(from State, on EventKind, of ...cond) change {
	return edit(from, on, of, func(r *row) bool {
		r.From = slices.DeleteFunc(slices.Clone(r.states()), func(s State) bool { return s == from })
		return true
	})
}

// dropEvent makes an event illegal everywhere.
func dropEvent(on EventKind) change {
	return func(m machine) {
		for i := range m {
			if m[i].On == on {
				m[i].From = []State{}
			}
		}
	}
}

func both(changes ...change) change {
	return func(m machine) {
		for _, do := range changes {
			do(m)
		}
	}
}

// everyGuard replaces the condition of a guard in all rows.
func everyGuard(was cond, asks func(Device, Event) bool) change {
	return func(m machine) {
		done := false
		for i := range m {
			for j := range m[i].When {
				if m[i].When[j].name == was.name {
					m[i].When[j].holds, done = asks, true
				}
			}
		}
		if !done {
			panic("no row has the guard " + was.name)
		}
	}
}

// everywhere replaces an effect in all rows.
func everywhere(was effect, does func(*Device, Event)) change {
	return func(m machine) {
		done := false
		for i := range m {
			for j := range m[i].Then {
				if m[i].Then[j].name == was.name {
					m[i].Then[j].apply, done = does, true
				}
			}
		}
		if !done {
			panic("no row has " + was.name)
		}
	}
}

// but applies an effect and then undoes a part of it.
func but(e effect, spoil func(before Device, d *Device)) func(*Device, Event) {
	return func(d *Device, event Event) {
		before := *d
		e.apply(d, event)
		spoil(before, d)
	}
}

var (
	clearDirt = effect{"mutant: not Dirty", func(d *Device, _ Event) { d.Dirty = false }}
)
