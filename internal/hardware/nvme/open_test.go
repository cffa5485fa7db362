package nvme_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
)

// A check that fails while the drive is opened leaves nothing claimed: the next clean gets the
// drive.
//
// F12
func TestAFailedCheckReleasesTheDrive(t *testing.T) {
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	b.writeAsTenant(0)
	refused, asked := errors.New("refused"), 0
	b.allow = func(pci.Device) error {
		if asked++; asked == 2 { // after the disks are claimed
			return refused
		}
		return nil
	}
	r := b.clean(0, found, device.WriteZeroes)
	require.ErrorIs(t, r.step(t.Context(), "zero"), refused)
	require.Equal(t, 2, asked)
	_, err := r.all(t.Context(), "zero", "verify")
	require.NoError(t, err)
	require.Zero(t, b.tenantBlocks(0))
}
