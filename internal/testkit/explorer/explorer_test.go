package explorer

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// worlds bounds a test; BURNISH_EXPLORE_STATES sets another bound.
func worlds(t *testing.T, usual int) int {
	text := os.Getenv("BURNISH_EXPLORE_STATES")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// No order of events, with up to two faults, breaks a promise. What one fault can do comes
// first, and is explored completely: of two faults a bound on the worlds cuts off the longest stories.
//
// F4, F5, F10, F24, F26, F27, F28, F30, F31, F32, F36, F39, F42, F43
func TestExploreEverything(t *testing.T) {
	for name, nova := range map[string]bool{"owner self": false, "owner nova": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, b := range []Bounds{
				{Faults: 1, Binds: 2, Acts: 1}, {Faults: 1, Binds: 1, Acts: 3, KeepDatabase: true}, {Faults: 2, Binds: 2, Acts: 2},
			} {
				b.Worlds = worlds(t, 600_000)
				r := newExplorer(nova).explore(b)
				t.Logf("%+v: %d worlds, complete: %v", b, r.Worlds, r.Complete)
				if r.Found != nil {
					t.Fatal(r.Found)
				}
			}
		})
	}
}

// Without a fix the explorer finds what it mends.
//
// F24, F26, F27, F28, F30, F31, F32, F34, F36, F37, F39, F42, F43
func TestExploreWithoutAFix(t *testing.T) {
	for name, c := range map[string]struct {
		without without
		nova    bool
		broken  string
		within  Bounds
	}{
		"a bound tenant's disk is wiped: the workflow alone knows who has it": {without: without{witness: true}, broken: "the bytes of first, who has the device, are wiped", within: Bounds{Faults: 1, Binds: 2, Acts: 0}},
		"a stale result counts by its number":                                 {without: without{sameWork: true}, broken: "holds the bytes of", within: Bounds{Faults: 1, Binds: 2, Acts: 0}},
		"a swapped disk is offered without a look":                            {without: without{look: true}, broken: "holds the bytes of stranger", within: Bounds{Faults: 1, Binds: 0, Acts: 2}},
		"a swapped disk is bound without a look":                              {without: without{bindLook: true}, broken: "gets hardware that was swapped while it was offered", within: Bounds{Faults: 1, Binds: 1, Acts: 0}},
		"a swapped disk stays offered when the look fails":                    {without: without{lookFailed: true}, broken: "it stays offered with the bytes of stranger", within: Bounds{Faults: 2, Binds: 0, Acts: 0}},
		"used and freed between two readings":                                 {without: without{unexplained: true}, nova: true, broken: "it stays offered with the bytes of first", within: Bounds{Faults: 0, Binds: 1, Acts: 0}},
		"retired as lost while it is returned":                                {without: without{raise: true, sweeps: true}, broken: "it stays offered although it is retired", within: Bounds{Faults: 0, Binds: 1, Acts: 1}},
		"a former tenant's unbind during its own second burn":                 {without: without{unbind: true}, broken: "it stays bound to first", within: Bounds{Faults: 0, Binds: 2, Acts: 0}},
		"a disk is swapped after its verify was journaled":                    {without: without{inspection: true, oneHold: true}, broken: "holds the bytes of stranger", within: Bounds{Faults: 2, Binds: 1, Acts: 0}},
		"somebody wrote to what a killed verify had read": {
			without: without{oneHold: true}, broken: "holds the bytes of stranger", within: Bounds{Faults: 2, Binds: 1, Acts: 0},
		},
		"an abort after the task of the return was lost": {without: without{lostReturn: true, sweeps: true}, broken: "it stays offered although it is error", within: Bounds{Faults: 1, Binds: 1, Acts: 1, KeepDatabase: true}},
		"a former tenant's bind after the database was put back": {
			without: without{bound: true}, broken: "the bytes of first, who has the device, are wiped",
			within: Bounds{Faults: 1, Binds: 2, Acts: 0},
		},
		"the unbind of a tenant that the workflow does not know": {
			without: without{unbound: true}, broken: "it stays bound to first, whose unbind was refused",
			within: Bounds{Faults: 1, Binds: 1, Acts: 0},
		},
		"a burn that was lost with its task": {
			without: without{lostBurn: true}, broken: "it stays bound to first, whose bind was refused",
			within: Bounds{Faults: 1, Binds: 1, Acts: 0, KeepDatabase: true},
		},
		"a claim is given back whose burn was lost with its task": {
			without: without{unclaim: true}, broken: "it stays bound to first, whose unbind was answered",
			within: Bounds{Faults: 1, Binds: 1, Acts: 0, KeepDatabase: true},
		},
		"an operator's device whose workflow is behind": {
			without: without{hold: true}, nova: true, broken: "an operator holds the device, and it is wiped",
			within: Bounds{Faults: 1, Binds: 0, Acts: 2, KeepDatabase: true},
		},
		"an operator's device whose workflow was lost": {
			without: without{holdRecord: true}, broken: "an operator holds the device, and it is wiped",
			within: Bounds{Faults: 1, Binds: 0, Acts: 1, KeepDatabase: true},
		},
		"an operator's device of Nova's whose workflow was lost": {
			without: without{holdRecord: true}, nova: true, broken: "an operator holds the device, and it is wiped",
			within: Bounds{Faults: 1, Binds: 0, Acts: 1, KeepDatabase: true},
		},
		"a bind is refused after a look": {
			without: without{lookRefuses: true}, broken: "it stays bound to first, whose bind was refused",
			within: Bounds{Faults: 1, Binds: 1, Acts: 0, KeepDatabase: true},
		},
		"what was asked before an override explains what follows it": {
			without: without{compares: true}, nova: true, broken: "the device holds the bytes of first",
			within: Bounds{Faults: 1, Binds: 2, Acts: 2, KeepDatabase: true},
		},
		"a clean that waits for a discovery, of a database that was put back": {
			without: without{discovered: true}, broken: "the bytes of first, who has the device, are wiped",
			within: Bounds{Faults: 2, Binds: 1, Acts: 0},
		},
		"used and freed before it leaves the offer": {
			without: without{leaving: true}, nova: true, broken: "it stays offered with the bytes of first",
			within: Bounds{Faults: 1, Binds: 1, Acts: 1, KeepDatabase: true},
		},
		"what a refused request read explains a use": {
			without: without{compares: true}, nova: true, broken: "the device holds the bytes of first",
			within: Bounds{Faults: 1, Binds: 1, Acts: 3, KeepDatabase: true},
		},
		"a frozen attempt wakes while the next tenant has the device": {without: without{lease: true}, broken: "who has the device, are wiped", within: Bounds{Faults: 1, Binds: 2, Acts: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := c.within
			b.Worlds = 1_000_000
			e := newExplorer(c.nova)
			e.without = c.without
			r := e.explore(b)
			require.NotNil(t, r.Found, "nothing was found in %d worlds", r.Worlds)
			require.Contains(t, r.Found.Broken, c.broken, r.Found.String())
			t.Logf("%d worlds, %d moves", r.Worlds, len(r.Found.Story)-1)
		})
	}
}
