package redfishsim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

const eraseNVMe = "Storage/CPU.1/Drives/Nvme.0/Actions/Drive.SecureErase"

func erases(bmc *redfishsim.Server) int {
	s := bmc.State()
	drive, _ := s.DriveBySerial("PHLN123400001P6AGN")
	return drive.Erases
}

// A request that is cut off before has no effect, one that is cut off after has; neither
// gets an answer.
func TestFaultsHitBeforeAndAfter(t *testing.T) {
	for kind, effects := range map[redfishsim.FaultKind]int{
		redfishsim.CutBefore: 0, redfishsim.CutAfter: 1,
		redfishsim.RestartBefore: 0, redfishsim.RestartAfter: 1,
		redfishsim.ExitBefore: 0, redfishsim.ExitAfter: 1,
	} {
		t.Run(string(kind), func(t *testing.T) {
			bmc := redfishsim.Start(t, redfishsim.IDRAC)
			c := login(t, bmc)
			bmc.Inject(redfishsim.Fault{Number: bmc.Count() + 2, Kind: kind})
			require.NoError(t, c.get(c.system("")).err)
			require.Error(t, c.post(c.system(eraseNVMe), map[string]any{}).err)
			require.Equal(t, effects, erases(bmc))
			require.Eventually(t, func() bool { return c.get(c.system("")).status == 200 }, time.Minute,
				time.Millisecond, "once only")
			require.Equal(t, effects, bmc.Changes())
		})
	}
}

func TestFaultsByPathAnswerInsteadOfTheBMC(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.IDRAC)
	c := login(t, bmc)
	onErase := redfishsim.Fault{Method: "POST", Path: "*/Drive.SecureErase"}
	bmc.Inject(redfishsim.Unavailable(onErase))
	bmc.Inject(redfishsim.Unauthorized(onErase))
	bmc.Inject(redfishsim.Redirect(onErase, 307, "https://elsewhere.example/redfish/v1/"))
	for _, status := range []int{503, 401, 307} {
		r := c.post(c.system(eraseNVMe), map[string]any{})
		require.Equal(t, status, r.status)
		if status == 307 {
			require.Contains(t, r.header.Get("Location"), "elsewhere.example")
		}
	}
	require.Zero(t, erases(bmc))
	bmc.Inject(redfishsim.Fault{Method: "GET", Path: "/redfish/v1/Systems*", Skip: 1, Times: 2,
		Kind: redfishsim.CutBefore})
	require.NoError(t, c.get(c.system("")).err)
	require.Error(t, c.get(c.system("")).err)
	require.Error(t, c.get(c.system("Bios")).err)
	require.NoError(t, c.get(c.system("")).err)

	bmc.Inject(redfishsim.Fault{Method: "POST", Kind: redfishsim.HangAfter})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.within(ctx, "POST", c.system(eraseNVMe)) }()
	require.Eventually(t, func() bool { return erases(bmc) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled, "it had its effect, and no answer")
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
