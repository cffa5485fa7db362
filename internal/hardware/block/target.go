package block

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// target is what is erased: a regular file, a whole disk, or a loop device with the file behind it.
type target struct {
	sys      system
	rules    Allow
	given    string
	enrolled device.Identity
	// device: it is no regular file.
	device, writable bool

	info info
	// notSeen is what the last search for writers could not look into.
	notSeen string
}

// info describes a target, read through an open descriptor.
type info struct {
	identity device.Identity
	// unit is the device's logical block size; of a file hardware.Align.
	unit int64
	// file is the target itself, or what is behind a loop device; a disk has none.
	file fileInfo
	// Of a device: its place in the kernel, the disk sequence number (see deviceSeq), and the file behind
	// a loop device, or nil.
	node  node
	seq   uint64
	image *loopImage
}

// isFile: it is a regular file.
func (v info) isFile() bool { return v.node.name == "" }

// note is one line for the operator.
func (v info) note(s system) string {
	switch {
	case v.isFile():
		return fmt.Sprintf("a regular file on %s: one pass of zeroes by writes", v.file.on.name)
	case v.image != nil:
		return fmt.Sprintf("a loop device over %q on %s: one pass of zeroes by writes", v.image.path, v.file.on.name)
	}
	return fmt.Sprintf("a whole disk (%s): one pass of zeroes over all addressable blocks; spare blocks are not erased",
		s.bus(v.node.dir))
}

// mark is the change mark of the target, which is open as fd.
func (v info) mark(ctx context.Context, fd int) (string, error) {
	switch {
	case v.image != nil:
		fd = v.image.fd
	case !v.isFile():
		return "", nil
	}
	return changeMark(ctx, fd, v.identity.Path)
}

// close closes the file behind a loop device.
func (v info) close() error {
	if v.image == nil {
		return nil
	}
	return v.image.close()
}

// discover inspects a target and changes nothing. It claims the target only at the first enrollment and while it
// is offered, because else one of our own steps, or its tenant, may have it.
func (d *Driver) discover(ctx context.Context, t hardware.Target, of *target,
	known device.Identity) (found hardware.Discovery, err error) {
	path, first := of.enrolled.Path, known == (device.Identity{})
	if of.device {
		if !first {
			defer func() { err = asIdentityChange(err) }()
		}
		if err := d.sys.checkWholePath(path); err != nil {
			return hardware.Discovery{}, err
		}
	}
	fd, err := openNoFollow(path, unix.O_RDONLY)
	if err != nil {
		return hardware.Discovery{}, err
	}
	v, err := of.inspect(fd)
	defer func() {
		if err = errors.Join(err, v.close(), unix.Close(fd)); err != nil {
			found = hardware.Discovery{}
		}
	}()
	if err != nil {
		return hardware.Discovery{}, err
	}
	if field := known.Differs(v.identity); !first && field != "" {
		return hardware.Discovery{}, hardware.Changed(field, fmt.Sprintf("%q", path))
	}
	if err := d.rules.AllowPath(path); err != nil {
		return hardware.Discovery{}, err
	}
	// Checked as for writing: what may not be destroyed is not enrolled either.
	if err := of.checkErasable(v, fd, first); err != nil {
		return hardware.Discovery{}, err
	}
	if err := of.checkUnused(v); err != nil {
		return hardware.Discovery{}, err
	}
	if first || t.Offered {
		if err := of.checkFree(ctx, v, fd); err != nil {
			return hardware.Discovery{}, err
		}
	}
	if first {
		// The cache of a loop may lack what was written to its file meanwhile.
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			return hardware.Discovery{}, hardware.IOFault("drop the cache of", path, err)
		}
		if err := refuseSignatures(fdReader{d.sys, fd}, path, v.identity.Size, t); err != nil {
			return hardware.Discovery{}, err
		}
	}
	if v.image != nil { // each write to the loop changes its file, when the kernel has written it
		const writeOut = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		if err := unix.SyncFileRange(fd, 0, 0, writeOut); err != nil {
			return hardware.Discovery{}, hardware.IOFault("write out the cache of", path, err)
		}
	}
	mark, err := v.mark(ctx, fd)
	return hardware.Discovery{Identity: v.identity, Operation: device.Shred, Note: v.note(d.sys), Mark: mark}, err
}

