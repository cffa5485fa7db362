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

// lockTimeout is how long a lock may be refused before it counts as held. A copy of
// a descriptor that is on its way through fork and exec keeps its lock for
// milliseconds after Close.
const lockTimeout = 100 * time.Millisecond

// Lock takes the exclusive lock on a target's own open descriptor (SAFETY F1). It
// keeps apart two workers with different state directories, and goes with the
// descriptor to a child that inherits it. Nothing but closing every copy gives it
// back: LOCK_UN would free a child's as well (measured). Held by another, it returns
// the transient fault target_busy; name says in it what is held.
func Lock(ctx context.Context, fd int, name string) error {
	err := RetryInterrupted(ctx, lockTimeout, func() error { return atomicfile.TryLock(fd) })
	if errors.Is(err, atomicfile.ErrLocked) {
		return &device.Fault{
			Class:   device.Transient,
			Code:    device.CodeTargetBusy,
			Message: fmt.Sprintf("%q is locked by another step or worker", name),
			Remedy:  "wait until it ends",
		}
	}
	if err != nil {
		return fmt.Errorf("lock %q: %w", name, err)
	}
	return nil
}

// RetryInterrupted calls try again while it returns EAGAIN or EINTR, until patience is
// spent, and returns what the last call did, or ctx's error where that ends first.
func RetryInterrupted(ctx context.Context, patience time.Duration, try func() error) error {
	const pause = 10 * time.Millisecond
	spent := time.NewTimer(patience)
	defer spent.Stop()
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		err := try()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-spent.C:
			return err
		case <-again.C:
		}
	}
}
