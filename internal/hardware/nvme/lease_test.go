package nvme_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// F32
func TestNothingIsWrittenWithoutTheRightTo(t *testing.T) {
	t.Parallel()
	ended := errors.New("the lease has ended")
	leased := func(t *testing.T, allowed int) context.Context {
		return hardware.WithLease(t.Context(), func(context.Context) error {
			if allowed--; allowed < 0 {
				return ended
			}
			return nil
		})
	}
	// The drive's own zeroes are requested by parts of MaxWrite; of ordinary writes, two of
	// half of that may be under way.
	for name, tt := range map[string]struct {
		operation        device.Operation
		step             string
		allowed, written int
	}{
		"sanitize":                  {operation: device.CryptoErase, step: "sanitize"},
		"write zeroes":              {operation: device.WriteZeroes, step: "zero"},
		"shred":                     {operation: device.Shred, step: "zero"},
		"write zeroes in the midst": {device.WriteZeroes, "zero", 2, 2 * hardware.MaxWrite},
		"shred in the midst":        {device.Shred, "zero", 2, hardware.MaxWrite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := used(t, tt.operation)
			before := r.tenantBlocks(0)
			require.ErrorIs(t, r.step(leased(t, tt.allowed), tt.step), ended)
			require.Equal(t, tt.written/hardwaretest.Block, before-r.tenantBlocks(0))
			require.Empty(t, r.sent())
		})
	}
	// Each command by itself: without the blocks that a sanitize plants first.
	t.Run("reset", func(t *testing.T) {
		t.Parallel()
		r := enrolled(t, device.CryptoErase)
		handle := r.open(r.found)
		require.ErrorIs(t, handle.(hardware.Resetter).Reset(leased(t, 0)), ended)
		require.ErrorIs(t, handle.(hardware.Sanitizer).StartSanitize(leased(t, 0), device.CryptoErase), ended)
		require.Empty(t, r.sent())
	})
}
