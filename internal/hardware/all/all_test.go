package all_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/all"
	"burnish/internal/pci"
)

func TestEveryDriverGoesByItsName(t *testing.T) {
	require.Equal(t, []string{"block", "fake", "nvme", "script"}, all.Names())
	drivers, err := all.Drivers(append(all.Names(), "fake"), all.Host{StateDir: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, drivers, len(all.Names()))
	for name, driver := range drivers {
		require.Equal(t, name, driver.Name())
	}
}

// F13
func TestByDefaultNothingMayBeDestroyed(t *testing.T) {
	drivers, err := all.Drivers(all.Names(), all.Host{StateDir: t.TempDir()})
	require.NoError(t, err)
	for name, target := range map[string]hardware.Target{
		"block":  {Settings: map[string]string{"path": "/dev/null"}},
		"fake":   {},
		"script": {Address: notStorage(t), Settings: map[string]string{"script": "any"}},
	} {
		if name == "script" && target.Address == "" {
			t.Log("this machine has no PCI device for the driver script")
			continue
		}
		target.Name = "d1"
		_, err := drivers[name].Discover(t.Context(), target, device.Identity{})
		fault, ok := device.AsFault(err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, device.CodeNotAllowed, fault.Code, name)
	}
}

func TestUnknownDriverIsNamedWithTheKnownOnes(t *testing.T) {
	_, err := all.Drivers([]string{"fake", "floppy"}, all.Host{})
	require.EqualError(t, err, `there is no driver "floppy": known are block, fake, nvme, script`)
}

// notStorage is the address of a PCI device of this machine that the driver script would
// take, "" where it has none.
func notStorage(t *testing.T) string {
	t.Helper()
	devices, err := pci.Scan(pci.Devices)
	require.NoError(t, err)
	for _, d := range devices {
		if !strings.HasPrefix(d.Class, "01") && d.Type != pci.Virtual && len(d.Functions) == 0 {
			return d.Address
		}
	}
	return ""
}
