package nvme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// Whatever namespaces a tenant left, no byte of the tenant survives, and the drive has one full
// namespace again. Without namespace management, unreachable bytes are a fault.
//
// F17, S2.57
func TestNamespaces(t *testing.T) {
	t.Parallel()
	const blocks = 16 << 20 / 512
	layouts := map[string][]nvmesim.Namespace{
		"one is detached":  {{NSID: 1, Blocks: blocks / 2, Attached: true}, {NSID: 2, Blocks: blocks / 2}},
		"all are detached": {{NSID: 1, Blocks: blocks}},
		"none":             {},
		"a small one":      {{NSID: 1, Blocks: blocks / 4, Attached: true}},
		"two":              {{NSID: 1, Blocks: blocks / 2, Attached: true}, {NSID: 2, Blocks: blocks / 2, Attached: true}},
		"another number":   {{NSID: 5, Blocks: blocks / 2, Attached: true}},
		"4Kn":              {{NSID: 1, Blocks: blocks / 8, Format: 1, Attached: true}},
		"with metadata":    {{NSID: 1, Blocks: blocks / 2, Format: 2, Attached: true}},
		"zoned":            {{NSID: 1, Blocks: blocks, CSI: 2, Attached: true}},
		"whole, metadata":  {{NSID: 1, Blocks: blocks, Format: 2, Attached: true}},
		"whole":            {{NSID: 1, Blocks: blocks, Attached: true}},
	}
	for name, namespaces := range layouts {
		for _, operation := range []device.Operation{device.WriteZeroes, device.CryptoErase} {
			if operation.Sanitizes() && name == "whole, metadata" {
				continue // as "with metadata"
			}
			t.Run(name+" "+string(operation), func(t *testing.T) {
				t.Parallel()
				r := used(t, operation, func(c *nvmesim.Controller) {
					c.Namespaces, c.ShowsMetadata = namespaces, name == "whole, metadata"
				})
				r.requireClean()
				after, err := r.driver.Discover(t.Context(), r.target, r.enrolled)
				require.NoError(t, err)
				require.Equal(t, device.LayoutWhole, after.Layout)
				require.Equal(t, r.enrolled, after.Identity)
				require.Zero(t, r.site.State(0).Namespaces[0].CSI, "of the NVM command set")
			})
		}
	}
}

// Every namespace is zeroed as it is. If their sum is not the enrolled size, that is a fault,
// and nothing is written.
func TestWithoutNamespaceManagement(t *testing.T) {
	const half = 8 << 20 / 512
	two := func(c *nvmesim.Controller) {
		c.OACS &^= 1 << 3
		c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: half, Attached: true}, {NSID: 2, Blocks: half, Attached: true}}
	}
	drive := nvmesim.Drive("S1")
	two(&drive)
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	require.Equal(t, device.LayoutSplit, found.Layout)
	require.Equal(t, int64(16<<20), found.Identity.Size)
	b.writeAsTenant(0)
	r := b.clean(0, found, device.WriteZeroes)
	names := r.fullPlan()
	require.NotContains(t, names, "consolidate_namespaces")
	r.requireClean(names...)

	for name, namespaces := range map[string][]nvmesim.Namespace{
		"none":         {},
		"one is gone":  {{NSID: 1, Blocks: half, Attached: true}},
		"one shrank":   {{NSID: 1, Blocks: half, Attached: true}, {NSID: 2, Blocks: half / 2, Attached: true}},
		"has metadata": {{NSID: 1, Blocks: half, Format: 2, Attached: true}, {NSID: 2, Blocks: half, Attached: true}},
		"zoned":        {{NSID: 1, Blocks: 2 * half, CSI: 2, Attached: true}},
		"shows data":   {{NSID: 1, Blocks: 2 * half, Format: 2, Attached: true}},
	} {
		t.Run(name, func(t *testing.T) {
			b.writeAsTenant(0)
			all := b.tenantBlocks(0)
			b.site.Change(0, func(c *nvmesim.Controller) { c.Namespaces, c.ShowsMetadata = namespaces, name == "shows data" })
			b.site.Rescan(0)
			r := b.clean(0, found, device.WriteZeroes)
			step, err := r.all(t.Context(), names...)
			fault(t, device.CodeNamespaceLayoutMismatch, err)
			require.Equal(t, "zero", step)
			require.Equal(t, all, b.tenantBlocks(0), "nothing is written")
		})
	}
}

