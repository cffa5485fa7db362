package oneviewsim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/redfishsim"
)

// folder is of the whole test run.
var folder string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "oneviewsim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	folder = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(folder, name)
		return path, proc.Compile("", "burnish/internal/testkit/cmd/"+name, path)
	})
}

var (
	program    = build("oneviewsim")
	bmcProgram = build("redfishsim")
)

func startProcess(t *testing.T, options ...oneviewsim.Option) (*oneviewsim.Process, context.Context) {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p, err := oneviewsim.StartProcess(ctx, path, filepath.Join(t.TempDir(), "appliance"), options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p, ctx
}

// An appliance that is killed at any request comes back with what was accepted; its tasks go
// on, its sessions have ended, its log is whole.
func TestAKilledApplianceComesBack(t *testing.T) {
	p, ctx := startProcess(t, func(c *oneviewsim.Config, _ *oneviewsim.State) { c.Delays.Apply = 50 * time.Millisecond })
	url := p.URL
	for i, kind := range []oneviewsim.FaultKind{oneviewsim.ExitBefore, oneviewsim.ExitAfter} {
		c := connect(t, p.URL, p.CA)
		c.login(p.Username, p.Password)
		server := c.hardware(fmt.Sprintf("server-%d", i+1))
		body := c.profile(fmt.Sprintf("uuid-%d", i+1), server)
		require.NoError(t, p.Inject(oneviewsim.Fault{Method: "POST", Path: posts, Kind: kind}))
		require.Error(t, c.do("POST", posts, body).err)
		_, err := p.Wait(time.Minute)
		require.NoError(t, err)
		left, err := p.State()
		require.NoError(t, err)
		require.Len(t, left.Tasks, i, "as it was left")

		require.NoError(t, p.Restart(ctx))
		require.Equal(t, url, p.URL, "at the same port, with the same certificate")
		require.Equal(t, 401, c.get(server).status, "sessions are lost")
		c.login(p.Username, p.Password)
		if kind == oneviewsim.ExitAfter {
			require.NoError(t, proc.Await(ctx, time.Minute, 5*time.Millisecond, "the profile", func() (bool, string) {
				state, _ := c.get(server).at("state").(string)
				return state == oneviewsim.ProfileApplied, state
			}))
		} else {
			require.Equal(t, "NoProfileApplied", c.get(server).at("state"))
		}
	}
	profiles, err := p.Profiles(p.Username)
	require.NoError(t, err)
	require.Len(t, profiles, 1)
	require.Equal(t, "uuid-2", profiles[0].Name)
	requests, err := p.Requests()
	require.NoError(t, err)
	for i, one := range requests {
		require.Equal(t, i+1, one.Number, "the numbers go on")
	}
	require.NoError(t, p.Kill())
	require.NoError(t, p.Restart(ctx))
	again, err := p.Requests()
	require.NoError(t, err)
	require.Equal(t, len(requests), len(again))
}

// One server is seen through its BMC and through the appliance: a change of its power by
// either shows in both, also where both are processes.
func TestAServerIsSeenThroughItsBMCToo(t *testing.T) {
	serial := func(_ *oneviewsim.Config, s *oneviewsim.State) { s.Hardware[0].Serial = "SHARED1" }
	t.Run("in one process", func(t *testing.T) {
		s := oneviewsim.Start(t, serial)
		bmc := redfishsim.Start(t, redfishsim.ILO, func(_ *redfishsim.Config, s *redfishsim.State) { s.Serial = "SHARED1" })
		require.NoError(t, s.Join("SHARED1", bmc.Machine))
		c := login(t, s)
		seenThroughBoth(t, c, bmc)
		require.NoError(t, s.Take("server-1"))
		require.NoError(t, awaitPower(t, oneviewsim.On, bmc.Power))
		require.Error(t, bmc.SetPower("Nmi"))
		require.Error(t, s.Join("server-99", bmc.Machine))
	})
	t.Run("in two processes", func(t *testing.T) {
		p, ctx := startProcess(t, serial)
		path, err := bmcProgram()
		require.NoError(t, err)
		bmc, err := redfishsim.StartProcess(ctx, path, filepath.Join(t.TempDir(), "bmc"), redfishsim.ILO)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, bmc.Kill()) })
		require.NoError(t, p.Join("SHARED1", bmc.URL, bmc.CA))
		c := connect(t, p.URL, p.CA)
		c.login(p.Username, p.Password)
		seenThroughBoth(t, c, bmc)
		require.NoError(t, bmc.Kill())
		require.Equal(t, "Unknown", c.get(c.hardware("server-1")).at("powerState"))
	})
}

func awaitPower(t *testing.T, want string, power func() (string, error)) error {
	return proc.Await(t.Context(), time.Minute, time.Millisecond, "power "+want, func() (bool, string) {
		now, err := power()
		return err == nil && now == want, now
	})
}

func seenThroughBoth(t *testing.T, c *client, bmc oneviewsim.BMC) {
	t.Helper()
	server := c.hardware("server-1")
	shown := func() (string, error) {
		r := c.get(server)
		now, _ := r.at("powerState").(string)
		return now, r.err
	}
	require.NoError(t, awaitPower(t, "On", shown), "the BMC's server is on")
	require.NoError(t, bmc.SetPower("ForceOff"))
	require.NoError(t, awaitPower(t, "Off", shown))
	require.Equal(t, "Completed", c.apply("uuid-1", server).at("taskState"))
	require.Equal(t, "Completed", c.power(server, "On", "MomentaryPress").at("taskState"))
	now, err := bmc.Power()
	require.NoError(t, err)
	require.Equal(t, "On", now)
	require.Equal(t, "Completed", c.power(server, "Off", "PressAndHold").at("taskState"))
	now, err = bmc.Power()
	require.NoError(t, err)
	require.Equal(t, "Off", now)
	profile, _ := c.get(server).at("serverProfileUri").(string)
	require.Equal(t, "Completed", c.ended(c.do("DELETE", profile, nil)).at("taskState"))
}
