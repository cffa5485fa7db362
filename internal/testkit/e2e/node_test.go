package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
	"burnish/workflows/contract"
)

// nodeSteps are the steps of a server's clean, with a policy that has something for each.
var nodeSteps = []string{
	"security_check", "erase_drives", "verify", "firmware_reflash", "verify_firmware", "bios_reset",
	"boot_restore", "secure_boot_restore", "tpm_clear", "bios_apply", "bmc_restore", "verify_properties",
}

// A server of each vendor goes from one tenant to the next: it is reserved while it has a
// tenant, each step cleans what the tenant left, and only then it is offered again. Between
// cleans its BMC gets no request and has no session, and no secret is anywhere but in the
// secrets file. The next tenant finds the BIOS and the power as the policy has them.
func TestANodeIsCleanedByAllSteps(t *testing.T) {
	t.Parallel()
	s := newNodeSite(t, ownServer(t), redfishsim.Personalities)
	control := s.Run(t, "control", s.env("BURNISH_DEBUG=1")...)
	host := s.Run(t, "host", s.env("BURNISH_DEBUG=1")...)
	names := slices.Sorted(maps.Keys(s.nodes))
	each(t, names, func(_ int, name string) {
		s.enroll(t, name, "--provide")
		s.awaitAvailable(t, name, time.Minute)
	})
	each(t, names, func(_ int, name string) {
		s.Bind(t, name, "alice")
		v := s.Show(t, name)
		require.Equal(t, device.Allocated, v.DeviceState)
		s.RequireReserved(t, name, 1)
		s.nodes[name].used(t)
		s.Refused(t, device.CodeRefused, "bind", name, "--instance", Instance("bob"))
		s.Unbind(t, name, "alice")
		v = s.awaitAvailable(t, name, time.Minute)
		s.requireRecord(t, name, v)
	})
	t.Run("list shows each", func(t *testing.T) {
		s.AwaitSaid(t, func(out string) bool {
			var list struct {
				Devices []contract.DeviceStatus
			}
			require.NoError(t, json.Unmarshal([]byte(out), &list))
			return len(list.Devices) == len(names) && !slices.ContainsFunc(list.Devices, func(v contract.DeviceStatus) bool {
				return v.DeviceState != device.Available || v.CleanStep != nil
			})
		}, "list", "--type", "NODE", "-o", "json")
	})
	t.Run("Ironic's client finds nothing of a tenant's", func(t *testing.T) {
		for _, name := range names {
			s.nodes[name].requireSeenBySushy(t)
		}
	})
	t.Run("an idle BMC gets no request", func(t *testing.T) {
		count := func() (all []redfishsim.Counts) {
			for _, name := range names {
				counts, err := s.nodes[name].BMC.Counts()
				require.NoError(t, err)
				all = append(all, counts)
			}
			return all
		}
		before := count()
		RequireThroughout(t, 10*time.Second, "no request", func() (bool, string) {
			after := count()
			return slices.Equal(before, after), fmt.Sprint(before, after)
		})
	})
	t.Run("no secret is anywhere", func(t *testing.T) {
		var exports []byte
		for _, name := range names {
			for _, run := range s.chain(t.Context(), t, name) {
				for _, event := range run {
					text, err := proto.Marshal(event) // not as JSON, where payloads are in base64
					require.NoError(t, err)
					exports = append(exports, text...)
				}
			}
			for _, command := range [][]string{{"show", name}, {"show", name, "-o", "json"}, {"history", name},
				{"steps", name}} {
				exports = append(exports, s.Must(t, command...)...)
			}
		}
		secrets := s.secretsInUse()
		requireNone(t, "histories and answers", exports, secrets)
		require.Zero(t, host.Stop(t, time.Minute))
		require.Zero(t, control.Stop(t, time.Minute))
		require.NoError(t, s.Server.Stop())
		s.requireNoFileHas(t, secrets)
	})
}

