package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// nodeTrouble is what is wrong with a server when its clean begins, or in the middle of it.
type nodeTrouble struct {
	name  string
	wrong func(t *testing.T, s *nodeSite, n *node)
	// fault is the one that the clean ends with. Nothing is erased or written by a clean that
	// must find it before.
	fault     device.Code
	untouched bool
	// during, where it is set, comes when the clean has begun.
	during func(t *testing.T, n *node)
	// right undoes it, as the operator does before the next clean.
	right func(t *testing.T, n *node)
}

// change gives a trouble that changes the server.
func change(do func(*redfishsim.State)) func(*testing.T, *nodeSite, *node) {
	return func(t *testing.T, _ *nodeSite, n *node) {
		t.Helper()
		require.NoError(t, n.BMC.Change(do))
	}
}

var nodeTroubles = []nodeTrouble{
	{
		name: "another chassis", fault: device.CodeSerialMismatch, untouched: true,
		wrong: change(func(s *redfishsim.State) { s.Serial, s.ChassisSerial = "OTHER", "OTHER" }),
		right: func(t *testing.T, n *node) {
			require.NoError(t,
				n.BMC.Change(func(s *redfishsim.State) { s.Serial, s.ChassisSerial = n.enrolled.Serial, n.enrolled.ChassisSerial }))
		},
	},
	{
		name: "another chassis between two requests", fault: device.CodeSerialMismatch, untouched: true,
		wrong: func(t *testing.T, _ *nodeSite, n *node) {
			require.NoError(t,
				n.BMC.Inject(redfishsim.Fault{Method: http.MethodGet, Path: "*/Drives/*", Kind: redfishsim.HoldAfter}))
		},
		during: func(t *testing.T, n *node) {
			Await(t, time.Minute, "the clean to read a drive", func() (bool, string) {
				all := n.requests(t)
				return slices.ContainsFunc(all, func(r redfishsim.Request) bool { return r.Fault == redfishsim.HoldAfter }),
					fmt.Sprint(len(all))
			})
			require.NoError(t, n.BMC.Change(func(s *redfishsim.State) { s.Serial, s.ChassisSerial = "OTHER", "OTHER" }))
			require.NoError(t, n.BMC.ClearFaults())
		},
		right: func(t *testing.T, n *node) {
			require.NoError(t,
				n.BMC.Change(func(s *redfishsim.State) { s.Serial, s.ChassisSerial = n.enrolled.Serial, n.enrolled.ChassisSerial }))
		},
	},
	{
		name: "a drive without an erase", fault: device.CodeDriveNotErasable, untouched: true,
		wrong: change(func(s *redfishsim.State) { s.Storages[0].Drives[0].NotErasable = true }),
		right: func(t *testing.T, n *node) {
			require.NoError(t, n.BMC.Change(func(s *redfishsim.State) { s.Storages[0].Drives[0].NotErasable = false }))
		},
	},
	{
		name: "a BIOS that keeps its attributes", fault: device.CodeBIOSMismatch,
		wrong: func(t *testing.T, _ *nodeSite, n *node) {
			require.NoError(t, n.BMC.Configure(func(c *redfishsim.Config) { c.BIOSNeverApplies = true }))
		},
		right: func(t *testing.T, n *node) {
			require.NoError(t, n.BMC.Configure(func(c *redfishsim.Config) { c.BIOSNeverApplies = false }))
		},
	},
}

// A server that is not what was enrolled, or does not become what it should be, is not returned:
// its tenant's release succeeds all the same, the operator sees the fault, may switch the server
// on and off, and corrects it; then the operator's clean returns it.
func TestANodeInTroubleIsNotReturned(t *testing.T) {
	t.Parallel()
	s := newNodeSite(t, newSite(t), slices.Repeat([]redfishsim.Personality{redfishsim.IDRAC}, len(nodeTroubles)))
	s.Run(t, "all", s.env("BURNISH_MAX_CLEANS_PER_HOST=16")...)
	var names []string
	trouble := map[string]nodeTrouble{}
	for i, one := range nodeTroubles {
		name := fmt.Sprintf("node%d", i+1)
		names, trouble[name] = append(names, name), one
	}
	each(t, names, func(_ int, name string) {
		s.enroll(t, name, "--provide")
		s.awaitAvailable(t, name, time.Minute)
		one, n := trouble[name], s.nodes[name]
		s.Bind(t, name, "alice")
		n.used(t)
		one.wrong(t, s, n)
		before := n.state(t)
		s.Unbind(t, name, "alice") // ends well, whatever the clean finds
		if one.during != nil {
			one.during(t, n)
		}

		v := s.AwaitState(t, name, time.Minute, device.Error, device.Available)
		require.Equal(t, device.Error, v.DeviceState, "%s is overlooked", one.name)
		require.Equal(t, string(one.fault), v.Fault, "%s: %s", one.name, v.LastError)
		require.True(t, v.Dirty)
		require.True(t, v.NeedsOperator)
		s.RequireReserved(t, name, 1)
		after := n.state(t)
		require.Equal(t, "On", after.Power, "%s: the server stays on", one.name)
		if one.untouched {
			require.Equal(t, before.TenantData(), after.TenantData(), one.name)
			require.Equal(t, before.Commits, after.Commits, one.name)
			require.Equal(t, before.ResetCount, after.ResetCount, one.name)
		}
		s.awaitNoSession(t, name)
		if one.fault != device.CodeSerialMismatch {
			s.Must(t, "power", name, "off")
			require.Equal(t, "Off", n.state(t).Power)
			s.Must(t, "power", name, "on")
			require.Equal(t, "On", n.state(t).Power)
		}
		one.right(t, n)
		s.Must(t, "clean", name)
		s.awaitAvailable(t, name, time.Minute)
	})
}
