package hardware

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// GuestDriver is the kernel's driver through which a guest has a PCI device.
const GuestDriver = "vfio-pci"

// OpenVFIO opens the device of a VFIO group as a guest does.
func OpenVFIO(path string) (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// CheckVFIOFree proves that no guest has a PCI device: the kernel lets one open its VFIO
// group at a time (SAFETY F21). group is the number of its IOMMU group, "" where it has
// none, dev where nodes are, open OpenVFIO; what names the device. Faults: target_busy,
// not_allowed.
func CheckVFIOFree(dev, group, what string, open func(path string) (int, error)) error {
	if group == "" {
		return nil
	}
	fd, err := open(filepath.Join(dev, "vfio", group))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		return nil // no such group is offered to guests
	case errors.Is(err, unix.EACCES):
		return Refused(device.CodeNotAllowed, "let the worker's user open it", "whether a guest has %s cannot be known: %v of VFIO group %s", what, err, group)
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EPERM):
		return Busy("a guest still has %s (VFIO group %s): %v", what, group, err)
	case err != nil:
		return fmt.Errorf("look whether a guest has %s: %w", what, err)
	}
	return unix.Close(fd)
}