// checkFree proves that no process has claimed the target or can write to it.
func (d *target) checkFree(ctx context.Context, v info, fd int) error {
	if v.isFile() {
		return d.sys.checkSingleOpener(ctx, fd, v.identity.Path, false)
	}
	claimed, err := d.sys.claim(ctx, v.identity.Path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(d.checkNoWriters(ctx, v, fd), unix.Close(claimed))
}

// open opens the enrolled target; a device it claims.
func (d *Driver) open(ctx context.Context, of *target) (_ hardware.Handle, err error) {
	path := of.enrolled.Path
	var fd int
	if of.device {
		defer func() { err = asIdentityChange(err) }()
		if err := d.sys.checkWholePath(path); err != nil {
			return nil, err
		}
		if fd, err = d.sys.claim(ctx, path, access(of.writable)); err != nil {
			return nil, of.openers(err)
		}
	} else if fd, err = openNoFollow(path, access(of.writable)); err != nil {
		return nil, err
	}
	h, err := take(ctx, d.sys, of, fd, of.writable)
	if err != nil {
		return nil, err // not a nil *handle in a non-nil interface
	}
	return h, nil
}

// identify reads what the open target is.
func (d *target) identify(fd int) (enrolled device.Identity, unit int64, err error) {
	d.info, err = d.verifyIdentity(fd)
	return d.enrolled, d.info.unit, err
}

// openers explains why a device could not be claimed: it is another device, or in a use that
// the kernel's tables show.
func (d *target) openers(refusal error) (err error) {
	if fault, ok := device.AsFault(refusal); !ok || fault.Code != device.CodeTargetBusy {
		return refusal
	}
	fd, err := openNoFollow(d.enrolled.Path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	v, err := d.verifyIdentity(fd)
	if err == nil {
		err = d.checkUnused(v)
	}
	if err := errors.Join(err, v.close(), unix.Close(fd)); err != nil {
		return err
	}
	return refusal
}

// check compares the identity and repeats every interlock (F11, F12, F14).
func (d *target) check(ctx context.Context, fd int) (err error) {
	if d.device {
		defer func() { err = asIdentityChange(err) }()
	}
	v, err := d.verifyIdentity(fd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	if v.seq != d.info.seq {
		return hardware.Changed("device", fmt.Sprintf("%q was replaced after it was opened", d.enrolled.Path))
	}
	if err := verifyPath(d.given, d.enrolled.Path, func(now *unix.Stat_t) bool {
		if v.isFile() {
			return inodeOf(now) == inodeOf(v.file.stat)
		}
		// The open device's number: the enrolled one is a file's, or may have changed.
		return deviceNumber(now) == v.node.dev
	}); err != nil {
		return err
	}
	if err := d.checkErasable(v, fd, false); err != nil {
		return err
	}
	if err := d.checkUnused(v); err != nil {
		return err
	}
	if v.isFile() {
		return d.sys.checkSingleOpener(ctx, fd, d.enrolled.Path, d.writable)
	}
	return d.checkNoWriters(ctx, v, fd)
}

// verifyIdentity proves that the descriptor is of the enrolled target. The caller closes the
// info.
func (d *target) verifyIdentity(fd int) (info, error) {
	v, err := d.inspect(fd)
	if err == nil {
		if field := d.enrolled.Differs(v.identity); field != "" {
			err = hardware.Changed(field, fmt.Sprintf("%q", d.enrolled.Path))
		}
	}
	if err != nil {
		return info{}, errors.Join(err, v.close())
	}
	return v, nil
}

// checkErasable refuses a target that writes cannot erase as a whole: a file that is not overwritten in place,
// a device whose blocks are odd, a loop device over such a file (F14).
func (d *target) checkErasable(v info, fd int, first bool) error {
	path, size := v.identity.Path, v.identity.Size
	switch {
	case v.isFile():
		return d.sys.checkOverwrites(fd, path, v.file, 0)
	case size <= 0:
		return hardware.Invalid("%q has no bytes", path)
	case v.unit <= 0 || v.unit > hardware.Align:
		return hardware.Invalid("%q has blocks of %d bytes, but only up to %d are supported", path, v.unit, hardware.Align)
	case size%v.unit != 0:
		return hardware.Invalid("%q has %d bytes, which is not a multiple of its blocks of %d, so its end cannot be erased",
			path, size, v.unit)
	case v.image == nil:
		return d.sys.checkSerialUnique(path, v.node, v.identity.Serial)
	}
	if d.writable {
		if err := d.rules.AllowPath(v.image.path); err != nil {
			return err
		}
	}
	if err := v.image.checkCovered(path, size, v.file.stat.Size, first); err != nil {
		return err
	}
	return loopFileFault(path, v.image.path, d.sys.checkOverwrites(v.image.fd, v.image.path, v.file, 1))
}

// checkUnused refuses a target that the kernel's tables show in use, including a device's
// partitions and the file behind a loop device.
func (d *target) checkUnused(v info) error {
	path := v.identity.Path
	if v.isFile() {
		return d.sys.checkFileUnused(path, inodeOf(v.file.stat), "")
	}
	if err := d.sys.checkDiskUnused(path, v.node); err != nil || v.image == nil {
		return err
	}
	return loopFileFault(path, v.image.path, d.sys.checkFileUnused(v.image.path, inodeOf(v.file.stat), v.node.name))
}

// checkNoWriters proves that no other process can write to the device, one of its partitions, or
// the file behind it, also by the nodes that send commands past the kernel's block layer. The driver nvme itself has
// the controller open.
func (d *target) checkNoWriters(ctx context.Context, v info, fd int) error {
	parts, err := d.sys.partitions(v.node)
	if err != nil {
		return err
	}
	passing, err := d.sys.commandNodes(v.node)
	if err != nil {
		return err
	}
	controllers, err := d.sys.controllerNodes(v.node)
	if err != nil {
		return err
	}
	d.notSeen, err = d.sys.checkNoWriters(ctx, v.identity.Path, hardware.Search{
		Ours: fd,
		Is: func(stat *unix.Statx_t) bool {
			if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
				_, ok := findByNumber(parts, unix.Mkdev(stat.Rdev_major, stat.Rdev_minor))
				return ok
			}
			return v.image != nil &&
				inodeOf(v.file.stat) == inode{dev: unix.Mkdev(stat.Dev_major, stat.Dev_minor), ino: stat.Ino}
		},
		Commands: func(stat *unix.Statx_t) (is, ours bool) {
			if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
				return false, false
			}
			number := unix.Mkdev(stat.Rdev_major, stat.Rdev_minor)
			ours = slices.Contains(controllers, number)
			return ours || slices.Contains(passing, number), ours
		},
	})
	return err
}

func (d *target) unseen() string { return d.notSeen }

func (d *target) mark(ctx context.Context, fd int) (string, error) { return d.info.mark(ctx, fd) }

// checkUnchanged is the cheap part of check, for use before each single write: the disk
// sequence number, the size, and the file. A write would make a file grow again that shrank, and a
// file with a second name belongs to somebody else as well.
func (d *target) checkUnchanged(fd int) error {
	path, name := d.enrolled.Path, d.enrolled.Path
	if d.device {
		seq, err := d.sys.diskSeq(fd)
		if err != nil {
			return hardware.IOFault("read the sequence number of", path, err)
		}
		if seq != d.info.seq {
			return hardware.Changed("device", fmt.Sprintf("%q was replaced after it was opened", path))
		}
		size, err := d.sys.size(fd)
		if err != nil {
			return hardware.IOFault("read the size of", path, err)
		}
		if size != d.enrolled.Size {
			return hardware.Changed("size", fmt.Sprintf("%q has %d bytes, enrolled were %d", path, size, d.enrolled.Size))
		}
		if d.info.image == nil {
			return nil
		}
		if err := d.info.image.checkAttached(d.sys, fd, path); err != nil {
			return err
		}
		fd, name = d.info.image.fd, d.info.image.path
	}
	stat, err := checkRegular(fd, name)
	switch {
	case err != nil:
	case stat.Size != d.enrolled.Size:
		err = hardware.Changed("size", fmt.Sprintf("%q has %d bytes, enrolled were %d", name, stat.Size, d.enrolled.Size))
	case inodeOf(stat) != inode{dev: d.enrolled.Device, ino: d.enrolled.Inode}:
		err = hardware.Changed("inode", fmt.Sprintf("%q", name))
	}
	if name != path {
		return loopFileFault(path, name, err)
	}
	return err
}

// cacheFD is the file behind a loop device, whose cache serves reads of the loop.
func (d *target) cacheFD() int {
	if d.info.image == nil {
		return -1
	}
	return d.info.image.fd
}

// close closes the file behind a loop device.
func (d *target) close() error { return d.info.close() }

// asIdentityChange: if an enrolled device has become something that can never be enrolled, it
// is no longer the enrolled device.
func asIdentityChange(err error) error {
	if fault, ok := device.AsFault(err); ok && fault.Code == device.CodeInvalidSetting {
		return hardware.Changed("kind", fault.Message)
	}
	return err
}

// checkWholePath checks, without opening it, that path names a device that may be opened.
func (s system) checkWholePath(path string) error {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Lstat(path, &stat) }); err != nil {
		return openFault(path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return hardware.Changed("path", fmt.Sprintf("%q is no longer a block device", path))
	}
	_, err := s.checkWholeDisk(path, uint64(stat.Rdev))
	return err
}

