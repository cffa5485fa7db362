package redfish

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// settled is what must hold after a step that has returned, whatever it has returned.
func (s *stepper) requireNoHarm() {
	s.t.Helper()
	state := s.bmc.State()
	require.Empty(s.t, state.Bricked)
	require.Empty(s.t, state.Interrupted, "a reset has ended an erase")
	for _, w := range s.bmc.WritesWithoutIdentity() {
		// One that failed before the BMC looked at its session has none.
		require.Empty(s.t, w.Session, "%s %s was sent without a look at the serial", w.Method, w.Path)
	}
}

// Each request fails before and after it was carried out, the BMC restarts at each, and the
// worker is killed at each: in the end each drive was erased, again
// only where the answer was lost, and never while it was being erased.
func TestNoDriveIsErasedBlindlyTwice(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		t.Parallel()
		build := func(t *testing.T) *stepper {
			return newStepper(t, p, twoDrives, func(c *redfishsim.Config, _ *redfishsim.State) {
				c.Delays.Erase = min(c.Delays.Erase, 100*time.Millisecond) // on its own clock, it is seen in time
			})
		}
		ordeal(t, build, "erase_drives", nil, func(t *testing.T, s *stepper, err error) {
			state := s.bmc.State()
			for _, d := range state.Drives() {
				require.LessOrEqual(t, d.Erases, 2, d.Serial)
			}
			require.NoError(t, err)
			require.Empty(t, s.bmc.TenantData())
			_, err = s.run("verify", nil)
			require.NoError(t, err)
		}, true)
	})
}

// twoDrives is a server that is read with few requests.
func twoDrives(c *redfishsim.Config, s *redfishsim.State) {
	s.Storages[0].Drives = s.Storages[0].Drives[:1]
	s.Storages = s.Storages[:2]
	d := &c.Delays
	defer func() {
		if c.EraseForm == redfishsim.NoTask {
			d.Erase = time.Second // it must be seen while it runs
		}
	}()
	d.Erase, d.BMCRestart, d.Write = 15*time.Millisecond, 15*time.Millisecond, 15*time.Millisecond
	d.PowerOn, d.PowerOff, d.Verify, d.POST = 2*time.Millisecond, 2*time.Millisecond, 3*time.Millisecond,
		5*time.Millisecond
}
