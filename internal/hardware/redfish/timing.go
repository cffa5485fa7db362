package redfish

import (
	"context"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// timing is how long the driver waits for what. Tests have their own.
type timing struct {
	// request is the time of one request, login that of a logout or login.
	request, login time.Duration
	// firstPause is the least time between two tries. It grows with the time waited so far (see
	// pauseShare), up to longestPause.
	firstPause, longestPause time.Duration
	// restart is how long a step waits for a BMC that does not answer, look how long a
	// discovery does.
	restart, look time.Duration
	// interval is the least time between two requests to one BMC.
	interval time.Duration
	// power is how long a change of the power state may take, post the time from power-on
	// to the end of POST.
	power, graceful, post time.Duration
	// settle is how long a BMC may take to show what has come of a request.
	settle time.Duration
	// blindPOST is how long a server may take to start whose BMC does not show POST.
	blindPOST time.Duration
	// stall is how long an update of firmware may make no progress.
	stall time.Duration
}

// usualTiming is that of real BMCs.
var usualTiming = timing{
	request: time.Minute, login: 15 * time.Second,
	firstPause: 100 * time.Millisecond, longestPause: 5 * time.Second,
	restart: 20 * time.Minute, look: 20 * time.Second,
	interval: usualInterval,
	power:    5 * time.Minute, graceful: 2 * time.Minute, post: 30 * time.Minute,
	settle: usualSettle, blindPOST: 15 * time.Minute, stall: 30 * time.Minute,
}

// pauseShare: a pause is this part of the time waited so far. What is waited for is so seen at most
// that much later than it was there, and a BMC is asked rarely for what takes long.
const pauseShare = 20

// waiting is a wait that tries again and again, with growing pauses, until its time is over.
type waiting struct {
	began          time.Time
	first, longest time.Duration
	deadline       *time.Timer
}

// wait begins a wait of this length.
func (t timing) wait(length time.Duration) *waiting {
	return &waiting{began: time.Now(), first: t.firstPause, longest: t.longestPause, deadline: time.NewTimer(length)}
}

func (w *waiting) stop() { w.deadline.Stop() }

// next waits for the next try. It returns false when the time is over. The error is the end of ctx.
func (w *waiting) next(ctx context.Context) (bool, error) {
	pause := time.NewTimer(w.pause(time.Since(w.began)))
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-w.deadline.C:
		return false, nil
	case <-pause.C:
		return true, nil
	}
}

// until looks again and again until a look is done, and shows what it waits for. late gives the error
// where that takes longer than length; nil: it waits no longer.
func (h *handle) until(ctx context.Context, run hardware.StepRun, length time.Duration,
	look func() (done bool, doing string, err error), late func() error) error {
	waiting := h.driver.timing.wait(length)
	defer waiting.stop()
	for {
		done, doing, err := look()
		if err != nil || done {
			return err
		}
		if err := h.progress(run, h.percent, doing); err != nil {
			return err
		}
		again, err := waiting.next(ctx)
		switch {
		case err != nil || !again && late == nil:
			return err
		case !again:
			return late()
		}
	}
}

// stuck is the fault of a server that does not come to what is waited for.
func stuck(format string, args ...any) func() error {
	return func() error {
		return hardware.Refused(device.CodeNoProgress, "see the server's console and the BMC's jobs, then clean it again",
			format, args...)
	}
}

// pause is how long to wait for the next try after so long a wait.
func (w *waiting) pause(waited time.Duration) time.Duration {
	return min(max(w.first, waited/pauseShare), w.longest)
}

// again starts the pauses over: something else is waited for.
func (w *waiting) again() { w.began = time.Now() }
