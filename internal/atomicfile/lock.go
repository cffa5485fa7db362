package atomicfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrLocked is the error of TryLock while another open file holds the lock.
const ErrLocked = unix.EWOULDBLOCK

// TryLock takes the exclusive lock of an open file, and does not wait for it. For the
// file that holds the lock it changes nothing.
//
// The lock belongs to the open file, not to the process: a child that inherits the
// descriptor holds it too. Closing every copy is the only way to release it here,
// because LOCK_UN would also release the lock of the children (SAFETY F1, measured).
func TryLock(fd int) error { return flock(fd, unix.LOCK_EX|unix.LOCK_NB) }

// Lock is TryLock that waits. It cannot be canceled.
func Lock(fd int) error { return flock(fd, unix.LOCK_EX) }

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
