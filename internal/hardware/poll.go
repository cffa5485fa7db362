package hardware

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// Poll waits for the kernel: it calls try until that returns again=false or the timeout
// has passed, and returns try's last error. If ctx ends first, it returns ctx's cause.
func Poll(ctx context.Context, timeout time.Duration, try func() (again bool, err error)) error {
	return PollEvery(ctx, timeout, 50*time.Millisecond, try)
}

// RetryInterrupted calls try again while it returns EAGAIN or EINTR, in the way of Poll.
func RetryInterrupted(ctx context.Context, timeout time.Duration, try func() error) error {
	return PollEvery(ctx, timeout, 10*time.Millisecond, func() (bool, error) {
		err := try()
		return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR), err
	})
}

// PollBusy is PollEvery that goes on while the device is in use.
func PollBusy(ctx context.Context, timeout, interval time.Duration, try func() error) error {
	return PollEvery(ctx, timeout, interval, func() (again bool, err error) {
		err = try()
		return device.HasCode(err, device.CodeTargetBusy), err
	})
}

// PollEvery is Poll with another pause between two tries.
func PollEvery(ctx context.Context, timeout, interval time.Duration, try func() (again bool, err error)) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	pause := time.NewTicker(interval)
	defer pause.Stop()
	for {
		again, err := try()
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return cmp.Or(context.Cause(ctx), err) // a try may take long
		case <-pause.C:
		}
	}
}
