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
	if os.Getenv(nvmesim.Unpacked) != "" { // a run for one version
		printed, err := exec.CommandContext(t.Context(), nvmesim.New(t).Tool(), "version").Output()
		require.NoError(t, err)
		version, err := nvmecli.ParseVersion(printed)
		require.NoError(t, err)
		require.False(t, version.Untried(), "nvmecli.Tried does not name it")
		t.Logf("%s", printed)
		return
	}
	roots, err := filepath.Glob(filepath.Join(unpacked, "*", "root"))
	require.NoError(t, err)
	if len(roots) == 0 {
		t.Skipf("no other version is unpacked below %s: deploy/setup-test.sh does that", unpacked)
	}
	require.Len(t, roots, 3, "of bullseye, trixie and sid")
	for _, root := range roots {
		t.Run(filepath.Base(filepath.Dir(root)), func(t *testing.T) {
			t.Parallel()
			all := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=25m")
			all.Env = append(os.Environ(), nvmesim.Unpacked+"="+root)
			output, err := all.CombinedOutput()
			if err != nil {
				for _, failed := range regexp.MustCompile(`(?m)^ *--- FAIL.*$`).FindAll(output, -1) {
					t.Logf("%s", failed)
				}
				t.Fatalf("%v; the end of its output:\n%s", err, output[max(0, len(output)-8192):])
			}
			require.Empty(t, regexp.MustCompile(`(?m)^ *--- SKIP.*$`).FindAllString(string(output), -1))
			t.Logf("%s: %d tests passed", regexp.MustCompile(`nvme version \S+`).Find(output),
				bytes.Count(output, []byte("--- PASS")))
		})
	}
}
