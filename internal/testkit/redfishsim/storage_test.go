package redfishsim_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// drives are the paths of all drives, by trimmed serial, over every storage and the chassis.
func (c *client) drives() map[string][]string {
	c.t.Helper()
	found := map[string][]string{}
	var paths []string
	for _, storage := range c.get(c.system("Storage")).members("Members") {
		paths = append(paths, c.get(storage).members("Drives")...)
	}
	paths = append(paths, c.get("/redfish/v1/Chassis/"+c.bmc.Config().ChassisID+"/Drives").members("Members")...)
	for _, path := range paths {
		serial, _ := c.get(path).At("SerialNumber").(string)
		serial = strings.TrimSpace(serial)
		found[serial] = append(found[serial], path)
	}
	return found
}

// Erasing every drive leaves nothing of the tenant's, and forgetting volumes leaves all.
func TestOnlyASecureEraseErases(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		bmc := redfishsim.Start(t, p, hours, func(_ *redfishsim.Config, s *redfishsim.State) {
			s.Storages[0].Volumes = []redfishsim.Volume{{ID: "0", Drives: []string{"Disk.0", "Disk.1"}}}
		})
		c := login(t, bmc)
		drives := c.drives()
		require.Len(t, drives, 5, "by serial, whichever way each is listed")
		require.Len(t, bmc.TenantData(), 5)

		first := drives["S6CKNT0W700001"][0]
		switch p {
		case redfishsim.ILO:
			require.Nil(t, c.get(first).At("Actions"), "hidden while it is in a volume")
		case redfishsim.IDRAC:
			r := c.post(strings.TrimSuffix(first, "/")+"/Actions/Drive.SecureErase", map[string]any{})
			require.Equal(t, 400, r.Status)
			require.Contains(t, r.text(), "STOR023")
		}
		bmc.Change(func(s *redfishsim.State) { s.Storages[0].Volumes = nil })
		require.Len(t, bmc.TenantData(), 5, "the data is still there")

		for serial, paths := range drives {
			action, _ := c.get(paths[0]).At("Actions", "#Drive.SecureErase", "target").(string)
			require.NotEmpty(t, action, serial)
			r := c.post(action, map[string]any{})
			require.Contains(t, []int{202, 204}, r.Status, r.text())
			if bmc.Config().EraseForm == redfishsim.NoTask {
				require.NotNil(t, c.get(paths[0]).At("Operations"), "progress without a task")
			}
		}
		require.Len(t, bmc.TenantData(), 5, "begun only")
		bmc.Hurry()
		require.Empty(t, bmc.TenantData())
	})
}

func TestErasesThatAreNone(t *testing.T) {
	const path = "Storage/CPU.1/Drives/Nvme.0"
	erase := func(c *client) reply {
		return c.post(c.system(path+"/Actions/Drive.SecureErase"), map[string]any{"SanitizationType": "BlockErase"})
	}
	t.Run("a type that is not listed", func(t *testing.T) {
		c := login(t, redfishsim.Start(t, redfishsim.IDRAC))
		r := c.post(c.system(path+"/Actions/Drive.SecureErase"), map[string]any{"SanitizationType": "Overwrite"})
		require.Equal(t, 400, r.Status)
	})
	t.Run("power lost meanwhile", func(t *testing.T) {
		bmc := redfishsim.Start(t, redfishsim.IDRAC, hours)
		c := login(t, bmc)
		erase(c)
		c.reset("ForceOff")
		require.Equal(t, []string{"PHLN123400001P6AGN"}, bmc.State().Interrupted)
		require.Len(t, bmc.TenantData(), 5)
	})
}

// An iLO lists no drive while the server is off or in POST.
func TestDrivesAreListedAfterPOST(t *testing.T) {
	c := login(t, redfishsim.Start(t, redfishsim.ILO, hours))
	drive := c.drives()["S6CKNT0W700001"][0]
	c.reset("ForceOff")
	c.await(func(s redfishsim.State) bool { return s.Power == "Off" }, "off")
	require.Empty(t, c.drives())
	require.Equal(t, 404, c.get(drive).Status)
	c.reset("On")
	c.await(func(s redfishsim.State) bool { return s.Power == "On" && s.InPOST }, "POST")
	require.Empty(t, c.drives())
	c.bmc.Hurry()
	require.Len(t, c.drives(), 5)
}
