package drivers_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
	"burnish/internal/pci"
)

func TestEveryDriverGoesByItsName(t *testing.T) {
	require.Equal(t, []string{"block", "fake", "nvme", "pci", "redfish", "script"}, drivers.Names())
	made, err := drivers.New(append(drivers.Names(), "fake"), drivers.Host{StateDir: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, made, len(drivers.Names()))
	for name, driver := range made {
		require.Equal(t, name, driver.Name())
	}
}

// S2.1
func TestWhoInitializesItsHostAndFindsDevices(t *testing.T) {
	made, err := drivers.New(drivers.Names(), drivers.Host{})
	require.NoError(t, err)
	for name, driver := range made {
		_, initializes := driver.(hardware.Initializer)
		_, finds := driver.(hardware.Finder)
		require.Equal(t, name == "nvme", initializes, name)
		require.Equal(t, name == "nvme" || name == "pci", finds, name)
	}
}

// What is above the drivers plans and runs steps over ports: it knows no driver.
//
// S2.2
func TestNothingAboveKnowsADriver(t *testing.T) {
	for _, dir := range []string{"activities", "workflows", "internal/clean", "internal/device", "internal/inventory"} {
		require.NoError(t, filepath.WalkDir("../../../"+dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, one := range file.Imports {
				require.NotContains(t, one.Path.Value, "burnish/internal/hardware/", path)
			}
			return nil
		}))
	}
}

// F13
func TestByDefaultNothingMayBeDestroyed(t *testing.T) {
	made, err := drivers.New(drivers.Names(), drivers.Host{StateDir: t.TempDir()})
	require.NoError(t, err)
	for name, target := range map[string]hardware.Target{
		"block":  {Settings: map[string]string{"path": "/dev/null"}},
		"fake":   {},
		"script": {Address: notStorage(t), Settings: map[string]string{"script": "any"}},
		"pci":    {Address: notStorage(t)},
	} {
		if (name == "script" || name == "pci") && target.Address == "" {
			t.Log("this machine has no PCI device for the driver " + name)
			continue
		}
		target.Name = "d1"
		_, err := made[name].Discover(t.Context(), target, device.Identity{})
		fault, ok := device.AsFault(err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, device.CodeNotAllowed, fault.Code, name)
	}
}

func TestUnknownDriverIsNamedWithTheKnownOnes(t *testing.T) {
	_, err := drivers.New([]string{"fake", "floppy"}, drivers.Host{})
	require.EqualError(t, err, `there is no driver "floppy": must be one of block, fake, nvme, pci, redfish, script`)
}

// notStorage is the address of a PCI device of this machine that the drivers script and pci would
// accept, "" where it has none.
func notStorage(t *testing.T) string {
	t.Helper()
	devices, err := pci.Scan(pci.Devices)
	require.NoError(t, err)
	for _, d := range devices {
		other := strings.HasPrefix(d.Class, "01") || strings.HasPrefix(d.Class, "06") // storage, a bridge
		if !other && d.Type != pci.Virtual && len(d.Functions) == 0 {
			return d.Address
		}
	}
	return ""
}
