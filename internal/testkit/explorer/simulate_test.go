package explorer

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Devices live through turnovers with faults at random: no promise is broken, and none waits in silence.
// BURNISH_SIMULATE_TURNOVERS sets how many, BURNISH_SIMULATE_SEED the first seed.
func TestSimulate(t *testing.T) {
	number := func(name string, usual int) int {
		text := os.Getenv(name)
		if text == "" {
			return usual
		}
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	const devices = 100
	turnovers := number("BURNISH_SIMULATE_TURNOVERS", 10_000) / devices
	seed := number("BURNISH_SIMULATE_SEED", 1)
	for _, kind := range []Kind{Self, Nova, Shared} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			all, turnovers := 0, turnovers
			if kind == Shared { // in each turnover others come and go, and polls with them: 20 times the moves
				turnovers = max(turnovers/10, 1)
			}
			for i := range devices / 2 {
				s := Simulation{Kind: kind, Seed: uint64(seed + i), Turnovers: turnovers}
				moves, found := s.Run()
				if all += moves; found != nil {
					t.Errorf("%s: %s", s, found) // the other seeds may find something else
				}
			}
			t.Logf("%d turnovers in %d moves", devices/2*turnovers, all)
		})
	}
}
