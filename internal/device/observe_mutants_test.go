package device

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// example is one line of testdata/observations.txt.
type example struct {
	seen
	want string
}

func examples(t *testing.T) []example {
	t.Helper()
	text, err := os.ReadFile("testdata/observations.txt")
	require.NoError(t, err)
	var all []example
	have := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		require.Len(t, cells, 4, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		d, err := read(cells[1])
		require.NoError(t, err, line)
		s, err := readSnapshot(cells[0], cells[2])
		require.NoError(t, err, line)
		e := example{seen{d, s}, cells[3]}
		require.False(t, have[e.String()], "twice: %s", line)
		have[e.String()] = true
		all = append(all, e)
	}
	return all
}

func (e example) holds(m observer) error {
	o, why := m.observe(e.device, e.snapshot)
	if got := describeObservation(o); got != e.want {
		return fmt.Errorf("%v: want %s, got %s (%s)", e.seen, e.want, got, why)
	}
	return nil
}

// TestObservationsByExample holds the second table against its examples, line by line;
// each row has one.
func TestObservationsByExample(t *testing.T) {
	decides := map[*observation]bool{}
	for _, e := range examples(t) {
		require.NoError(t, e.holds(observations))
		decides[observations.row(e.device, e.snapshot)] = true
	}
	for i := range observations {
		require.True(t, decides[&observations[i]], "no example for row %d: %s", i, observations[i].Why)
	}
}

// TestEachPartOfAnObservationIsHeld takes out each row, condition, event and follow-up of
// the second table, and insists that an example, or the proof that one row decides, misses
// it.
func TestEachPartOfAnObservationIsHeld(t *testing.T) {
	lines := examples(t)
	noticed := func(m observer, asked []Question) error {
		for _, e := range lines {
			if err := e.holds(m); err != nil {
				return err
			}
		}
		return oneObservationHolds(m, asked)
	}
	for i, r := range observations {
		check := func(what string, change func(*observation)) {
			t.Run(fmt.Sprintf("row %d %v %s", i, r.Ask, what), func(t *testing.T) {
				t.Parallel()
				m := slices.Clone(observations)
				m[i].Ask, m[i].When, m[i].Then = slices.Clone(r.Ask), slices.Clone(r.When), slices.Clone(r.Then)
				change(&m[i])
				require.Error(t, noticed(m, r.Ask), "it is not missed")
			})
		}
		check("itself", func(r *observation) { r.Ask = nil })
		for j, f := range r.When {
			check("when "+f.name, func(r *observation) { r.When = slices.Delete(r.When, j, j+1) })
		}
		for j, f := range r.Then {
			check("then "+f.name, func(r *observation) { r.Then = slices.Delete(r.Then, j, j+1) })
			if f.when != nil {
				check("then always "+f.name, func(r *observation) { r.Then[j].when = nil })
			}
		}
		if r.Event != "" {
			check("event", func(r *observation) { r.Event = "" })
		}
	}
}

// TestObservationMutations breaks one rule of safety after the other and insists that the
// law that is there for it fails.
func TestObservationMutations(t *testing.T) {
	find := func(q Question, from State, event EventKind) int {
		i := slices.IndexFunc(observations, func(r observation) bool {
			return slices.Contains(r.Ask, q) && slices.Contains(r.states(), from) && r.Event == event
		})
		require.GreaterOrEqual(t, i, 0, "no row for %s of %s device with %q", q, from, event)
		return i
	}
	because := func(why Reason) int {
		i := slices.IndexFunc(observations, func(r observation) bool { return r.Why == why })
		require.GreaterOrEqual(t, i, 0, "no row because %s", why)
		return i
	}
	does := func(event EventKind) func(*observation) { return func(r *observation) { r.Event = event } }
	when := func(f ...fact) func(*observation) { return func(r *observation) { r.When = f } }
	idle := func(r *observation) { r.Then = nil }
	all, broken := laws(), map[string]bool{}
	for name, tt := range map[string]struct {
		row    int
		change func(*observation)
		law    string
	}{
		"used = 0 ends a binding of ours":               {find(AskRecheck, Allocated, Released), when(unused, credible, of(bound)), "an event that an observation gives is legal"},
		"an unknown device forgets its binding":         {find(AskResolve, Unknown, ObservedUnused), does(PreviousRunFound), "no observation ends a binding"},
		"a retired device is moved":                     {find(AskRecheck, Retired, ""), does(ObservedUnused), "a retired device"},
		"a lowered reservation is not read back":        {find(AskUnreserve, Cleaning, Returned), when(of(returning), of(notInMaintenance)), "only the read-back"},
		"a write is repeated whatever the generation":   {because("the write did not take effect"), when(of(returning), answered), "a write that lowers"},
		"a clean goes on although the device is in use": {because("the device is reserved and unused"), when(of(notReturn), answered), "an operation goes on"},
		"reconciliation moves the state":                {find(AskReconcile, Available, ""), does(ObservedUnused), "a hint never"},
		"a generation proves nothing":                   {find(AskRecheck, Unknown, Invalidated), does(""), "a generation that nothing explains"},
		"a re-created provider is believed":             {find(AskRecheck, Available, ObservedUnused), does(""), "a provider that was re-created"},
		"a use is ignored":                              {find(AskRecheck, Manageable, ObservedInUse), does(""), "a use is never ignored"},
		"a bound device stays schedulable":              {because("the inventory offers the device although it is bound: it is reserved again"), idle, "what is not allocatable"},
		"reconciliation misses a reserved device":       {because("the device is reserved although it is available"), idle, "reconciliation sees"},
		"a failed read makes a device unknown":          {because("the inventory did not answer"), does(Invalidated), "a call that failed"},
		"a silent host changes the identity":            {because("the host says nothing of the identity"), does(IdentityChanged), "only the host's positive result"},
		"a reservation that is missing counts as a use": {because("the inventory offers the device although it is not allocatable: it is reserved again"), does(ObservedInUse), "an answer that came twice"},
	} {
		i := slices.IndexFunc(all, func(l law) bool { return strings.HasPrefix(l.name, tt.law) })
		require.GreaterOrEqual(t, i, 0, "no law begins with %q", tt.law)
		broken[all[i].name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := slices.Clone(observations)
			tt.change(&m[tt.row])
			// The changed row decides first, where more than one holds.
			m[0], m[tt.row] = m[tt.row], m[0]
			why, err := breaks(m, m[0].Ask, all[i:i+1])
			require.NoError(t, err)
			require.NotEmpty(t, why[0], "%q does not notice", all[i].name)
		})
	}
	for _, l := range all {
		if l.name != "the reason is one line" && l.name != "the witness decides nothing yet" {
			require.True(t, broken[l.name], "no mutation for: %s", l.name)
		}
	}
}
