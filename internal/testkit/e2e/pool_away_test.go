package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/workflows/contract"
)

// An appliance answers nothing for long, and then is gone: a bind is refused, and nothing has
// changed; a clean waits, says why and calls the operator; so do the polls. When the appliance is
// back, all goes on by itself.
//
// F29
func TestAnApplianceIsAwayForLong(t *testing.T) {
	t.Parallel()
	s := newPoolSite(t, newSite(t), []string{"rack1"}, oneviewsim.Servers(3))
	rack := s.appliances["rack1"]
	s.configure(t, "rack1", map[string]any{"periodic_check_interval": 1})
	s.Run(t, "all", s.env("BURNISH_TELL_AFTER=5s")...)
	names := []string{"idle", "tenant", "theirs"}
	for i, name := range names {
		s.enroll(t, s.shared(t, name, "rack1", fmt.Sprintf("server-%d", i+1), true), "--provide")
	}
	for _, name := range names {
		s.awaitState(t, name, time.Minute, device.Available)
	}
	s.Must(t, "bind", "tenant", "--instance", Instance("alice"), "--timeout", "2m")
	profile := s.server(t, "rack1", "server-2").Profile

	require.NoError(t, rack.Freeze())
	s.Unbind(t, "tenant", "alice")
	refused := s.Refused(t, device.CodeApplianceUnreachable, "bind", "idle", "--instance", Instance("bob"),
		"--timeout", "2m")
	require.Equal(t, 1, strings.Count(refused.Stderr, "\n"), refused.Stderr)
	require.NoError(t, rack.Kill())
	v := s.Show(t, "idle")
	require.Equal(t, device.Available, v.DeviceState)
	require.Empty(t, v.ClaimedBy)
	require.False(t, v.Dirty)
	s.RequireReserved(t, "idle", 0)
	v = s.AwaitStatus(t, "tenant", time.Minute, "to wait for the appliance, visibly", func(v contract.DeviceStatus) bool {
		return v.NeedsOperator && v.Fault == string(device.CodeApplianceUnreachable)
	})
	require.Equal(t, profile, v.Pool.Profile)
	s.RequireReserved(t, "tenant", 1)
	s.AwaitListed(t, "tenant", "list", "--needs-operator")
	Await(t, time.Minute, "the polls to call the operator", func() (bool, string) {
		state, err := s.Workflows().OneViewState(t.Context(), "rack1")
		return err == nil && state.NeedsOperator && state.Fault != nil && state.Fault.Code == device.CodeApplianceUnreachable,
			fmt.Sprintf("%+v %v", state, err)
	})
	require.Contains(t, s.Must(t, "oneview", "status", "rack1"), string(device.CodeApplianceUnreachable))

	require.NoError(t, rack.Restart(t.Context()))
	require.NoError(t, rack.Take("server-3"))
	s.requireMaintained(t, "theirs")
	v = s.requireIdle(t, "tenant", "rack1", "server-2")
	require.False(t, v.NeedsOperator)
	require.Len(t, v.Cleans, 2)
	s.requireIdle(t, "idle", "rack1", "server-1")
	s.Must(t, "bind", "idle", "--instance", Instance("bob"), "--timeout", "2m")
	s.requireUsed(t, s.Show(t, "idle"), "rack1", "server-1")
	Await(t, time.Minute, "a good round", func() (bool, string) {
		state, err := s.Workflows().OneViewState(t.Context(), "rack1")
		return err == nil && !state.NeedsOperator && state.Fault == nil, fmt.Sprintf("%+v %v", state, err)
	})
	s.requireRules(t, "rack1", s.server(t, "rack1", "server-1").Profile)
}

// A migration is killed while it removes an idle profile, with the worker that does it. What was
// begun ends by itself, and a second run does the rest. Profiles are removed from servers that
// are off, and only from those that have no tenant.
func TestAMigrationIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	profiles := map[string]string{}
	s := newPoolSite(t, newSite(t), []string{"rack1"}, oneviewsim.Servers(4),
		func(c *oneviewsim.Config, state *oneviewsim.State) {
			for i, h := range state.Hardware {
				p := &oneviewsim.Profile{ID: fmt.Sprintf("old-%d", i+1), Name: h.Name, Owner: c.Users[0].Name, Hardware: h.URI(),
					Type: h.Type, Group: h.Group, State: "Normal", Status: "OK", Version: 1}
				state.Profiles = append(state.Profiles, p)
				h.Profile, h.State, h.Power = p.URI(), oneviewsim.ProfileApplied, oneviewsim.On
				profiles[h.Name] = p.URI()
			}
		})
	rack := s.appliances["rack1"]
	w := s.Run(t, "all", s.env()...)
	names := []string{"a-tenants", "b-idle", "c-idle", "d-new"}
	for i, name := range names {
		flags := []string{"--provide"}
		if name == "d-new" {
			flags = nil
		}
		s.enroll(t, s.shared(t, name, "rack1", fmt.Sprintf("server-%d", i+1), false), flags...)
	}
	for _, name := range names[:3] {
		s.awaitState(t, name, time.Minute, device.Available)
	}
	s.Must(t, "bind", "a-tenants", "--instance", Instance("alice"))
	s.AwaitSaid(t, func(out string) bool { return strings.Count(out, "would ") == 4 }, "oneview", "migrate", "--dry-run")
	s.requireRules(t, "rack1", profiles["server-1"], profiles["server-2"], profiles["server-3"], profiles["server-4"])

	require.NoError(t, rack.Inject(oneviewsim.Fault{Method: "DELETE", Path: profileOne, Kind: oneviewsim.HangBefore}))
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	ended := make(chan string, 1)
	go func() {
		r, err := s.Site.Site.Burnish(ctx, "oneview", "migrate", "a-tenants", "b-idle")
		ended <- fmt.Sprint(r, err)
	}()
	Await(t, time.Minute, "the removal of the idle profile", func() (bool, string) {
		counts, err := rack.Counts()
		return err == nil && counts.Faulted == 1, ""
	})
	kill()
	require.Contains(t, <-ended, "killed")
	w.Kill(t)
	v, err := s.Site.Site.Provider("b-idle")
	require.NoError(t, err)
	require.Equal(t, 1, v.Reserved, "it is not offered with a profile")
	w.Start(t)
	s.requireIdle(t, "b-idle", "rack1", "server-2")

	require.Equal(t, 2, strings.Count(s.Must(t, "oneview", "migrate", "--timeout", "2m"), ": migrated"))
	s.requireIdle(t, "b-idle", "rack1", "server-2")
	s.requireIdle(t, "c-idle", "rack1", "server-3")
	tenants := s.awaitState(t, "a-tenants", time.Minute, device.Allocated)
	require.Equal(t, profiles["server-1"], tenants.Pool.Profile)
	require.Equal(t, oneviewsim.On, s.server(t, "rack1", "server-1").Power)
	require.Equal(t, profiles["server-4"], s.Show(t, "d-new").Pool.Profile)
	s.requireRules(t, "rack1", profiles["server-1"], profiles["server-4"])

	s.Must(t, "provide", "d-new")
	s.Unbind(t, "a-tenants", "alice")
	s.requireIdle(t, "d-new", "rack1", "server-4")
	s.requireIdle(t, "a-tenants", "rack1", "server-1")
	s.AwaitListed(t, "nothing to migrate: no device is pre-allocated\n", "oneview", "migrate")
	s.requireRules(t, "rack1")
}
