package all_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/all"
)

func TestEveryDriverGoesByItsName(t *testing.T) {
	require.Equal(t, []string{"block", "fake", "nvme"}, all.Names())
	drivers, err := all.Drivers(append(all.Names(), "fake"), all.Host{StateDir: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, drivers, len(all.Names()))
	for name, driver := range drivers {
		require.Equal(t, name, driver.Name())
	}
}

func TestF13_ByDefaultNothingMayBeDestroyed(t *testing.T) {
	drivers, err := all.Drivers(all.Names(), all.Host{StateDir: t.TempDir()})
	require.NoError(t, err)
	for name, settings := range map[string]map[string]string{
		"block": {"path": "/dev/null"},
		"fake":  {},
	} {
		_, err := drivers[name].Discover(t.Context(), hardware.Target{Name: "d1", Settings: settings}, device.Identity{})
		fault, ok := device.AsFault(err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, device.CodeNotAllowed, fault.Code, name)
	}
}

func TestUnknownDriverIsNamedWithTheKnownOnes(t *testing.T) {
	_, err := all.Drivers([]string{"fake", "floppy"}, all.Host{})
	require.EqualError(t, err, `there is no driver "floppy": known are block, fake, nvme`)
}
