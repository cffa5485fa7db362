package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
)

// What an instance keeps of a device is in the device's status; another MAC is no other device.
//
// S0.24, S1.16
func TestTheStatusShowsMACAndLiveMigratableMark(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	w.host.discovery.Identity.MAC, w.host.discovery.LiveMigratable = "52:54:00:00:00:01", true
	w.makeAvailable()
	require.Equal(t, "52:54:00:00:00:01", w.view().MAC)
	require.True(t, w.view().LiveMigratable)

	w.host.discovery.Identity.MAC, w.host.discovery.LiveMigratable = "52:54:00:00:00:02", false
	w.rediscoverDrive()
	now := w.view()
	require.Equal(t, "52:54:00:00:00:02", now.MAC)
	require.False(t, now.LiveMigratable)
	require.Equal(t, device.Available, now.DeviceState)
	require.Empty(t, now.Fault)
}