// inspect reads what the open target is. A device it finds in sysfs by the
// descriptor's number, which the open descriptor keeps from being reused (F11). The caller
// closes the info, also after an error.
func (d *target) inspect(fd int) (v info, err error) {
	s, path := d.sys, d.enrolled.Path
	if !d.device {
		v.unit = hardware.Align
		v.identity, v.file, err = s.identify(fd, d.given, path)
		return v, err
	}
	dev, err := openNumber(fd, path)
	if err != nil {
		return info{}, err
	}
	n, err := s.checkWholeDisk(path, dev)
	if err != nil {
		return info{}, err
	}
	if v, err = s.measure(fd, path, n); err != nil {
		return info{}, err
	}
	v.identity.Given = d.given
	if n.loop {
		return s.addLoopImage(fd, v)
	}
	k, err := s.readDiskID(n)
	if err != nil {
		return info{}, hardware.IOFault("read the serial of", path, err)
	}
	if k.serial == "" {
		return info{},
			hardware.Invalid("%q has neither a wwid nor a serial, so it cannot be distinguished from another disk", path)
	}
	v.identity.Serial, v.identity.Vendor, v.identity.Model, v.identity.Firmware = k.serial, k.vendor, k.model, k.firmware
	return v, nil
}

// openNumber is the number of an open block device.
func openNumber(fd int, path string) (uint64, error) {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &stat) }); err != nil {
		return 0, hardware.IOFault("fstat", path, err)
	}
	dev := deviceNumber(&stat)
	if dev == 0 {
		return 0, hardware.Changed("path", fmt.Sprintf("%q is no longer a block device", path))
	}
	return dev, nil
}

// measure reads the sequence number, size and block size of an open disk.
func (s system) measure(fd int, path string, n node) (info, error) {
	v := info{node: n}
	var err error
	if v.seq, err = s.diskSeq(fd); err != nil {
		return info{}, hardware.IOFault("read the sequence number of", path, err)
	}
	size, err := s.size(fd)
	if err != nil {
		return info{}, hardware.IOFault("read the size of", path, err)
	}
	unit, err := s.blockSize(fd)
	if err != nil {
		return info{}, hardware.IOFault("read the block size of", path, err)
	}
	v.unit = int64(unit)
	v.identity = device.Identity{Size: size, Path: path, Device: n.dev}
	return v, nil
}
