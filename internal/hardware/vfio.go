package hardware

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// GuestDriver is the kernel driver that gives a PCI device to a guest.
const GuestDriver = "vfio-pci"

// OpenVFIO opens a VFIO group in the way that a hypervisor does.
func OpenVFIO(path string) (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// CheckVFIOFree proves that no guest has the PCI device: the kernel lets only one process
// open a VFIO group at a time (F21). dev is the directory of device nodes, group the
// number of the IOMMU group ("" if there is none), what names the device in messages, and
// open is OpenVFIO. Faults: target_busy, not_allowed.
func CheckVFIOFree(dev, group, what string, open func(path string) (int, error)) error {
	if group == "" {
		return nil
	}
	path := filepath.Join(dev, "vfio", group)
	fd, err := open(path)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		return nil // the group is not available to guests
	case errors.Is(err, unix.EACCES):
		return Refused(device.CodeNotAllowed, "let the worker's user open the VFIO group", "cannot check whether a guest has %s: open VFIO group %s: %v", what, group, err)
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EPERM):
		who := ""
		if stat := (unix.Stat_t{}); unix.Stat(path, &stat) == nil {
			who = DescribeUser("/proc", &stat, -1)
		}
		return Busy("a guest still has %s (VFIO group %s): %v%s", what, group, err, who)
	case err != nil:
		return fmt.Errorf("check whether a guest has %s: %w", what, err)
	}
	return unix.Close(fd)
}
