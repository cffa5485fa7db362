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

// fileSystem is a kind of file system that writes new bytes where the old ones lay
// (F14). On any other the tenant's bytes may stay on the disk although the
// file reads all zero: measured on btrfs, where every one of them stayed.
type fileSystem struct {
	name  string
	magic int64
	// onDisk: the bytes lie in extents on a disk, which FIEMAP shows.
	onDisk bool
	// dataJournal: there is a mode that writes data to a journal before its place.
	dataJournal bool
	// realtime: files may lie on a part that is written somewhere else each time.
	realtime bool
}

// overwritingFileSystems is the allow-list; ext2, ext3 and ext4 share one magic.
var overwritingFileSystems = []fileSystem{
	{name: "ext", magic: unix.EXT4_SUPER_MAGIC, onDisk: true, dataJournal: true},
	{name: "xfs", magic: unix.XFS_SUPER_MAGIC, onDisk: true, realtime: true},
	{name: "tmpfs", magic: unix.TMPFS_MAGIC},
}

// overwriteUnsupported is the fault of a file whose old bytes may outlive a pass of zeroes.
func overwriteUnsupported(format string, args ...any) *device.Fault {
	return hardware.Refused(device.CodeOverwriteUnsupported, "put it on ext4 without data=journal, xfs or tmpfs", format, args...)
}

// fileSystemOf finds the file system of an open file in the allow-list.
func (s system) fileSystemOf(fd int, path string) (fileSystem, unix.Statfs_t, error) {
	var stat unix.Statfs_t
	if err := retryEINTR(func() error { return s.statfs(fd, &stat) }); err != nil {
		return fileSystem{}, stat, hardware.IOFault("statfs", path, err)
	}
	for _, known := range overwritingFileSystems {
		// The type's width and sign differ between architectures; magics are 32 bits.
		if uint32(known.magic) == uint32(stat.Type) {
			return known, stat, nil
		}
	}
	return fileSystem{}, stat, overwriteUnsupported("%q lies on a file system (magic %#x) that is not known to overwrite in place", path, uint32(stat.Type))
}

// checkOverwrites proves, as far as the kernel tells, that writing the file overwrites
// the very bytes that a tenant left: the mount's mode, the file's own flags, its
// extents, and what lies below the file system.
func (s system) checkOverwrites(fd int, path string, stat *unix.Stat_t, on fileSystem) error {
	return s.checkOverwritesAt(fd, path, stat, on, 0)
}

// checkOverwritesAt is overwrites for the target itself, depth 0, or for what lies so
// many loop devices below it.
func (s system) checkOverwritesAt(fd int, path string, stat *unix.Stat_t, on fileSystem, depth int) error {
	if on.dataJournal {
		if err := s.checkNoDataJournal(fd, path, stat.Dev); err != nil {
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
	if err := s.checkBacking(path, stat.Dev, depth); err != nil {
		return err
	}
	return eachExtent(fd, path, func(flags uint32) error {
		if depth > 0 && flags&extentDelalloc != 0 {
			// A loop's file is written to all the time. What waits for its place
			// was a hole, and will stay where it is put.
			flags &^= extentDelalloc | extentUnknown
		}
		return extentFault(path, flags)
	})
}

// checkNoDataJournal refuses data=journal, by mount option and by the file's own flag.
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
		return overwriteUnsupported("%q lies on a mount that %s/self/mountinfo does not show: its options cannot be known", path, s.proc)
	}
	journals := false
	for _, m := range mounts {
		if slices.Contains(m.superOptions, "data=journal") {
			return overwriteUnsupported("%q lies on a file system mounted with data=journal", path)
		}
		// The driver ext2 has no journal at all, and no page of options.
		journals = journals || m.fsType != "ext2"
	}
	if !journals {
		return nil
	}
	// mountinfo keeps quiet about what the superblock's own default options say
	// (tune2fs -o journal_data; measured), this page does not.
	name, err := s.deviceName(dev)
	if err != nil {
		return overwriteUnsupported("%q lies on a file system whose device is not known: %v", path, err)
	}
	options, err := os.ReadFile(filepath.Join(s.proc, "fs/ext4", name, "options"))
	if err != nil {
		return overwriteUnsupported("%q lies on a file system whose options cannot be known: %v", path, err)
	}
	if slices.Contains(strings.Fields(string(options)), "data=journal") {
		return overwriteUnsupported("%q lies on a file system whose default is data=journal", path)
	}
	return nil
}

// deviceName is the kernel's name of a block device.
func (s system) deviceName(dev uint64) (string, error) {
	dir, err := s.deviceDir(dev)
	return filepath.Base(dir), err
}

// deviceDir is the directory of a block device in sysfs, past the link that has
// its number for a name.
func (s system) deviceDir(dev uint64) (string, error) {
	return filepath.EvalSymlinks(filepath.Join(s.sys, "dev/block", formatNumber(dev)))
}

// checkBacking refuses a file whose file system lies on a loop device of a file that is
// not itself overwritten in place: what is zero above may still be whole below.
func (s system) checkBacking(path string, dev uint64, depth int) (err error) {
	const deepest = 8
	if depth == deepest {
		return overwriteUnsupported("%q lies on %d loop devices or more, one on another", path, deepest)
	}
	dir, err := s.deviceDir(dev)
	if err != nil {
		return overwriteUnsupported("%q lies on a device that %s does not show: %v", path, s.sys, err)
	}
	below, err := loopFile(dir)
	if err != nil {
		return overwriteUnsupported("%q lies on a loop device whose file is not known: %v", path, err)
	}
	if below == "" {
		return nil
	}
	fd, err := openNoFollow(below, unix.O_RDONLY)
	if err != nil {
		return overwriteUnsupported("%q lies on a loop device whose file cannot be looked at: %v", path, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return hardware.IOFault("fstat", below, err)
	}
	on, _, err := s.fileSystemOf(fd, below)
	if err == nil {
		err = s.checkOverwritesAt(fd, below, &stat, on, depth+1)
	}
	if fault, ok := device.AsFault(err); ok {
		return hardware.Refused(fault.Code, fault.Remedy, "%q lies on a loop device: %s", path, fault.Message)
	}
	return err
}

// loopFile reads from a block device's directory in sysfs the name of the file
// behind it: its own where it is a loop, its disk's where it is a loop's partition,
// "" where there is none.
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

// mountsOf lists the mounts, in this process's view, of the file system dev.
func (s system) mountsOf(dev uint64) ([]mount, error) {
	all, err := s.mounts()
	number := formatNumber(dev)
	return slices.DeleteFunc(all, func(m mount) bool { return m.number != number }), err
}

// formatNumber writes a device's number as the kernel's tables have it.
func formatNumber(dev uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
}

// mounts lists all mounts in this process's view.
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
			return nil, &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: fmt.Sprintf("%s has a line of another form: %q", name, strings.TrimSpace(line))}
		}
		found = append(found, mount{
			number: front[2], point: unescape(front[4]), fsType: back[0], source: unescape(back[1]),
			superOptions: strings.Split(back[2], ","),
		})
	}
	return found, nil
}

// unescape undoes the octal escapes that the kernel's tables use in names.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) && isOctal(text[i+1:i+4]) {
			b.WriteByte((text[i+1]-'0')<<6 | (text[i+2]-'0')<<3 | (text[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

func isOctal(digits string) bool {
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '7' {
			return false
		}
	}
	return true
}
