package block

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// system is what this package asks of the kernel where a test must be able to
// answer instead.
type system struct {
	// proc, sys and dev are where the kernel shows its tables and nodes.
	proc, sys, dev string
	// protectedDirs are directories whose disk is never erased (F12).
	protectedDirs []string

	statfs func(fd int, buf *unix.Statfs_t) error
	// direct turns O_DIRECT on or off on an open descriptor.
	direct func(fd int, on bool) error
	pread  func(fd int, p []byte, offset int64) (int, error)
	pwrite func(fd int, p []byte, offset int64) (int, error)
	fsync  func(fd int) error

	// What the kernel says of an open block device.
	size       func(fd int) (int64, error)
	blockSize  func(fd int) (int, error)
	diskSeq    func(fd int) (uint64, error)
	loopStatus func(fd int) (*unix.LoopInfo64, error)

	// busyTimeout is how long a lease or a claim may be refused before the target counts
	// as in use. Others pass through in milliseconds: another look by this worker, a
	// backup that reads names.
	busyTimeout time.Duration
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

// deviceSize is the number of bytes of a block device.
func deviceSize(fd int) (int64, error) {
	var size uint64
	err := ioctl(fd, unix.BLKGETSIZE64, unsafe.Pointer(&size))
	return int64(size), err
}

// deviceBlock is the logical block of a block device: the least that it takes.
func deviceBlock(fd int) (int, error) {
	var size int32
	err := ioctl(fd, unix.BLKSSZGET, unsafe.Pointer(&size))
	return int(size), err
}

// deviceSeq numbers everything that a block device has ever been since the machine
// started: a loop over another file, or another medium, has another number. It is 0
// on kernels before 5.15, which do not count.
func deviceSeq(fd int) (uint64, error) {
	var seq uint64
	err := ioctl(fd, unix.BLKGETDISKSEQ, unsafe.Pointer(&seq))
	if errors.Is(err, unix.ENOTTY) {
		return 0, nil
	}
	return seq, err
}

// setDirect changes O_DIRECT on the open descriptor, so that there is never a
// second one (F1: the writer uses the descriptor that holds the lock).
func setDirect(fd int, on bool) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	wanted := flags &^ unix.O_DIRECT
	if on {
		wanted = flags | unix.O_DIRECT
	}
	if wanted == flags {
		return nil
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, wanted)
	return err
}
