package redfishsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// An answer that is held comes when the faults are cleared; its request had its effect before.
func TestAnAnswerIsHeld(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.IDRAC)
	c := login(t, bmc)
	bmc.Inject(redfishsim.Fault{Number: bmc.Count() + 1, Kind: redfishsim.HoldAfter})
	answered := make(chan reply, 1)
	go func() { answered <- c.post(c.system("Bios/Actions/Bios.ResetBios"), map[string]any{}) }()
	c.await(func(s redfishsim.State) bool { return s.BIOS.PendingReset }, "the effect")
	require.Empty(t, answered)
	bmc.ClearFaults()
	r := <-answered
	require.NoError(t, r.err)
	require.Equal(t, 200, r.status)
}
