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

// disk is a whole disk or a loop device as a target.
type disk struct {
	sys      system
	rules    Allow
	given    string
	enrolled device.Identity
	writable bool

	info diskInfo
	// notSeen is what the last search for writers could not look into.
	notSeen string
}

// diskInfo describes a block device, read through an open descriptor.
type diskInfo struct {
	node     node
	identity device.Identity
	// seq is the disk sequence number, see deviceSeq.
	seq uint64
	// unit is the device's logical block size.
	unit int64
	// image is the file behind a loop device, or nil.
	image *loopImage
}

// close closes the file behind a loop device.
func (v diskInfo) close() error {
	if v.image == nil {
		return nil
	}
	return v.image.close()
}

// discoverDevice inspects a block device and changes nothing. It claims the device only at
// the first enrollment and while it is offered, because else one of our own steps may be running on it.
func (d *Driver) discoverDevice(ctx context.Context, t hardware.Target, given, path string,
	known device.Identity) (found hardware.Discovery, err error) {
	first := known == (device.Identity{})
	if !first {
		defer func() { err = asIdentityChange(err) }()
	}
	if err := d.sys.checkWholePath(path); err != nil {
		return hardware.Discovery{}, err
	}
	fd, err := openNoFollow(path, unix.O_RDONLY)
	if err != nil {
		return hardware.Discovery{}, err
	}
	v, err := d.sys.inspect(fd, given, path)
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
	target := &disk{sys: d.sys, rules: d.rules, given: given, enrolled: v.identity, writable: true, info: v}
	if err := target.checkErasable(v, fd, first); err != nil {
		return hardware.Discovery{}, err
	}
	if err := target.checkUnused(v); err != nil {
		return hardware.Discovery{}, err
	}
	note := fmt.Sprintf("a whole disk (%s): one pass of zeroes over all addressable blocks; spare blocks are not erased",
		d.sys.bus(v.node.dir))
	if v.image != nil {
		note = fmt.Sprintf("a loop device over %q on %s: one pass of zeroes by writes", v.image.path, v.image.on.name)
	}
	switch {
	case first:
		err = d.checkFirstEnrollment(ctx, t, target, v, fd)
	case t.Offered:
		err = target.checkFree(ctx, v, fd)
	}
	if err != nil {
		return hardware.Discovery{}, err
	}
	var mark string
	if v.image != nil { // each write to the loop changes its file, when the kernel has written it
		const writeOut = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		if err := unix.SyncFileRange(fd, 0, 0, writeOut); err != nil {
			return hardware.Discovery{}, hardware.IOFault("write out the cache of", path, err)
		}
		if mark, err = changeMark(ctx, v.image.fd, v.image.path); err != nil {
			return hardware.Discovery{}, err
		}
	}
	return hardware.Discovery{Identity: v.identity, Operation: device.Shred, Note: note, Mark: mark}, nil
}

// checkFree proves that no process has claimed the device or writes to it.
func (d *disk) checkFree(ctx context.Context, v diskInfo, fd int) error {
	claimed, err := d.sys.claim(ctx, v.identity.Path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(d.checkNoWriters(ctx, v, fd), unix.Close(claimed))
}

// checkFirstEnrollment is for a first enrollment only: it proves that no process has claimed the
// device or writes to it, and that it holds no data of an owner (F15).
func (d *Driver) checkFirstEnrollment(ctx context.Context, t hardware.Target, target *disk, v diskInfo,
	fd int) (err error) {
	path := v.identity.Path
	claimed, err := d.sys.claim(ctx, path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(claimed)) }()
	if err := target.checkNoWriters(ctx, v, fd); err != nil {
		return err
	}
	// The loop's cache may lack what was written to its file meanwhile.
	if err := unix.Fadvise(claimed, 0, 0, unix.FADV_DONTNEED); err != nil {
		return hardware.IOFault("drop the cache of", path, err)
	}
	return refuseSignatures(fdReader{d.sys, claimed}, path, v.identity.Size, t)
}

// openDevice claims the enrolled device.
func (d *Driver) openDevice(ctx context.Context, given string, enrolled device.Identity,
	writable bool) (_ hardware.Handle, err error) {
	defer func() { err = asIdentityChange(err) }()
	if err := d.sys.checkWholePath(enrolled.Path); err != nil {
		return nil, err
	}
	target := &disk{sys: d.sys, rules: d.rules, given: given, enrolled: enrolled, writable: writable}
	fd, err := d.sys.claim(ctx, enrolled.Path, access(writable))
	if err != nil {
		return nil, target.openers(err)
	}
	return opened(take(ctx, d.sys, target, fd, writable))
}

