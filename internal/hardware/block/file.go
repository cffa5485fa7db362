package block

import (
	"context"
	"errors"
	"fmt"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// modelFile is the model of every regular file.
const modelFile = "file"

// file is a regular file as a target.
type file struct {
	sys      system
	given    string
	enrolled device.Identity
	writable bool
}

// discoverFile inspects a regular file and changes nothing.
func (d *Driver) discoverFile(ctx context.Context, t hardware.Target, given, path string,
	known device.Identity) (found hardware.Discovery, err error) {
	fd, err := openNoFollow(path, unix.O_RDONLY)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer func() {
		if err = errors.Join(err, unix.Close(fd)); err != nil {
			found = hardware.Discovery{}
		}
	}()

	identity, stat, on, err := d.sys.identify(fd, given, path)
	if err != nil {
		return hardware.Discovery{}, err
	}
	first := known == (device.Identity{})
	if field := known.Differs(identity); !first && field != "" {
		return hardware.Discovery{}, hardware.Changed(field, fmt.Sprintf("%q", path))
	}
	if err := d.rules.AllowPath(path); err != nil {
		return hardware.Discovery{}, err
	}
	if err := d.sys.checkOverwrites(fd, path, stat, on, 0); err != nil {
		return hardware.Discovery{}, err
	}
	if err := d.sys.checkFileUnused(path, inodeOf(stat), ""); err != nil {
		return hardware.Discovery{}, err
	}
	if first || t.Offered { // else one of our own steps, or its tenant, may have it open
		if err := d.sys.checkSingleOpener(ctx, fd, path, false); err != nil {
			return hardware.Discovery{}, err
		}
	}
	if first {
		if err := refuseSignatures(fdReader{d.sys, fd}, path, identity.Size, t); err != nil {
			return hardware.Discovery{}, err
		}
	}
	mark, err := changeMark(ctx, fd, path)
	if err != nil {
		return hardware.Discovery{}, err
	}
	return hardware.Discovery{
		Identity:  identity,
		Operation: device.Shred,
		Mark:      mark,
		Note:      fmt.Sprintf("a regular file on %s: one pass of zeroes by writes", on.name),
	}, nil
}

// openFile opens the enrolled file.
func (d *Driver) openFile(ctx context.Context, given string, enrolled device.Identity,
	writable bool) (hardware.Handle, error) {
	fd, err := openNoFollow(enrolled.Path, access(writable))
	if err != nil {
		return nil, err
	}
	return opened(take(ctx, d.sys, &file{sys: d.sys, given: given, enrolled: enrolled, writable: writable}, fd, writable))
}

// identify compares the open file with the enrolled one.
func (f *file) identify(fd int) (device.Identity, int64, error) {
	_, _, err := f.verifyIdentity(fd)
	return f.enrolled, hardware.Align, err
}

// cacheFD: O_DIRECT bypasses a file's only cache.
func (f *file) cacheFD() int { return -1 }

// unseen: the kernel's lease covers every process.
func (f *file) unseen() string { return "" }

// close has nothing else to close.
func (f *file) close() error { return nil }

// check compares the identity and repeats every interlock (F14).
func (f *file) check(ctx context.Context, fd int) error {
	stat, on, err := f.verifyIdentity(fd)
	if err != nil {
		return err
	}
	own := inodeOf(stat)
	if err := verifyPath(f.given, f.enrolled.Path, func(now *unix.Stat_t) bool { return inodeOf(now) == own }); err !=
		nil {
		return err
	}
	if err := f.sys.checkOverwrites(fd, f.enrolled.Path, stat, on, 0); err != nil {
		return err
	}
	if err := f.sys.checkFileUnused(f.enrolled.Path, inodeOf(stat), ""); err != nil {
		return err
	}
	return f.sys.checkSingleOpener(ctx, fd, f.enrolled.Path, f.writable)
}

// verifyIdentity proves that the descriptor is of the enrolled file.
func (f *file) verifyIdentity(fd int) (*unix.Stat_t, fileSystem, error) {
	identity, stat, on, err := f.sys.identify(fd, f.given, f.enrolled.Path)
	if err != nil {
		return nil, fileSystem{}, err
	}
	if field := f.enrolled.Differs(identity); field != "" {
		return nil, fileSystem{}, hardware.Changed(field, fmt.Sprintf("%q", f.enrolled.Path))
	}
	return stat, on, nil
}

// checkUnchanged is the cheap part of check, for use before each single write. A write would
// make a file grow again that shrank, and a file with a second name belongs to somebody else
// as well.
func (f *file) checkUnchanged(fd int) error {
	stat, err := checkRegular(fd, f.enrolled.Path)
	if err != nil {
		return err
	}
	switch {
	case stat.Size != f.enrolled.Size:
		return hardware.Changed("size", fmt.Sprintf("%q has %d bytes, enrolled were %d", f.enrolled.Path, stat.Size,
			f.enrolled.Size))
	case inodeOf(stat) != inode{dev: f.enrolled.Device, ino: f.enrolled.Inode}:
		return hardware.Changed("inode", fmt.Sprintf("%q", f.enrolled.Path))
	}
	return nil
}

// identify reads the identity of an open file.
func (s system) identify(fd int, given, path string) (device.Identity, *unix.Stat_t, fileSystem, error) {
	fail := func(err error) (device.Identity, *unix.Stat_t, fileSystem, error) {
		return device.Identity{}, nil, fileSystem{}, err
	}
	stat, err := checkRegular(fd, path)
	if err != nil {
		return fail(err)
	}
	if stat.Size == 0 {
		return fail(hardware.Invalid("%q is empty", path))
	}
	on, statfs, err := s.fileSystemOf(fd, path)
	if err != nil {
		return fail(err)
	}
	// The number of a removed inode is reused at once (measured on ext4), so the serial
	// includes its generation. tmpfs has no generation but never reuses a number; its random
	// file system ID distinguishes it from the tmpfs of another host.
	number, err := generation(fd)
	if errors.Is(err, unix.ENOTTY) {
		number, err = uint32(statfs.Fsid.Val[0])^uint32(statfs.Fsid.Val[1]), nil
	}
	if err != nil {
		return fail(hardware.IOFault("read the generation of", path, err))
	}
	return device.Identity{
		Serial: fmt.Sprintf("ino-%x-%d-%08x", uint64(stat.Dev), stat.Ino, number),
		Model:  modelFile,
		Size:   stat.Size,
		Given:  given,
		Path:   path,
		Device: uint64(stat.Dev),
		Inode:  stat.Ino,
	}, stat, on, nil
}

// checkRegular proves that a descriptor is of a regular file with exactly one name.
func checkRegular(fd int, path string) (*unix.Stat_t, error) {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &stat) }); err != nil {
		return nil, hardware.IOFault("fstat", path, err)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, hardware.Changed("path", fmt.Sprintf("%q is no longer a regular file", path))
	case stat.Nlink == 0:
		return nil, hardware.Changed("path", fmt.Sprintf("%q was removed", path))
	case stat.Nlink > 1:
		return nil, hardware.Refused(device.CodeTargetShared, "remove its other names", "%q has %d names (hard links)",
			path, stat.Nlink)
	}
	return &stat, nil
}
