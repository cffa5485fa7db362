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
		require.Equal(t, bmc.Config().ResetBIOSStatus, r.Status, r.text())
		require.Equal(t, "Bios", bmc.State().BIOS.Attributes["BootMode"])

		require.Less(t, c.reset("ForceRestart").Status, 300)
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
			require.Nil(t, c.get(c.system("Bios")).At("Attributes"), "there is nothing to read it back from")
			return
		}
		require.Equal(t, "Uefi", c.get(c.system("Bios")).At("Attributes", "BootMode"))
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
	require.Equal(t, 200, c.send("PATCH", settings, want).Status)
	c.reset("ForceRestart")
	c.awaitPOST()
	require.Equal(t, "Enabled", bmc.State().BIOS.Attributes["SriovGlobalEnable"])
	require.Equal(t, "Disabled", c.get(settings).At("Attributes", "SriovGlobalEnable"), "still pending")

	want["@Redfish.SettingsApplyTime"] = map[string]any{"ApplyTime": "OnReset"}
	r := c.send("PATCH", settings, want)
	require.Equal(t, 202, r.Status)
	require.Nil(t, r.Body, "only the Location names the job")
	job := r.Header.Get("Location")
	require.Contains(t, job, "JID_")
	require.Contains(t, c.send("PATCH", settings, want).text(), "SYS011")
	require.Equal(t, "Disabled", c.get(c.system("Bios")).At("Attributes", "SriovGlobalEnable"),
		"shown, though not applied")
	require.Equal(t, "Enabled", bmc.State().BIOS.Attributes["SriovGlobalEnable"])
	require.Equal(t, 202, c.get(job).Status, "a task that has not ended")

	c.reset("ForceRestart")
	c.await(func(s redfishsim.State) bool { return len(s.Work) == 0 }, "the job's end")
	require.Equal(t, "Disabled", bmc.State().BIOS.Attributes["SriovGlobalEnable"])
	r = c.get(job)
	require.Equal(t, 200, r.Status)
	require.Equal(t, []any{"Completed", "OK"}, []any{r.At("TaskState"), r.At("TaskStatus")})
}

func TestSettingsAreRefusedAsBMCsDo(t *testing.T) {
	want := map[string]any{"Attributes": map[string]any{"BootMode": "Bios"}}
	t.Run("during POST", func(t *testing.T) {
		c := login(t, redfishsim.Start(t, redfishsim.ILO, hours))
		c.reset("ForceRestart")
		r := c.send("PATCH", c.system("Bios/Settings"), want)
		require.Equal(t, 400, r.Status)
		require.Contains(t, r.text(), "UnableToModifyDuringSystemPOST")
		c.bmc.Hurry()
		c.awaitPOST()
		require.Equal(t, 200, c.send("PATCH", c.system("Bios/Settings"), want).Status)
	})
	t.Run("without the ETag", func(t *testing.T) {
		c := login(t,
			redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) { c.RequireIfMatch = true }))
		require.Equal(t, 428, c.send("PATCH", c.system("Bios/Settings"), want).Status)
		require.Equal(t, 412, c.send("PATCH", c.system("Bios/Settings"), want, "If-Match", `"other"`).Status)
		tag := c.get(c.system("Bios/Settings")).Header.Get("ETag")
		require.Equal(t, 200, c.send("PATCH", c.system("Bios/Settings"), want, "If-Match", tag).Status)
	})
	t.Run("with a weak ETag", func(t *testing.T) {
		c := login(t, redfishsim.Start(t, redfishsim.Supermicro))
		tag := c.get(c.system("Bios/SD")).Header.Get("ETag")
		require.Equal(t, 412, c.send("PATCH", c.system("Bios/SD"), want, "If-Match", tag).Status)
		require.Equal(t, 200, c.send("PATCH", c.system("Bios/SD"), want, "If-Match", tag[2:]).Status)
	})
	t.Run("without a license", func(t *testing.T) {
		c := login(t,
			redfishsim.Start(t, redfishsim.Supermicro, func(c *redfishsim.Config, _ *redfishsim.State) { c.Unlicensed = true }))
		r := c.send("PATCH", c.system("Bios/SD"), want)
		require.Equal(t, 403, r.Status)
		require.Contains(t, r.text(), "Not licensed to perform this request")
	})
	t.Run("what there is not", func(t *testing.T) {
		c := login(t, redfishsim.Start(t, redfishsim.ILO))
		for name, value := range map[string]any{"NoSuch": 1, "BootMode": "Sideways", "SystemBiosVersion": "2"} {
			r := c.send("PATCH", c.system("Bios/Settings"), map[string]any{"Attributes": map[string]any{name: value}})
			require.Equal(t, 400, r.Status, name)
		}
		require.Empty(t, c.bmc.State().BIOS.Pending)
	})
}
