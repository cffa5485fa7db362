package script

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The program knows best; then the kernel; and what was known before counts while a guest's
// driver holds the NIC, and the kernel shows no interface.
//
// S1.16
func TestTheMACOfANIC(t *testing.T) {
	r := newFakeHost(t)
	discover := func(known device.Identity) hardware.Discovery {
		t.Helper()
		found, err := r.driver.Discover(t.Context(), r.target, known)
		require.NoError(t, err)
		return found
	}
	none := discover(device.Identity{})
	require.Empty(t, none.Identity.MAC)

	r.setAttribute(t, "net/eth9/address", "52:54:00:00:00:01\n")
	r.setAttribute(t, "net/eth9/addr_assign_type", "0\n")
	fromKernel := discover(none.Identity)
	require.Equal(t, "52:54:00:00:00:01", fromKernel.Identity.MAC, "and it is the same device")

	require.NoError(t, os.RemoveAll(filepath.Join(r.deviceDir(), "net")))
	require.Equal(t, "52:54:00:00:00:01", discover(fromKernel.Identity).Identity.MAC)

	r.write(t, "identity",
		`{"serial": "S1", "model": "A100", "size": 42949672960, "mac": "52-54-00-00-00-0A", "steps": ["erase_device", "verify"]}`)
	require.Equal(t, "52:54:00:00:00:0a", discover(fromKernel.Identity).Identity.MAC)

	r.write(t, "identity",
		`{"serial": "S1", "model": "A100", "size": 42949672960, "mac": "*", "steps": ["erase_device", "verify"]}`)
	_, err := r.driver.Discover(t.Context(), r.target, fromKernel.Identity)
	require.ErrorContains(t, err, `its MAC "*" is not of the form`)
}
