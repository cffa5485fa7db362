package block

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// MethodWriteZeroes is the Method of an erase by WriteZeroes.
const MethodWriteZeroes = "write_zeroes"

// Kernel says where procfs, sysfs and device nodes are, and which directories' disks are
// never erased. The zero value is the real machine.
type Kernel struct {
	Proc, Sys, Dev string
	ProtectedDirs  []string
}

// Disk is one whole disk, for a driver that verifies the disk's identity itself: an NVMe
// namespace. When Claim returns it, it is claimed, locked and not in use. It behaves as this
// package's own Handle.
type Disk struct {
	*handle
	dir string // in sysfs
}

// Claim opens the disk at the node path exclusively and locks it, until the Disk is closed
// (F12). The caller verifies its identity. Faults: target_missing, target_busy, not_allowed,
// io_error.
func (k Kernel) Claim(ctx context.Context, path string, writable bool) (*Disk, error) {
	s := k.system()
	fd, err := s.claim(ctx, path, access(writable))
	if err != nil {
		return nil, err
	}
	of := &claimedDisk{target{sys: s, enrolled: device.Identity{Path: path}, device: true, writable: writable}}
	h, err := take(ctx, s, of, fd, writable)
	if err != nil {
		return nil, err
	}
	return &Disk{h, of.info.node.dir}, nil
}

// system gives the access to the kernel.
func (k Kernel) system() system {
	s := realSystem()
	if k.Sys != "" {
		s.proc, s.sys, s.dev = k.Proc, k.Sys, k.Dev
	}
	s.protectedDirs = append(s.protectedDirs, k.ProtectedDirs...)
	return s
}

// FD is the descriptor that has the claim, for a child process to inherit. Do not close it.
func (d *Disk) FD() int { return d.fd }

// RefuseSignatures refuses a disk with data that its owner may still want, unless the
// operator accepts it (F15). Faults: filesystem_signature, io_error.
func (d *Disk) RefuseSignatures(t hardware.Target) error {
	return refuseSignatures(d, d.path, d.size, t)
}

// WriteZeroes has the disk write zeroes to [offset, offset+n), in whole blocks, by requests
// of at most 4 MiB, before each of which it checks what ZeroAt checks. The caller
// must know whether the disk does so: a loop device reports success and keeps every byte
// (F16, measured). After an error the zeroes are not written in another way (S2.27): neither
// here, nor by the kernel, which does so with the ioctl BLKZEROOUT without a word. Fault:
// command_refused where the kernel does not use the command on this disk.
func (d *Disk) WriteZeroes(ctx context.Context, offset, n int64) error {
	if err := d.checkBlocks(offset, n); err != nil {
		return err
	}
	// 0 where the drive, or the kernel's list of quirks, says that it has no such command.
	const limit = "queue/write_zeroes_max_bytes"
	if most, err := hardware.Attribute(d.dir, limit); err != nil {
		return hardware.IOFault("read "+limit+" of", d.path, err)
	} else if strings.Trim(most, "0") == "" {
		return refusesWriteZeroes(d.path, limit+" is 0")
	}
	for n > 0 {
		some := min(n, hardware.MaxWrite)
		if err := d.mayWrite(ctx, offset); err != nil {
			return err
		}
		d.dirty, d.cacheDropped = true, false
		// On a block device this mode is the kernel's Write Zeroes without its fallback to
		// plain writes. Not repeated after EINTR: the kernel's answer is final.
		err := unix.Fallocate(d.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, some)
		if errors.Is(err, unix.EOPNOTSUPP) {
			return refusesWriteZeroes(d.path, err.Error())
		}
		if err != nil {
			return hardware.IOFault(fmt.Sprintf("write zeroes by the device, %d bytes at %d of", some, offset), d.path, err)
		}
		offset, n = offset+some, n-some
	}
	return nil
}

