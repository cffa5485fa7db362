package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/starter/internal/live"
	"burnish/starter/internal/terminal"
	"burnish/workflows/contract"
)

// liveView is the live view of a command whose output is a table on a terminal; nil elsewhere.
func (a *app) liveView(ctx context.Context, quit func(), open func(string) (string, error)) *live.Screen {
	if a.format != formatTable || a.screen == nil {
		return nil
	}
	var in io.Reader
	if a.terminal() {
		in = a.stdin
	}
	return live.New(ctx, in, a.screen, live.Model{Open: open, Paint: a.palette()}, quit)
}

// closed ends a live view.
func closed(view *live.Screen) error {
	if err := view.Close(); err != nil {
		return notWritten(err)
	}
	return nil
}

// notWritten says that the output could not be written.
func notWritten(err error) error {
	return &failure{exit: exitFailed, code: device.CodeIO, message: "the output cannot be written: " + err.Error()}
}

// opening gives a device as show does, and what happened to it.
func (a *app) opening(ctx context.Context, l deviceClient) func(name string) (string, error) {
	return func(name string) (string, error) {
		v, note, err := a.deviceStatus(ctx, l, name)
		if err != nil {
			return "", err
		}
		text := a.deviceTable(v)
		if note != "" {
			text = a.fold(oneLine(note)+"\n") + text
		}
		if events := contract.HistoryOf(v).Events(); len(events) > 0 {
			text += "\n" + a.columns(eventRows(events))
		}
		return text, nil
	}
}

// keptEnds is how many ended cleans a picture keeps.
const keptEnds = 5

// picture is a screen that is a whole terminal.
type picture struct {
	*app
	view  *live.Screen
	all   []deviceSnapshot
	ended []string
}

func (p *picture) show(all []deviceSnapshot) error {
	p.all = all
	p.view.Show(watchPage(all, p.ended, p.now()))
	return nil
}

func (p *picture) finished(s deviceSnapshot) error {
	text := p.now().Local().Format("15:04:05") + "  " + s.line()
	if !p.view.Opened() {
		return p.print(text + "\n")
	}
	p.ended = append(p.ended, text)
	p.ended = p.ended[max(len(p.ended)-keptEnds, 0):]
	return p.show(slices.DeleteFunc(slices.Clone(p.all), func(o deviceSnapshot) bool { return o.Name == s.Name }))
}

func (p *picture) note(text string) error {
	p.view.Note(text)
	return nil
}

func (p *picture) shown() []string { return p.view.Seen() }

func (p *picture) close() error { return closed(p.view) }

// group is what a watched device is at, in the order in which they are shown.
type group int

const (
	groupRunning group = iota
	groupFailed
	groupQueued
)

func (g group) String() string { return [...]string{"running", "failed", "queued"}[g] }

// group is the part of the picture that the device belongs to.
func (s deviceSnapshot) group() group {
	switch {
	case s.DeviceState == device.Error || s.NeedsOperator:
		return groupFailed
	case s.DeviceState == device.PendingCleaning, s.Progress != nil && s.Progress.Waiting != "", s.Progress == nil && s.Waiting != nil:
		return groupQueued
	}
	return groupRunning
}

// watchPage shows what runs, what ends next first; then what failed, the last first; then what waits,
// in its order.
func watchPage(all []deviceSnapshot, ended []string, now time.Time) live.Page {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b deviceSnapshot) int {
		way := cmp.Compare(a.group(), b.group())
		switch {
		case way != 0:
			return way
		case a.group() == groupFailed:
			way = b.UpdatedAt.Compare(a.UpdatedAt)
		case a.group() == groupQueued:
			way = cmp.Or(unknownLast(a.place(), b.place()), a.UpdatedAt.Compare(b.UpdatedAt))
		default:
			way = cmp.Or(unknownLast(a.ends(now), b.ends(now)), a.UpdatedAt.Compare(b.UpdatedAt))
		}
		return cmp.Or(way, strings.Compare(a.Name, b.Name))
	})
	var counts [3]int
	var rate int64
	for _, s := range all {
		if counts[s.group()]++; s.group() == groupRunning {
			rate += s.rate
		}
	}
	name := func(s deviceSnapshot) string { return s.Name }
	p := live.NewPage(all, watchColumns(all, now), name, name)
	p.Time, p.Foot, p.Head = now, ended, "no clean is running"
	if len(all) > 0 {
		p.Head = fmt.Sprintf("%d running, %d queued, %d failed", counts[groupRunning], counts[groupQueued], counts[groupFailed])
	}
	if rate > 0 {
		p.Head += ", " + size(rate) + "/s"
	}
	return p
}

