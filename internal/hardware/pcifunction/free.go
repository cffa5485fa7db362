package pcifunction

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Kernel is where the users of a function are looked for.
type Kernel struct {
	// Sys is where sysfs is, Dev where device nodes are.
	Sys, Dev string
	// OpenGroup opens a VFIO group as a hypervisor does.
	OpenGroup func(path string) (int, error)
	// Addresses are those of a network interface.
	Addresses func(name string) ([]net.Addr, error)
	// Search looks for processes.
	Search hardware.Search
}

// TheKernel is that of this host.
func TheKernel() Kernel {
	return Kernel{Sys: "/sys", Dev: "/dev", OpenGroup: hardware.OpenVFIO, Addresses: addresses,
		Search: hardware.Search{Proc: "/proc", Ours: -1}}
}

func addresses(name string) ([]net.Addr, error) {
	is, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	return is.Addrs()
}

// Devices is where sysfs lists all functions.
func (k Kernel) Devices() string { return filepath.Join(k.Sys, "bus/pci/devices") }

// Made is what drivers made of functions, by which others use them.
type Made struct {
	// Interfaces are network interfaces, Subsystems the kinds of all that was made.
	Interfaces, Subsystems []string
	// displays are on, nodes character devices by their numbers.
	displays []string
	nodes    [][2]uint32
}

// Add adds what was made of another function.
func (m *Made) Add(more Made) {
	m.Interfaces = append(m.Interfaces, more.Interfaces...)
	m.nodes = append(m.nodes, more.nodes...)
}

// Made lists what a driver made of the function.
func (f *Function) Made() (m Made, err error) {
	root, err := filepath.EvalSymlinks(f.Path(""))
	if err != nil {
		return m, hardware.Missing("there is no PCI function at %s any more", f.Address)
	}
	return m, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
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
		m.Subsystems = append(m.Subsystems, filepath.Base(link))
		if filepath.Base(link) == "net" {
			m.Interfaces = append(m.Interfaces, filepath.Base(path))
		}
		if text("enabled") == "enabled" {
			m.displays = append(m.displays, filepath.Base(path))
		}
		var node [2]uint32
		if _, err := fmt.Sscanf(text("dev"), "%d:%d", &node[0], &node[1]); err == nil {
			m.nodes = append(m.nodes, node)
		}
		return nil
	})
}

// CheckHost refuses a function that a guest has, or that shows something to people at this host (F12, F21).
// It gives what a driver made of it.
func (k Kernel) CheckHost(f *Function) (m Made, err error) {
	if err := hardware.CheckVFIOFree(k.Dev, f.Driver, f.IOMMUGroup, "the device at "+f.Address, k.OpenGroup); err != nil {
		return m, err
	}
	first, err := f.Attribute("boot_vga")
	if err == nil {
		m, err = f.Made()
	}
	how := ""
	switch {
	case err != nil:
		return m, err
	case first == "1":
		how = "is the display of this host"
	case slices.Contains(m.Subsystems, "graphics"):
		how = "shows the console of this host"
	case len(m.displays) > 0:
		how = "drives a display (" + m.displays[0] + ")"
	default:
		return m, nil
	}
	return m, hardware.Refused(device.CodeTargetBusy, "take it out of device_spec in host.yaml, or end that use",
		"%s %s", f.Address, how)
}

// CheckUsers refuses functions that the host's network or its processes use: a network interface, a region that
// is mapped, a configuration that is open for writing, or a node that is open (F12, F40). unseen is what could not be
// looked into.
func (k Kernel) CheckUsers(m Made, functions ...*Function) (unseen string, err error) {
	address := functions[0].Address
	slices.Sort(m.Interfaces)
	for _, name := range slices.Compact(m.Interfaces) {
		how, err := k.useOf(name)
		if err != nil {
			return "", hardware.Busy("the network interface %s of %s comes or goes: %v", name, address, hardware.Reason(err))
		}
		if how != "" {
			return "", hardware.Busy("the host itself uses the device at %s: its interface %s %s", address, name, how)
		}
	}
	files := map[[3]uint64]bool{}
	for _, f := range functions {
		for _, pattern := range []string{"resource*", "config", "rom", "vpd"} {
			all, _ := filepath.Glob(f.Path(pattern)) // the pattern is valid
			for _, file := range all {
				var stat unix.Stat_t
				if err := unix.Stat(file, &stat); err == nil { // else it was removed meanwhile
					files[[3]uint64{uint64(unix.Major(stat.Dev)), uint64(unix.Minor(stat.Dev)), stat.Ino}] = true
				}
			}
		}
	}
	inSysfs, nodes := k.Search, k.Search
	inSysfs.Writers, inSysfs.Is = true, func(s *unix.Statx_t) bool {
		return files[[3]uint64{uint64(s.Dev_major), uint64(s.Dev_minor), s.Ino}]
	}
	nodes.Is = func(s *unix.Statx_t) bool {
		return s.Mode&unix.S_IFMT == unix.S_IFCHR && slices.Contains(m.nodes, [2]uint32{s.Rdev_major, s.Rdev_minor})
	}
	searches := []hardware.Search{inSysfs, nodes}
	if len(m.nodes) == 0 {
		searches = searches[:1]
	}
	for _, search := range searches {
		var found *hardware.User
		if found, unseen, err = search.First(); err != nil {
			return "", fmt.Errorf("find out who has %s: %w", address, err)
		}
		if found != nil {
			return "", hardware.Busy("the device at %s is %s by %s", address, found.How, found)
		}
	}
	return unseen, nil
}

// useOf says how the host uses a network interface, or "". One that cannot be read cannot be shown to be free.
func (k Kernel) useOf(name string) (how string, err error) {
	folder := filepath.Join(k.Sys, "class/net", name)
	text, err := os.ReadFile(filepath.Join(folder, "flags"))
	if err != nil {
		return "", err
	}
	flags, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32)
	if err != nil || flags&unix.IFF_UP != 0 {
		return "is up", err
	}
	above, _ := filepath.Glob(filepath.Join(folder, "upper_*")) // of a bond and a bridge too; the pattern is valid
	if len(above) > 0 {
		return "is below " + strings.TrimPrefix(filepath.Base(above[0]), "upper_"), nil
	}
	has, err := k.Addresses(name)
	if len(has) > 0 {
		return "has the address " + has[0].String(), err
	}
	return "", err
}
