package nvme

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/pci"
)

// guestDriver is the kernel's driver through which a guest has a drive.
const guestDriver = "vfio-pci"

// onHostsDriver wants the drive on the host's own driver (S2.60). Where it is not, it
// is busy: whoever took it gives it back; or, where the operator said so, it is taken
// back once no guest has it open (SAFETY F21).
func (d *Driver) onHostsDriver(ctx context.Context, dev pci.Device, rebind bool) (pci.Device, error) {
	if dev.Driver == hostDriver {
		return dev, nil
	}
	on := dev.Driver
	if on == "" {
		on = "none"
	}
	if !rebind {
		f := busy("the drive at %s is on the driver %s and not on %s", dev.Address, on, hostDriver)
		f.Remedy = "give it back to " + hostDriver + " (Nova does when the guest is gone), or enroll it with --set rebind=yes"
		return dev, f
	}
	if dev.Driver != "" && dev.Driver != guestDriver {
		return dev, busy("the drive at %s is on the driver %s, which is not taken from it", dev.Address, on)
	}
	if err := d.released(dev); err != nil {
		return dev, err
	}
	if err := context.Cause(ctx); err != nil {
		return dev, err
	}
	folder := filepath.Join(d.sys, "bus/pci")
	if dev.Driver != "" {
		if err := attributeTo(filepath.Join(folder, "devices", dev.Address, "driver/unbind"), dev.Address); err != nil {
			return dev, err
		}
	}
	for _, write := range []struct{ file, text string }{
		{filepath.Join("devices", dev.Address, "driver_override"), hostDriver},
		{"drivers_probe", dev.Address},
		{filepath.Join("devices", dev.Address, "driver_override"), "\n"},
	} {
		if err := attributeTo(filepath.Join(folder, write.file), write.text); err != nil {
			return dev, err
		}
	}
	return d.onNVMe(ctx, dev.Address)
}

// onNVMe waits until the kernel's driver has taken the drive.
func (d *Driver) onNVMe(ctx context.Context, address string) (pci.Device, error) {
	deadline := time.NewTimer(d.patience)
	defer deadline.Stop()
	again := time.NewTicker(nodeEvery)
	defer again.Stop()
	for {
		dev, err := d.onBus(address)
		if err != nil || dev.Driver == hostDriver {
			return dev, err
		}
		select {
		case <-ctx.Done():
			return dev, context.Cause(ctx)
		case <-deadline.C:
			return dev, busy("the drive at %s did not go to the driver %s", address, hostDriver)
		case <-again.C:
		}
	}
}

// released proves that no guest has the drive's group: the kernel lets one open it at
// a time.
func (d *Driver) released(dev pci.Device) error {
	if dev.IOMMUGroup == "" {
		return nil
	}
	fd, err := d.openGroup(filepath.Join(d.dev, "vfio", dev.IOMMUGroup))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		return nil // no such group is offered to guests
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EPERM):
		return busy("a guest still has the drive at %s (VFIO group %s): %v", dev.Address, dev.IOMMUGroup, err)
	case err != nil:
		return fmt.Errorf("look whether a guest has the drive at %s: %w", dev.Address, err)
	}
	return unix.Close(fd)
}

// openGroup opens a VFIO group as a guest does.
func openGroup(path string) (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// attributeTo writes one attribute of sysfs.
func attributeTo(file, text string) error {
	err := os.WriteFile(file, []byte(text), 0o200)
	if errors.Is(err, fs.ErrNotExist) {
		return missing("%s is not there: the drive or its driver is gone", file)
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", oneLine(text), file, err)
	}
	return nil
}
