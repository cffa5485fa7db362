package script

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/pci"
)

// pciDevice is a PCI device with an open descriptor of its configuration space. Once the
// device is removed, the descriptor cannot be read any more, even if another device is now
// at the same address (F11).
type pciDevice struct {
	*Driver
	pci    pci.Device
	config *os.File
	// script is the name of its program, target the enrolled device.
	script string
	target hardware.Target
	// notSeen is what the last search for users could not look into.
	notSeen string
}

// storage is the PCI base class of storage, which other drivers erase.
const storage = "01"

// openDevice opens the device at the target's address, if this host allows to destroy it. The
// caller closes it.
func (d *Driver) openDevice(t hardware.Target, known device.Identity) (_ *pciDevice, err error) {
	name, err := scriptOf(t)
	if err != nil {
		return nil, err
	}
	address := strings.ToLower(t.Address)
	if address == "" {
		return nil, hardware.Invalid("the driver script needs the PCI address of the device (--address)")
	}
	c := &pciDevice{Driver: d, script: name, target: t}
	if known.Path != "" && known.Path != address {
		return nil, hardware.Changed("path", fmt.Sprintf("enrolled at %s, opened at %s", known.Path, address))
	}
	if err := c.inspect(address, known); err != nil {
		return nil, err
	}
	if c.config, err = c.openConfig(); err != nil {
		return nil, err
	}
	if err := c.verifyUnchanged(); err != nil {
		c.closeAndJoin(&err)
		return nil, err
	}
	return c, nil
}

// openConfig opens the device's configuration space.
func (c *pciDevice) openConfig() (*os.File, error) {
	file, err := os.Open(filepath.Join(c.devices(), c.pci.Address, "config"))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return nil, hardware.Missing("cannot open the configuration of the PCI device at %s: %v", c.pci.Address, err)
	case err != nil:
		return nil, fmt.Errorf("open the configuration of the PCI device at %s: %w", c.pci.Address, err)
	}
	return file, nil
}

// reopenConfig opens and locks the device that is at the address now. The caller proves that
// it is the enrolled one.
func (c *pciDevice) reopenConfig(ctx context.Context) error {
	var file *os.File
	err := hardware.Poll(ctx, c.busyTimeout, func() (again bool, err error) {
		file, err = c.openConfig()
		f, ok := device.AsFault(err)
		return ok && f.Code == device.CodeTargetMissing, err
	})
	if err != nil {
		return err
	}
	before := c.config
	c.config = file
	// Release the old lock first: on the same device it is the same lock.
	if err := before.Close(); err != nil {
		return err
	}
	return c.lock(ctx)
}

func (c *pciDevice) lock(ctx context.Context) error {
	return hardware.Lock(ctx, int(c.config.Fd()), c.pci.Address)
}

func (d *Driver) devices() string { return filepath.Join(d.host.Sys, "bus/pci/devices") }

// inspect reads the device from sysfs, and refuses one that this driver does not handle or
// that the host's rules do not allow.
func (c *pciDevice) inspect(address string, known device.Identity) error {
	dev, found, err := pci.ReadDevice(c.devices(), address)
	if err == nil {
		err = hardware.CheckWholePCI(address, found, dev.Type == pci.Virtual, len(dev.Functions))
	}
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(dev.Class, storage):
		return hardware.Invalid("the device at %s is storage (class %s): the drivers nvme and block erase storage and "+
			"prove it", address, dev.Class)
	}
	c.pci = dev
	// The rules may refuse another device without saying that it is another one (F27).
	switch {
	case known.Vendor != "" && known.Vendor != dev.Vendor:
		return hardware.Changed("vendor", address)
	case known.Product != "" && known.Product != dev.Product:
		return hardware.Changed("product", address)
	}
	return c.host.Allow(dev)
}

// verifyUnchanged proves that the descriptor is of the device that inspect saw.
func (c *pciDevice) verifyUnchanged() error {
	var ids [4]byte
	if _, err := c.config.ReadAt(ids[:], 0); host.IsTransient(err) {
		return fmt.Errorf("read the configuration of %s: %w", c.pci.Address, err)
	} else if err != nil {
		return hardware.Missing("the PCI device at %s was removed: %v", c.pci.Address, err)
	}
	if ids == [4]byte{0xff, 0xff, 0xff, 0xff} {
		return hardware.Missing("the PCI device at %s does not answer: it left the bus", c.pci.Address)
	}
	for i, want := range []string{c.pci.Vendor, c.pci.Product} {
		if have := fmt.Sprintf("%04x", binary.LittleEndian.Uint16(ids[2*i:])); have != want {
			return hardware.Changed([]string{"vendor", "product"}[i],
				fmt.Sprintf("%s has %s instead of %s", c.pci.Address, have, want))
		}
	}
	return nil
}

