package hardware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
)

// lockTimeout is how long a lock may be refused before it counts as held. A descriptor
// that is copied during fork and exec keeps its lock for milliseconds after Close.
const lockTimeout = 100 * time.Millisecond

// Lock takes the exclusive lock on a target's own open descriptor (F1). It separates two
// workers with different state directories, and a child that inherits the descriptor
// holds it too. Only closing every copy releases it: LOCK_UN would release the child's as
// well (measured). If another process holds it, the error is the transient fault
// target_busy. name is used in messages.
func Lock(ctx context.Context, fd int, name string) error {
	err := RetryInterrupted(ctx, lockTimeout, func() error { return atomicfile.TryLock(fd) })
	if errors.Is(err, atomicfile.ErrLocked) {
		opener := ""
		if stat := (unix.Stat_t{}); unix.Fstat(fd, &stat) == nil {
			opener = DescribeUser("/proc", &stat, fd)
		}
		return &device.Fault{
			Class:   device.Transient,
			Code:    device.CodeTargetBusy,
			Message: fmt.Sprintf("%q is locked by another step or worker%s", name, opener),
			Remedy:  "wait until it ends",
		}
	}
	if err != nil {
		return fmt.Errorf("lock %q: %w", name, err)
	}
	return nil
}
