package block

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// node is a whole disk or a loop device in the kernel's tables.
type node struct {
	name string // the kernel's: sda
	dir  string // in sysfs, without links
	dev  uint64 // its number
	loop bool
}

// buses are those of physical or virtual disks with an identity of their own. Every other
// block device is made of other devices (dm, md, bcache), of memory (ram, zram), or is on
// another machine (nbd, rbd).
var buses = []string{"scsi", "virtio", "nvme", "nvme-subsystem"}

// checkWholeDisk refuses every block device except whole disks and loop devices (F14), before
// it is opened, because opening one has side effects. path must be the kernel's own name:
// through a second node of the same device the rules on paths could be evaded (F13).
func (s system) checkWholeDisk(path string, dev uint64) (node, error) {
	dir, err := s.deviceDir(dev)
	if err != nil {
		return node{}, hardware.Missing("%q does not exist: %v", path, err)
	}
	n := node{name: filepath.Base(dir), dir: dir, dev: dev}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		return node{}, hardware.Invalid("%q is a partition, but only whole disks are erased: enroll %s", path,
			s.nodePath(filepath.Dir(dir)))
	}
	if own := s.nodePath(dir); path != own {
		return node{}, hardware.Invalid("%q is a second name of %q", path, own)
	}
	if _, err := strconv.Atoi(strings.TrimPrefix(n.name, "loop")); err == nil {
		n.loop = true
		if _, err := os.Stat(filepath.Join(dir, "loop")); err != nil {
			return node{}, hardware.Refused(device.CodeTargetMissing, "attach its file again, or retire the device",
				"%q has no file behind it", path)
		}
		return n, s.checkWritable(path, n)
	}
	for kind, what := range map[string]string{"dm": "a device-mapper volume", "md": "an md array",
		"bcache": "a bcache device"} {
		if _, err := os.Stat(filepath.Join(dir, kind)); err == nil {
			return node{}, hardware.Invalid("%q is %s: enroll the disks below it", path, what)
		}
	}
	if bus := s.bus(dir); !slices.Contains(buses, bus) {
		return node{}, hardware.Invalid("%q is not a disk with an identity of its own (bus %q)", path, bus)
	}
	for _, no := range []struct{ attribute, want, what string }{
		{"device/type", "0", "is not a disk but a SCSI device of type %s"},
		{"queue/zoned", "none", "is zoned (%s) and cannot be overwritten in place"},
		{"metadata_bytes", "0", "has %s bytes of metadata with each block, which writes do not overwrite"},
		// The same on older kernels (measured on 6.1).
		{"integrity/format", "none", "has metadata (%s) with each block, which writes do not overwrite"},
		{"hidden", "0", "is hidden (%s): it is one path to another disk"},
	} {
		got, err := hardware.Attribute(dir, no.attribute)
		if err != nil {
			return node{}, hardware.IOFault("read "+no.attribute+" of", path, err)
		}
		if got != "" && got != no.want {
			return node{}, hardware.Invalid("%q "+no.what, path, got)
		}
	}
	return n, s.checkWritable(path, n)
}

// checkWritable refuses a read-only device.
func (s system) checkWritable(path string, n node) error {
	ro, err := hardware.Attribute(n.dir, "ro")
	if err != nil {
		return hardware.IOFault("read ro of", path, err)
	}
	if ro != "" && ro != "0" {
		return hardware.Refused(device.CodeNotAllowed, "make it writable (blockdev --setrw, losetup without --read-only)",
			"%q is read-only", path)
	}
	return nil
}

// nodePath is the kernel's own name in /dev for a sysfs directory.
func (s system) nodePath(dir string) string {
	return filepath.Join(s.dev, strings.ReplaceAll(filepath.Base(dir), "!", "/"))
}

// bus is the bus that a disk is attached to, or "" if it is not hardware.
func (s system) bus(dir string) string {
	link, err := os.Readlink(filepath.Join(dir, "device/subsystem"))
	if err != nil {
		return ""
	}
	return filepath.Base(link)
}

// diskID is what a disk reports about itself.
type diskID struct{ serial, vendor, model, firmware string }

// readDiskID reads a disk's identity. The serial must be unique: a SCSI disk's wwid or unit
// serial, the serial of an NVMe namespace's drive, or the serial that the host gave a virtio
// disk. One that is none is not used, and hides no other.
func (s system) readDiskID(n node) (diskID, error) {
	var k diskID
	var err error
	read := func(name string) string {
		text, readErr := hardware.Attribute(n.dir, name)
		err = errors.Join(err, readErr)
		return hardware.CanonicalText(text)
	}
	switch bus := s.bus(n.dir); bus {
	case "scsi":
		k = diskID{vendor: read("device/vendor"), model: read("device/model"), firmware: read("device/rev")}
		if k.serial = wwid(read("device/wwid"), k.model); k.serial == "" {
			page, pageErr := os.ReadFile(filepath.Join(n.dir, "device/vpd_pg80"))
			if pageErr != nil && !errors.Is(pageErr, fs.ErrNotExist) {
				err = errors.Join(err, pageErr)
			}
			k.serial = unitSerial(page)
		}
	case "virtio":
		k = diskID{serial: hardware.CanonicalSerial(read("serial")), model: bus}
	default:
		k = diskID{model: read("device/model"), firmware: read("device/firmware_rev")}
		if k.serial = hardware.CanonicalSerial(read("device/serial")); k.serial == "" {
			k.serial = wwid(read("wwid"), k.model)
		}
	}
	return k, err
}

