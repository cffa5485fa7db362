package privileged

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/pci"
)

// PCIClass is the PCI class of NVMe controllers: mass storage, non-volatile memory, NVM
// Express. The last two digits are the programming interface.
const PCIClass = "010802"

// DevicePath locates a controller in the kernel. Its methods need no privilege.
type DevicePath struct {
	Address    string `json:"address"`    // on the PCI bus
	Controller string `json:"controller"` // the kernel's: nvme0
	Dir        string `json:"dir"`        // in sysfs, without links
	Node       string `json:"node"`
	Sys        string `json:"sys"` // where sysfs is
	Dev        string `json:"dev"` // where nodes are
}

// Disk is a namespace that the kernel shows as a disk.
type Disk struct {
	Name, Dir, Node string
	NSID            uint32
}

// FindController finds the NVMe controller at a PCI address. Faults: those of hardware.CheckWholePCI.
func FindController(sys, address string) (pci.Device, error) {
	dev, found, err := pci.ReadDevice(filepath.Join(sys, "bus/pci/devices"), address)
	if err == nil {
		err = hardware.CheckWholePCI(address, found, dev.Type == pci.Virtual, len(dev.Functions))
	}
	if err == nil && dev.Class != PCIClass {
		err = hardware.Invalid("the device at %s is not an NVMe controller (class %s)", address, dev.Class)
	}
	return dev, err
}

// Attribute reads one of the controller's sysfs attributes.
func (p DevicePath) Attribute(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil {
		return "", hardware.Missing("cannot read %s of %s: %v", name, p.Controller, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Subsystem is the sysfs directory of the controller's subsystem, or "" if the kernel shows
// none.
func (p DevicePath) Subsystem() (string, error) {
	all, err := filepath.Glob(filepath.Join(p.Sys, "class/nvme-subsystem/nvme-subsys*"))
	if err != nil {
		return "", err
	}
	found := ""
	for _, dir := range all { // a pattern for the controller, too, would list each of these
		switch _, err := os.Lstat(filepath.Join(dir, p.Controller)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", hardware.IOFault("look for "+p.Controller+" in", dir, err)
		case found != "":
			return "", hardware.Refused(device.CodeTargetShared, "check /sys/class/nvme-subsystem",
				"%s is in more than one subsystem", p.Controller)
		default:
			found = dir
		}
	}
	if found == "" {
		return "", nil
	}
	return filepath.EvalSymlinks(found)
}

var namespaceName = regexp.MustCompile(`^nvme[0-9]+n[0-9]+$`)

// Disks lists every disk of the drive by namespace number. The kernel shows a disk below the
// controller, or below the subsystem if it knows several paths to the drive.
func (p DevicePath) Disks() ([]Disk, error) {
	dirs := []string{p.Dir}
	subsystem, err := p.Subsystem()
	if err != nil {
		return nil, err
	}
	if subsystem != "" {
		dirs = append(dirs, subsystem)
	}
	var all []Disk
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, hardware.Missing("cannot list the disks of %s: %v", p.Controller, err)
		}
		for _, entry := range entries {
			if !namespaceName.MatchString(entry.Name()) || entry.Type()&fs.ModeSymlink != 0 {
				continue
			}
			s := Disk{Name: entry.Name(), Dir: filepath.Join(dir, entry.Name()), Node: filepath.Join(p.Dev, entry.Name())}
			if hidden, err := hardware.Attribute(s.Dir, "hidden"); err == nil && hidden == "1" {
				continue // one path to a disk that is listed below the subsystem
			}
			text, err := hardware.Attribute(s.Dir, "nsid")
			nsid, invalid := strconv.ParseUint(text, 10, 32)
			if err := cmp.Or(err, invalid); err != nil {
				return nil, hardware.Missing("cannot read the namespace of %s: %v", s.Name, err)
			}
			s.NSID = uint32(nsid)
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Disk) int { return cmp.Compare(a.NSID, b.NSID) })
	return all, nil
}
