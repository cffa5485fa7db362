package redfishsim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

const eraseNVMe = "Storage/CPU.1/Drives/Nvme.0/Actions/Drive.SecureErase"

// A BMC that restarts before a request does nothing, after it has done it; neither gives an
// answer. Where no process ends, that is what an exit does. Other faults are those of all
// simulators, which the tests of the simulated appliance show.
func TestRestartsHitBeforeAndAfter(t *testing.T) {
	for kind, effects := range map[redfishsim.FaultKind]int{
		redfishsim.RestartBefore: 0, redfishsim.RestartAfter: 1, redfishsim.ExitBefore: 0, redfishsim.ExitAfter: 1,
	} {
		t.Run(string(kind), func(t *testing.T) {
			bmc := redfishsim.Start(t, redfishsim.IDRAC)
			c := login(t, bmc)
			bmc.Inject(redfishsim.Fault{Number: bmc.Count() + 2, Kind: kind})
			require.NoError(t, c.get(c.system("")).err)
			require.Error(t, c.post(c.system(eraseNVMe), map[string]any{}).err)
			state := bmc.State()
			drive, _ := state.DriveBySerial("PHLN123400001P6AGN")
			require.Equal(t, effects, drive.Erases)
			require.Eventually(t, func() bool { return c.get(c.system("")).status == 200 }, time.Minute,
				time.Millisecond, "once only")
			require.Equal(t, effects, bmc.Changes())
		})
	}
}

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
			c.upload(map[string]any{"Targets": []string{c.system("Bios")}}, redfishsim.Image("BIOS", "9.9")).status)
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

// A step of a clean has a session of its own: what goes wrong after so many logins goes wrong in
// that step.
func TestFaultsInOneSession(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.ILO)
	bmc.Inject(redfishsim.Fault{Method: "GET", Login: 2, Times: -1, Kind: redfishsim.Respond, Status: 403})
	var statuses []int
	for range 3 {
		c := login(t, bmc)
		statuses = append(statuses, c.get(c.system("")).status, c.get(c.system("")).status)
	}
	require.Equal(t, []int{200, 200, 403, 403, 200, 200}, statuses)
}
