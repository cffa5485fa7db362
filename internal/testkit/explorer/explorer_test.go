package explorer

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// searches looks for a broken promise within the bounds; BURNISH_EXPLORE_STATES sets how many worlds it visits at most.
// It says whether it has visited all.
func searches(t *testing.T, kind Kind, b Bounds, usual int) (all bool) {
	b.Worlds = usual
	if text := os.Getenv("BURNISH_EXPLORE_STATES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		b.Worlds = n
	}
	told := b
	b.Progress = func(worlds, frontier, moves int) {
		t.Logf("%d worlds in %d moves, %d of them to be looked at", worlds, moves, frontier)
	}
	r := newExplorer(kind).explore(b)
	t.Logf("%+v: %d worlds, complete: %v", told, r.Worlds, r.Complete)
	if r.Found != nil {
		t.Fatal(r.Found)
	}
	return r.Complete
}

// No order of events, with up to two faults, breaks a promise. A bound on the worlds cuts off the longest stories.
//
// F4, F5, F10, F24, F26, F27, F28, F30, F31, F34, F36, F39, F42, F43
func TestExploreEverything(t *testing.T) {
	for _, kind := range []Kind{Self, Nova, Shared} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			for _, b := range []Bounds{
				{Faults: 1, Binds: 2, Acts: 1, Others: 1}, {Faults: 1, Binds: 1, Acts: 3, KeepDatabase: true},
				{Faults: 2, Binds: 2, Acts: 2, Others: 2},
			} {
				searches(t, kind, b, 30_000)
			}
		})
	}
}

// What few events can do is explored, each within its own bounds: all of one fault and a binding, and of two faults
// where the database is not put back; the rest of these in `make soak`.
//
// F5, F24, F26, F27, F28, F30, F34, F36, F39, F42, F43
func TestExploreWithin(t *testing.T) {
	for name, c := range map[string]struct {
		within Bounds
		kind   Kind
		all    bool // nothing is left out
	}{
		"no fault, two binds":          {within: Bounds{Binds: 2}},
		"no fault, a bind and an act":  {within: Bounds{Binds: 1, Acts: 1, Alone: true}},
		"a fault, a bind":              {within: Bounds{Faults: 1, Binds: 1}, all: true},
		"a fault, a bind of Nova's":    {within: Bounds{Faults: 1, Binds: 1}, kind: Nova, all: true},
		"shared: a fault, a bind":      {within: Bounds{Faults: 1, Binds: 1}, kind: Shared, all: true},
		"a fault, two binds":           {within: Bounds{Faults: 1, Binds: 2}},
		"a fault, two binds of Nova's": {within: Bounds{Faults: 1, Binds: 2}, kind: Nova},
		"a fault, two acts":            {within: Bounds{Faults: 1, Acts: 2}},
		"a fault, two acts, Nova's":    {within: Bounds{Faults: 1, Acts: 2, KeepDatabase: true}, kind: Nova},
		"a fault, a bind and an act":   {within: Bounds{Faults: 1, Binds: 1, Acts: 1, KeepDatabase: true, Alone: true}},
		"a fault, a bind and an act of Nova's": {
			within: Bounds{Faults: 1, Binds: 1, Acts: 1, KeepDatabase: true}, kind: Nova,
		},
		"two faults, a bind": {within: Bounds{Faults: 2, Binds: 1, KeepDatabase: true}, all: true},
		"two faults, a bind of Nova's": {
			within: Bounds{Faults: 2, Binds: 1, KeepDatabase: true}, kind: Nova, all: true,
		},
		"shared: two faults, a bind": {
			within: Bounds{Faults: 2, Binds: 1, KeepDatabase: true}, kind: Shared, all: true,
		},
		"two faults, a bind, put back":           {within: Bounds{Faults: 2, Binds: 1}},
		"two faults, a bind of Nova's, put back": {within: Bounds{Faults: 2, Binds: 1}, kind: Nova},
		"shared: a bind, others":                 {within: Bounds{Binds: 1, Others: 2}, kind: Shared},
		"shared: a fault, a bind, others": {
			within: Bounds{Faults: 1, Binds: 1, Others: 1, KeepDatabase: true}, kind: Shared,
		},
		"shared: an act, others":   {within: Bounds{Acts: 1, Others: 1, Binds: 1}, kind: Shared},
		"shared: two acts, others": {within: Bounds{Acts: 2, Others: 1}, kind: Shared},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usual := 40_000
			if c.all {
				usual = 200_000
			}
			require.True(t, searches(t, c.kind, c.within, usual) || !c.all, "it was cut off")
		})
	}
}
