package nvme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// Every state in which a drive refuses commands is ended, in an order that the drive accepts.
//
// F20
func TestNothingATenantLeavesBlocksAClean(t *testing.T) {
	t.Parallel()
	const failed, runs = 3, 2
	const half = 8 << 20 / 512
	all := []device.Operation{device.CryptoErase, device.WriteZeroes}
	for name, tt := range map[string]struct {
		operations []device.Operation
		change     func(*nvmesim.Controller)
	}{
		"write protection, and a sanitize that failed": {all[:1], func(c *nvmesim.Controller) {
			c.Sanitize.Status, c.Sanitize.CDW10, c.Namespaces[0].WriteProtected = failed, 4, true
		}},
		"write protection, and a sanitize that runs": {all[:1], func(c *nvmesim.Controller) {
			c.Sanitize.Status, c.Sanitize.CDW10, c.Namespaces[0].WriteProtected = runs, 4, true
		}},
		"write protection of a detached namespace": {all, func(c *nvmesim.Controller) {
			c.Namespaces = []nvmesim.Namespace{
				{NSID: 1, Blocks: half, Attached: true},
				{NSID: 2, Blocks: half, Offset: half * 512, WriteProtected: true},
			}
		}},
		"write protection of the only one, detached": {all, func(c *nvmesim.Controller) {
			c.Namespaces[0].Attached, c.Namespaces[0].WriteProtected = false, true
		}},
		"media verification": {all, func(c *nvmesim.Controller) {
			c.Sanitize.Status, c.Sanitize.Verifying, c.Sanitize.CDW10 = runs, true, 4
		}},
	} {
		for _, operation := range tt.operations {
			t.Run(name+", "+string(operation), func(t *testing.T) {
				t.Parallel()
				r := used(t, operation, tt.change)
				plan := r.fullPlan()
				if operation == device.WriteZeroes {
					plan = []string{"security_check", "consolidate_namespaces", "zero", "verify"}
				}
				var err error
				for range 3 { // what is transient is tried again
					if _, err = r.all(t.Context(), plan...); err == nil {
						break
					}
					f, _ := device.AsFault(err)
					require.Equal(t, device.Transient, f.Class, "%v", err)
				}
				require.NoError(t, err)
				require.Zero(t, r.tenantBlocks(0))
				provenCommands(t, r.site, "S1")
			})
		}
	}
}

// A drive to which nothing was written since its last sanitize: global-data-erased is set
// before, and the sanitize is too quick to be seen running, unless something is written first.
//
// F18
func TestSanitizeTooQuickToBeSeenRunning(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*nvmesim.Controller){
		"new":           func(*nvmesim.Controller) {},
		"sanitized":     func(c *nvmesim.Controller) { c.Sanitize.Status, c.Sanitize.CDW10 = 1, 4 },
		"failed, blind": func(c *nvmesim.Controller) { c.Sanitize.Status, c.Sanitize.GlobalErased, c.Namespaces = 3, false, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enrolled(t, device.CryptoErase, func(c *nvmesim.Controller) { c.Sanitize.Polls = 0 }, change).requireClean()
		})
	}
}