// unknownLast compares numbers of which 0 is unknown.
func unknownLast[T ~int | ~int64](a, b T) int {
	if a == 0 || b == 0 {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// ends is how long the step still takes, and at least 1; 0 if that is not known.
func (s deviceSnapshot) ends(now time.Time) time.Duration {
	if !s.leftKnown {
		return 0
	}
	return max(s.left-now.Sub(s.polledAt), 1)
}

// mostBar is the widest bar.
const mostBar = 40

// watchColumns are those of a watch; what falls away first on a narrow terminal has the lowest Keep.
func watchColumns(all []deviceSnapshot, now time.Time) []live.Column[deviceSnapshot] {
	step := func(s deviceSnapshot) contract.StatusProgress {
		if s.Progress == nil {
			return contract.StatusProgress{}
		}
		return *s.Progress
	}
	text := func(title string, keep, least int, of func(deviceSnapshot) string) live.Column[deviceSnapshot] {
		return live.Column[deviceSnapshot]{Column: terminal.Column{Title: title, Keep: keep, Least: least}, Text: of}
	}
	number := func(title string, keep int, value func(deviceSnapshot) float64, of func(deviceSnapshot) string) live.Column[deviceSnapshot] {
		return live.Column[deviceSnapshot]{
			Column: terminal.Column{Title: title, Keep: keep, Right: true},
			Text: func(s deviceSnapshot) string {
				if value(s) == 0 {
					return ""
				}
				return of(s)
			},
			Order: func(a, b deviceSnapshot) int { return cmp.Compare(value(a), value(b)) },
		}
	}
	state := text("STATE", 98, 0, func(s deviceSnapshot) string { return s.group().String() })
	state.Color = func(_ int, state string) terminal.Color {
		return map[string]terminal.Color{"failed": terminal.Bad, "running": terminal.Busy}[state]
	}
	state.Order = func(a, b deviceSnapshot) int { return cmp.Compare(a.group(), b.group()) }
	budget := number("BUDGET", 60, func(s deviceSnapshot) float64 { return seconds(now, step(s).BudgetEnds) }, func(s deviceSnapshot) string {
		if left := step(s).BudgetEnds.Sub(now); left > 0 {
			return terminal.Duration(left)
		}
		return "over"
	})
	budget.Color = func(row int, _ string) terminal.Color {
		switch ends := step(all[row]).BudgetEnds; {
		case ends.IsZero():
			return terminal.Plain
		case !ends.After(now):
			return terminal.Bad
		case ends.Before(now.Add(all[row].ends(now))):
			return terminal.Warn
		}
		return terminal.Plain
	}
	note := text("NOTE", 97, 12, deviceSnapshot.doing)
	note.Most = mostBar
	note.Fill = func(row, width int) string { return all[row].bar(min(width, mostBar)) }
	return []live.Column[deviceSnapshot]{
		text("NAME", 100, 16, func(s deviceSnapshot) string { return s.Name }),
		state,
		text("HOST", 40, 8, func(s deviceSnapshot) string { return s.Hostname }),
		text("STEP", 85, 0, func(s deviceSnapshot) string {
			if s.CleanStep == nil {
				return ""
			}
			return s.CleanStep.Step
		}),
		number("%", 95, func(s deviceSnapshot) float64 { return step(s).Percent }, func(s deviceSnapshot) string {
			return fmt.Sprintf("%.1f", s.Progress.Percent)
		}),
		number("LEFT", 90, func(s deviceSnapshot) float64 { return s.ends(now).Seconds() }, func(s deviceSnapshot) string {
			return terminal.Duration(s.ends(now))
		}),
		number("RATE", 75, func(s deviceSnapshot) float64 { return float64(s.rate) }, func(s deviceSnapshot) string {
			return size(s.rate) + "/s"
		}),
		number("DONE", 35, func(s deviceSnapshot) float64 { return float64(step(s).Total) }, func(s deviceSnapshot) string {
			return size(s.Progress.Done) + " of " + size(s.Progress.Total)
		}),
		number("PROGRESS", 65, func(s deviceSnapshot) float64 { return seconds(step(s).ProgressAt, now) }, func(s deviceSnapshot) string {
			return age(now, s.Progress.ProgressAt) + " ago"
		}),
		budget,
		number("ATTEMPT", 30, func(s deviceSnapshot) float64 { return float64(max(step(s).Attempt-1, 0)) }, func(s deviceSnapshot) string {
			return fmt.Sprint(s.Progress.Attempt)
		}),
		number("SINCE", 50, func(s deviceSnapshot) float64 { return seconds(s.UpdatedAt, now) }, func(s deviceSnapshot) string {
			return age(now, s.UpdatedAt)
		}),
		note,
	}
}

// seconds are those from one time to another; 0 if one is not known.
func seconds(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return to.Sub(from).Seconds()
}

// doing says what a device does, waits for, or needs.
func (s deviceSnapshot) doing() string {
	switch {
	case s.group() == groupFailed:
		return attention(s.DeviceStatus)
	case s.Progress != nil && s.Progress.Waiting != "":
		return s.Progress.Waiting
	case s.Waiting != nil:
		return s.Waiting.Message
	case s.group() == groupQueued:
		return "its clean to start"
	case s.Progress != nil:
		return s.Progress.Doing
	}
	return ""
}

// bar is how far a running step is; nothing where that is not known.
func (s deviceSnapshot) bar(width int) string {
	if s.group() != groupRunning || s.Progress == nil || s.Progress.Total <= 0 && s.Progress.Percent <= 0 || width < 3 {
		return ""
	}
	inner := width - 2
	full := min(int(float64(inner)*max(s.Progress.Percent, 0)/100), inner)
	bar := strings.Repeat("=", full)
	if full > 0 && full < inner {
		bar = bar[:full-1] + ">"
	}
	return "[" + bar + strings.Repeat(" ", inner-full) + "]"
}

// place is the device's place in line; 0 if it is not known.
func (s deviceSnapshot) place() int {
	if s.Waiting != nil && s.Waiting.Place > 0 {
		return s.Waiting.Place
	}
	place := 0
	if s.Progress != nil {
		// Of other texts nothing is read, and the place stays unknown.
		_, _ = fmt.Sscanf(s.Progress.Waiting, "queued for a slot (%d", &place)
	}
	return place
}
