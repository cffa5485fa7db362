package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/redfishsim"
	"burnish/workflows/contract"
)

// One server, seen through its appliance and through its BMC, goes its whole way: it is cleaned
// with a temporary profile and available without one; others take it, and what they free is
// cleaned; a tenant gets it with a profile, which the next clean uses and removes. No secret is
// anywhere, and when the worker stops no session is left.
func TestASharedServerGoesItsWholePath(t *testing.T) {
	t.Parallel()
	own := ownServer(t)
	n := newNodeSite(t, own, []redfishsim.Personality{redfishsim.IDRAC})
	node := n.nodes["node1"]
	s := newPoolSite(t, own, []string{"rack1"}, oneviewsim.Servers(1),
		func(_ *oneviewsim.Config, state *oneviewsim.State) {
			state.Hardware[0].Serial = node.enrolled.Serial
		})
	rack := s.appliances["rack1"]
	require.NoError(t, rack.Join("server-1", node.BMC.Remote))
	n.writePolicy(t, redfishsim.IDRAC)
	node.Set = append(node.Set, poolSettings("rack1", s.server(t, "rack1", "server-1"), true)...)
	control := s.Run(t, "control", n.env(s.env("BURNISH_DEBUG=1")...)...)
	host := s.Run(t, "host", n.env("BURNISH_DEBUG=1")...)
	clean := func(cleans int) {
		t.Helper()
		v := s.requireIdle(t, "node1", "rack1", "server-1")
		require.Len(t, v.Cleans, cleans)
		require.Equal(t, "cleaned", v.Cleans[cleans-1].Outcome)
		state := node.state(t)
		require.Empty(t, state.TenantData())
		require.Equal(t, "Off", state.Power, "a server without a profile is off")
		n.awaitNoSession(t, "node1")
		s.requireRules(t, "rack1")
	}

	node.filled(t) // what is set up now is what is enrolled
	n.enroll(t, "node1", "--provide")
	v := s.AwaitStatus(t, "node1", time.Minute, "to be cleaned with a profile", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Cleaning && v.Pool.Profile != ""
	})
	s.requireUsed(t, v, "rack1", "server-1")
	clean(1)

	require.NoError(t, rack.Take("server-1"))
	theirs := s.server(t, "rack1", "server-1").Profile
	s.lookNow(t, "rack1")
	v = s.requireMaintained(t, "node1")
	require.Contains(t, v.MaintenanceReason, "another user of rack1 has the server")
	s.Refused(t, device.CodeRefused, "bind", "node1", "--instance", Instance("alice"))
	s.Refused(t, device.CodeServerTaken, "power", "node1", "off")
	require.Equal(t, theirs, s.server(t, "rack1", "server-1").Profile)
	require.Equal(t, "On", node.state(t).Power)
	node.used(t)
	require.NoError(t, rack.Free("server-1"))
	s.lookNow(t, "rack1")
	clean(2)

	s.Must(t, "bind", "node1", "--instance", Instance("alice"), "--timeout", "2m")
	s.requireUsed(t, s.Show(t, "node1"), "rack1", "server-1")
	shown := s.Must(t, "show", "node1", "-o", "json")
	profile := s.server(t, "rack1", "server-1").Profile
	require.Contains(t, shown, fmt.Sprintf("%q: %q", "applied_server_profile_uri", profile))
	s.RequireReserved(t, "node1", 1)
	s.Must(t, "power", "node1", "on", "--instance", Instance("alice"))
	node.used(t)
	s.lookNow(t, "rack1")
	require.Equal(t, device.Allocated, s.Show(t, "node1").DeviceState)

	s.Unbind(t, "node1", "alice")
	s.AwaitStatus(t, "node1", time.Minute, "to be cleaned with its tenant's profile", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Cleaning && v.Pool.Profile == profile && v.CleanStep != nil
	})
	clean(3)

	secrets := append(n.secretsInUse(), rack.Password)
	state, err := rack.State()
	require.NoError(t, err)
	for _, open := range state.Sessions {
		secrets = append(secrets, open.Token)
	}
	require.Greater(t, len(secrets), 3)
	var exports []byte
	polls := s.Client.GetWorkflowHistory(t.Context(), contract.OneViewWorkflowID("rack1"), "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	runs := append(s.chain(t.Context(), t, "node1"), nil)
	for polls.HasNext() {
		event, err := polls.Next()
		require.NoError(t, err)
		runs[len(runs)-1] = append(runs[len(runs)-1], event)
	}
	for _, run := range runs {
		require.NotEmpty(t, run)
		for _, event := range run {
			text, err := proto.Marshal(event)
			require.NoError(t, err)
			exports = append(exports, text...)
		}
	}
	for _, command := range [][]string{{"show", "node1"}, {"show", "node1", "-o", "json"}, {"history", "node1"},
		{"validate", "node1"}, {"oneview", "status", "rack1"}} {
		exports = append(exports, s.Must(t, command...)...)
	}
	requireNone(t, "histories and answers", exports, secrets)
	require.Zero(t, host.Stop(t, time.Minute))
	require.Zero(t, control.Stop(t, time.Minute))
	require.NoError(t, s.Server.Stop())
	open, err := rack.OpenSessions(rack.Username)
	require.NoError(t, err)
	require.Empty(t, open)
	s.requireRules(t, "rack1")
	n.requireNoFileHas(t, secrets, s.file())
}
