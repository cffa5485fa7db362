package privileged

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
	"burnish/internal/pci"
)

const (
	// HostDriver is the kernel's driver on which a drive must be to be cleaned (S2.60).
	HostDriver = "nvme"
	// GuestDriver is the kernel's driver through which a guest has a drive.
	GuestDriver = "vfio-pci"
)

// Rebind gives a drive to the host's driver; see Hands. Nothing is taken from another
// driver than the guests', and nothing from a guest (SAFETY F21).
func (l *Local) Rebind(ctx context.Context, address string, _ *os.File) error {
	dev, err := Look(l.Sys, address)
	if err != nil {
		return err
	}
	switch dev.Driver {
	case HostDriver:
		return nil
	case "", GuestDriver:
	default:
		return hardware.Busy("the drive at %s is on the driver %s, which is not taken from it", dev.Address, dev.Driver)
	}
	if err := l.released(dev); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	folder := filepath.Join(l.Sys, "bus/pci")
	if dev.Driver != "" {
		if err := attributeTo(filepath.Join(folder, "devices", dev.Address, "driver/unbind"), dev.Address); err != nil {
			return err
		}
	}
	for _, write := range []struct{ file, text string }{
		{filepath.Join("devices", dev.Address, "driver_override"), HostDriver},
		{"drivers_probe", dev.Address},
		{filepath.Join("devices", dev.Address, "driver_override"), "\n"},
	} {
		if err := attributeTo(filepath.Join(folder, write.file), write.text); err != nil {
			return err
		}
	}
	return nil
}

// released proves that no guest has the drive's group: the kernel lets one open it at
// a time.
func (l *Local) released(dev pci.Device) error {
	if dev.IOMMUGroup == "" {
		return nil
	}
	open := l.OpenGroup
	if open == nil {
		open = OpenGroup
	}
	fd, err := open(filepath.Join(l.Dev, "vfio", dev.IOMMUGroup))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		return nil // no such group is offered to guests
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EPERM):
		return hardware.Busy("a guest still has the drive at %s (VFIO group %s): %v", dev.Address, dev.IOMMUGroup, err)
	case err != nil:
		return fmt.Errorf("look whether a guest has the drive at %s: %w", dev.Address, err)
	}
	return unix.Close(fd)
}

// OpenGroup opens a VFIO group as a guest does.
func OpenGroup(path string) (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// attributeTo writes one attribute of sysfs.
func attributeTo(file, text string) error {
	err := os.WriteFile(file, []byte(text), 0o200)
	if errors.Is(err, fs.ErrNotExist) {
		return hardware.Missing("%s is not there: the drive or its driver is gone", file)
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", strings.TrimSpace(text), file, err)
	}
	return nil
}
