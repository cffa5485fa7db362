package nvme

import (
	"cmp"
	"context"
	"os"

	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/pci"
)

// ensureHostDriver requires the drive to be on the host's own driver (S2.60). Otherwise the
// drive is busy until whoever took it gives it back. With rebind, the worker takes it back
// itself once no guest has it open (F21).
func (d *Driver) ensureHostDriver(ctx context.Context, dev pci.Device, rebind bool,
	fence *os.File) (pci.Device, error) {
	if dev.Driver == privileged.HostDriver {
		return dev, nil
	}
	if !rebind {
		f := hardware.Busy("the drive at %s is on the driver %s, not on %s", dev.Address, cmp.Or(dev.Driver, "none"),
			privileged.HostDriver)
		f.Remedy = "give it back to " + privileged.HostDriver + " (Nova does when the guest is gone), or enroll it with " +
			"--set rebind=yes"
		return dev, f
	}
	if err := d.executor.Rebind(ctx, dev.Address, fence); err != nil {
		return dev, err
	}
	address := dev.Address
	err := hardware.Poll(ctx, d.timeout, func() (again bool, err error) {
		if dev, err = privileged.FindController(d.sys, address); err != nil || dev.Driver == privileged.HostDriver {
			return false, err
		}
		return true, hardware.Busy("the drive at %s did not bind to the driver %s", address, privileged.HostDriver)
	})
	return dev, err
}
