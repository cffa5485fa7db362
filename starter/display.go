package main

import (
	"bytes"
	"context"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// progressLineInterval is how often the progress of a running step is printed as a line.
const progressLineInterval = 10 * time.Second

// newScreen gives the screen for where the output goes.
func (a *app) newScreen(ctx context.Context, quit func(), l deviceClient) screen {
	if a.format != formatTable {
		return &objects{app: a, last: map[string][]byte{}}
	}
	if view := a.liveView(ctx, quit, a.opening(ctx, l)); view != nil {
		return &picture{app: a, view: view}
	}
	return &lines{app: a, last: map[string]printedLine{}}
}

// lines is a screen for logs and pipes.
type lines struct {
	*app
	last      map[string]printedLine
	idleShown bool // it was printed that no clean is running
}

// printedLine is the last line that was printed for a device.
type printedLine struct {
	status  string
	waiting string
	done    int64
	at      time.Time
}

func (l *lines) show(all []deviceSnapshot) error {
	if len(all) == 0 && !l.idleShown {
		l.idleShown = true
		return l.print("no clean is running\n")
	}
	l.idleShown = len(all) == 0
	for _, s := range all {
		now := printedLine{status: s.statusText(), at: l.now()}
		if s.Progress != nil {
			now.waiting, now.done = s.Progress.Waiting, s.Progress.Done
		}
		before, known := l.last[s.Name]
		same := known && before.status == now.status && before.waiting == now.waiting
		if same && (before.done == now.done || now.at.Sub(before.at) < progressLineInterval) {
			continue
		}
		l.last[s.Name] = now
		if err := l.printLine(s); err != nil {
			return err
		}
	}
	return nil
}

func (l *lines) finished(s deviceSnapshot) error {
	delete(l.last, s.Name)
	return l.printLine(s)
}

func (l *lines) printLine(s deviceSnapshot) error {
	return l.print(local(l.now()) + "  " + s.line() + "\n")
}

func (l *lines) note(text string) error {
	l.app.note("", text)
	return nil
}

func (l *lines) shown() []string { return nil }

func (l *lines) close() error { return nil }

// watchObject is a snapshot for programs.
type watchObject struct {
	Time          time.Time                `json:"time"`
	Name          string                   `json:"name"`
	UUID          string                   `json:"uuid"`
	State         device.State             `json:"device_state"`
	CleanStep     *contract.CleanStep      `json:"clean_step"`
	Progress      *contract.StatusProgress `json:"progress"`
	Rate          int64                    `json:"bytes_per_second,omitempty"`
	Left          *float64                 `json:"seconds_left,omitempty"`
	NeedsOperator bool                     `json:"needs_operator"`
	Fault         string                   `json:"fault"`
	LastError     string                   `json:"last_error"`
	Remedy        string                   `json:"remedy"`
	Over          bool                     `json:"over"`
}

// objects is a screen for programs: one object whenever something changes.
type objects struct {
	*app
	last map[string][]byte
}

func (o *objects) show(all []deviceSnapshot) error {
	for _, s := range all {
		if err := o.write(s, false); err != nil {
			return err
		}
	}
	return nil
}

func (o *objects) finished(s deviceSnapshot) error {
	defer delete(o.last, s.Name)
	return o.write(s, true)
}

func (o *objects) write(s deviceSnapshot, over bool) error {
	d := watchObject{
		Name: s.Name, UUID: contract.DeviceUUID(s.Name), State: s.DeviceState, CleanStep: s.CleanStep, Progress: s.Progress,
		Rate: s.rate, NeedsOperator: s.NeedsOperator, Fault: s.Fault, LastError: s.LastError, Remedy: s.Remedy, Over: over,
	}
	if s.notFound {
		d.State = device.Absent
	}
	// Values that only depend on the time are not a change.
	var key bytes.Buffer
	if err := encode(&key, formatJSON, compact, d); err != nil {
		return err
	}
	if bytes.Equal(key.Bytes(), o.last[s.Name]) {
		return nil
	}
	o.last[s.Name] = key.Bytes()
	d.Time = o.now().UTC()
	if s.leftKnown {
		left := s.left.Seconds()
		d.Left = &left
	}
	return o.printNext(d, nil)
}

func (o *objects) note(text string) error {
	o.app.note("", text)
	return nil
}

func (o *objects) shown() []string { return nil }

func (o *objects) close() error { return nil }
