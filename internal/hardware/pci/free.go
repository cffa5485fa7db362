package pci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/pci"
)

// users is what is looked for among the processes of the host: nodes of the device by their numbers, and
// its files in sysfs.
type users struct {
	nodes map[[2]uint32]bool
	files map[[3]uint64]bool
}

// checkFree proves that nobody uses the device: no guest, no process, no network, no display, no module.
// What cannot be shown to be free is busy (F12, F21, F40).
func (c *card) checkFree(ctx context.Context, enrolled device.Identity) error {
	if err := c.refresh(); err != nil {
		return err
	}
	recorded, err := recordedFacts(enrolled)
	if err != nil {
		return err
	}
	look := users{map[[2]uint32]bool{}, map[[3]uint64]bool{}}
	for i := range c.functions {
		f := &c.functions[i]
		if enrolled == (device.Identity{}) && len(f.Functions) > 0 {
			return hardware.Refused(device.CodeTargetShared, "disable its virtual functions",
				"%s has %d virtual functions, which reach the same device", f.Address, len(f.Functions))
		}
		if err := c.checkFunction(ctx, f, recorded[key(i, "interfaces")], look); err != nil {
			return err
		}
		for _, address := range f.Functions {
			virtual, _, err := pci.ReadDevice(c.devices(), address)
			if err != nil {
				return err
			}
			if err := c.checkFunction(ctx, &function{Device: virtual}, "", look); err != nil {
				return err
			}
		}
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
			if err := c.checkInterface(ctx, p.Netdev); err != nil {
				return err
			}
		}
	}
	return c.checkProcesses(look)
}

// checkFunction checks one function, and adds what to look for among the processes. interfaces is how many
// it had when it was enrolled, or "".
func (c *card) checkFunction(ctx context.Context, f *function, interfaces string, look users) error {
	err := hardware.CheckVFIOFree(c.dev, f.Driver, f.IOMMUGroup, "the device at "+f.Address, c.openGroup)
	if err != nil {
		return err
	}
	if first, err := c.attribute(f, "boot_vga"); err != nil || first == "1" {
		return errors.Join(err, inUse("%s is the display of this host", f.Address))
	}
	// The module of a network driver is always in use; its interfaces tell more.
	if onHost(f) && !strings.HasPrefix(f.Class, network) {
		if used, err := c.attribute(f, "driver/module/refcnt"); err != nil || used != "" && used != "0" {
			return errors.Join(err, hardware.Busy("the module of the driver %s of %s is in use (%s times)", f.Driver,
				f.Address, used))
		}
	}
	names, err := c.children(f, look)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.checkInterface(ctx, name); err != nil {
			return err
		}
	}
	// The interfaces of another network namespace are not in sysfs.
	want, _ := strconv.Atoi(interfaces) // which this driver wrote
	if strings.HasPrefix(f.Class, network) {
		want = max(want, 1)
	}
	if onHost(f) && len(names) < want {
		return hardware.Busy("%s is on the driver %s and shows %d of %d network interfaces: another may be in a network "+
			"namespace of its own", f.Address, f.Driver, len(names), want)
	}
	for _, pattern := range []string{"resource*", "config", "rom", "vpd"} {
		all, _ := filepath.Glob(c.path(f, pattern)) // the pattern is valid
		for _, file := range all {
			var stat unix.Stat_t
			if err := unix.Stat(file, &stat); err == nil { // else it was removed meanwhile
				look.files[[3]uint64{uint64(unix.Major(stat.Dev)), uint64(unix.Minor(stat.Dev)), stat.Ino}] = true
			}
		}
	}
	return nil
}

// inUse is the fault of a device that the host needs, and that nobody may take from it.
func inUse(format string, args ...any) error {
	return hardware.Refused(device.CodeTargetBusy, "take it out of device_spec in host.yaml, or end that use", format,
		args...)
}

// harmless are the subsystems of what a driver makes of a function that nobody can use, or whose use is
// found by its node or its interface. Whatever else a driver makes is busy.
var harmless = strings.Fields("accel auxiliary devfreq devlink drm drm_dp_aux_dev hwmon i2c i2c-dev infiniband " +
	"infiniband_mad infiniband_verbs leds mdio_bus net nvmem pps ptp sound thermal uio vfio vfio-dev virtio wakeup")

