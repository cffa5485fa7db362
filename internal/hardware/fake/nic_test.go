package fake

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

func TestSettingsOfANICAndOfLiveMigration(t *testing.T) {
	d := New(t.TempDir(), allowed)
	found, err := d.Discover(t.Context(), target("d1", "mac", "52:54:00:AB:CD:EF", "live_migratable", "yes"),
		device.Identity{})
	require.NoError(t, err)
	require.Equal(t, "52:54:00:ab:cd:ef", found.Identity.MAC)
	require.True(t, found.LiveMigratable)

	again, err := d.Discover(t.Context(), target("d1", "mac", "52:54:00:00:00:01", "live_migratable", "no"),
		found.Identity)
	require.NoError(t, err, "another MAC is no other device")
	require.Equal(t, "52:54:00:00:00:01", again.Identity.MAC)
	require.False(t, again.LiveMigratable)

	for key, value := range map[string]string{"mac": "52:54:00:ab:cd", "live_migratable": "maybe"} {
		_, err := d.Discover(t.Context(), target("d2", key, value), device.Identity{})
		require.ErrorContains(t, err, value)
	}
}
