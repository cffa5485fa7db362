package privileged

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"burnish/internal/hardware"
	"burnish/internal/pci"
)

// HostDriver is the kernel's driver on which a drive must be to be cleaned (S2.60).
const HostDriver = "nvme"

// Rebind gives a drive to the host's driver; see Executor. Nothing is taken from another
// driver than the guests', and nothing from a guest (SAFETY F21).
func (l *Local) Rebind(ctx context.Context, address string, _ *os.File) error {
	dev, err := FindController(l.Sys, address)
	if err != nil {
		return err
	}
	switch dev.Driver {
	case HostDriver:
		return nil
	case "", hardware.GuestDriver:
	default:
		return hardware.Busy("the drive at %s is on the driver %s, which is not taken from it", dev.Address, dev.Driver)
	}
	if err := l.checkVFIOFree(dev); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	folder := filepath.Join(l.Sys, "bus/pci")
	if dev.Driver != "" {
		if err := writeAttribute(filepath.Join(folder, "devices", dev.Address, "driver/unbind"), dev.Address); err != nil {
			return err
		}
	}
	for _, write := range []struct{ file, text string }{
		{filepath.Join("devices", dev.Address, "driver_override"), HostDriver},
		{"drivers_probe", dev.Address},
		{filepath.Join("devices", dev.Address, "driver_override"), "\n"},
	} {
		if err := writeAttribute(filepath.Join(folder, write.file), write.text); err != nil {
			return err
		}
	}
	return nil
}

// checkVFIOFree proves that no guest has the drive.
func (l *Local) checkVFIOFree(dev pci.Device) error {
	open := l.OpenGroup
	if open == nil {
		open = hardware.OpenVFIO
	}
	return hardware.CheckVFIOFree(l.Dev, dev.IOMMUGroup, "the drive at "+dev.Address, open)
}

// writeAttribute writes one attribute of sysfs.
func writeAttribute(file, text string) error {
	err := os.WriteFile(file, []byte(text), 0o200)
	if errors.Is(err, fs.ErrNotExist) {
		return hardware.Missing("%s is not there: the drive or its driver is gone", file)
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", strings.TrimSpace(text), file, err)
	}
	return nil
}
