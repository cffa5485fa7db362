package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/workflows/contract"
)

// oneviewFile writes an oneview.yaml that names one appliance rack1, without polls.
func oneviewFile(t testing.TB, appliance *oneviewsim.Server) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "oneview.yaml")
	text, err := json.Marshal(map[string]any{"appliances": map[string]any{"rack1": map[string]any{
		"url": appliance.URL, "username": appliance.Username, "password": appliance.Password, "domain": appliance.Domain, "ca": appliance.CA,
		"periodic_check_interval": 0, "page_size": 2,
	}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// An operator enrolls an appliance's servers as pre-allocated ones, gives one to a tenant, and
// migrates them: the tenant's profile is recorded and stays, the idle one is removed, and the
// server is available again. A second run changes nothing. Then validate shows who has a
// server.
func TestServersAreEnrolledAndMigrated(t *testing.T) {
	t.Parallel()
	appliance := oneviewsim.Start(t, oneviewsim.Servers(5))
	s := newSite(t)
	s.Run(t, "all", "BURNISH_ONEVIEW="+oneviewFile(t, appliance))
	for _, name := range []string{"server-1", "server-2"} {
		require.NoError(t, appliance.Take(name)) // in the old model Burnish's, whoever made it
	}
	enroll := []string{
		"enroll", "--from", "oneview", "--host", s.Host, "--driver", "fake", "--template", oneviewsim.TemplateURI,
		"--set", "size=1MiB,serial={serial}", "--filter", "name=server-*", "--filter", "serial=cz0000000[", "--dry-run",
	}
	require.Equal(t, "nothing to enroll: no server matches\n", s.Must(t, enroll...))
	enroll[len(enroll)-2] = "serial=cz0000000?"
	require.Equal(t, 5, strings.Count(s.Must(t, enroll...), ": would be enrolled: serial CZ"))
	enroll = enroll[:len(enroll)-1]
	require.Equal(t, 5, strings.Count(s.Must(t, enroll...), ": enrolled, now manageable"))
	name := func(n int) string { return fmt.Sprintf("server-%d-cz%08d", n, n) }
	for n := 1; n <= 5; n++ {
		s.AwaitDevice(t, name(n), 20*time.Second, "to be listed", func(v contract.DeviceStatus) bool {
			return v.Serial != ""
		})
	}
	s.AwaitListed(t, "nothing to enroll: all servers that match are enrolled (5)", enroll...)

	s.Must(t, "provide", name(1), name(2), "--wait", "--timeout", "60s")
	require.Empty(t, appliance.Profiles(appliance.Username), "pre-allocated: a clean needs no other profile")
	s.Must(t, "bind", name(1), "--instance", Instance("alice"))

	tenant, err := appliance.Server("server-1")
	require.NoError(t, err)
	dry := s.Must(t, "oneview", "migrate", "--dry-run")
	require.Contains(t, dry, name(1)+": instance "+Instance("alice")+" has it: would record its profile "+tenant.Profile+
		"; state allocated\n")
	require.Contains(t, dry, name(2)+": would switch its server off and remove the idle profile ")
	require.Equal(t, 3, strings.Count(dry, ": no profile is on its server: would only become dynamic; state manageable\n"),
		dry)

	migrated := s.Must(t, "oneview", "migrate")
	require.Equal(t, 5, strings.Count(migrated, ": migrated"))
	require.Contains(t, migrated, name(1)+": migrated, now allocated; its profile is recorded: "+tenant.Profile+"\n")
	v := s.Show(t, name(1))
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Equal(t, tenant.Profile, v.Pool.Profile)
	require.True(t, v.Pool.Dynamic)
	v = s.AwaitState(t, name(2), 60*time.Second, device.Available)
	require.Empty(t, v.Pool.Profile)
	idle, err := appliance.Server("server-2")
	require.NoError(t, err)
	require.Empty(t, idle.Profile)
	require.Equal(t, oneviewsim.Off, idle.Power)
	after, err := appliance.Server("server-1")
	require.NoError(t, err)
	require.Equal(t, tenant.Profile, after.Profile)
	require.Equal(t, tenant.Power, after.Power)
	s.AwaitListed(t, "nothing to migrate: no device is pre-allocated\n", "oneview", "migrate")

	require.Regexp(t, `(?m)^pool +ok +ours, profile `+tenant.Profile+`$`, s.Must(t, "validate", name(1)))
	require.Regexp(t, `(?m)^pool +ok +free, no profile$`, s.Must(t, "validate", name(2)))
	require.NoError(t, appliance.Take("server-2"))
	require.NoError(t, appliance.Take("server-3"))
	s.Refused(t, device.CodeServerTaken, "validate", name(2))
	require.Regexp(t, `(?m)^pool +ok +taken, .*shown only, because the device is manageable$`,
		s.Must(t, "validate", name(3)))
	require.Contains(t, s.Must(t, "show", name(1)), "rack1, dynamic")
}