// children names the network interfaces that a driver made of a function, and adds the nodes of all that it
// made.
func (c *card) children(f *function, look users) (interfaces []string, err error) {
	root, err := filepath.EvalSymlinks(c.path(f, ""))
	if err != nil {
		return nil, hardware.Missing("there is no PCI function at %s any more", f.Address)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (path == root || !entry.IsDir()) {
			return nil
		}
		if err != nil {
			return err
		}
		link, err := os.Readlink(filepath.Join(path, "subsystem"))
		if err != nil {
			return nil // a group of attributes
		}
		text := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(path, name)) // it has none, or has gone
			return strings.TrimSpace(string(text))
		}
		switch subsystem := filepath.Base(link); {
		case subsystem == "graphics":
			return inUse("%s shows the console of this host", f.Address)
		case text("enabled") == "enabled":
			return inUse("%s drives a display (%s)", f.Address, filepath.Base(path))
		case !slices.Contains(harmless, subsystem):
			return hardware.Busy("the driver %s of %s has made a device of the kind %s, which cannot be shown to be free",
				f.Driver, f.Address, subsystem)
		case subsystem == "net":
			interfaces = append(interfaces, filepath.Base(path))
		}
		var node [2]uint32
		if _, err := fmt.Sscanf(text("dev"), "%d:%d", &node[0], &node[1]); err == nil && look.nodes != nil {
			look.nodes[node] = true
		}
		return nil
	})
	return interfaces, err
}

// checkProcesses refuses a device that a process has past its driver: open, or mapped.
func (c *card) checkProcesses(look users) error {
	isFile := func(s *unix.Statx_t) bool {
		return look.files[[3]uint64{uint64(s.Dev_major), uint64(s.Dev_minor), s.Ino}]
	}
	isNode := func(s *unix.Statx_t) bool {
		return s.Mode&unix.S_IFMT == unix.S_IFCHR && look.nodes[[2]uint32{s.Rdev_major, s.Rdev_minor}]
	}
	searches := []hardware.Search{{Is: isFile, Writers: true}}
	if len(look.nodes) > 0 {
		searches = append(searches, hardware.Search{Is: isNode})
	}
	for _, search := range searches {
		search.Proc, search.Ours, search.NotSelf = c.proc, -1, true
		found, unseen, err := search.First()
		if err != nil {
			return fmt.Errorf("find out who has %s: %w", c.functions[0].Address, err)
		}
		if c.unseen = unseen; found != nil {
			return hardware.Busy("the device at %s is %s by %s", c.functions[0].Address, found.How, found)
		}
	}
	return nil
}

// networkInterface is what `ip` says of an interface.
type networkInterface struct {
	Flags     []string `json:"flags"`
	Address   string   `json:"address"`
	Permanent string   `json:"permaddr"`
	Master    string   `json:"master"`
	Addresses []struct {
		Local string `json:"local"`
	} `json:"addr_info"`
}

// interfaceOf reads an interface. One that cannot be read cannot be shown to be free.
func (c *card) interfaceOf(ctx context.Context, name string) (networkInterface, error) {
	var all []networkInterface
	_, installed, err := c.ask(ctx, &all, "ip", "-j", "addr", "show", "dev", name)
	switch {
	case err != nil:
		return networkInterface{}, err
	case !installed:
		return networkInterface{}, hardware.Refused(device.CodeToolMissing, "install iproute2 on this host",
			"cannot check whether the interface %s is in use: ip is not installed", name)
	case len(all) != 1:
		return networkInterface{}, hardware.Busy("the network interface %s comes or goes", name)
	}
	return all[0], nil
}

// checkInterface refuses a device whose network interface the host uses.
func (c *card) checkInterface(ctx context.Context, name string) error {
	is, err := c.interfaceOf(ctx, name)
	if err != nil {
		return err
	}
	above, _ := filepath.Glob(filepath.Join(c.sys, "class/net", name, "upper_*")) // the pattern is valid
	why := ""
	switch {
	case slices.Contains(is.Flags, "UP"):
		why = "is up"
	case is.Master != "":
		why = "is part of " + is.Master
	case len(above) > 0:
		why = "carries " + strings.TrimPrefix(filepath.Base(above[0]), "upper_")
	case len(is.Addresses) > 0:
		why = "has the address " + is.Addresses[0].Local
	default:
		return nil
	}
	return hardware.Busy("the host itself uses the device at %s: its interface %s %s", c.functions[0].Address, name, why)
}
