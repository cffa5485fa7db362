package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

const instancesPage = "../../../docs/instances.md"

// twoHosts starts a control worker and the workers of two hosts, h1 and h2, each with four NVMe
// drives, a NIC, and three disks, which are live-migratable. It returns when all are available.
func twoHosts(t *testing.T) *Site {
	t.Helper()
	s := newSite(t)
	s.Run(t, "control")
	var names []string
	further := map[string]string{"NIC": ",mac=02:00:00:00:00:05", "DISK": ",live_migratable=yes"}
	for _, host := range []string{"h1", "h2"} {
		w := s.Worker(t, "host")
		w.Host, w.StateDir = host, filepath.Join(s.Dir, host)
		w.Start(t)
		for i, kind := range []string{"NVME", "NVME", "NVME", "NVME", "NIC", "DISK", "DISK", "DISK"} {
			address := fmt.Sprintf("0000:%02d:00.0", i+1)
			s.Must(t, "enroll", "--host", host, "--driver", "fake", "--type", kind, "--address", address, "--provide",
				"--set", fmt.Sprintf("size=1MiB,serial=S%s%d%s", host[1:], i+1, further[kind]))
			names = append(names, host+"_"+address)
		}
	}
	for _, name := range names {
		s.AwaitState(t, name, 30*time.Second, device.Available)
	}
	return s
}

// TestInstancesPage runs every command of docs/instances.md as it stands there, in one shell,
// and compares every answer. Which of several equal devices is picked is left to chance.
func TestInstancesPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(instancesPage)
	require.NoError(t, err)
	commands := docCommands(string(text))
	require.Greater(t, len(commands), 15)
	s := twoHosts(t)
	setup := docCommand{command: "export TEMPORAL_ADDRESS=" + s.Server.Address + " TEMPORAL_NAMESPACE=" + s.Namespace}
	answers := shell(t, t.TempDir(), append([]docCommand{setup}, commands...), strings.NewReplacer())[1:]
	chance := regexp.MustCompile(`0000:\d\d:00\.0|\bS[12]\d\b|\bbinding \d+|\b[\w-]+@[\w.-]+`)
	compare(t, instancesPage, string(text), commands, answers, func(line string) string {
		return chance.ReplaceAllString(line, "ANY")
	})
}
