package oneview

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
)

// serverIs sets the power of the first server.
func serverIs(power string) oneviewsim.Option {
	return func(_ *oneviewsim.Config, s *oneviewsim.State) { s.Hardware[0].Power = power }
}

// S4.19, S4.20, S4.22, S4.25
func TestAProfileIsAppliedReadAndRemoved(t *testing.T) {
	for _, form := range []oneviewsim.Form{oneviewsim.LocationOnly, oneviewsim.BodyOnly, oneviewsim.Both,
		oneviewsim.Absolute} {
		for _, power := range []string{oneviewsim.On, oneviewsim.Off} {
			t.Run(string(form)+" "+power, func(t *testing.T) {
				r := newRig(t, serverIs(power), func(c *oneviewsim.Config, _ *oneviewsim.State) { c.TaskForm = form })
				found, err := r.read()
				require.NoError(t, err)
				require.Equal(t, Found{Ownership: device.PoolFree, Power: power, Tag: r.tag()}, found)

				found, err = r.apply()
				require.NoError(t, err)
				all := r.sim.Profiles(r.sim.Username)
				require.Len(t, all, 1)
				require.Equal(t, Found{Ownership: device.PoolOurs, Profile: all[0].URI(), Power: "Off", Tag: r.tag()}, found)
				require.Equal(t, deviceUUID, all[0].Name)
				require.Equal(t, all[0].URI(), r.hardware().Profile)
				require.Equal(t, oneviewsim.ProfileApplied, r.hardware().State)

				writes := r.sim.Counts().Writes
				again, err := r.apply()
				require.NoError(t, err)
				require.Equal(t, found, again)
				require.Equal(t, writes, r.sim.Counts().Writes)

				require.NoError(t, r.sim.SetPower(r.server.Hardware, oneviewsim.On))
				found, err = r.remove()
				require.NoError(t, err)
				require.Equal(t, Found{Ownership: device.PoolFree, Power: "Off", Tag: r.tag()}, found)
				require.Empty(t, r.sim.Profiles(r.sim.Username))
				writes = r.sim.Counts().Writes
				_, err = r.remove()
				require.NoError(t, err)
				require.Equal(t, writes, r.sim.Counts().Writes)
				require.Empty(t, r.sim.Violations())
				require.Equal(t, 1, r.sim.Counts().Logins)
			})
		}
	}
}
