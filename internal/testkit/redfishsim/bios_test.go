package redfishsim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// A reset of the BIOS is only wanted until POST of the next reset has ended, which is
// later than PowerState On.
func TestABIOSResetWaitsForTheEndOfPOST(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		bmc := redfishsim.Start(t, p, func(c *redfishsim.Config, s *redfishsim.State) {
			c.Delays.POST = time.Hour
			s.BIOS.Attributes, s.BIOS.Defaults = map[string]any{"BootMode": "Bios"}, map[string]any{"BootMode": "Uefi"}
		})
		c := login(t, bmc)
		r := c.post(c.system("Bios/Actions/Bios.ResetBios"), map[string]any{})
		require.Equal(t, bmc.Config().ResetBIOSStatus, r.status, r.text())
		require.Equal(t, "Bios", bmc.State().BIOS.Attributes["BootMode"])

		require.Less(t, c.reset("ForceRestart").status, 300)
		c.await(func(s redfishsim.State) bool { return s.Power == "On" && s.InPOST }, "POST")
		require.Equal(t, "Bios", bmc.State().BIOS.Attributes["BootMode"], "the server is on, and the BIOS as it was")
		if p == redfishsim.ILO {
			c.awaitShown("InPost", "Oem", "Hpe", "PostState")
		} else {
			c.awaitShown("PrimaryProcessorInitializationStarted", "BootProgress", "LastState")
		}
		bmc.Hurry()
		c.awaitPOST()
		require.Equal(t, "Uefi", bmc.State().BIOS.Attributes["BootMode"])
		if p == redfishsim.OpenBMC {
			require.Nil(t, c.get(c.system("Bios")).at("Attributes"), "there is nothing to read it back from")
			return
		}
		require.Equal(t, "Uefi", c.get(c.system("Bios")).at("Attributes", "BootMode"))
		require.Equal(t, 2, bmc.Changes())
	})
}

// Without an apply time an iDRAC keeps what is wanted through every reset; with one there
// is a job, and no second one.
func TestDellSettingsWaitForAJob(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.IDRAC)
	c := login(t, bmc)
	settings := c.system("Bios/Settings")
	want := map[string]any{"Attributes": map[string]any{"SriovGlobalEnable": "Disabled"}}
	require.Equal(t, 200, c.send("PATCH", settings, want, nil).status)
	c.reset("ForceRestart")
	c.awaitPOST()
	require.Equal(t, "Enabled", bmc.State().BIOS.Attributes["SriovGlobalEnable"])
	require.Equal(t, "Disabled", c.get(settings).at("Attributes", "SriovGlobalEnable"), "still pending")

	want["@Redfish.SettingsApplyTime"] = map[string]any{"ApplyTime": "OnReset"}
	r := c.send("PATCH", settings, want, nil)
	require.Equal(t, 202, r.status)
	require.Nil(t, r.body, "only the Location names the job")
	job := r.header.Get("Location")
	require.Contains(t, job, "JID_")
	require.Contains(t, c.send("PATCH", settings, want, nil).text(), "SYS011")
	require.Equal(t, "Disabled", c.get(c.system("Bios")).at("Attributes", "SriovGlobalEnable"),
		"shown, though not applied")
	require.Equal(t, "Enabled", bmc.State().BIOS.Attributes["SriovGlobalEnable"])
	require.Equal(t, 202, c.get(job).status, "a task that has not ended")

	c.reset("ForceRestart")
	c.await(func(s redfishsim.State) bool { return len(s.Work) == 0 }, "the job's end")
	require.Equal(t, "Disabled", bmc.State().BIOS.Attributes["SriovGlobalEnable"])
	r = c.get(job)
	require.Equal(t, 200, r.status)
	require.Equal(t, []any{"Completed", "OK"}, []any{r.at("TaskState"), r.at("TaskStatus")})
}

func TestSettingsAreRefusedAsBMCsDo(t *testing.T) {
	want := map[string]any{"Attributes": map[string]any{"BootMode": "Bios"}}
	t.Run("during POST", func(t *testing.T) {
		c := login(t, redfishsim.Start(t, redfishsim.ILO, hours))
		c.reset("ForceRestart")
		r := c.send("PATCH", c.system("Bios/Settings"), want, nil)
		require.Equal(t, 400, r.status)
		require.Contains(t, r.text(), "UnableToModifyDuringSystemPOST")
		c.bmc.Hurry()
		c.awaitPOST()
		require.Equal(t, 200, c.send("PATCH", c.system("Bios/Settings"), want, nil).status)
	})
	t.Run("without the ETag", func(t *testing.T) {
		c := login(t,
			redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) { c.RequireIfMatch = true }))
		require.Equal(t, 428, c.send("PATCH", c.system("Bios/Settings"), want, nil).status)
		require.Equal(t, 412, c.send("PATCH", c.system("Bios/Settings"), want, map[string]string{"If-Match": `"other"`}).
			status)
		tag := c.get(c.system("Bios/Settings")).header.Get("ETag")
		require.Equal(t, 200, c.send("PATCH", c.system("Bios/Settings"), want, map[string]string{"If-Match": tag}).status)
	})
	t.Run("with a weak ETag", func(t *testing.T) {
		c := login(t, redfishsim.Start(t, redfishsim.Supermicro))
		tag := c.get(c.system("Bios/SD")).header.Get("ETag")
		require.Equal(t, 412, c.send("PATCH", c.system("Bios/SD"), want, map[string]string{"If-Match": tag}).status)
		require.Equal(t, 200, c.send("PATCH", c.system("Bios/SD"), want, map[string]string{"If-Match": tag[2:]}).status)
	})
	t.Run("without a license", func(t *testing.T) {
		c := login(t,
			redfishsim.Start(t, redfishsim.Supermicro, func(c *redfishsim.Config, _ *redfishsim.State) { c.Unlicensed = true }))
		r := c.send("PATCH", c.system("Bios/SD"), want, nil)
		require.Equal(t, 403, r.status)
		require.Contains(t, r.text(), "Not licensed to perform this request")
	})
	t.Run("what there is not", func(t *testing.T) {
		c := login(t, redfishsim.Start(t, redfishsim.ILO))
		for name, value := range map[string]any{"NoSuch": 1, "BootMode": "Sideways", "SystemBiosVersion": "2"} {
			r := c.send("PATCH", c.system("Bios/Settings"), map[string]any{"Attributes": map[string]any{name: value}}, nil)
			require.Equal(t, 400, r.status, name)
		}
		require.Empty(t, c.bmc.State().BIOS.Pending)
	})
}
