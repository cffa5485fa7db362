package block

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
)

// tick is longer than one of the clock by which file systems date changes.
const tick = 20 * time.Millisecond

// changeMark is the change time of an open file (SAFETY F39). Two
// changes within one tick of the clock get the same time, so it waits until a later one gets
// another.
func changeMark(ctx context.Context, fd int, path string) (mark string, err error) {
	err = hardware.RetryInterrupted(ctx, 3*tick, func() error {
		var now unix.Timespec
		var stat unix.Stat_t
		if err := errors.Join(unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now), unix.Fstat(fd, &stat)); err != nil {
			return err
		}
		mark = fmt.Sprintf("%d.%09d", stat.Ctim.Sec, stat.Ctim.Nsec)
		if since := time.Duration(now.Nano() - stat.Ctim.Nano()); since <= 0 && since > -tick {
			return unix.EAGAIN
		}
		return nil
	})
	if err != nil && !errors.Is(err, unix.EAGAIN) { // EAGAIN: the file is changed all the time
		return "", hardware.IOFault("read the change time of", path, err)
	}
	return mark, nil
}
