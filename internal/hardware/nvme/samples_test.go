package nvme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// If a tenant hid its data from the host's disks, a drive that erases nothing is still
// detected, and a drive that erases passes.
//
// F19
func TestHiddenNamespacesAreSampled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*nvmesim.Controller){
		"no namespace":   func(c *nvmesim.Controller) { c.Namespaces = nil },
		"a detached one": func(c *nvmesim.Controller) { c.Namespaces[0].Attached = false },
		"a small one":    func(c *nvmesim.Controller) { c.Namespaces[0].Blocks = 8 },
		"none, after a fail, refused otherwise": func(c *nvmesim.Controller) {
			c.Namespaces, c.Sanitize.Status, c.Sanitize.CDW10 = nil, 3, 4
			c.Inject = []nvmesim.Injection{{Opcode: nvmesim.ManageNamespace, Status: nvmesim.InvalidOpcode, Times: 1}}
		},
		"none, after a fail": func(c *nvmesim.Controller) { c.Namespaces, c.Sanitize.Status, c.Sanitize.CDW10 = nil, 3, 4 },
	} {
		for _, leaves := range []nvmesim.Leaves{"unchanged", "random"} {
			t.Run(name+", "+string(leaves), func(t *testing.T) {
				t.Parallel()
				r := used(t, device.CryptoErase, func(c *nvmesim.Controller) { c.Sanitize.Leaves = leaves }, change)
				step, err := r.all(t.Context(), r.fullPlan()...)
				if leaves == "unchanged" {
					require.Contains(t, fault(t, device.CodeVerifyFailed, err).Message, "is still there")
					require.Equal(t, "sanitize", step)
					return
				}
				require.NoError(t, err)
				require.Zero(t, r.tenantBlocks(0))
				require.Contains(t, r.done["verify"].Note, "128 of 128 planted blocks changed")
				provenCommands(t, r.site, "S1")
			})
		}
	}
}

// After a crash the drive is made to show all its data again.
//
// F19
func TestCrashBeforeTheSamples(t *testing.T) {
	t.Parallel()
	for at := range 3 {
		r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
			c.Namespaces[0].Attached, c.Sanitize.Leaves = false, "unchanged"
		})
		r.stop = r.crashOnce(func() bool { return r.checkpoints == at+1 })
		require.ErrorIs(t, r.step(t.Context(), "sanitize"), errCrash)
		fault(t, device.CodeVerifyFailed, r.step(t.Context(), "sanitize"))
	}
}
