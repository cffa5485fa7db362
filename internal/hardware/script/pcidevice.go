package script

import (
	"cmp"
	"context"
	"errors"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
)

// pciDevice is a PCI device, open as pcifunction has it.
type pciDevice struct {
	*Driver
	*pcifunction.Function
	// script is the name of its program, target the enrolled device.
	script string
	target hardware.Target
	// notSeen is what the last search for users could not look into.
	notSeen string
}

// openDevice opens the device at the target's address, if this host allows to destroy it. The
// caller closes it.
func (d *Driver) openDevice(t hardware.Target, known device.Identity) (*pciDevice, error) {
	name, err := scriptOf(t)
	if err != nil {
		return nil, err
	}
	address, err := pcifunction.Address(t)
	if err != nil {
		return nil, err
	}
	c := &pciDevice{Driver: d, script: name, target: t}
	if c.Function, err = pcifunction.Open(d.kernel.Devices(), address, known, d.allow); err != nil {
		return nil, err
	}
	return c, nil
}

// allow is nil if the host's rules let Burnish destroy a device, and nobody has a part of it.
func (d *Driver) allow(dev pci.Device) error {
	if len(dev.Functions) > 0 {
		return hardware.Refused(device.CodeTargetShared, "disable its virtual functions",
			"%s has %d virtual functions, which reach the same device", dev.Address, len(dev.Functions))
	}
	return d.host.Allow(dev)
}

// checkUnused refuses a device that a guest has, or that the host itself uses (F12, F21, F40).
func (c *pciDevice) checkUnused() error {
	if err := c.Refresh(); err != nil { // its present driver and IOMMU group
		return err
	}
	if err := c.allow(c.Device); err != nil {
		return err
	}
	made, err := c.kernel.CheckHost(c.Function)
	if err == nil {
		c.notSeen, err = c.kernel.CheckUsers(made, c.Function)
	}
	return err
}

// identify has the program report the device's identity.
func (c *pciDevice) identify(ctx context.Context, known device.Identity,
	mayGoOn func() error) (identifyReply, device.Identity, error) {
	// If a guest has the device, even identify must not reach it.
	if err := c.checkUnused(); err != nil {
		return identifyReply{}, device.Identity{}, err
	}
	if err := c.CheckUnchanged(); err != nil {
		return identifyReply{}, device.Identity{}, err
	}
	line, _, err := c.call(ctx, identify, known, mayGoOn)
	if err != nil {
		return identifyReply{}, device.Identity{}, err
	}
	reply, err := parseIdentifyReply(line)
	if err != nil {
		return identifyReply{}, device.Identity{}, c.badAnswer(identify, err)
	}
	if err := c.CheckUnchanged(); err != nil {
		return identifyReply{}, device.Identity{}, err
	}
	return reply, device.Identity{
		Serial: reply.Serial, Vendor: c.Vendor, Product: c.Product, Model: reply.Model, Firmware: reply.Firmware,
		Size: reply.Size, Capacity: reply.Size, Path: c.Address,
		// A NIC that a guest's driver has, or had, shows no MAC: what is known of it stays.
		MAC: cmp.Or(reply.MAC, c.MAC, known.MAC),
	}, nil
}

func (c *pciDevice) closeAndJoin(err *error) { *err = errors.Join(*err, c.Close()) }
