package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/redfishsim"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// The firmware that the policy of these tests writes, and what a tenant leaves.
const (
	targetBIOS = "9.9.9"
	tenantText = "data of the next tenant on "
)

// bmcProgram is the simulated BMC, built once.
var bmcProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(programs.Burnish), "redfishsim")
	return path, proc.Compile(root, "./internal/testkit/cmd/redfishsim", path)
})

// nodeSite is a site whose devices are servers behind simulated BMCs.
type nodeSite struct {
	*Site
	policy string
	nodes  map[string]*node
	// resets: each clean resets the BMC to its defaults, and the secrets have the password of then.
	resets bool
}

// node is one server of it.
type node struct {
	*site.Node
	personality redfishsim.Personality
	from        string // the version of the BIOS that a tenant leaves
	enrolled    redfishsim.State
}

// newNodeSite is a site on this server with these servers, node1 and so on, whose BMCs are of
// these personalities. Its policy has something for every step. No worker runs yet.
func newNodeSite(t *testing.T, s *Site, personalities []redfishsim.Personality,
	options ...redfishsim.Option) *nodeSite {
	t.Helper()
	program, err := bmcProgram()
	require.NoError(t, err)
	n := &nodeSite{Site: s, policy: filepath.Join(s.Dir, "policy.yaml"), nodes: map[string]*node{}}
	for i, p := range personalities {
		name := fmt.Sprintf("node%d", i+1)
		from := ""
		unique := func(c *redfishsim.Config, s *redfishsim.State) {
			bios := biosOf(s)
			from, bios.Version = bios.Version, targetBIOS
			if c.EraseForm == redfishsim.NoTask {
				// What has no task is seen only while it runs: longer than a pause of the driver.
				c.Delays.Erase, c.Delays.Verify = 5*time.Second, 2*time.Second
				// An iLO shows no time of its start: the driver waits a minute for a POST that
				// it has not seen.
				c.Delays.POST = 2 * time.Second
			}
			s.ChassisSerial += fmt.Sprintf("-%d", i+1)
			if s.Serial != "" {
				s.Serial += fmt.Sprintf("-%d", i+1)
			}
			for _, drive := range s.Drives() {
				drive.Serial += fmt.Sprintf("N%d", i+1)
			}
		}
		one, err := s.StartNode(t.Context(), program, name, p, slices.Concat([]redfishsim.Option{unique}, options)...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, one.BMC.Kill()) })
		state, err := one.BMC.State()
		require.NoError(t, err)
		n.nodes[name] = &node{Node: one, personality: p, from: from, enrolled: state}
	}
	n.allow(t)
	n.writePolicy(t)
	return n
}

// biosOf is the firmware of the server's BIOS.
func biosOf(s *redfishsim.State) *redfishsim.Component {
	for _, c := range s.Components {
		if c.Name == "BIOS" && c.System == "" {
			return c
		}
	}
	return nil
}

// allow writes host.yaml and the secrets file.
func (s *nodeSite) allow(t testing.TB) {
	t.Helper()
	secrets := map[string]site.Secret{}
	var serials []string
	for name, one := range s.nodes {
		secret := one.Secret()
		if s.resets {
			secret.First = redfishsim.FirstPassword
		}
		secrets[name] = secret
		serial := one.enrolled.Serial
		if serial == "" {
			serial = one.enrolled.ChassisSerial
		}
		serials = append(serials, serial)
	}
	require.NoError(t, s.AllowNodes(secrets, serials...))
}

// writePolicy writes one with an image for each model, and BIOS settings for Dell's. The tenants
// of a server without firmware leave its BIOS alone.
func (s *nodeSite) writePolicy(t testing.TB, withoutFirmware ...redfishsim.Personality) {
	t.Helper()
	image := redfishsim.Image("BIOS", targetBIOS)
	path := filepath.Join(s.Dir, "bios.img")
	require.NoError(t, os.WriteFile(path, image, 0o600))
	firmware, models := []map[string]any{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		one := s.nodes[name]
		if slices.Contains(withoutFirmware, one.personality) {
			one.from = targetBIOS
			continue
		}
		if models[one.enrolled.Model] {
			continue
		}
		models[one.enrolled.Model] = true
		firmware = append(firmware, map[string]any{
			"model": one.enrolled.Model, "component": "BIOS", "from": []string{one.from}, "to": targetBIOS,
			"image": path, "sha256": redfishsim.Digest(image),
		})
	}
	policy := map[string]any{
		"firmware": firmware,
		"bios": []map[string]any{{"type": "NODE", "vendor": "Dell*",
			"settings": map[string]any{"SriovGlobalEnable": "Enabled"}}},
	}
	if s.resets {
		policy["priorities"] = map[string]any{"bmc_reset": 33}
	}
	text, err := json.Marshal(policy)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.policy, text, 0o600))
}

