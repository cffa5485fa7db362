package nvme_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/nvmesim"
	"burnish/internal/testkit/suites/hardwaretest"
)

// F32
func TestNothingIsWrittenWithoutTheRightTo(t *testing.T) {
	t.Parallel()
	ended := errors.New("the lease has ended")
	for operation, step := range map[device.Operation]string{
		device.CryptoErase: "sanitize", device.WriteZeroes: "zero", device.Shred: "zero",
	} {
		t.Run(string(operation), func(t *testing.T) {
			t.Parallel()
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			found := b.enroll(0)
			b.writeAsTenant(0)
			before := b.tenantBlocks(0)
			b.site.ClearLog()
			ctx := hardware.WithLease(t.Context(), func(context.Context) error { return ended })
			require.ErrorIs(t, b.clean(0, found, operation).step(ctx, step), ended)
			require.Equal(t, before, b.tenantBlocks(0))
			for _, c := range b.site.Log() {
				require.False(t, slices.Contains(changes, c.Opcode), "opcode 0x%x", c.Opcode)
			}
		})
	}
	// The drive's own zeroes are requested by parts of MaxWrite; of ordinary writes, two of
	// half of that may be under way.
	for operation, allowedBytes := range map[device.Operation]int{device.WriteZeroes: 2 * hardware.MaxWrite,
		device.Shred: hardware.MaxWrite} {
		t.Run(string(operation)+" in the midst", func(t *testing.T) {
			t.Parallel()
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			found := b.enroll(0)
			b.writeAsTenant(0)
			before := b.tenantBlocks(0)
			allowed := 2
			ctx := hardware.WithLease(t.Context(), func(context.Context) error {
				if allowed--; allowed < 0 {
					return ended
				}
				return nil
			})
			require.ErrorIs(t, b.clean(0, found, operation).step(ctx, "zero"), ended)
			require.Equal(t, allowedBytes/hardwaretest.Block, before-b.tenantBlocks(0))
		})
	}
	// Each command by itself: without the blocks that a sanitize plants first.
	t.Run("reset", func(t *testing.T) {
		t.Parallel()
		b := newDriveFixture(t, nvmesim.Drive("S1"))
		found := b.enroll(0)
		b.site.ClearLog()
		handle, err := b.driver.Open(t.Context(), b.target(0), found.Identity, true)
		require.NoError(t, err)
		defer func() { require.NoError(t, handle.Close()) }()
		ctx := hardware.WithLease(t.Context(), func(context.Context) error { return ended })
		require.ErrorIs(t, handle.(hardware.Resetter).Reset(ctx), ended)
		require.ErrorIs(t, handle.(hardware.Sanitizer).StartSanitize(ctx, device.CryptoErase), ended)
		for _, c := range b.site.Log() {
			require.False(t, slices.Contains(changes, c.Opcode), "opcode 0x%x", c.Opcode)
		}
	})
}
