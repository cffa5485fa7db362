package block

import (
	"time"

	"golang.org/x/sys/unix"
)

// system is what this package asks of the kernel where a test must be able to
// answer instead.
type system struct {
	// proc, sys and dev are where the kernel shows its tables and nodes.
	proc, sys, dev string

	statfs func(fd int, buf *unix.Statfs_t) error
	// direct turns O_DIRECT on or off on an open descriptor.
	direct func(fd int, on bool) error
	pread  func(fd int, p []byte, offset int64) (int, error)
	pwrite func(fd int, p []byte, offset int64) (int, error)
	fsync  func(fd int) error

	// patience is how long a lease may be refused before the target counts as in
	// use. Others pass through in milliseconds: another look by this worker, a
	// backup that reads names.
	patience time.Duration
}

func realSystem() system {
	return system{
		proc: "/proc", sys: "/sys", dev: "/dev",
		statfs:   unix.Fstatfs,
		direct:   setDirect,
		pread:    unix.Pread,
		pwrite:   unix.Pwrite,
		fsync:    unix.Fsync,
		patience: 500 * time.Millisecond,
	}
}

// setDirect changes O_DIRECT on the open descriptor, so that there is never a
// second one (SAFETY F1: the writer uses the descriptor that holds the lock).
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
