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

// Without what the environment does for it the explorer finds a broken promise. What the lifecycle does is taken out of
// its source by the mutations of this test.
//
// F24, F26, F32, F37, F43
func TestExploreWithoutAFix(t *testing.T) {
	for name, c := range map[string]struct {
		without without
		nova    bool
		broken  string
		within  Bounds
	}{
		"a bound tenant's disk is wiped: the workflow alone knows who has it": {
			without: without{witness: true}, broken: "the bytes of first, who has the device, are wiped",
			within: Bounds{Faults: 1, Binds: 2},
		},
		"a disk is swapped after its verify was journaled": {
			without: without{inspection: true, oneHold: true}, broken: "holds the bytes of stranger",
			within: Bounds{Faults: 2, Binds: 1},
		},
		"somebody wrote to what a killed verify had read": {
			without: without{oneHold: true}, broken: "holds the bytes of stranger", within: Bounds{Faults: 2, Binds: 1},
		},
		"an operator's device whose workflow was lost": {
			without: without{holdRecord: true}, broken: "an operator holds the device, and it is wiped",
			within: Bounds{Faults: 1, Acts: 1, KeepDatabase: true},
		},
		"an operator's device of Nova's whose workflow was lost": {
			without: without{holdRecord: true}, nova: true, broken: "an operator holds the device, and it is wiped",
			within: Bounds{Faults: 1, Acts: 1, KeepDatabase: true},
		},
		"a frozen attempt wakes while the next tenant has the device": {
			without: without{lease: true}, broken: "who has the device, are wiped", within: Bounds{Faults: 1, Binds: 2},
		},
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
