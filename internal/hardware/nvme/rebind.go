package nvme

import (
	"context"
	"os"
	"time"

	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/pci"
)

const hostDriver, guestDriver = privileged.HostDriver, privileged.GuestDriver

const (
	// nodePatience is how long the kernel may take to make a node or to bind a drive,
	// nodeEvery how often it is looked for.
	nodePatience = privileged.Patience
	nodeEvery    = 50 * time.Millisecond
)

// onHostsDriver wants the drive on the host's own driver (S2.60). Where it is not, it
// is busy: whoever took it gives it back; or, where the operator said so, it is taken
// back once no guest has it open (SAFETY F21).
func (d *Driver) onHostsDriver(ctx context.Context, dev pci.Device, rebind bool, fence *os.File) (pci.Device, error) {
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
	if err := d.hands.Rebind(ctx, dev.Address, fence); err != nil {
		return dev, err
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
