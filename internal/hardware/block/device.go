package block

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// disk is a whole disk or a loop device as a target, as it was when its descriptor
// was opened.
type disk struct {
	sys      system
	rules    func(path string) error
	given    string
	enrolled device.Identity
	writable bool

	info diskInfo
}

// diskInfo is what one look through an open descriptor shows of a device.
type diskInfo struct {
	node     node
	identity device.Identity
	// seq is what deviceSeq gives.
	seq uint64
	// unit is the device's own block.
	unit int64
	// image is the file behind a loop device, nil for a disk.
	image *loopImage
}

// close gives up the file behind a loop.
func (v diskInfo) close() error {
	if v.image == nil {
		return nil
	}
	return v.image.close()
}

// discoverDevice looks at a block device and changes nothing. It claims the device
// only at the first enrolment: later a step of ours may be at work on it.
func (d *Driver) discoverDevice(ctx context.Context, t hardware.Target, given, path string, known device.Identity) (found hardware.Discovery, err error) {
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
	// As if for writing: what may not be destroyed is not enrolled either.
	target := &disk{sys: d.sys, rules: d.checkAllowed, given: given, enrolled: v.identity, writable: true, info: v}
	if err := target.checkErasable(v, fd, first); err != nil {
		return hardware.Discovery{}, err
	}
	if err := target.checkUnused(v); err != nil {
		return hardware.Discovery{}, err
	}
	note := fmt.Sprintf("a whole disk (%s): one pass of zeroes by writes to what it shows; spare blocks keep what they hold", d.sys.bus(v.node.dir))
	if v.image != nil {
		note = fmt.Sprintf("a loop device over %q on %s: one pass of zeroes by writes", v.image.path, v.image.on.name)
	}
	if first {
		if err := d.checkFirstEnrollment(ctx, t, target, v, fd); err != nil {
			return hardware.Discovery{}, err
		}
	}
	return hardware.Discovery{Identity: v.identity, Operation: device.Shred, Note: note}, nil
}

// checkFirstEnrollment is what only a first enrolment asks: that nobody has claimed the device or
// writes to it, and that it holds nothing that its owner may still want (F15).
func (d *Driver) checkFirstEnrollment(ctx context.Context, t hardware.Target, target *disk, v diskInfo, fd int) (err error) {
	path := v.identity.Path
	claimed, err := d.sys.claim(ctx, path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(claimed)) }()
	if err := target.checkNoWriters(ctx, v, fd); err != nil {
		return err
	}
	// What the file behind a loop got meanwhile is not in the loop's own cache.
	if err := unix.Fadvise(claimed, 0, 0, unix.FADV_DONTNEED); err != nil {
		return hardware.IOFault("drop the cache of", path, err)
	}
	return refuseSignatures(fdReader{d.sys, claimed}, path, v.identity.Size, t)
}

// openDevice claims the enrolled device, locks it, and lets nobody have it before
// every check has passed on that one descriptor.
func (d *Driver) openDevice(ctx context.Context, given string, enrolled device.Identity, writable bool) (_ hardware.Handle, err error) {
	defer func() { err = asIdentityChange(err) }()
	if err := d.sys.checkWholePath(enrolled.Path); err != nil {
		return nil, err
	}
	flags := uint64(unix.O_RDONLY)
	if writable {
		flags = unix.O_RDWR
	}
	target := &disk{sys: d.sys, rules: d.checkAllowed, given: given, enrolled: enrolled, writable: writable}
	fd, err := d.sys.claim(ctx, enrolled.Path, flags)
	if err != nil {
		return nil, target.openers(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, target.close(), unix.Close(fd))
		}
	}()
	if target.info, err = target.verifyIdentity(fd); err != nil {
		return nil, err
	}
	if err := hardware.Lock(ctx, fd, enrolled.Path); err != nil {
		return nil, err
	}
	if image := target.info.image; image != nil {
		// A worker that has the file itself enrolled locks the file.
		if err := hardware.Lock(ctx, image.fd, image.path); err != nil {
			return nil, err
		}
	}
	if err := target.check(ctx, fd); err != nil {
		return nil, err
	}
	return newHandle(d.sys, target, fd, enrolled, target.info.unit, writable)
}

// openers says more of a device that could not be claimed: that it is another one, or
// who has it, where the tables tell.
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

