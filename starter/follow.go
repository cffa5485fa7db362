package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"burnish/internal/device"
)

// errStopped ends a command that follows the fleet: by the operator, or by --timeout.
var errStopped = errors.New("stopped")

const (
	// pollInterval is the shortest pause between two polls, maxPollInterval the longest.
	pollInterval    = time.Second
	maxPollInterval = 10 * time.Second
)

// pollPause is the pause after a poll that listed so many devices and took so long. The more
// it costs the server, the longer it is.
func pollPause(listed int, took time.Duration) time.Duration {
	return min(max(pollInterval, time.Duration(listed)*5*time.Millisecond, 4*took), maxPollInterval)
}

// follow calls poll again and again, until it has ended, fails for good, or ctx ends, which is
// errStopped. A server that is unreachable for a while is no end; note says so, once. poll
// says how many devices it listed; the pause after it is at least least.
func (a *app) follow(ctx context.Context, least time.Duration, note func(string) error,
	poll func(first bool) (listed int, ended bool, err error)) error {
	unreachable := false
	for first := true; ; first = false {
		began := a.now()
		listed, ended, err := poll(first)
		switch {
		case ended:
			return err
		case err == nil:
			unreachable = false
		case ctx.Err() != nil && !isInterrupted(ctx) && isUnreachable(err):
			return err
		case ctx.Err() != nil:
			return errStopped
		case first || !isTransient(err):
			return err
		case !unreachable:
			unreachable = true
			if err := note(asFailure(err).Error() + "; trying again"); err != nil {
				return err
			}
		}
		if a.pause(ctx, max(least, pollPause(listed, a.now().Sub(began)))) != nil {
			return errStopped
		}
	}
}

// stopped is the end of a command that only looks: by Ctrl-C, or by --timeout.
func (a *app) stopped(parent context.Context) error {
	if isInterrupted(parent) {
		return interrupted("", "")
	}
	return &failure{
		exit: exitTimeout, code: device.CodeTimeout,
		message: fmt.Sprintf("watched for %s", a.timeout.limit), remedy: "see burnish list",
	}
}

// isTransient says whether a poll that failed may succeed a second later.
func isTransient(err error) bool {
	c := asFailure(err).code
	return c == device.CodeUnreachable || c == device.CodeTimeout
}

// noteOnce is the note of a command whose output is lines.
func (a *app) noteOnce(text string) error {
	a.note("", text)
	return nil
}
