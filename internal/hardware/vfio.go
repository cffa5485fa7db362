package hardware

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// GuestDriver is the kernel driver that gives a PCI device to a guest.
const GuestDriver = "vfio-pci"

// OpenVFIO opens a VFIO group in the way that a hypervisor does.
func OpenVFIO(path string) (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// CheckVFIOFree proves that no guest has the PCI device: the kernel lets only one process
// open a VFIO group at a time, and none while a device of the group is in use by a node of its own (F21).
// dev is the directory of device nodes, driver the device's present driver, group the number of the
// IOMMU group ("" if there is none), what names the device in messages, and open is OpenVFIO, or nil for that.
// A device on a guests' driver that has no node of a group cannot be shown to be free.
// Faults: target_busy, not_allowed.
func CheckVFIOFree(dev, driver, group, what string, open func(path string) (int, error)) error {
	if open == nil {
		open = OpenVFIO
	}
	var nodes []string
	if group != "" {
		nodes = []string{group, "noiommu-" + group}
	}
	for _, node := range nodes {
		path := filepath.Join(dev, "vfio", node)
		fd, err := open(path)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
			continue // it is not available to guests
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			return Refused(device.CodeNotAllowed, "let the worker's user open the VFIO group",
				"cannot check whether a guest has %s: open VFIO group %s: %v", what, node, err)
		case errors.Is(err, unix.EBUSY):
			who := ""
			if stat := (unix.Stat_t{}); unix.Stat(path, &stat) == nil {
				who = DescribeUser("/proc", &stat, -1)
			}
			return Busy("a guest still has %s (VFIO group %s): %v%s", what, node, err, who)
		case err != nil:
			return fmt.Errorf("check whether a guest has %s: %w", what, err)
		}
		return unix.Close(fd)
	}
	if ForGuests(driver) {
		return Refused(device.CodeTargetBusy, "unbind it from "+driver,
			"cannot check whether a guest has %s: it is on the driver %s, and has no VFIO group that can be opened",
			what, driver)
	}
	return nil
}

// ForGuests says that a kernel driver gives a PCI device to a guest: vfio-pci, a vendor's variant
// of it (mlx5-vfio-pci), or Xen's.
func ForGuests(driver string) bool {
	return strings.Contains(driver, "vfio") || strings.Contains(driver, "pciback")
}
