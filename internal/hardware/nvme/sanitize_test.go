package nvme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// S2.55, S2.56
func TestOneSanitizeIsStartedAndPolledToItsEnd(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Sanitize.Polls = 5
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	b.writeAsTenant(0)
	b.site.ClearLog()
	r := b.clean(0, found, device.BlockErase)
	var offsets []int64
	r.stop = func(_ string, offset int64) error {
		offsets = append(offsets, offset)
		return nil
	}
	require.NoError(t, r.step(t.Context(), "sanitize"))
	require.IsIncreasing(t, offsets[2:], "its progress")
	require.Positive(t, offsets[len(offsets)-1])
	started, polled := 0, 0
	for _, c := range b.site.Log() {
		switch {
		case c.Opcode == nvmesim.SanitizeDrive:
			started++
			require.Equal(t, uint32(2), c.CDW[0], "neither AUSE nor any other bit")
		case c.Opcode == nvmesim.GetLog && c.CDW[0]&0xff == 0x81:
			polled++
		}
	}
	require.Equal(t, 1, started)
	require.GreaterOrEqual(t, polled, 6)
	require.Zero(t, b.tenantBlocks(0))
}

// nvme-cli exits with 0 although the drive did nothing.
//
// F22
func TestExitCodeZeroProvesNothing(t *testing.T) {
	for name, opcode := range map[string]uint8{"delete and create": nvmesim.ManageNamespace,
		"attach": nvmesim.AttachNamespace} {
		t.Run(name, func(t *testing.T) {
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			found := b.enroll(0)
			b.writeAsTenant(0)
			b.site.Change(0, func(c *nvmesim.Controller) {
				c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 10, Attached: true}, {NSID: 2, Blocks: 1 << 10}}
				c.Inject = []nvmesim.Injection{{Opcode: opcode, NoEffect: true}}
			})
			b.site.Rescan(0)
			step, err := b.clean(0, found, device.WriteZeroes).all(t.Context(), "consolidate_namespaces", "zero", "verify")
			fault(t, device.CodeNamespaceLayoutMismatch, err)
			require.Equal(t, "consolidate_namespaces", step)
		})
	}
}
