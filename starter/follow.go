package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"burnish/internal/device"
	"burnish/starter/internal/live"
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

// goOn looks again and again, until the operator ends it, on a terminal in a live view. look prints what
// is new where view is nil, and says how many devices were listed.
func (a *app) goOn(
	parent context.Context, l deviceClient, least time.Duration, onTerminal bool,
	open func(context.Context, deviceClient) func(what string) (string, error),
	look func(ctx context.Context, view *live.Screen, first bool) (listed int, err error),
) (err error) {
	ctx, cancel := a.waitLimit(parent)
	defer cancel()
	note := a.noteOnce
	var view *live.Screen
	if onTerminal {
		view = a.liveView(ctx, cancel, open(ctx, l))
	}
	if view != nil {
		note = func(text string) error { view.Note(text); return nil }
		defer func() { err = cmp.Or(closed(view), err) }()
	}
	err = a.follow(ctx, least, note, func(first bool) (int, bool, error) {
		listed, err := look(ctx, view, first)
		return listed, false, err
	})
	if errors.Is(err, errStopped) {
		return a.stopped(ctx)
	}
	return err
}

// stopped is the end of a command that only looks: by the operator, or by --timeout.
func (a *app) stopped(ctx context.Context) error {
	if isInterrupted(ctx) {
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

// printNext prints one of many objects, one after the other; text is its form for people.
func (a *app) printNext(v any, text func() string) error {
	switch a.format {
	case formatTable:
		return a.print(text())
	case formatYAML:
		if err := a.print("---\n"); err != nil {
			return err
		}
	}
	return encode(a.stdout, a.format, compact, v)
}
