package nvme_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/testkit/nvmesim"
)

// unpacked is where deploy/setup-test.sh unpacks the nvme-cli of other releases of Debian, each
// with its libraries.
const unpacked = "/usr/local/lib/burnish-test/nvme-cli"

// Every other test of this package passes with each version that is a real program somewhere: this
// machine's own, and those of other releases, each in a run of its own.
func TestEveryVersionOfTheTool(t *testing.T) {
	if os.Getenv(nvmesim.Unpacked) != "" {
		t.Log("this is a run for one version")
		return
	}
	roots, err := filepath.Glob(filepath.Join(unpacked, "*", "root"))
	require.NoError(t, err)
	if len(roots) == 0 {
		t.Skipf("no other version is unpacked below %s: deploy/setup-test.sh does that", unpacked)
	}
	var tried []string
	for _, root := range roots {
		t.Setenv(nvmesim.Unpacked, root)
		version, err := nvmecli.ParseVersion(printedBy(t, "version"))
		require.NoError(t, err)
		tried = append(tried, version.Text)
		t.Run(version.Text, func(t *testing.T) {
			require.False(t, version.Untried(), "nvmecli.Tried does not name it")
			all := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.v", "-test.timeout=15m")
			output, err := all.CombinedOutput()
			if err != nil {
				for _, failed := range regexp.MustCompile(`(?m)^ *--- FAIL.*$`).FindAll(output, -1) {
					t.Logf("%s", failed)
				}
				t.Fatalf("%v; the end of its output:\n%s", err, output[max(0, len(output)-8192):])
			}
			require.Empty(t, regexp.MustCompile(`(?m)^ *--- SKIP.*$`).FindAllString(string(output), -1))
			t.Logf("%d tests passed", bytes.Count(output, []byte("--- PASS")))
		})
	}
	require.Len(t, tried, 3, "of bullseye, trixie and sid: %v", tried)
}

// printedBy runs the nvme-cli in force on a host of its own.
func printedBy(t *testing.T, args ...string) []byte {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), nvmesim.New(t).Tool(), args...).Output()
	require.NoError(t, err)
	return output
}
