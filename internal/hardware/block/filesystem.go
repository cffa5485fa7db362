package block

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// fileSystem is a kind of file system that overwrites bytes in place (F14). On any other the
// tenant's bytes may stay on the disk although the file reads all zeroes: on btrfs every one
// of them stayed (measured).
type fileSystem struct {
	name  string
	magic int64
	// onDisk: the bytes are in extents on a disk, which FIEMAP shows.
	onDisk bool
	// dataJournal: it has a mode that writes data to a journal first.
	dataJournal bool
	// realtime: files can be in a realtime section, which may not overwrite in place.
	realtime bool
}

// overwritingFileSystems is the allow-list. ext2, ext3 and ext4 share one magic number.
var overwritingFileSystems = []fileSystem{
	{name: "ext", magic: unix.EXT4_SUPER_MAGIC, onDisk: true, dataJournal: true},
	{name: "xfs", magic: unix.XFS_SUPER_MAGIC, onDisk: true, realtime: true},
	{name: "tmpfs", magic: unix.TMPFS_MAGIC},
}

// overwriteUnsupported is the fault of a file whose old bytes may survive a pass of zeroes.
func overwriteUnsupported(format string, args ...any) *device.Fault {
	return hardware.Refused(device.CodeOverwriteUnsupported, "move the file to ext4 without data=journal, xfs or tmpfs",
		format, args...)
}

// fileSystemOf finds an open file's file system in the allow-list.
func (s system) fileSystemOf(fd int, path string) (fileSystem, unix.Statfs_t, error) {
	var stat unix.Statfs_t
	if err := retryEINTR(func() error { return s.statfs(fd, &stat) }); err != nil {
		return fileSystem{}, stat, hardware.IOFault("statfs", path, err)
	}
	for _, known := range overwritingFileSystems {
		// The type's width and sign differ between architectures. Magic numbers have 32 bits.
		if uint32(known.magic) == uint32(stat.Type) {
			return known, stat, nil
		}
	}
	return fileSystem{}, stat,
		overwriteUnsupported("%q is on a file system (magic %#x) that is not known to overwrite in place", path,
			uint32(stat.Type))
}

// checkOverwrites proves, as far as the kernel shows it, that writes to the file overwrite
// the bytes that a tenant left. It checks the mount options, the file's flags, its extents,
// and what is below the file system. depth counts the loop devices above it, 0 for the target itself.
func (s system) checkOverwrites(fd int, path string, file fileInfo, depth int) error {
	on, dev := file.on, uint64(file.stat.Dev)
	if on.dataJournal {
		if err := s.checkNoDataJournal(fd, path, dev); err != nil {
			return err
		}
	}
	if on.realtime {
		if err := checkNotRealtime(fd, path); err != nil {
			return err
		}
	}
	if !on.onDisk {
		return nil
	}
	if err := s.checkBacking(path, dev, depth); err != nil {
		return err
	}
	return eachExtent(fd, path, func(flags uint32) error {
		if depth > 0 && flags&extentDelalloc != 0 {
			// A loop's file is written to all the time. A delayed allocation was a hole,
			// and will be overwritten in place once allocated.
			flags &^= extentDelalloc | extentUnknown
		}
		return extentFault(path, flags)
	})
}

// checkNoDataJournal refuses data=journal, set by mount option or by the file's flag.
func (s system) checkNoDataJournal(fd int, path string, dev uint64) error {
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return hardware.IOFault("read the flags of", path, err)
	}
	const journalData = 0x4000 // FS_JOURNAL_DATA_FL, what chattr +j sets
	if flags&journalData != 0 {
		return overwriteUnsupported("%q writes its data to the journal first (chattr +j)", path)
	}

	mounts, err := s.mountsOf(dev)
	if err != nil {
		return err
	}
	if len(mounts) == 0 {
		return overwriteUnsupported("%q is on a mount that %s/self/mountinfo does not show, so its options are unknown",
			path, s.proc)
	}
	journals := false
	for _, m := range mounts {
		if slices.Contains(m.superOptions, "data=journal") {
			return overwriteUnsupported("%q is on a file system mounted with data=journal", path)
		}
		// The driver ext2 has no journal and no options file.
		journals = journals || m.fsType != "ext2"
	}
	if !journals {
		return nil
	}
	// mountinfo does not show the default options in the superblock (tune2fs -o
	// journal_data; measured). This file does.
	dir, err := s.deviceDir(dev)
	if err != nil {
		return overwriteUnsupported("%q is on a file system whose device is unknown: %v", path, err)
	}
	options, err := os.ReadFile(filepath.Join(s.proc, "fs/ext4", filepath.Base(dir), "options"))
	if err != nil {
		return overwriteUnsupported("%q is on a file system whose options are unknown: %v", path, err)
	}
	if slices.Contains(strings.Fields(string(options)), "data=journal") {
		return overwriteUnsupported("%q is on a file system whose default is data=journal", path)
	}
	return nil
}