// F17
func TestADriveThatRefusesNamespaceManagement(t *testing.T) {
	for name, injection := range map[string]nvmesim.Injection{
		"delete": {Opcode: nvmesim.ManageNamespace, CDW10: 1, Mask: 0xf, Status: nvmesim.InvalidOpcode},
		"create": {Opcode: nvmesim.ManageNamespace, CDW10: 0, Mask: 0xf, Skip: 1, Status: nvmesim.NoCapacity},
		"attach": {Opcode: nvmesim.AttachNamespace, Status: nvmesim.InvalidControllers},
	} {
		t.Run(name, func(t *testing.T) {
			r := used(t, device.WriteZeroes, func(c *nvmesim.Controller) {
				c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 10, Attached: true}}
				c.Inject = []nvmesim.Injection{injection}
			})
			fault(t, device.CodeCommandRefused, r.step(t.Context(), "consolidate_namespaces"))
			// The operator repaired the drive. The next clean continues.
			r.change(func(c *nvmesim.Controller) { c.Inject = nil })
			r.again(device.WriteZeroes).requireClean("consolidate_namespaces", "zero", "verify")
		})
	}
}

// A drive counts bytes in its capacity that it never allocates. Nothing is deleted before the drive
// has shown that it can give one namespace the enrolled size.
//
// F17
func TestADriveThatCannotAllocateItsWholeCapacity(t *testing.T) {
	const unallocatable = 1 << 20
	whole := nvmesim.Drive("S1")
	whole.Unallocatable = unallocatable
	whole.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: (whole.Capacity - unallocatable) / 512, Attached: true}}
	t.Run("nothing is deleted", func(t *testing.T) {
		b := newDriveFixture(t, whole)
		found := b.enroll(0)
		require.EqualValues(t, whole.Capacity, found.Identity.Size)
		b.writeAsTenant(0)
		before := b.tenantBlocks(0)
		r := b.clean(0, found, device.WriteZeroes)
		step, err := r.all(t.Context(), r.fullPlan()...)
		fault(t, device.CodeNamespaceLayoutMismatch, err)
		require.Equal(t, "consolidate_namespaces", step)
		require.ErrorContains(t, err, "1048576 bytes of the drive at")
		require.Equal(t, whole.Namespaces[0].Blocks, b.site.State(0).Namespaces[0].Blocks)
		require.Equal(t, before, b.tenantBlocks(0))
	})
	t.Run("enrolled without the rest", func(t *testing.T) {
		b := newDriveFixture(t, whole)
		target := b.target(0)
		target.Settings = map[string]string{"unallocated": "no"}
		found, err := b.driver.Discover(t.Context(), target, device.Identity{})
		require.NoError(t, err)
		require.EqualValues(t, whole.Capacity-unallocatable, found.Identity.Size)
		require.Equal(t, device.LayoutWhole, found.Layout)
		b.writeAsTenant(0)
		// A tenant splits it; it becomes one namespace of the enrolled size again.
		b.site.Change(0, func(c *nvmesim.Controller) {
			c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 10, Attached: true}}
		})
		b.site.Rescan(0)
		r := b.clean(0, found, device.WriteZeroes)
		_, err = r.all(t.Context(), r.fullPlan()...)
		require.NoError(t, err)
		require.Equal(t, whole.Namespaces[0].Blocks, b.site.State(0).Namespaces[0].Blocks)
	})
	t.Run("a rest that the drive does not report", func(t *testing.T) {
		c := whole
		c.HidesUnallocatable = true
		found := newDriveFixture(t, c).enroll(0)
		require.EqualValues(t, whole.Capacity-unallocatable, found.Identity.Size)
	})
}
