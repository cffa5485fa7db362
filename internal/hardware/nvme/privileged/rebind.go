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
	"burnish/internal/hardware/pcifunction"
)

// HostDriver is the kernel driver that a drive must be bound to for cleaning (S2.60).
const HostDriver = "nvme"

// Rebind binds a drive to the host's driver; see Executor. It takes a drive only from the
// guests' driver, and only if no guest has it (F21).
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
		return hardware.Busy("the drive at %s is on the driver %s; Burnish rebinds only from %s", dev.Address, dev.Driver,
			hardware.GuestDriver)
	}
	err = hardware.CheckVFIOFree(l.Dev, dev.Driver, dev.IOMMUGroup, "the drive at "+dev.Address, l.OpenGroup)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := pcifunction.New(filepath.Join(l.Sys, "bus/pci/devices"), dev)
	if err := f.Bind(HostDriver, HostDriver, writeAttribute); err != nil {
		return err
	}
	return writeAttribute(f.Path("driver_override"), "\n")
}

// writeAttribute writes one sysfs attribute.
func writeAttribute(file, text string) error {
	err := os.WriteFile(file, []byte(text), 0o200)
	if errors.Is(err, fs.ErrNotExist) {
		return hardware.Missing("%s does not exist: the drive or its driver is gone", file)
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", strings.TrimSpace(text), file, err)
	}
	return nil
}
