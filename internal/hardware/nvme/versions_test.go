package nvme_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// A whole clean with each version of nvme-cli that deploy/setup-test.sh unpacks; each verb by itself is
// tested in package privileged.
func TestACleanWithEveryVersionOfTheTool(t *testing.T) {
	roots, err := filepath.Glob("/usr/local/lib/burnish-test/nvme-cli/*/root")
	require.NoError(t, err)
	if len(roots) == 0 {
		t.Skip("no other version is unpacked: deploy/setup-test.sh does that")
	}
	for _, root := range roots {
		t.Run(filepath.Base(filepath.Dir(root)), func(t *testing.T) {
			t.Setenv(nvmesim.Unpacked, root)
			r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
				c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 10, Attached: true, WriteProtected: true}}
			})
			r.args = policyArgs(t, policyImage(t, smallImage))
			_, err := r.all(t.Context(), append(r.fullPlan(), "firmware_reflash", "verify_firmware")...)
			require.NoError(t, err)
			require.Zero(t, r.tenantBlocks(0))
		})
	}
}
