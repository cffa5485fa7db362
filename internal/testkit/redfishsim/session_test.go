package redfishsim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

func TestTheSessionTableFillsAndEmpties(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		bmc := redfishsim.Start(t, p, func(c *redfishsim.Config, _ *redfishsim.State) { c.MaxSessions = 2 })
		first := login(t, bmc)
		login(t, bmc)
		full := connect(t, bmc)
		r := full.post(full.config.SessionsPath, map[string]any{"UserName": bmc.Username, "Password": bmc.Password})
		require.Equal(t, 503, r.status)
		want := "SessionLimitExceeded"
		if p == redfishsim.IDRAC {
			want = "RAC0218"
		}
		require.Contains(t, r.text(), want)
		require.Empty(t, r.header.Get("X-Auth-Token"))

		at := strings.TrimPrefix(first.location, bmc.URL)
		require.Equal(t, p == redfishsim.ILO, at != first.location, "only an iLO names its host")
		require.Less(t, first.do("DELETE", at, "", nil, nil).status, 300)
		require.Equal(t, 401, first.get("/redfish/v1/Systems").status)
		require.Len(t, bmc.OpenSessions(), 1)
		require.Equal(t, 200, login(t, bmc).get("/redfish/v1/Systems").status)
		require.Zero(t, bmc.Changes(), "a login changes nothing of the server")
		require.Empty(t, bmc.Writes())
	})
}

func TestSessionsDifferAsBMCsDo(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		bmc := redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) { c.SessionIdle = 20 * time.Millisecond })
		c := login(t, bmc)
		require.Eventually(t, func() bool { return len(bmc.OpenSessions()) == 0 }, time.Minute, 5*time.Millisecond)
		require.Equal(t, 401, c.get("/redfish/v1/Systems").status)
	})
	t.Run("without Location", func(t *testing.T) {
		bmc := redfishsim.Start(t, redfishsim.Supermicro, func(c *redfishsim.Config, _ *redfishsim.State) { c.LoginWithoutLocation = true })
		c := connect(t, bmc)
		r := c.post(c.config.SessionsPath, map[string]any{"UserName": bmc.Username, "Password": bmc.Password})
		require.Empty(t, r.header.Get("Location"))
		c.token = r.header.Get("X-Auth-Token")
		path, _ := r.at("@odata.id").(string)
		require.Equal(t, 200, c.do("DELETE", path, "", nil, nil).status)
		require.Empty(t, bmc.OpenSessions())
	})
	t.Run("where an iDRAC 8 has them", func(t *testing.T) {
		bmc := redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) { c.SessionsPath = "/redfish/v1/Sessions" })
		c := login(t, bmc)
		require.Equal(t, "/redfish/v1/Sessions", c.get("/redfish/v1").at("Links", "Sessions", "@odata.id"))
		require.Equal(t, 404, c.get("/redfish/v1/SessionService/Sessions").status)
	})
	t.Run("a wrong password", func(t *testing.T) {
		bmc := redfishsim.Start(t, redfishsim.ILO)
		c := connect(t, bmc)
		require.Equal(t, 401, c.post(c.config.SessionsPath, map[string]any{"UserName": bmc.Username, "Password": "no"}).status)
		require.Equal(t, 401, c.get("/redfish/v1/Systems").status)
		require.Equal(t, 200, c.get("/redfish/v1").status, "the root is for everyone")
	})
}

// An iLO's paths end in a slash, and their case does not matter.
func TestPathsOfAnILO(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.ILO)
	c := login(t, bmc)
	c.config.TrailingSlash = false
	r := c.get("/redfish/v1/Systems/1")
	require.Equal(t, 308, r.status)
	require.Equal(t, "/redfish/v1/Systems/1/", r.header.Get("Location"))
	require.Equal(t, 200, c.get("/redfish/v1/systems/1/bios/settings/").status)
}
