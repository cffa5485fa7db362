package redfishsim_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/redfishsim"
	"burnish/internal/testkit/simserver"
)

// A BMC that is killed comes back with what is durable, and its server went on meanwhile.
func TestAKilledBMCComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redfishsim")
	require.NoError(t, proc.Compile("", "burnish/internal/testkit/cmd/redfishsim", path))
	each(t, func(t *testing.T, p redfishsim.Personality) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b, err := redfishsim.StartProcess(ctx, path, t.TempDir(), p, func(c *redfishsim.Config, s *redfishsim.State) {
			c.BIOSSettings = "Settings"
			s.BIOS.Attributes, s.BIOS.Defaults = map[string]any{"BootMode": "Bios"}, map[string]any{"BootMode": "Uefi"}
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, b.Kill()) }()
		url := b.URL
		config, err := b.Config()
		require.NoError(t, err)
		c := login(t, b)
		require.Less(t, c.post(c.system("Bios/Actions/Bios.ResetBios"), map[string]any{}).Status, 300)

		require.NoError(t, b.Inject(redfishsim.Fault{Method: "POST", Path: "*SecureErase*", Kind: redfishsim.ExitAfter}))
		require.Error(t, c.post(c.system("Storage/"+storageID(t, b)+"/Drives/Disk.0/Actions/Drive.SecureErase"),
			map[string]any{}).Err)
		_, err = b.Wait(time.Minute)
		require.NoError(t, err)
		require.Error(t, c.get("/redfish/v1").Err)

		require.NoError(t, b.Restart(ctx))
		require.Equal(t, url, b.URL, "at the same port, with the same certificate")
		c.awaitBMC()
		r := c.get(c.system(""))
		require.NoError(t, r.Err)
		if config.SessionsSurvive {
			require.Equal(t, 200, r.Status)
		} else {
			require.Equal(t, 401, r.Status)
			c = login(t, b)
		}
		require.NoError(t, proc.Await(ctx, time.Minute, 5*time.Millisecond, "the drive to be erased", func() (bool, string) {
			s, err := b.State()
			return err == nil && len(s.TenantData()) == 4, ""
		}))
		state, err := b.State()
		require.NoError(t, err)
		require.True(t, state.BIOS.PendingReset, "still wanted")

		requests, err := b.Requests()
		require.NoError(t, err)
		for i, one := range requests {
			require.Equal(t, i+1, one.Number, "the numbers go on")
		}
		writes := simserver.Writes(requests)
		require.Equal(t, redfishsim.ExitAfter, writes[1].Fault)
		require.True(t, writes[1].Changed)

		require.NoError(t, b.Change(func(s *redfishsim.State) { s.Serial = "OTHER" }))
		require.Equal(t, "OTHER", c.get(c.system("")).At("SerialNumber"))
		require.NoError(t, b.Kill())
		require.NoError(t, b.Restart(ctx))
		state, err = b.State()
		require.NoError(t, err)
		require.Equal(t, "OTHER", state.Serial)
	})
}

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

func storageID(t *testing.T, b *redfishsim.Process) string {
	t.Helper()
	s, err := b.State()
	require.NoError(t, err)
	return s.Storages[0].ID
}