// opened is a handle as the port has it: nil after an error.
func opened(h *handle, err error) (hardware.Handle, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

// identify reads what the open device is.
func (d *disk) identify(fd int) (enrolled device.Identity, unit int64, err error) {
	d.info, err = d.verifyIdentity(fd)
	return d.enrolled, d.info.unit, err
}

// openers explains why a device could not be claimed: it is another device, or in a use that
// the kernel's tables show.
func (d *disk) openers(refusal error) (err error) {
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
func (d *disk) check(ctx context.Context, fd int) (err error) {
	defer func() { err = asIdentityChange(err) }()
	v, err := d.verifyIdentity(fd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	if v.seq != d.info.seq {
		return hardware.Changed("device", fmt.Sprintf("%q was replaced after it was opened", d.enrolled.Path))
	}
	// Compare with the open device's number: the enrolled one is a file's, or may have changed.
	if err := verifyPath(d.given, d.enrolled.Path, func(now *unix.Stat_t) bool {
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
	return d.checkNoWriters(ctx, v, fd)
}

// verifyIdentity proves that the descriptor is of the enrolled device. The caller closes the
// diskInfo.
func (d *disk) verifyIdentity(fd int) (diskInfo, error) {
	v, err := d.sys.inspect(fd, d.given, d.enrolled.Path)
	if err == nil {
		if field := d.enrolled.Differs(v.identity); field != "" {
			err = hardware.Changed(field, fmt.Sprintf("%q", d.enrolled.Path))
		}
	}
	if err != nil {
		return diskInfo{}, errors.Join(err, v.close())
	}
	return v, nil
}

// checkErasable refuses a device that writes of its blocks cannot erase as a whole, and a
// loop device whose file is not overwritten in place (F14).
func (d *disk) checkErasable(v diskInfo, fd int, first bool) error {
	path, size := v.identity.Path, v.identity.Size
	switch {
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
	if err := v.image.checkCovered(path, size, first); err != nil {
		return err
	}
	return loopFileFault(path, v.image.path,
		d.sys.checkOverwrites(v.image.fd, v.image.path, v.image.stat, v.image.on, 1))
}

// checkUnused refuses a device that the kernel's tables show in use, including its
// partitions and the file behind a loop device.
func (d *disk) checkUnused(v diskInfo) error {
	if err := d.sys.checkDiskUnused(v.identity.Path, v.node); err != nil {
		return err
	}
	if v.image == nil {
		return nil
	}
	return loopFileFault(v.identity.Path, v.image.path,
		d.sys.checkFileUnused(v.image.path, inodeOf(v.image.stat), v.node.name))
}

// checkNoWriters proves that no other process can write to the device, one of its partitions, or
// the file behind it, also by the nodes that send commands past the kernel's block layer. The driver nvme itself has
// the controller open.
func (d *disk) checkNoWriters(ctx context.Context, v diskInfo, fd int) error {
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
				inodeOf(v.image.stat) == inode{dev: unix.Mkdev(stat.Dev_major, stat.Dev_minor), ino: stat.Ino}
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

func (d *disk) unseen() string { return d.notSeen }

// checkUnchanged is the cheap part of check, for use before each single write: the disk
// sequence number, the size, and a loop's file.
func (d *disk) checkUnchanged(fd int) error {
	path := d.enrolled.Path
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
	return d.info.image.checkUnchanged(d.sys, fd, path, d.enrolled)
}

// cacheFD is the file behind a loop device, whose cache serves reads of the loop.
func (d *disk) cacheFD() int {
	if d.info.image == nil {
		return -1
	}
	return d.info.image.fd
}

// close closes the file behind a loop device.
func (d *disk) close() error { return d.info.close() }

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

// inspect reads the identity of an open block device. It finds the device in sysfs by the
// descriptor's number, which the open descriptor keeps from being reused (F11). The caller
// closes the diskInfo, also after an error.
func (s system) inspect(fd int, given, path string) (diskInfo, error) {
	dev, err := openNumber(fd, path)
	if err != nil {
		return diskInfo{}, err
	}
	n, err := s.checkWholeDisk(path, dev)
	if err != nil {
		return diskInfo{}, err
	}
	v, err := s.measure(fd, path, n)
	if err != nil {
		return diskInfo{}, err
	}
	v.identity.Given = given
	if n.loop {
		return s.addLoopImage(fd, v)
	}
	k, err := s.readDiskID(n)
	if err != nil {
		return diskInfo{}, hardware.IOFault("read the serial of", path, err)
	}
	if k.serial == "" {
		return diskInfo{},
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
func (s system) measure(fd int, path string, n node) (diskInfo, error) {
	v := diskInfo{node: n}
	var err error
	if v.seq, err = s.diskSeq(fd); err != nil {
		return diskInfo{}, hardware.IOFault("read the sequence number of", path, err)
	}
	size, err := s.size(fd)
	if err != nil {
		return diskInfo{}, hardware.IOFault("read the size of", path, err)
	}
	unit, err := s.blockSize(fd)
	if err != nil {
		return diskInfo{}, hardware.IOFault("read the block size of", path, err)
	}
	v.unit = int64(unit)
	v.identity = device.Identity{Size: size, Path: path, Device: n.dev}
	return v, nil
}
