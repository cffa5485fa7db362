package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
	"burnish/workflows/contract"
)

// oneviewProgram is the simulated appliance, built once.
var oneviewProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(programs.Burnish), "oneviewsim")
	return path, proc.Compile(root, "./internal/testkit/cmd/oneviewsim", path)
})

// What the tests disturb of an appliance, as the path of a fault.
const (
	profilePosts = "/rest/server-profiles"
	profileOne   = "/rest/server-profiles/*"
	powerPuts    = "/rest/server-hardware/*/powerState"
	taskReads    = "/rest/tasks/*"
	logins       = "/rest/login-sessions"
)

// poolSite is a site whose servers are in shared pools: each appliance is a process.
type poolSite struct {
	*Site
	appliances map[string]*oneviewsim.Process
	entries    map[string]map[string]any // of oneview.yaml
}

// newPoolSite is a site with these appliances. Their polls are off. No worker runs yet.
func newPoolSite(t *testing.T, s *Site, names []string, options ...oneviewsim.Option) *poolSite {
	t.Helper()
	p := &poolSite{Site: s, appliances: map[string]*oneviewsim.Process{}, entries: map[string]map[string]any{}}
	for _, name := range names {
		p.addAppliance(t, name, options...)
	}
	return p
}

func (s *poolSite) addAppliance(t *testing.T, name string, options ...oneviewsim.Option) *oneviewsim.Process {
	t.Helper()
	program, err := oneviewProgram()
	require.NoError(t, err)
	dir := filepath.Join(s.Dir, "appliance-"+name)
	a, err := oneviewsim.StartProcess(t.Context(), program, dir, options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Kill()) })
	s.appliances[name] = a
	s.configure(t, name, map[string]any{
		"url": a.URL, "username": a.Username, "password": a.Password, "domain": a.Domain,
		"ca": filepath.Join(dir, simserver.CAFile), "periodic_check_interval": 0, "page_size": 2,
	})
	return a
}

// file is the path of oneview.yaml.
func (s *poolSite) file() string { return filepath.Join(filepath.Dir(s.HostFile()), "oneview.yaml") }

// configure changes an appliance in oneview.yaml, as an operator does.
func (s *poolSite) configure(t testing.TB, name string, change map[string]any) {
	t.Helper()
	if s.entries[name] == nil {
		s.entries[name] = map[string]any{}
	}
	for key, value := range change {
		s.entries[name][key] = value
	}
	text, err := json.Marshal(map[string]any{"appliances": s.entries})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.file()+".new", text, 0o600))
	require.NoError(t, os.Rename(s.file()+".new", s.file()), "no worker reads half of it")
}

// env is that of the workers of these sites.
func (s *poolSite) env(more ...string) []string {
	return append([]string{"BURNISH_ONEVIEW=" + s.file(), "BURNISH_SWEEP_INTERVAL=0"}, more...)
}

// poolSettings are what enroll is given of a server's pool.
func poolSettings(appliance string, h oneviewsim.Hardware, dynamic bool) []string {
	set := []string{"oneview=" + appliance, "server_hardware_uri=" + h.URI(),
		"server_profile_template_uri=" + oneviewsim.TemplateURI}
	if dynamic {
		set = append(set, "dynamic_allocation=true")
	}
	return set
}

// shared is a simulated device that is this server of an appliance.
func (s *poolSite) shared(t testing.TB, name, appliance, server string, dynamic bool) Device {
	t.Helper()
	h := s.server(t, appliance, server)
	return s.Fake(t, name, MiB/16, append(poolSettings(appliance, h, dynamic), "serial="+h.Serial)...)
}

// enroll takes it into service.
func (s *poolSite) enroll(t testing.TB, d Device, flags ...string) {
	t.Helper()
	s.Enroll(t, d, append([]string{"--type", "NODE"}, flags...)...)
}

// server is as its appliance shows it.
func (s *poolSite) server(t testing.TB, appliance, server string) oneviewsim.Hardware {
	t.Helper()
	h, err := s.appliances[appliance].Server(server)
	require.NoError(t, err)
	return h
}

