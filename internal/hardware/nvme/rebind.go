package nvme

import (
	"context"
	"os"

	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/pci"
)

const hostDriver, guestDriver = privileged.HostDriver, hardware.GuestDriver

// kernelTimeout is how long the kernel may take to make a node or to bind a drive.
const kernelTimeout = privileged.KernelTimeout

// ensureHostDriver wants the drive on the host's own driver (S2.60). Where it is not, it
// is busy: whoever took it gives it back; or, where the operator said so, it is taken
// back once no guest has it open (SAFETY F21).
func (d *Driver) ensureHostDriver(ctx context.Context, dev pci.Device, rebind bool, fence *os.File) (pci.Device, error) {
	if dev.Driver == hostDriver {
		return dev, nil
	}
	on := dev.Driver
	if on == "" {
		on = "none"
	}
	if !rebind {
		f := hardware.Busy("the drive at %s is on the driver %s and not on %s", dev.Address, on, hostDriver)
		f.Remedy = "give it back to " + hostDriver + " (Nova does when the guest is gone), or enroll it with --set rebind=yes"
		return dev, f
	}
	if dev.Driver != "" && dev.Driver != guestDriver {
		return dev, hardware.Busy("the drive at %s is on the driver %s, which is not taken from it", dev.Address, on)
	}
	if err := d.executor.Rebind(ctx, dev.Address, fence); err != nil {
		return dev, err
	}
	return d.waitForHostDriver(ctx, dev.Address)
}

// waitForHostDriver waits until the kernel's driver has taken the drive.
func (d *Driver) waitForHostDriver(ctx context.Context, address string) (pci.Device, error) {
	var dev pci.Device
	err := hardware.Poll(ctx, d.timeout, func() (again bool, err error) {
		if dev, err = d.findController(address); err != nil || dev.Driver == hostDriver {
			return false, err
		}
		return true, hardware.Busy("the drive at %s did not go to the driver %s", address, hostDriver)
	})
	return dev, err
}
