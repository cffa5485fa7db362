package nvme

import (
	"context"
	"os"

	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/pci"
)

const hostDriver, guestDriver = privileged.HostDriver, hardware.GuestDriver

// kernelTimeout is how long the kernel may take to create a node or bind a drive.
const kernelTimeout = privileged.KernelTimeout

// ensureHostDriver requires the drive to be on the host's own driver (S2.60). Otherwise the
// drive is busy until whoever took it gives it back. With rebind, the worker takes it back
// itself once no guest has it open (F21).
func (d *Driver) ensureHostDriver(ctx context.Context, dev pci.Device, rebind bool,
	fence *os.File) (pci.Device, error) {
	if dev.Driver == hostDriver {
		return dev, nil
	}
	on := dev.Driver
	if on == "" {
		on = "none"
	}
	if !rebind {
		f := hardware.Busy("the drive at %s is on the driver %s, not on %s", dev.Address, on, hostDriver)
		f.Remedy = "give it back to " + hostDriver + " (Nova does when the guest is gone), or enroll it with --set rebind=yes"
		return dev, f
	}
	if dev.Driver != "" && dev.Driver != guestDriver {
		return dev, hardware.Busy("the drive at %s is on the driver %s; Burnish rebinds only from %s", dev.Address,
			on, guestDriver)
	}
	if err := d.executor.Rebind(ctx, dev.Address, fence); err != nil {
		return dev, err
	}
	return d.waitForHostDriver(ctx, dev.Address)
}

// waitForHostDriver waits until the host's driver has bound the drive.
func (d *Driver) waitForHostDriver(ctx context.Context, address string) (pci.Device, error) {
	var dev pci.Device
	err := hardware.Poll(ctx, d.timeout, func() (again bool, err error) {
		if dev, err = d.findController(address); err != nil || dev.Driver == hostDriver {
			return false, err
		}
		return true, hardware.Busy("the drive at %s did not bind to the driver %s", address, hostDriver)
	})
	return dev, err
}
