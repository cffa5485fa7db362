package guest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A card behind a port has the bus whose number its port gets: the firmware gives them in the order
// of the ports' slots, whatever the order of the cards.
func TestCardsBehindPortsHaveBusesOfTheirOwn(t *testing.T) {
	c := Config{
		Controllers: []Controller{{Serial: "DRIVE"}},
		Cards:       []Card{{Port: true}, {}, {Port: true}, {Address: "0000:00:02.0"}},
	}
	for range 2 { // a second boot changes nothing
		require.NoError(t, c.assignAddresses())
		require.Equal(t, "0000:00:05.0", c.Controllers[0].Address)
		for i, want := range []string{"0000:01:00.0", "0000:00:07.0", "0000:02:00.0", "0000:00:02.0"} {
			require.Equal(t, want, c.Cards[i].Address)
		}
		require.Equal(t, []string{"0000:00:06.0", "0000:00:08.0"}, []string{c.Cards[0].port, c.Cards[2].port})
	}
}