// env is that of the workers of these sites.
func (s *nodeSite) env(more ...string) []string {
	return append([]string{"BURNISH_DRIVERS=redfish", "BURNISH_POLICY=" + s.policy, "BURNISH_SWEEP_INTERVAL=0"}, more...)
}

// enroll takes the server into service; the flags come after the usual ones.
func (s *nodeSite) enroll(t testing.TB, name string, flags ...string) {
	t.Helper()
	s.Must(t,
		s.Site.EnrollArgs(Device(s.nodes[name].Device), append([]string{"--type", "NODE"}, flags...)...)...)
}

// state is the server as it is now.
func (n *node) state(t testing.TB) redfishsim.State {
	t.Helper()
	state, err := n.BMC.State()
	require.NoError(t, err)
	return state
}

// used leaves the server as a hostile tenant does: data on each drive, a BIOS changed and set back to
// the older version, and all that he can change of the BMC and the start.
func (n *node) used(t testing.TB) {
	t.Helper()
	n.filled(t)
	require.NoError(t, n.BMC.Change(func(s *redfishsim.State) {
		for name, value := range n.enrolled.BIOS.Attributes {
			s.BIOS.Attributes[name] = value
		}
		biosOf(s).Version = n.from
		s.Plant(n.personality)
	}))
}

// filled leaves data of a tenant on each drive.
func (n *node) filled(t testing.TB) {
	t.Helper()
	require.NoError(t, n.BMC.Change(func(s *redfishsim.State) {
		for _, drive := range s.Drives() {
			drive.Content = tenantText + drive.Serial
		}
	}))
}

// requireClean asserts what a clean by all steps leaves of the server itself: no byte of a
// tenant, the BIOS at its defaults but for what the policy sets, the firmware at its target, the BMC and
// the start set up as when it was enrolled, the power as it was, nothing pending, no session. It returns
// the state.
func (s *nodeSite) requireClean(t testing.TB, name string) redfishsim.State {
	t.Helper()
	one := s.nodes[name]
	state := one.state(t)
	require.Empty(t, state.TenantData(), "%s: drives with a tenant's data", name)
	require.Equal(t, targetBIOS, biosOf(&state).Version, name)
	require.False(t, state.BIOS.PendingReset, name)
	require.Empty(t, state.BIOS.Pending, name)
	for attribute, value := range state.BIOS.Defaults {
		if attribute == "TpmPpiBypassClear" { // without it, the clear of the TPM waits at the console
			continue
		}
		if attribute == "SriovGlobalEnable" && strings.HasPrefix(state.Manufacturer, "Dell") {
			value = "Enabled"
		}
		require.Equal(t, value, state.BIOS.Attributes[attribute], "%s: %s", name, attribute)
	}
	was, is := one.enrolled.Setup, state.Setup
	was.TPM.Clears = is.TPM.Clears
	require.Equal(t, was, is, name)
	require.Equal(t, "On", state.Power, name)
	require.False(t, state.InPOST, name)
	require.Empty(t, state.Work, name)
	s.awaitNoSession(t, name)
	violations, err := one.BMC.Violations()
	require.NoError(t, err)
	require.Empty(t, violations, name)
	return state
}

// awaitNoSession waits until no session is open on the BMC. The logout comes after the answer
// of the last step.
func (s *nodeSite) awaitNoSession(t testing.TB, name string) {
	t.Helper()
	Await(t, 10*time.Second, name+" to have no session", func() (bool, string) {
		state, err := s.nodes[name].BMC.State()
		ours := slices.DeleteFunc(state.Sessions, func(one *redfishsim.Session) bool { return one.User == redfishsim.Tenant })
		return err == nil && len(ours) == 0, fmt.Sprint(ours, err)
	})
}

// awaitAvailable waits until the inventory offers the server, and asserts what its clean left.
func (s *nodeSite) awaitAvailable(t testing.TB, name string, within time.Duration) contract.DeviceStatus {
	t.Helper()
	v := s.AwaitState(t, name, within, device.Available, device.Error)
	require.Equal(t, device.Available, v.DeviceState, "%s: %s: %s", name, v.Fault, v.LastError)
	require.False(t, v.Dirty)
	require.False(t, v.NotSanitized)
	s.RequireReserved(t, name, 0)
	s.requireClean(t, name)
	return v
}