// checkUnused refuses a device that a guest has, or that the host itself uses (F12, F21).
func (c *pciDevice) checkUnused() error {
	address := c.pci.Address
	if err := c.inspect(address, device.Identity{}); err != nil { // its present driver and IOMMU group
		return err
	}
	err := hardware.CheckVFIOFree(c.host.Dev, c.pci.Driver, c.pci.IOMMUGroup, "the device at "+address, c.openGroup)
	if err != nil {
		return err
	}
	if err := c.checkNoWriters(); err != nil {
		return err
	}
	interfaces := c.pci.Interfaces
	virtio, err := filepath.Glob(filepath.Join(c.devices(), address, "virtio*/net/*"))
	if err != nil {
		return fmt.Errorf("list the network interfaces of %s: %w", address, err)
	}
	for _, folder := range virtio {
		interfaces = append(interfaces, filepath.Base(folder))
	}
	for _, name := range interfaces {
		text, err := hardware.Attribute(filepath.Join(c.host.Sys, "class/net", name), "flags")
		flags, invalid := strconv.ParseUint(cmp.Or(text, "0"), 0, 32) // it may have been renamed: the next check sees that
		if err := cmp.Or(err, invalid); err != nil {
			return fmt.Errorf("check whether %s is up: %w", name, err)
		}
		if flags&unix.IFF_UP != 0 {
			return hardware.Busy("the host itself uses the device at %s: its interface %s is up", address, name)
		}
	}
	return nil
}

// checkNoWriters refuses a device that a process reaches past its driver: it has the device's
// memory mapped, or its configuration open, through sysfs (F40).
func (c *pciDevice) checkNoWriters() error {
	parts := map[[3]uint64]bool{}
	for _, pattern := range []string{"resource*", "config"} {
		all, err := filepath.Glob(filepath.Join(c.devices(), c.pci.Address, pattern))
		if err != nil {
			return fmt.Errorf("list the resources of %s: %w", c.pci.Address, err)
		}
		for _, file := range all {
			var stat unix.Stat_t
			if err := unix.Stat(file, &stat); err == nil { // else it was removed meanwhile
				parts[[3]uint64{uint64(unix.Major(stat.Dev)), uint64(unix.Minor(stat.Dev)), stat.Ino}] = true
			}
		}
	}
	found, unseen, err := hardware.Search{Proc: c.proc, Ours: -1, Writers: true, Is: func(stat *unix.Statx_t) bool {
		return parts[[3]uint64{uint64(stat.Dev_major), uint64(stat.Dev_minor), stat.Ino}]
	}}.First()
	if err != nil {
		return fmt.Errorf("find out who has %s: %w", c.pci.Address, err)
	}
	if c.notSeen = unseen; found != nil {
		return hardware.Busy("the device at %s is %s for writing by %s", c.pci.Address, found.How, found)
	}
	return nil
}

// identify has the program report the device's identity.
func (c *pciDevice) identify(ctx context.Context, known device.Identity,
	mayGoOn func() error) (identifyReply, device.Identity, error) {
	// If a guest has the device, even identify must not reach it.
	if err := c.checkUnused(); err != nil {
		return identifyReply{}, device.Identity{}, err
	}
	if err := c.verifyUnchanged(); err != nil {
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
	if err := c.verifyUnchanged(); err != nil {
		return identifyReply{}, device.Identity{}, err
	}
	return reply, device.Identity{
		Serial: reply.Serial, Vendor: c.pci.Vendor, Product: c.pci.Product, Model: reply.Model, Firmware: reply.Firmware,
		Size: reply.Size, Capacity: reply.Size, Path: c.pci.Address,
		// A NIC that a guest's driver has, or had, shows no MAC: what is known of it stays.
		MAC: cmp.Or(reply.MAC, c.pci.MAC, known.MAC),
	}, nil
}

func (c *pciDevice) closeAndJoin(err *error) { *err = errors.Join(*err, c.config.Close()) }
