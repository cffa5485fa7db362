package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"burnish/internal/device"
	"burnish/starter/internal/live"
	"burnish/starter/internal/terminal"
	"burnish/workflows/contract"
)

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

// following is a command that looks at the fleet again and again.
type following struct {
	least time.Duration // between two looks
	lines bool          // on a terminal, too
	// open gives what is known of that which a row of the view opens.
	open func(ctx context.Context, what string) (string, error)
	// look shows what there is in the view, or, without one, prints what is new. It says how many devices
	// were listed, and whether that was the end, with err as its outcome.
	look func(ctx context.Context, view *live.Screen, first bool) (listed int, over bool, err error)
	// stopped is the end by the operator, or by --timeout.
	stopped func(ctx context.Context) error
}

// follow looks again and again until the end, or a failure for good. On a terminal it is a live view. A
// server that is unreachable for a while is no end; it is said once.
func (a *app) follow(parent context.Context, f following) (err error) {
	ctx, cancel := a.waitLimit(parent)
	defer cancel()
	var view *live.Screen
	note := func(text string) { a.note("", text) }
	if a.format == formatTable && a.screen != nil && !f.lines {
		var in io.Reader
		if a.terminal() {
			in = a.stdin
		}
		open := func(what string) (string, error) { return f.open(ctx, what) }
		view = live.New(in, a.screen, live.NewModel(open, a.palette()), cancel)
		note = view.Note
		defer func() {
			if closed := view.Close(); closed != nil {
				err = notWritten(closed)
			}
		}()
	}
	unreachable := false
	for first := true; ; first = false {
		began := a.now()
		listed, over, err := f.look(ctx, view, first)
		switch {
		case over:
			return err
		case err == nil:
			unreachable = false
		case ctx.Err() != nil && !isInterrupted(ctx) && isUnreachable(err):
			return err
		case ctx.Err() != nil:
			return f.stopped(ctx)
		case first || !isTransient(err):
			return err
		case !unreachable:
			unreachable = true
			note(oneLine(asFailure(err).Error() + "; trying again"))
		}
		if a.pause(ctx, max(f.least, pollPause(listed, a.now().Sub(began)))) != nil {
			return f.stopped(ctx)
		}
	}
}

// stopped is the end of a command that only looks: by the operator, or by --timeout.
func (a *app) stopped(ctx context.Context) error {
	if isInterrupted(ctx) {
		return interrupted("", "")
	}
	return failf(device.CodeTimeout, "see burnish list", "watched for %s", a.timeout.limit)
}

// isTransient says whether a poll that failed may succeed a second later.
func isTransient(err error) bool {
	c := asFailure(err).code
	return c == device.CodeUnreachable || c == device.CodeTimeout
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

// opening gives a device as show does, and what happened to it.
func (a *app) opening(l deviceClient) func(ctx context.Context, name string) (string, error) {
	return func(ctx context.Context, name string) (string, error) {
		v, note, err := a.deviceStatus(ctx, l, name)
		if err != nil {
			return "", err
		}
		text := a.deviceTable(v)
		if note != "" {
			text = a.pairs([][]string{{"note", note}}) + text
		}
		if events := contract.HistoryOf(v).Events(); len(events) > 0 {
			text += "\n" + a.columns(eventRows(events))
		}
		return text, nil
	}
}

// number is a column of numbers, empty where one is 0.
func number[T any](title string, keep int, of func(T) float64, text func(T) string) terminal.Column[T] {
	return terminal.Column[T]{
		Title: title, Keep: keep, Right: true,
		Text: func(row T) string {
			if of(row) == 0 {
				return ""
			}
			return text(row)
		},
		Order: func(a, b T) int { return cmp.Compare(of(a), of(b)) },
	}
}

// rateText is bytes a second.
func rateText(rate int64) string { return fmt.Sprintf("%s/s", size(rate)) }
