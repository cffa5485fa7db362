package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// drilled is how many devices the drill has: BURNISH_DRILL, as in `make soak`, or few.
func drilled(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BURNISH_DRILL")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// The Temporal database is lost without a backup, and with it a fleet of which each tenth device has a tenant. A new
// server, the host's worker that accepts it, and every device is accounted for: a tenant keeps his, by the inventory,
// and no other device is offered unless it is clean. An export gives back what only the database knew.
func TestTheDatabaseIsLost(t *testing.T) {
	t.Parallel()
	n := drilled(t)
	s := ownServer(t)
	w := s.Run(t, "all", "BURNISH_MAX_CLEANS_PER_HOST=20")
	var fleet strings.Builder
	fleet.WriteString("devices:\n")
	for i := range n {
		fmt.Fprintf(&fleet, "  - {name: d%d, host: %s, driver: fake, provide: true, set: {size: %d, serial: S%d}}\n",
			i, s.Host, 64<<10, i)
	}
	s.Must(t, "enroll", "-f", s.writeFile(t, "fleet.yaml", fleet.String()))
	within := time.Minute + time.Duration(n)*300*time.Millisecond
	await := func(what string, is func(i int, v contract.DeviceStatus) bool) {
		t.Helper()
		Await(t, within, what, func() (bool, string) {
			all, err := s.List(t.Context())
			if err != nil {
				return false, err.Error()
			}
			wrong := n - len(all)
			for _, v := range all {
				i, err := strconv.Atoi(strings.TrimPrefix(v.Name, "d"))
				require.NoError(t, err)
				if !is(i, v) {
					wrong++
				}
			}
			return wrong == 0, fmt.Sprintf("%d of %d are not", wrong, n)
		})
	}
	await("all to be available", func(_ int, v contract.DeviceStatus) bool { return isAvailable(v) })
	tenant := func(i int) string { return fmt.Sprintf("tenant-%d", i) }
	for i := 0; i < n; i += 10 {
		s.Bind(t, fmt.Sprintf("d%d", i), tenant(i))
	}
	s.Must(t, "label", "d1", "rack=a7")
	backup := filepath.Join(t.TempDir(), "export.json")
	s.Must(t, "export", "-o", backup)
	was := s.Show(t, "d1")

	lost := time.Now()
	w.Kill(t)
	require.NoError(t, s.Server.Kill())
	other := s.emptyServer(t)
	s.serve(t, other)
	w.Address = other.Address
	w.Env = append(w.Env, "BURNISH_ACCEPT_SERVER="+clusterOf(t, other, s.Namespace)+"/"+s.Namespace)
	w.Start(t)
	await("all to be accounted for", func(i int, v contract.DeviceStatus) bool {
		if i%10 == 0 {
			return v.DeviceState == device.Allocated && v.InstanceUUID != nil && *v.InstanceUUID == Instance(tenant(i))
		}
		return isAvailable(v) || v.NeedsOperator
	})
	t.Logf("%d devices were accounted for %s after the database was lost", n, time.Since(lost).Round(time.Millisecond))

	v := s.Show(t, "d1")
	require.Empty(t, v.Labels["rack"])
	for range 2 { // what is there already is not added again
		s.Must(t, "import", "--from", backup)
		v = s.Show(t, "d1")
		require.Equal(t, "a7", v.Labels["rack"])
		require.GreaterOrEqual(t, len(v.Cleans), len(was.Cleans))
		require.Equal(t, was.Cleans[0], v.Cleans[0])
		require.Equal(t, "enroll", v.Acts[0].Verb)
		require.Equal(t, was.Acts[0].At, v.Acts[0].At)
		require.Len(t, v.Acts, len(was.Acts)+2, "that the workflow was lost, and the import, are acts")
	}
}
