package nvme_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/pci"
)

// A check that fails while the drive is opened leaves nothing claimed: the next clean gets the
// drive.
//
// F12
func TestAFailedCheckReleasesTheDrive(t *testing.T) {
	r := used(t, device.WriteZeroes)
	refused, asked := errors.New("refused"), 0
	r.allow = func(pci.Device) error {
		if asked++; asked == 2 { // after the disks are claimed
			return refused
		}
		return nil
	}
	require.ErrorIs(t, r.step(t.Context(), "zero"), refused)
	require.Equal(t, 2, asked)
	r.requireClean("zero", "verify")
}
