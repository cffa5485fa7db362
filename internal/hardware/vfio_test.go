package hardware

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// A device is free of guests only if that can be shown: by the node of its group, or because no
// guest gets it by its present driver.
//
// F21
func TestWhatCannotBeShownToBeFreeOfGuestsIsBusy(t *testing.T) {
	const busy, refused, free = device.CodeTargetBusy, device.CodeNotAllowed, device.Code("")
	for name, c := range map[string]struct {
		driver, group string
		nodes         map[string]error // below /dev/vfio, with what opening one gives
		want          device.Code
		says          string
	}{
		"a group that opens":                      {"vfio-pci", "12", map[string]error{"12": nil}, free, ""},
		"a group that a guest has":                {"vfio-pci", "12", map[string]error{"12": unix.EBUSY}, busy, "a guest still has the drive (VFIO group 12)"},
		"a group that may not be opened":          {"vfio-pci", "12", map[string]error{"12": unix.EACCES}, refused, "cannot check"},
		"without an IOMMU, free":                  {"vfio-pci", "0", map[string]error{"noiommu-0": nil}, free, ""},
		"without an IOMMU, a guest's":             {"vfio-pci", "0", map[string]error{"noiommu-0": unix.EBUSY}, busy, "VFIO group noiommu-0"},
		"without an IOMMU, not for this user":     {"vfio-pci", "0", map[string]error{"noiommu-0": unix.EPERM}, refused, "cannot check"},
		"a node of its own, and none of a group":  {"vfio-pci", "12", map[string]error{"devices/vfio0": nil}, busy, "no VFIO group that can be opened"},
		"a node that is gone":                     {"vfio-pci", "12", map[string]error{"12": unix.ENODEV}, busy, "no VFIO group that can be opened"},
		"no group":                                {"vfio-pci", "", nil, busy, "no VFIO group that can be opened"},
		"a vendor's driver for guests, no group":  {"mlx5-vfio-pci", "", nil, busy, "on the driver mlx5-vfio-pci"},
		"Xen's driver for guests":                 {"pciback", "12", nil, busy, "on the driver pciback"},
		"the host's driver, no group":             {"nvme", "", nil, free, ""},
		"the host's driver, another in its group": {"nvme", "12", map[string]error{"12": unix.EBUSY}, busy, "a guest still has"},
		"no driver, and no group for guests":      {"", "12", nil, free, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckVFIOFree("/dev", c.driver, c.group, "the drive", func(path string) (int, error) {
				node, err := filepath.Rel("/dev/vfio", path)
				require.NoError(t, err)
				result, ok := c.nodes[node]
				switch {
				case !ok:
					return -1, unix.ENOENT
				case result != nil:
					return -1, result
				}
				return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			})
			if c.want == free {
				require.NoError(t, err)
				return
			}
			f, ok := device.AsFault(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.want, f.Code)
			require.Contains(t, f.Message, c.says)
		})
	}
}
