package redfishsim_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// Ironic's own client sees a BMC: it goes through the same operations as Burnish does.
func TestSushyOperatesEachPersonality(t *testing.T) {
	const library = "/usr/lib/python3/dist-packages/sushy/main.py"
	if _, err := os.Stat(library); err != nil {
		t.Skip("python3-sushy is not installed: deploy/setup-test.sh installs it:", err)
	}
	each(t, func(t *testing.T, p redfishsim.Personality) {
		t.Parallel()
		version := "9.9.9"
		if p == redfishsim.ILO {
			version = "U54 v9.99 (01/01/2026)"
		}
		image := redfishsim.Image("BIOS", version)
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(image) }))
		defer web.Close()
		bmc := redfishsim.Start(t, p)
		before := bmc.State()
		ca := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(ca, []byte(bmc.CA), 0o600))
		script := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/operations.py",
			bmc.URL, bmc.Username, bmc.Password, ca, strings.TrimPrefix(bmc.SystemURL, bmc.URL), web.URL+"/bios.bin", version)
		// The library prefers the environment's certificates and proxy to what it is given.
		script.Env = []string{"PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}
		var problems bytes.Buffer
		script.Stderr = &problems
		out, err := script.Output()
		require.NoError(t, err, "%s%s", out, problems.String())

		said := map[string]map[string]any{}
		for line := range strings.Lines(string(out)) {
			name, what, _ := strings.Cut(line, " ")
			var values map[string]any
			require.NoError(t, json.Unmarshal([]byte(what), &values), line)
			said[name] = values
		}
		require.Equal(t, before.Manufacturer, said["system"]["maker"])
		require.Equal(t, []any{64.0, 128.0}, []any{said["system"]["cores"], said["system"]["memory"]})
		require.Equal(t, before.ChassisSerial, said["around"]["chassis"])
		require.Equal(t, "On", said["power"]["state"])
		require.EqualValues(t, bmc.Config().PowerConflict, said["power"]["refused"])
		if p == redfishsim.OpenBMC {
			require.Equal(t, false, said["bios"]["attributes"])
			require.Nil(t, said["update"], "it has no SimpleUpdate")
		} else {
			require.Equal(t, map[string]any{
				"attributes": true, "pending": "Disabled", "wanted_only": true, "before": "TenantProfile", "at_default": true,
			}, said["bios"])
			require.Equal(t, bmc.Config().BIOSStaged, said["update"]["staged"])
			require.Equal(t, p != redfishsim.ILO, said["update"]["task"])
			require.EqualValues(t, 1, said["update"]["running"])
			require.Len(t, bmc.Commits("BIOS"), 1)
			require.Equal(t, redfishsim.Digest(image), bmc.Commits("BIOS")[0].Digest)
		}
		if said["update"]["task"] == true {
			require.Equal(t, []any{"Completed", "OK"}, said["update"]["end"])
		}
		require.EqualValues(t, 5, said["drives"]["count"])
		if bmc.Config().EraseForm != redfishsim.NoTask {
			require.EqualValues(t, 5, said["drives"]["tasks"])
		}
		require.Empty(t, bmc.TenantData())
		require.EqualValues(t, 1, said["sessions"]["open"])
		require.Equal(t, "On", said["again"]["power"])
		require.Empty(t, bmc.OpenSessions(), "it logged out")
		state := bmc.State()
		require.Empty(t, state.Bricked)
		require.Empty(t, state.Interrupted)
	})
}
