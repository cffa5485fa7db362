package pci

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
)

// checkFree proves that nobody uses the device: no guest, no process, no network, no display, no module.
// What cannot be shown to be free is busy (F12, F21, F40).
func (c *card) checkFree(ctx context.Context) error {
	if err := c.each((*pcifunction.Function).Refresh); err != nil {
		return err
	}
	functions := slices.Clone(c.functions)
	for _, f := range c.functions {
		if c.enrolled == (device.Identity{}) && len(f.Functions) > 0 {
			return hardware.Refused(device.CodeTargetShared, "disable its virtual functions",
				"%s has %d virtual functions, which reach the same device", f.Address, len(f.Functions))
		}
		for _, address := range f.Functions {
			virtual, there, err := pci.ReadDevice(c.kernel.Devices(), address)
			if err != nil {
				return err
			}
			if there {
				functions = append(functions, pcifunction.New(c.kernel.Devices(), virtual))
			}
		}
	}
	var made pcifunction.Made
	for i, f := range functions {
		one, err := c.kernel.CheckHost(f)
		if err != nil {
			return err
		}
		if err := checkDriver(f, one, c.recorded[key(i, "interfaces")]); err != nil {
			return err
		}
		made.Add(one)
	}
	ports, err := c.ports(ctx)
	if err != nil {
		return err
	}
	for name, p := range ports {
		if p.Type == "eth" && p.Netdev == "" {
			return hardware.Busy("the network interface of port %s is in another network namespace", name)
		}
		if p.Netdev != "" {
			made.Interfaces = append(made.Interfaces, p.Netdev)
		}
	}
	c.unseen, err = c.kernel.CheckUsers(made, functions...)
	return err
}

// network is the base class of NICs.
const network = "02"

// harmless are the subsystems of what a driver makes of a function that nobody can use, or whose use is
// found by its node or its interface. Whatever else a driver makes is busy.
var harmless = strings.Fields("accel auxiliary devfreq devlink drm drm_dp_aux_dev hwmon i2c i2c-dev infiniband " +
	"infiniband_mad infiniband_verbs leds mdio_bus net nvmem pps ptp sound thermal uio vfio vfio-dev virtio wakeup")

// checkDriver refuses a function that is used by way of its driver. interfaces is how many it had when it was
// enrolled, or "".
func checkDriver(f *pcifunction.Function, made pcifunction.Made, interfaces string) error {
	for _, subsystem := range made.Subsystems {
		if !slices.Contains(harmless, subsystem) {
			return hardware.Busy("the driver %s of %s has made a device of the kind %s, which cannot be shown to be free",
				f.Driver, f.Address, subsystem)
		}
	}
	if !onHost(f) {
		return nil
	}
	want, _ := strconv.Atoi(interfaces) // which this driver wrote
	if strings.HasPrefix(f.Class, network) {
		want = max(want, 1)
	} else if used, err := f.Attribute("driver/module/refcnt"); err != nil || used != "" && used != "0" {
		// That of a network driver is always in use; its interfaces tell more.
		return errors.Join(err, hardware.Busy("the module of the driver %s of %s is in use (%s times)", f.Driver, f.Address,
			used))
	}
	if have := len(made.Interfaces); have < want { // those of another network namespace are not in sysfs
		return hardware.Busy("%s is on the driver %s and shows %d of %d network interfaces: another may be in a network "+
			"namespace of its own", f.Address, f.Driver, have, want)
	}
	return nil
}
