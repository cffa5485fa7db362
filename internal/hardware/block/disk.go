package block

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// MethodWriteZeroes is how WriteZeroes erases, for the record.
const MethodWriteZeroes = "write_zeroes"

// blkZeroOut is the ioctl BLKZEROOUT (linux/fs.h).
const blkZeroOut = 0x127f

// Kernel is where the kernel shows its tables and nodes, and which places are never
// on a disk that is erased. The zero value is this machine's.
type Kernel struct {
	Proc, Sys, Dev string
	ProtectedDirs  []string
}

// Disk is one whole disk for a driver that knows by other means which disk it is: an
// NVMe namespace. It is claimed, locked and in nobody's use when Claim returns it, and
// works as the Handle of this package's own driver does.
type Disk struct {
	hardware.Handle
	h *handle
}

// Claim opens the disk whose node is path exclusively, for as long as the Disk is
// open (F12), and takes its lock. The caller proves what it is. Faults:
// target_missing, target_busy, not_allowed, io_error.
func (k Kernel) Claim(ctx context.Context, path string, writable bool) (_ *Disk, err error) {
	s := k.system()
	flags := uint64(unix.O_RDONLY)
	if writable {
		flags = unix.O_RDWR
	}
	fd, err := s.claim(ctx, path, flags)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	c := &claimedDisk{sys: s, writable: writable}
	if c.info, err = s.inspectClaimed(fd, path); err != nil {
		return nil, err
	}
	if err := hardware.Lock(ctx, fd, path); err != nil {
		return nil, err
	}
	if err := c.check(ctx, fd); err != nil {
		return nil, err
	}
	made, err := newHandle(s, c, fd, c.info.identity, c.info.unit, writable)
	if err != nil {
		return nil, err
	}
	h, _ := made.(*handle)
	return &Disk{Handle: made, h: h}, nil
}

// system is what this package asks the kernel by.
func (k Kernel) system() system {
	s := realSystem()
	if k.Sys != "" {
		s.proc, s.sys, s.dev = k.Proc, k.Sys, k.Dev
	}
	s.protectedDirs = append(s.protectedDirs, k.ProtectedDirs...)
	return s
}

// FD is the descriptor that has the claim, for a child that shall keep it. It is the
// Disk's own: do not close it.
func (d *Disk) FD() int { return d.h.fd }

// RefuseSignatures refuses a disk that holds something which its owner may still want,
// unless the operator accepts it (F15). Faults: foreign_signature, io_error.
func (d *Disk) RefuseSignatures(t hardware.Target) error {
	return refuseSignatures(d.h, d.h.path, d.h.size, t)
}

// WriteZeroes has the disk itself write zeroes to [offset, offset+n), whole blocks.
// What that is worth the caller must know: a loop device answers, and every byte stays
// where it was (F16, measured). An error of it is never made good by writes
// (S2.27).
func (d *Disk) WriteZeroes(ctx context.Context, offset, n int64) error {
	h := d.h
	if err := h.checkOpen(); err != nil {
		return err
	}
	switch {
	case !h.writable:
		return hardware.CallerError("%q was opened for reading only", h.path)
	case offset < 0 || n <= 0 || offset > h.size || n > h.size-offset || offset%h.unit != 0 || n%h.unit != 0:
		return hardware.CallerError("%d bytes at %d are no blocks of %q, which has %d", n, offset, h.path, h.size)
	case ctx.Err() != nil:
		return fmt.Errorf("zero %q, stopped at %d: %w", h.path, offset, ctx.Err())
	}
	if err := h.target.checkUnchanged(h.fd); err != nil {
		return err
	}
	h.dirty, h.cacheDropped = true, false
	extent := [2]uint64{uint64(offset), uint64(n)}
	// Not repeated after EINTR: the kernel repeats it itself, and what it answers counts.
	if err := ioctl(h.fd, blkZeroOut, unsafe.Pointer(&extent)); err != nil {
		return hardware.IOFault(fmt.Sprintf("have zeroed %d bytes at %d of", n, offset), h.path, err)
	}
	return nil
}

// claimedDisk is the subject of a Disk.
type claimedDisk struct {
	sys      system
	info     diskInfo
	writable bool
}

// inspectClaimed reads what an open disk is.
func (s system) inspectClaimed(fd int, path string) (diskInfo, error) {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &stat) }); err != nil {
		return diskInfo{}, hardware.IOFault("fstat", path, err)
	}
	if deviceNumber(&stat) == 0 {
		return diskInfo{}, hardware.Changed("path", fmt.Sprintf("%q is no block device", path))
	}
	dir, err := s.deviceDir(uint64(stat.Rdev))
	if errors.Is(err, fs.ErrNotExist) {
		return diskInfo{}, hardware.Refused(device.CodeTargetMissing, "put it back, or retire the device", "%q is not there any more", path)
	}
	if err != nil {
		return diskInfo{}, hardware.IOFault("look up", path, err)
	}
	v := diskInfo{node: node{name: filepath.Base(dir), dir: dir, dev: uint64(stat.Rdev)}}
	if own := s.nodePath(dir); own != path {
		return diskInfo{}, hardware.Changed("path", fmt.Sprintf("%q is the node of %q", path, own))
	}
	size, err := s.size(fd)
	if err != nil {
		return diskInfo{}, hardware.IOFault("ask for the size of", path, err)
	}
	unit, err := s.blockSize(fd)
	if err != nil {
		return diskInfo{}, hardware.IOFault("ask for the block size of", path, err)
	}
	if unit <= 0 || unit > hardware.Align {
		return diskInfo{}, hardware.Invalid("%q has blocks of %d bytes; up to %d are known", path, unit, hardware.Align)
	}
	if v.seq, err = s.diskSeq(fd); err != nil {
		return diskInfo{}, hardware.IOFault("ask for the sequence number of", path, err)
	}
	v.unit = int64(unit)
	v.identity = device.Identity{Size: size, Path: path, Device: v.node.dev}
	return v, nil
}

// check proves that the disk is the one that was opened, and that nobody uses it.
func (c *claimedDisk) check(ctx context.Context, fd int) error {
	now, err := c.sys.inspectClaimed(fd, c.info.identity.Path)
	if err != nil {
		return err
	}
	if now.seq != c.info.seq || now.node.dir != c.info.node.dir {
		return hardware.Changed("device", fmt.Sprintf("%q is another one since it was opened", c.info.identity.Path))
	}
	if c.writable {
		if err := c.sys.checkWritable(c.info.identity.Path, c.info.node); err != nil {
			return err
		}
	}
	if err := c.sys.checkDiskUnused(c.info.identity.Path, c.info.node); err != nil {
		return err
	}
	disk := disk{sys: c.sys}
	return disk.checkNoWriters(ctx, now, fd)
}

// checkUnchanged compares what costs next to nothing, before each write.
func (c *claimedDisk) checkUnchanged(fd int) error {
	disk := disk{sys: c.sys, enrolled: c.info.identity, info: diskInfo{seq: c.info.seq}}
	return disk.checkUnchanged(fd)
}

// cacheFD: a disk has no cache but its own.
func (c *claimedDisk) cacheFD() int { return -1 }

// close has nothing to give up.
func (c *claimedDisk) close() error { return nil }