func refusesWriteZeroes(path, why string) *device.Fault {
	return hardware.Refused(device.CodeCommandRefused, "clean it by another operation: in state error, a refresh may "+
		"choose one",
		"the kernel does not use Write Zeroes on %q (%s): it would write the zeroes itself", path, why)
}

// checkBlocks refuses a change of anything but whole blocks of a disk that is open for writing.
func (d *Disk) checkBlocks(offset, n int64) error {
	if err := d.checkOpen(); err != nil {
		return err
	}
	return hardware.CheckWrite(d.path, d.writable, d.size, d.unit, offset, n)
}

// WriteData writes p at offset, in whole blocks, with the checks of each write of zeroes. p is
// aligned (see hardware.AlignedBuffer). It is durable after Flush.
func (d *Disk) WriteData(ctx context.Context, p []byte, offset int64) error {
	if len(p) > hardware.MaxWrite {
		return hardware.CallerError("%d bytes are too many for one write of %q", len(p), d.path)
	}
	if err := d.checkBlocks(offset, int64(len(p))); err != nil {
		return err
	}
	if err := d.mayWrite(ctx, offset); err != nil {
		return err
	}
	d.dirty, d.cacheDropped = true, false
	got, err := d.sys.writeAt(d.fd, p, offset)
	if err == nil && got < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return hardware.IOFault(fmt.Sprintf("write %d bytes at %d of", len(p), offset), d.path, err)
	}
	return nil
}

// CheckUnused refuses the disk at the node path, whose directory in sysfs is dir, if the kernel's
// tables show it or one of its partitions in use (F12).
func (k Kernel) CheckUnused(path, dir string) error {
	s := k.system()
	dev, err := s.devOf(dir)
	if err != nil {
		return hardware.IOFault("read the number of", path, err)
	}
	return s.checkDiskUnused(path, node{name: filepath.Base(dir), dir: dir, dev: dev})
}

// claimedDisk is the openTarget of a Disk: a disk without settings, rules or a serial of its own.
type claimedDisk struct{ target }

// inspectClaimed reads the number, size and block size of an open disk.
func (s system) inspectClaimed(fd int, path string) (info, error) {
	dev, err := openNumber(fd, path)
	if err != nil {
		return info{}, err
	}
	dir, err := s.deviceDir(dev)
	if errors.Is(err, fs.ErrNotExist) {
		return info{}, hardware.Missing("%q no longer exists", path)
	}
	if err != nil {
		return info{}, hardware.IOFault("find", path, err)
	}
	if own := s.nodePath(dir); own != path {
		return info{}, hardware.Changed("path", fmt.Sprintf("%q is a node of %q", path, own))
	}
	v, err := s.measure(fd, path, node{name: filepath.Base(dir), dir: dir, dev: dev})
	if err == nil && (v.unit <= 0 || v.unit > hardware.Align) {
		err = hardware.Invalid("%q has blocks of %d bytes, but only up to %d are supported", path, v.unit, hardware.Align)
	}
	return v, err
}

// identify takes the open disk for the one: its claimant verifies who it is.
func (c *claimedDisk) identify(fd int) (enrolled device.Identity, unit int64, err error) {
	c.info, err = c.sys.inspectClaimed(fd, c.enrolled.Path)
	if err == nil {
		c.enrolled = c.info.identity
	}
	return c.enrolled, c.info.unit, err
}

// check proves that the disk is still the one that was opened, and not in use.
func (c *claimedDisk) check(ctx context.Context, fd int) error {
	path, opened := c.enrolled.Path, c.info
	now, err := c.sys.inspectClaimed(fd, path)
	if err != nil {
		return err
	}
	if now.seq != opened.seq || now.node.dir != opened.node.dir {
		return hardware.Changed("device", fmt.Sprintf("%q was replaced after it was opened", path))
	}
	if c.writable {
		if err := c.sys.checkWritable(path, opened.node); err != nil {
			return err
		}
	}
	if err := c.sys.checkDiskUnused(path, opened.node); err != nil {
		return err
	}
	return c.checkNoWriters(ctx, now, fd)
}
