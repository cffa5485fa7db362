package redfish

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// timing is how long the driver waits for what. Tests have their own.
type timing struct {
	// request is the time of one request, login that of a logout or login.
	request, login time.Duration
	// firstPause is the time between two tries, which doubles up to longestPause.
	firstPause, longestPause time.Duration
	// restart is how long a step waits for a BMC that does not answer, look how long a
	// discovery does.
	restart, look time.Duration
	// sessions is how long a login waits for a place in the session table.
	sessions time.Duration
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
	firstPause: 250 * time.Millisecond, longestPause: 5 * time.Second,
	restart: 20 * time.Minute, look: 20 * time.Second,
	sessions: 10 * time.Minute,
	power:    5 * time.Minute, graceful: 2 * time.Minute, post: 30 * time.Minute,
	settle: time.Minute, blindPOST: 15 * time.Minute, stall: 30 * time.Minute,
}

// waiting is a wait that tries again and again, with growing pauses, until its time is over.
type waiting struct {
	pause, longest time.Duration
	deadline       *time.Timer
}

// wait begins a wait of this length.
func (t timing) wait(length time.Duration) *waiting {
	return &waiting{pause: t.firstPause, longest: t.longestPause, deadline: time.NewTimer(length)}
}

func (w *waiting) stop() { w.deadline.Stop() }

// next waits for the next try, at least atLeast. It returns false when the time is over. The
// error is the end of ctx.
func (w *waiting) next(ctx context.Context, atLeast time.Duration) (bool, error) {
	pause := time.NewTimer(max(w.pause, min(atLeast, w.longest)))
	defer pause.Stop()
	w.pause = min(2*w.pause, w.longest)
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-w.deadline.C:
		return false, nil
	case <-pause.C:
		return true, nil
	}
}

// again starts the pauses over: something has changed.
func (w *waiting) again(t timing) { w.pause = t.firstPause }

// retryAfter is the time that an answer asks to wait, or 0.
func retryAfter(err error) time.Duration {
	var r *refusal
	if !errors.As(err, &r) {
		return 0
	}
	return retryAfterHeader(r.header)
}

func retryAfterHeader(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
