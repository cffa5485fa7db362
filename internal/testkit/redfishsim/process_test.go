package redfishsim_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/redfishsim"
)

// What a test asks of a BMC is answered while the BMC restarts.
func TestABMCThatRestartsCanBeChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redfishsim")
	require.NoError(t, proc.Compile("", "burnish/internal/testkit/cmd/redfishsim", path))
	b, err := redfishsim.StartProcess(t.Context(), path, t.TempDir(), redfishsim.IDRAC,
		func(c *redfishsim.Config, _ *redfishsim.State) { c.Delays.BMCRestart, c.Delays.Defaults = time.Hour, 0 })
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Kill()) }()
	c := login(t, b)
	c.post("/redfish/v1/Managers/iDRAC.Embedded.1/Actions/Manager.ResetToDefaults",
		map[string]any{"ResetType": "PreserveNetworkAndUsers"}) // it restarts before it answers
	require.Error(t, c.get(c.system("")).Err)
	require.NoError(t, b.ClearFaults())
	require.NoError(t, b.Change(func(s *redfishsim.State) { s.Serial = "OTHER" }))
	state, err := b.State()
	require.NoError(t, err)
	require.Equal(t, "OTHER", state.Serial)
	require.Equal(t, 1, state.Defaults)
}