// noCompany is a number that no company has given: some bridges count their disks so (5000000000000001).
var noCompany = regexp.MustCompile(`^(naa\.[56]|eui\.)000000`)

// wwid is what the kernel shows of page 0x83, or makes of an NVMe drive's serial and model;
// "" where nothing in it is of this disk alone.
func wwid(text, model string) string {
	serial := text
	switch kind, number, _ := strings.Cut(text, "."); kind {
	case "t10":
		// The vendor, most often the model, and a serial if there is one.
		if _, behind, found := strings.Cut(number, model); found && model != "" {
			number = behind
		}
		serial = number[strings.LastIndex(number, "_")+1:]
	case "nvme":
		// The vendor, the serial and the model in hexadecimal, and the namespace.
		digits, err := hex.DecodeString(strings.Split(number+"-", "-")[1])
		if err != nil {
			return ""
		}
		serial = string(digits)
	}
	if hardware.CanonicalSerial(serial) == "" || noCompany.MatchString(text) {
		return ""
	}
	return text
}

// unitSerial is the serial in SCSI's page 0x80: a header of four bytes with the length, then
// the serial.
func unitSerial(page []byte) string {
	const head = 4
	if len(page) < head {
		return ""
	}
	text := page[head:min(len(page), head+int(page[2])<<8+int(page[3]))]
	return hardware.CanonicalSerial(string(text))
}

// checkSerialUnique refuses a disk if another one has the same serial: it is a second path to
// the same disk, a second namespace of the same drive, or cannot be distinguished.
func (s system) checkSerialUnique(path string, n node, serial string) error {
	dirs, err := filepath.Glob(filepath.Join(s.sys, "block/*"))
	if err != nil {
		return hardware.IOFault("list the disks below", s.sys, err)
	}
	for _, link := range dirs {
		dir, err := filepath.EvalSymlinks(link)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed after it was listed
		}
		if err != nil {
			return hardware.IOFault("resolve", link, err)
		}
		if dir == n.dir || !slices.Contains(buses, s.bus(dir)) {
			continue
		}
		if hidden, err := hardware.Attribute(dir, "hidden"); err == nil && hidden == "1" {
			continue // one path to this very disk, without a node
		}
		other, err := s.readDiskID(node{dir: dir})
		if err != nil {
			return hardware.IOFault("read the serial of", dir, err)
		}
		if other.serial == serial {
			return hardware.Refused(device.CodeTargetShared, "leave one path to it, or give each its own serial",
				"%q and %q have the same serial %s: they are one disk, or cannot be distinguished", path, s.nodePath(dir), serial)
		}
	}
	return nil
}

// partitions lists a disk and its partitions.
func (s system) partitions(n node) ([]node, error) {
	all := []node{n}
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return nil, hardware.IOFault("list the partitions below", n.dir, err)
	}
	for _, entry := range entries {
		dir := filepath.Join(n.dir, entry.Name())
		if number, err := hardware.Attribute(dir, "partition"); errors.Is(err, unix.ENOTDIR) || err == nil && number == "" {
			continue
		} else if err != nil {
			return nil, hardware.IOFault("read", dir, err)
		}
		dev, err := s.devOf(dir)
		if err != nil {
			return nil, hardware.IOFault("read the number of", dir, err)
		}
		all = append(all, node{name: filepath.Base(dir), dir: dir, dev: dev})
	}
	return all, nil
}

// commandNodes lists the numbers of the character devices through which a process sends commands
// to a disk: a claim does not exclude it.
func (s system) commandNodes(n node) ([]uint64, error) {
	return s.numbers(n, "device/scsi_generic/*/dev", "device/bsg/*/dev", "../ng"+strings.TrimPrefix(n.name, "nvme")+"/dev")
}

// controllerNodes is commandNodes of the controllers of an NVMe namespace: the kernel shows it below its one
// controller, or below a subsystem beside them.
func (s system) controllerNodes(n node) ([]uint64, error) {
	below := filepath.Base(filepath.Dir(n.dir))
	switch {
	case controllerName.MatchString(below):
		return s.numbers(n, "../dev")
	case strings.HasPrefix(below, "nvme-subsys"):
		return s.numbers(n, "../nvme[0-9]/dev", "../nvme[0-9][0-9]/dev", "../nvme[0-9][0-9][0-9]/dev")
	}
	return nil, nil
}

var controllerName = regexp.MustCompile(`^nvme[0-9]+$`)

// numbers reads the numbers in these files below a disk's directory.
func (s system) numbers(n node, patterns ...string) ([]uint64, error) {
	var all []uint64
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(n.dir, pattern))
		if err != nil {
			return nil, hardware.IOFault("list the nodes of", n.dir, err)
		}
		for _, file := range found {
			dev, err := s.devOf(filepath.Dir(file))
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed after it was listed
			}
			if err != nil {
				return nil, hardware.IOFault("read", file, err)
			}
			all = append(all, dev)
		}
	}
	return all, nil
}

// devOf reads a device's number from its sysfs directory.
func (s system) devOf(dir string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "dev"))
	if err != nil {
		return 0, err
	}
	first, second, _ := strings.Cut(strings.TrimSpace(string(text)), ":")
	major, err := strconv.ParseUint(first, 10, 32)
	minor, minorErr := strconv.ParseUint(second, 10, 32)
	if err := cmp.Or(err, minorErr); err != nil { // one line
		return 0, fmt.Errorf("%q is not a device number: %w", text, err)
	}
	return unix.Mkdev(uint32(major), uint32(minor)), nil
}
