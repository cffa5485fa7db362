package nvme_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// S2.55, S2.56
func TestOneSanitizeIsStartedAndPolledToItsEnd(t *testing.T) {
	r := used(t, device.BlockErase, func(c *nvmesim.Controller) { c.Sanitize.Polls = 5 })
	var offsets []int64
	r.stop = func(_ string, offset int64) error {
		offsets = append(offsets, offset)
		return nil
	}
	r.requireClean("sanitize")
	require.IsIncreasing(t, offsets[2:], "its progress")
	require.Positive(t, offsets[len(offsets)-1])
	require.Len(t, r.sent(nvmesim.SanitizeDrive), 1)
	require.Equal(t, uint32(2), r.sent(nvmesim.SanitizeDrive)[0].CDW[0], "neither AUSE nor any other bit")
	polled := slices.DeleteFunc(r.sent(nvmesim.GetLog), func(c nvmesim.Command) bool { return c.CDW[0]&0xff != 0x81 })
	require.GreaterOrEqual(t, len(polled), 6)
}
