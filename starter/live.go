package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"burnish/internal/device"
	"burnish/starter/internal/frame"
	"burnish/starter/internal/terminal"
)

// keptEnds is how many ended cleans a live screen keeps.
const keptEnds = 5

// live is a screen that is a whole terminal. When the watch ends, the last picture stays.
type live struct {
	*app
	terminal *terminal.Screen

	mu    sync.Mutex
	all   []deviceSnapshot
	ended []string
	text  string // a remark, until the next poll succeeds
	names []string
}

func (a *app) newLive() (*live, error) {
	l := &live{app: a}
	var err error
	if l.terminal, err = terminal.Open(a.screen, l.draw); err != nil {
		return nil, notWritten(err)
	}
	return l, nil
}

// notWritten says that the output could not be written.
func notWritten(err error) error {
	return &failure{exit: exitFailed, code: device.CodeIO, message: "the output cannot be written: " + err.Error()}
}

// draw gives the present picture in the terminal's size.
func (l *live) draw(width, height int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines, shown := l.picture().Draw(width, height, l.now(), l.palette())
	l.names = shown
	return lines
}

// picture is what is shown; l.mu is held.
func (l *live) picture() frame.Picture {
	p := frame.Picture{Ended: l.ended, Note: l.text}
	now := l.now()
	for _, s := range l.all {
		p.Devices = append(p.Devices, s.inFrame(now))
	}
	return p
}

func (l *live) show(all []deviceSnapshot) error {
	l.mu.Lock()
	l.all, l.text = all, ""
	l.mu.Unlock()
	return l.redraw()
}

func (l *live) shown() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

func (l *live) finished(s deviceSnapshot) error {
	l.mu.Lock()
	l.all = slices.DeleteFunc(slices.Clone(l.all), func(other deviceSnapshot) bool { return other.Name == s.Name })
	l.ended = append(l.ended, l.now().Local().Format("15:04:05")+"  "+s.line())
	l.ended = l.ended[max(len(l.ended)-keptEnds, 0):]
	l.mu.Unlock()
	return l.redraw()
}

func (l *live) note(text string) error {
	l.mu.Lock()
	l.text = text
	l.mu.Unlock()
	return l.redraw()
}

func (l *live) redraw() error {
	if err := l.terminal.Draw(); err != nil {
		return notWritten(err)
	}
	return nil
}

// close leaves the last picture on the terminal, in full if it fits there.
func (l *live) close() error {
	err := l.terminal.Close()
	width, height, ok := terminal.Size(l.screen)
	if err == nil && ok {
		lines, _ := l.picture().Draw(width, max(height-1, 1), l.now(), l.palette())
		_, err = io.WriteString(l.screen, strings.Join(lines, "\n")+"\n")
	}
	if err != nil {
		return notWritten(err)
	}
	return nil
}

// inFrame is the device in the picture of this time.
func (s deviceSnapshot) inFrame(now time.Time) frame.Device {
	d := frame.Device{
		Name: s.Name, Host: s.Hostname, Group: s.group(), Rate: s.rate, Since: s.UpdatedAt, Fault: s.Fault,
		LeftKnown: s.leftKnown, Left: max(s.left-now.Sub(s.polledAt), 0),
	}
	if s.CleanStep != nil {
		d.Step = s.CleanStep.Step
	}
	if p := s.Progress; p != nil {
		d.Percent, d.Done, d.Total, d.Doing, d.Attempt = p.Percent, p.Done, p.Total, p.Doing, p.Attempt
		d.ProgressAt, d.BudgetEnds = p.ProgressAt, p.BudgetEnds
	}
	switch d.Group {
	case frame.Failed:
		d.Text =
			strings.Join(slices.DeleteFunc([]string{s.LastError, s.Remedy}, func(text string) bool { return text == "" }), "; ")
	case frame.Queued:
		d.Text, d.Place = s.waitText(), s.place()
	}
	return d
}

// group is the part of the picture that the device belongs to.
func (s deviceSnapshot) group() frame.Group {
	switch {
	case s.DeviceState == device.Error || s.NeedsOperator:
		return frame.Failed
	case s.DeviceState == device.PendingCleaning, s.Progress != nil && s.Progress.Waiting != "", s.Progress == nil &&
		s.Waiting != nil:
		return frame.Queued
	}
	return frame.Running
}

// waitText says what a queued device waits for.
func (s deviceSnapshot) waitText() string {
	switch {
	case s.Progress != nil && s.Progress.Waiting != "":
		return s.Progress.Waiting
	case s.Waiting != nil:
		return s.Waiting.Message
	}
	return "its clean to start"
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