// check compares the identity and asks every interlock again (F11, F12, F14).
func (d *disk) check(ctx context.Context, fd int) (err error) {
	defer func() { err = asIdentityChange(err) }()
	v, err := d.verifyIdentity(fd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	if v.seq != d.info.seq {
		return hardware.Changed("device", fmt.Sprintf("%q is another one since it was opened", d.enrolled.Path))
	}
	// The number that is held: the enrolled one is a file's, or may have changed.
	if err := verifyPath(d.given, d.enrolled.Path, func(now *unix.Stat_t) bool { return deviceNumber(now) == v.node.dev }); err != nil {
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

// verifyIdentity proves that the descriptor is of the enrolled device, and shows it. The caller
// closes what it gets.
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

// checkErasable refuses a device that cannot be erased as a whole by writes of its blocks, and
// a loop whose file does not do (F14).
func (d *disk) checkErasable(v diskInfo, fd int, first bool) error {
	path, size := v.identity.Path, v.identity.Size
	switch {
	case size <= 0:
		return hardware.Invalid("%q has no bytes", path)
	case v.unit <= 0 || v.unit > hardware.Align:
		return hardware.Invalid("%q has blocks of %d bytes; up to %d are known", path, v.unit, hardware.Align)
	case size%v.unit != 0:
		return hardware.Invalid("%q has %d bytes, which are no whole blocks of %d: nobody reaches its end", path, size, v.unit)
	case v.image == nil:
		return d.sys.checkSerialUnique(path, v.node, v.identity.Serial)
	}
	if d.writable {
		if err := d.rules(v.image.path); err != nil {
			return err
		}
	}
	if err := v.image.checkCovered(path, size, first); err != nil {
		return err
	}
	return loopFileFault(path, v.image.path, d.sys.checkOverwritesAt(v.image.fd, v.image.path, v.image.stat, v.image.on, 1))
}

// checkUnused asks the kernel's tables about the device, its partitions, and the file
// behind a loop.
func (d *disk) checkUnused(v diskInfo) error {
	if err := d.sys.checkDiskUnused(v.identity.Path, v.node); err != nil {
		return err
	}
	if v.image == nil {
		return nil
	}
	return loopFileFault(v.identity.Path, v.image.path, d.sys.checkFileUnused(v.image.path, inodeOf(v.image.stat), v.node.name))
}

// checkNoWriters proves that nobody else may write to the device, to one of its partitions
// or to the file behind it.
func (d *disk) checkNoWriters(ctx context.Context, v diskInfo, fd int) error {
	parts, err := d.sys.partitions(v.node)
	if err != nil {
		return err
	}
	return d.sys.checkNoWriters(ctx, v.identity.Path, fd, func(stat *unix.Statx_t) bool {
		if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
			_, ok := findByNumber(parts, unix.Mkdev(stat.Rdev_major, stat.Rdev_minor))
			return ok
		}
		return v.image != nil && inodeOf(v.image.stat) == inode{dev: unix.Mkdev(stat.Dev_major, stat.Dev_minor), ino: stat.Ino}
	})
}

// checkUnchanged is the part of check that costs next to nothing, for use before every
// single write: the number of what the device is, its size, and a loop's file.
func (d *disk) checkUnchanged(fd int) error {
	path := d.enrolled.Path
	seq, err := d.sys.diskSeq(fd)
	if err != nil {
		return hardware.IOFault("ask for the sequence number of", path, err)
	}
	if seq != d.info.seq {
		return hardware.Changed("device", fmt.Sprintf("%q is another one since it was opened", path))
	}
	size, err := d.sys.size(fd)
	if err != nil {
		return hardware.IOFault("ask for the size of", path, err)
	}
	if size != d.enrolled.Size {
		return hardware.Changed("size", fmt.Sprintf("%q has %d bytes and was enrolled with %d", path, size, d.enrolled.Size))
	}
	if d.info.image == nil {
		return nil
	}
	return d.info.image.checkUnchanged(d.sys, fd, path, d.enrolled)
}

// cacheFD is the file behind a loop: reads of the loop come from that file's cache.
func (d *disk) cacheFD() int {
	if d.info.image == nil {
		return -1
	}
	return d.info.image.fd
}

// close gives up the file behind a loop.
func (d *disk) close() error { return d.info.close() }

// asIdentityChange tells of an enrolled device that it is not the enrolled one where it has
// become what could never have been enrolled.
func asIdentityChange(err error) error {
	if fault, ok := device.AsFault(err); ok && fault.Code == device.CodeInvalidSetting {
		return hardware.Changed("kind", fault.Message)
	}
	return err
}

// checkWholePath tells without opening it whether path names a device that may be opened.
func (s system) checkWholePath(path string) error {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Lstat(path, &stat) }); err != nil {
		return openFault(path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return hardware.Changed("path", fmt.Sprintf("%q is no block device any more", path))
	}
	_, err := s.checkWholeDisk(path, uint64(stat.Rdev))
	return err
}

// inspect reads who an open block device is. Its tables in sysfs are found by the number
// of the descriptor, which the descriptor keeps from being given to another (F11).
// The caller closes the view, also after an error.
func (s system) inspect(fd int, given, path string) (diskInfo, error) {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &stat) }); err != nil {
		return diskInfo{}, hardware.IOFault("fstat", path, err)
	}
	if deviceNumber(&stat) == 0 {
		return diskInfo{}, hardware.Changed("path", fmt.Sprintf("%q is no block device any more", path))
	}
	n, err := s.checkWholeDisk(path, uint64(stat.Rdev))
	if err != nil {
		return diskInfo{}, err
	}
	v := diskInfo{node: n}
	if v.seq, err = s.diskSeq(fd); err != nil {
		return diskInfo{}, hardware.IOFault("ask for the sequence number of", path, err)
	}
	size, err := s.size(fd)
	if err != nil {
		return diskInfo{}, hardware.IOFault("ask for the size of", path, err)
	}
	unit, err := s.blockSize(fd)
	if err != nil {
		return diskInfo{}, hardware.IOFault("ask for the block size of", path, err)
	}
	v.unit = int64(unit)
	v.identity = device.Identity{Size: size, Given: given, Path: path, Device: n.dev}
	if n.loop {
		return s.addLoopImage(fd, v)
	}
	k, err := s.readDiskID(n)
	if err != nil {
		return diskInfo{}, hardware.IOFault("read the serial of", path, err)
	}
	if k.serial == "" {
		return diskInfo{}, hardware.Invalid("%q tells neither a wwid nor a serial: it could not be told from another", path)
	}
	v.identity.Serial, v.identity.Vendor, v.identity.Model, v.identity.Firmware = k.serial, k.vendor, k.model, k.firmware
	return v, nil
}