// requireSeenBySushy asserts that python3-sushy reads the server as it was when it was enrolled.
func (n *node) requireSeenBySushy(t *testing.T) {
	t.Helper()
	const library = "/usr/lib/python3/dist-packages/sushy/main.py"
	if _, err := os.Stat(library); err != nil {
		t.Skip("python3-sushy is not installed: deploy/setup-test.sh installs it:", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, []byte(n.BMC.CA), 0o600))
	script := exec.CommandContext(t.Context(), "/usr/bin/python3",
		filepath.Join(root, "internal/testkit/redfishsim/testdata/state.py"),
		n.BMC.URL, n.BMC.Username, n.BMC.Password, ca, strings.TrimPrefix(n.BMC.SystemURL, n.BMC.URL))
	// The library prefers the environment's certificates and proxy to what it is given.
	script.Env = []string{"PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}
	var problems bytes.Buffer
	script.Stderr = &problems
	out, err := script.Output()
	require.NoError(t, err, "%s%s", out, problems.String())
	type secureBoot struct {
		Enabled bool
		Mode    string
	}
	var is struct {
		Power, BIOS, Override string
		Order, Subscriptions  []string
		SecureBoot            *secureBoot `json:"secure_boot"`
		Media                 []*string
		Accounts              map[string]string
		Sessions              int
	}
	require.NoError(t, json.Unmarshal(out, &is), "%s", out)
	was := n.enrolled.Setup
	require.Equal(t, []any{"On", targetBIOS, "Disabled", 1}, []any{is.Power, is.BIOS, is.Override, is.Sessions})
	require.Equal(t, was.Order, is.Order)
	require.Equal(t, map[string]string{"root": "Administrator", "monitor": "ReadOnly"}, is.Accounts)
	require.Equal(t, []string{was.Subscriptions[0].Destination}, is.Subscriptions)
	require.Equal(t, make([]*string, len(was.Media)), is.Media, "inserted media")
	if n.personality == redfishsim.OpenBMC {
		require.Nil(t, is.SecureBoot)
		return
	}
	require.Equal(t, &secureBoot{Enabled: true, Mode: "UserMode"}, is.SecureBoot)
}

// requireRecord asserts what the record of the server's last clean says.
func (s *nodeSite) requireRecord(t testing.TB, name string, v contract.DeviceStatus) {
	t.Helper()
	one := s.nodes[name]
	want := slices.Clone(nodeSteps)
	if one.personality != redfishsim.IDRAC { // the policy has BIOS settings for Dell's alone
		want = slices.DeleteFunc(want, func(step string) bool { return step == "bios_apply" })
	}
	require.Len(t, v.Cleans, 2)
	last := v.Cleans[1]
	require.Equal(t, "cleaned", last.Outcome)
	notes, times := map[string]string{}, ""
	var have []string
	for _, step := range last.Steps {
		have = append(have, step.Step)
		notes[step.Step] = step.Note
		times += fmt.Sprintf(" %s %.1f s,", step.Step, step.RunTime.Seconds())
	}
	t.Logf("%s:%s in all %.1f s", one.personality, times, last.RunTime.Seconds())
	require.Equal(t, want, have)
	require.Contains(t, notes["erase_drives"], "by the controller's word")
	require.Contains(t, notes["verify"], "by the controller's word")
	for _, drive := range one.enrolled.Drives() {
		require.Contains(t, notes["erase_drives"], drive.Serial)
	}
	require.Contains(t, notes["firmware_reflash"], targetBIOS)
	require.Contains(t, notes["verify_firmware"], targetBIOS)

	var listed []struct{ Step, Interface string }
	require.NoError(t, json.Unmarshal([]byte(s.Must(t, "steps", name, "-o", "json")), &listed))
	require.Len(t, listed, len(want))
	for i, step := range listed {
		require.Equal(t, want[i], step.Step)
	}
	history := s.Must(t, "history", name)
	for _, step := range want {
		require.Contains(t, history, step)
	}
}

// secretsInUse are the passwords, and how each session's token begins.
func (s *nodeSite) secretsInUse() []string {
	secrets := []string{redfishsim.TokenPrefix}
	for _, one := range s.nodes {
		secrets = append(secrets, one.BMC.Password)
	}
	return secrets
}

func requireNone(t testing.TB, where string, text []byte, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		require.False(t, bytes.Contains(text, []byte(secret)), "%s: %q", where, secret)
	}
}

// requireNoFileHas asserts that no file of the server or of the site has one of these: but the
// secrets file, these others, and the own ones of BMCs and appliances.
func (s *nodeSite) requireNoFileHas(t testing.TB, secrets []string, but ...string) {
	t.Helper()
	files := 0
	for _, dir := range []string{s.Server.Dir, s.Dir} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || path == s.SecretsFile() || slices.Contains(but, path) {
				return err
			}
			if entry.IsDir() {
				if strings.HasPrefix(entry.Name(), "bmc-") || strings.HasPrefix(entry.Name(), "appliance-") {
					return fs.SkipDir
				}
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil {
				requireNone(t, path, text, secrets)
				files++
			}
			return err
		}))
	}
	require.Greater(t, files, 10)
}