// deviceDir is the sysfs directory of a block device, without links.
func (s system) deviceDir(dev uint64) (string, error) {
	return filepath.EvalSymlinks(filepath.Join(s.sys, "dev/block", formatNumber(dev)))
}

// checkBacking refuses a file whose file system is on a loop device over a file that is not
// overwritten in place itself.
func (s system) checkBacking(path string, dev uint64, depth int) (err error) {
	const deepest = 8
	if depth == deepest {
		return overwriteUnsupported("%q is on %d or more stacked loop devices", path, deepest)
	}
	dir, err := s.deviceDir(dev)
	if err != nil {
		return overwriteUnsupported("%q is on a device that %s does not show: %v", path, s.sys, err)
	}
	below, err := loopFile(dir)
	if err != nil {
		return overwriteUnsupported("%q is on a loop device whose file is unknown: %v", path, err)
	}
	if below == "" {
		return nil
	}
	fd, err := openNoFollow(below, unix.O_RDONLY)
	if err != nil {
		return overwriteUnsupported("%q is on a loop device whose file cannot be checked: %v", path, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return hardware.IOFault("fstat", below, err)
	}
	on, _, err := s.fileSystemOf(fd, below)
	if err == nil {
		err = s.checkOverwrites(fd, below, fileInfo{&stat, on}, depth+1)
	}
	if fault, ok := device.AsFault(err); ok {
		return hardware.Refused(fault.Code, fault.Remedy, "%q is on a loop device: %s", path, fault.Message)
	}
	return err
}

// loopFile is the file behind a loop device, or behind the loop device that a partition is
// part of. It is "" for other devices. dir is the device's directory in sysfs.
func loopFile(dir string) (string, error) {
	for _, at := range []string{dir, filepath.Dir(dir)} {
		text, err := os.ReadFile(filepath.Join(at, "loop/backing_file"))
		if err == nil {
			return strings.TrimSuffix(string(text), "\n"), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// mount is one line of mountinfo.
type mount struct {
	number       string // of its file system, "major:minor"
	point        string
	fsType       string
	source       string
	superOptions []string
}

// mountsOf lists this process's mounts of the file system dev.
func (s system) mountsOf(dev uint64) ([]mount, error) {
	all, err := s.mounts()
	number := formatNumber(dev)
	return slices.DeleteFunc(all, func(m mount) bool { return m.number != number }), err
}

// formatNumber writes a device number in the form of the kernel's tables.
func formatNumber(dev uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
}

// mounts lists this process's mounts.
func (s system) mounts() ([]mount, error) {
	name := filepath.Join(s.proc, "self/mountinfo")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, hardware.IOFault("read", name, err)
	}
	var found []mount
	for line := range strings.Lines(string(text)) {
		// 36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,data=journal
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		front, back := strings.Fields(before), strings.Fields(after)
		if !ok || len(front) < 6 || len(back) < 3 {
			return nil, &device.Fault{Class: device.Permanent, Code: device.CodeIO,
				Message: fmt.Sprintf("%s has a line of unknown form: %q", name, strings.TrimSpace(line))}
		}
		found = append(found, mount{
			number: front[2], point: unescape(front[4]), fsType: back[0], source: unescape(back[1]),
			superOptions: strings.Split(back[2], ","),
		})
	}
	return found, nil
}

// unescape decodes the escapes in the kernel's tables.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace
