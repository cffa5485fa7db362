package redfishsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

const octets = "application/octet-stream"

// An image that is pushed as it is goes to the targets that the update service was given.
func TestAPushGoesToItsTargets(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.OpenBMC, func(c *redfishsim.Config, _ *redfishsim.State) { c.SecondSystem = true })
	c := login(t, bmc)
	target := c.running("BIOS")
	require.Equal(t, 204, c.send("PATCH", "/redfish/v1/UpdateService", map[string]any{"HttpPushUriTargets": []string{target}}, nil).status)
	require.Equal(t, []any{target}, c.get("/redfish/v1/UpdateService").at("HttpPushUriTargets"))
	require.Equal(t, 202, c.do("POST", "/redfish/v1/UpdateService/update", octets, redfishsim.Image("BIOS", "9.9.9"), nil).status)
	c.await(done, "the update")
	require.Equal(t, "9.9.9", c.get(c.system("")).at("BiosVersion"))
	require.Len(t, bmc.State().Commits, 1, "not the neighbor's")
}

// An iDRAC keeps what is pushed; SimpleUpdate of its own Location writes it.
func TestAnIDRACKeepsWhatIsPushed(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.IDRAC)
	c := login(t, bmc)
	r := c.do("POST", "/redfish/v1/UpdateService/FirmwareInventory", octets, redfishsim.Image("NIC", "9.9.9"), nil)
	require.Equal(t, 201, r.status)
	kept := r.header.Get("Location")
	require.Contains(t, kept, "Available-107649-9.9.9")
	require.Equal(t, "9.9.9", c.get(kept).at("Version"))
	require.Empty(t, bmc.Commits("NIC"))
	r = c.post("/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate", map[string]any{"ImageURI": kept})
	require.Equal(t, 202, r.status)
	c.await(done, "the update")
	require.Len(t, bmc.Commits("NIC"), 1)
	require.Equal(t, 404, c.get(kept).status)
}

// When an update of the BIOS is applied: at the next reset, at once by a reset of the BMC's
// own, or by one that it was not asked for.
func TestWhenABIOSUpdateIsApplied(t *testing.T) {
	for name, test := range map[string]struct {
		when   any
		self   bool
		resets int
	}{
		"at the next reset": {nil, false, 0}, "also if asked so": {"OnReset", false, 0},
		"at once": {"Immediate", false, 1}, "by itself": {nil, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bmc := redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) { c.SelfReset = test.self })
			c := login(t, bmc)
			parameters := map[string]any{"Targets": []string{c.running("BIOS")}}
			if test.when != nil {
				parameters["@Redfish.OperationApplyTime"] = test.when
			}
			task := c.upload(parameters, redfishsim.Image("BIOS", "9.9.9")).header.Get("Location")
			c.await(func(s redfishsim.State) bool { return len(s.Commits) == 1 }, "its begin")
			require.Equal(t, test.resets, bmc.State().ResetCount)
			if test.resets == 0 {
				require.Equal(t, "Starting", c.get(task).at("TaskState"))
				c.reset("ForceRestart")
			}
			c.awaitPOST()
			require.Equal(t, "9.9.9", c.get(c.system("")).at("BiosVersion"))
			require.Equal(t, "Completed", c.get(task).at("TaskState"))
		})
	}
}

func TestPowerIsRefusedAndIgnoredAsBMCsDo(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		bmc := redfishsim.Start(t, p, hours, func(c *redfishsim.Config, _ *redfishsim.State) { c.IgnoreGraceful = true })
		c := login(t, bmc)
		require.Equal(t, bmc.Config().PowerConflict, c.reset("On").status)
		require.Equal(t, 400, c.reset("Sideways").status)
		require.Less(t, c.reset("GracefulShutdown").status, 300)
		require.Equal(t, "On", bmc.State().Power, "it did nothing")
		require.Less(t, c.reset("ForceOff").status, 300)
		c.await(func(s redfishsim.State) bool { return s.Power == "Off" }, "off")
		require.Equal(t, bmc.Config().PowerConflict, c.reset("ForceOff").status)
		require.Less(t, c.reset("On").status, 300)
		c.await(func(s redfishsim.State) bool { return s.Power == "On" && s.InPOST }, "on")
	})
}