// lookNow asks for a round of the polls, and waits for its end.
func (s *poolSite) lookNow(t testing.TB, appliance string) contract.OneViewState {
	t.Helper()
	var before contract.OneViewState
	// its worker may have just started
	s.retry(t, "ask for the state of "+appliance, func(ctx context.Context) (err error) {
		before, err = s.Workflows().OneViewState(ctx, appliance)
		return err
	})
	require.NoError(t, s.Client.SignalWorkflow(t.Context(), contract.OneViewWorkflowID(appliance), "",
		contract.SignalLookNow, contract.LookRequest{}))
	var now contract.OneViewState
	Await(t, 20*time.Second, "a round of "+appliance, func() (bool, string) {
		var err error
		now, err = s.Workflows().OneViewState(t.Context(), appliance)
		return err == nil && now.Round == nil && !now.Requested && now.Rounds > before.Rounds, fmt.Sprintf("%+v %v", now, err)
	})
	return now
}

// awaitState waits for a state; an error that was not meant ends the test at once.
func (s *poolSite) awaitState(t testing.TB, name string, within time.Duration,
	state device.State) contract.DeviceStatus {
	t.Helper()
	v := s.AwaitStatus(t, name, within, "to be "+string(state), func(v contract.DeviceStatus) bool {
		return v.DeviceState == state || v.DeviceState == device.Error
	})
	require.Equal(t, state, v.DeviceState, "%s: %s: %s", name, v.Fault, v.LastError)
	return v
}

// requireIdle asserts an available server of an appliance: clean, with no profile of any user on
// it, and none recorded.
func (s *poolSite) requireIdle(t testing.TB, name, appliance, server string) contract.DeviceStatus {
	t.Helper()
	v := s.awaitState(t, name, time.Minute, device.Available)
	s.AwaitReserved(t, name, 0)
	require.False(t, v.Dirty, name)
	require.False(t, v.Maintenance, name)
	require.NotNil(t, v.Pool, "%s: %+v", name, v)
	require.Equal(t, contract.PoolState{Tag: v.Pool.Tag}, v.Pool.PoolState, name)
	require.Empty(t, s.server(t, appliance, server).Profile, name)
	return v
}

// requireUsed asserts that the server has exactly one profile, that it is Burnish's, has the
// device's UUID as its name, and is recorded.
func (s *poolSite) requireUsed(t testing.TB, v contract.DeviceStatus, appliance, server string) {
	t.Helper()
	h := s.server(t, appliance, server)
	require.NotEmpty(t, h.Profile, v.Name)
	require.Equal(t, h.Profile, v.Pool.Profile, v.Name)
	require.False(t, v.Pool.Applying, v.Name)
	all, err := s.appliances[appliance].Profiles(s.appliances[appliance].Username)
	require.NoError(t, err)
	named := 0
	for _, p := range all {
		if p.Name == contract.DeviceUUID(v.Name) {
			require.Equal(t, h.Profile, p.URI(), v.Name)
			named++
		}
	}
	require.Equal(t, 1, named, "%s: profiles with its name: %v", v.Name, all)
}

// requireMaintained asserts that others have the server, and that Burnish waits.
func (s *poolSite) requireMaintained(t testing.TB, name string) contract.DeviceStatus {
	t.Helper()
	v := s.AwaitStatus(t, name, 20*time.Second, "to be in maintenance because others have it",
		func(v contract.DeviceStatus) bool {
			return v.DeviceState == device.Manageable && v.Pool.Taken
		})
	require.True(t, v.Dirty, name)
	require.True(t, v.Maintenance, name)
	require.False(t, v.Pool.LostRace, name)
	s.RequireReserved(t, name, 1)
	return v
}

// requireRules asserts what Burnish may never do on an appliance, and which profiles of it there
// are: those that are recorded.
func (s *poolSite) requireRules(t testing.TB, appliance string, recorded ...string) {
	t.Helper()
	a := s.appliances[appliance]
	violations, err := a.Violations()
	require.NoError(t, err)
	require.Empty(t, violations, appliance)
	missed, err := a.Missed()
	require.NoError(t, err)
	require.Empty(t, missed, appliance)
	all, err := a.Profiles(a.Username)
	require.NoError(t, err)
	uris := []string{}
	for _, p := range all {
		uris = append(uris, p.URI())
	}
	require.ElementsMatch(t, recorded, uris, "profiles of Burnish's on "+appliance)
}
