package redfishsim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

const eraseNVMe = "Storage/CPU.1/Drives/Nvme.0/Actions/Drive.SecureErase"

// What must never happen is named.
func TestViolationsAreSeen(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.Supermicro, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.NeedsStartUpdate = false
		c.Delays.Write = time.Hour
	})
	c := login(t, bmc)
	update := func() {
		t.Helper()
		require.Equal(t, 202,
			c.upload(map[string]any{"Targets": []string{c.system("Bios")}}, redfishsim.Image("BIOS", "9.9")).Status)
	}
	c.get(c.system(""))
	update()
	require.Empty(t, bmc.Violations())
	bmc.Hurry()
	bmc.Hurry()
	update()
	c.await(func(s redfishsim.State) bool { return len(s.Commits) == 2 }, "the second commit")
	require.Len(t, bmc.Violations(), 2, bmc.Violations())
	require.Contains(t, bmc.Violations()[0], "identity was not read")
	require.Contains(t, bmc.Violations()[1], "two commits of BIOS")
}
