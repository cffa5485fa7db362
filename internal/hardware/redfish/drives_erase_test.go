package redfish

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// settled is what must hold after a step that has returned, whatever it has returned.
func (s *stepper) requireNoHarm() {
	s.t.Helper()
	state := s.bmc.State()
	require.Empty(s.t, state.Bricked)
	require.Empty(s.t, state.Interrupted, "a reset has ended an erase")
	require.Empty(s.t, s.bmc.WritesWithoutIdentity())
}

func TestEachDriveIsErased(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		note, err := s.run("erase_drives", nil)
		require.NoError(t, err)
		require.Empty(t, s.bmc.TenantData())
		require.Contains(t, note, "by the controller's word: 5 drives erased")
		require.Contains(t, note, "PHLN123400001P6AGN CryptographicErase")
		note, err = s.run("verify", nil)
		require.NoError(t, err)
		require.Contains(t, note, "by the controller's word: 5 drives erased")
		s.requireNoHarm()
		state := s.bmc.State()
		for _, d := range state.Drives() {
			require.Equal(t, 1, d.Erases, d.Serial)
		}
		require.Empty(t, s.bmc.OpenSessions())
	})
}
