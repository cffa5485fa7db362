package block

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// system is this package's access to the kernel. Tests replace parts of it.
type system struct {
	// proc, sys and dev are the paths of procfs, sysfs and device nodes.
	proc, sys, dev string
	// protectedDirs are directories whose disk is never erased (F12).
	protectedDirs []string

	statfs func(fd int, buf *unix.Statfs_t) error
	// direct turns O_DIRECT on or off on an open descriptor.
	direct func(fd int, on bool) error
	pread  func(fd int, p []byte, offset int64) (int, error)
	pwrite func(fd int, p []byte, offset int64) (int, error)
	fsync  func(fd int) error

	// Queries of an open block device.
	size       func(fd int) (int64, error)
	blockSize  func(fd int) (int, error)
	diskSeq    func(fd int) (uint64, error)
	loopStatus func(fd int) (*unix.LoopInfo64, error)

	// busyTimeout is how long a lease or a claim may be refused before the target counts as
	// in use. Others have it open for milliseconds only: another discovery by this worker, or
	// a backup that reads names.
	busyTimeout time.Duration
}

// readAt is one pread, however often it is interrupted.
func (s system) readAt(fd int, p []byte, offset int64) (got int, err error) {
	err = retryEINTR(func() (err error) {
		got, err = s.pread(fd, p, offset)
		return err
	})
	return got, err
}

// writeAt is one pwrite, however often it is interrupted.
func (s system) writeAt(fd int, p []byte, offset int64) (got int, err error) {
	err = retryEINTR(func() (err error) {
		got, err = s.pwrite(fd, p, offset)
		return err
	})
	return got, err
}

func realSystem() system {
	return system{
		proc: "/proc", sys: "/sys", dev: "/dev",
		protectedDirs: []string{"/", "/boot", "/boot/efi", "/usr", "/var"},
		statfs:        unix.Fstatfs,
		direct:        setDirect,
		pread:         unix.Pread,
		pwrite:        unix.Pwrite,
		fsync:         unix.Fsync,
		size:          deviceSize,
		blockSize:     deviceBlock,
		diskSeq:       deviceSeq,
		loopStatus:    unix.IoctlLoopGetStatus64,
		busyTimeout:   500 * time.Millisecond,
	}
}

// deviceSize is a block device's size in bytes.
func deviceSize(fd int) (int64, error) {
	size, err := unix.IoctlGetInt(fd, unix.BLKGETSIZE64)
	return int64(size), err
}

// deviceBlock is a block device's logical block size.
func deviceBlock(fd int) (int, error) {
	size, err := unix.IoctlGetUint32(fd, unix.BLKSSZGET)
	return int(size), err
}

// deviceSeq is the disk sequence number, which changes when a loop gets another file or a
// drive another medium. It is 0 on kernels before 5.15, which do not have it.
func deviceSeq(fd int) (uint64, error) {
	seq, err := unix.IoctlGetInt(fd, unix.BLKGETDISKSEQ)
	if errors.Is(err, unix.ENOTTY) {
		return 0, nil
	}
	return uint64(seq), err
}

// setDirect changes O_DIRECT on the open descriptor, so that the writer never needs a second
// one (F1). Of the flags that can be changed, it is the only one that has an effect on a disk or a file.
func setDirect(fd int, on bool) error {
	flags := 0
	if on {
		flags = unix.O_DIRECT
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return err
}
