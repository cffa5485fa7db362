package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/starter/internal/live"
	"burnish/starter/internal/terminal"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	// progressLineInterval is how often the progress of a running step is printed as a line.
	progressLineInterval = 10 * time.Second
	// keptEnds is how many ended cleans a picture keeps, barWidth the inner width of a bar in it.
	keptEnds, barWidth = 5, 22
)

func (a *app) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [NAME|UUID]",
		Short: "follow the running cleans",
		Long: `Without a NAME it shows every device in state pending_cleaning, cleaning or error, until
Ctrl-C. With a NAME it stops at the end of that device's clean: exit code 0 if the device is
clean then, 1 if not, as after named steps. On a terminal it draws a bar for each device. Elsewhere it prints a
line for each change of state, and one every 10 seconds while a step runs. Rate and time
left are those of the running step. Ctrl-C does not stop the clean.`,
		Example: "  burnish watch h1_0000:01:00.0",
		Args:    atMostOne("NAME or UUID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withOneOrAll(cmd.Context(), args, func(l deviceClient, name string) error {
				w := &watcher{
					meter: meter{app: a, l: l, rates: map[string]*rateEstimator{}}, name: name,
					devices: map[string]deviceSnapshot{}, ended: map[string]time.Time{}, printed: map[string]printedLine{},
				}
				return a.follow(cmd.Context(), following{open: a.opening(l), look: w.look, stopped: w.stopped})
			})
		},
	}
}

// deviceSnapshot is one device at the time of a poll.
type deviceSnapshot struct {
	contract.DeviceStatus
	rate     int64     // bytes a second; 0: unknown
	ends     time.Time // of the running step at this rate; zero: unknown
	notFound bool      // the device does not exist any more
}

// meter describes devices, and measures how fast their steps are.
type meter struct {
	*app
	l deviceClient

	mu    sync.Mutex
	rates map[string]*rateEstimator
}

// describe describes devices, a few at a time.
func (m *meter) describe(ctx context.Context, names []string) (map[string]deviceSnapshot, error) {
	described := map[string]deviceSnapshot{}
	var failed error
	parallel(len(names), parallelism, func(i int) {
		e, err := ask(ctx, m.app, m.l, names[i], func(ctx context.Context) (client.Execution, error) {
			e, err := m.l.Describe(ctx, names[i])
			if client.NotFound(err) {
				return client.Execution{}, nil
			}
			return e, err
		})
		m.mu.Lock()
		defer m.mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		described[names[i]] = m.snapshot(names[i], e)
	})
	return described, failed
}

func (m *meter) snapshot(name string, e client.Execution) deviceSnapshot {
	now := m.now()
	s := deviceSnapshot{DeviceStatus: e.Status, notFound: !e.Running}
	s.Name = name
	if s.Progress = e.Progress(s.DeviceStatus, now); s.Progress == nil {
		return s
	}
	if beat := e.Pending[s.CleanStep.Step].Progress; beat != nil {
		if m.rates[name] == nil {
			m.rates[name] = &rateEstimator{}
		}
		m.rates[name].add(*beat, now)
		s.rate, s.ends = m.rates[name].rate(), m.rates[name].ends()
	}
	return s
}

// watcher is one watch.
type watcher struct {
	meter
	name    string // of the one device; "" for all
	devices map[string]deviceSnapshot
	ended   map[string]time.Time // last change of each device that is not watched any more

	ends    []string               // the lines of the last ones, for the picture
	printed map[string]printedLine // the last one of each device
	isIdle  bool                   // it was printed that no clean is running
}

// look polls once and shows what it finds: in the view, or printed.
func (w *watcher) look(ctx context.Context, view *live.Screen, _ bool) (listed int, over bool, err error) {
	var gone []deviceSnapshot
	if w.name != "" {
		gone, over, err = w.pollOne(ctx)
	} else {
		listed, gone, err = w.poll(ctx)
	}
	if err != nil && !over {
		return listed, false, err
	}
	var all []deviceSnapshot
	for _, name := range slices.Sorted(maps.Keys(w.devices)) {
		all = append(all, w.devices[name])
	}
	if view == nil || over && !view.Opened() {
		return listed, over, cmp.Or(w.printNew(all, gone), err)
	}
	for _, s := range gone {
		w.ends = append(w.ends, w.now().Local().Format("15:04:05")+"  "+s.line(w.now()))
	}
	w.ends = w.ends[max(len(w.ends)-keptEnds, 0):]
	view.Show(watchPage(all, w.ends, w.now()))
	return listed, over, err
}

// stopped is the end of a watch by the operator or by --timeout, which ends nothing else.
func (w *watcher) stopped(ctx context.Context) error {
	f := failf(device.CodeTimeout, "see burnish list", "watched for %s; the cleans keep running", w.timeout.limit)
	switch {
	case isInterrupted(ctx) && w.name == "":
		f = interrupted("the cleans go on", "")
	case isInterrupted(ctx):
		f = interrupted("the clean goes on", "see burnish show "+w.name)
	}
	f.device = w.name
	return f
}

// poll reads all devices once: it lists them, and describes those in cleaning. gone are those that are
// not watched any more.
func (w *watcher) poll(ctx context.Context) (count int, gone []deviceSnapshot, err error) {
	views, err := w.find(ctx, w.l,
		&filter{by: client.Filter{client.ByState: client.States(device.PendingCleaning, device.Cleaning, device.Error)}})
	if err != nil {
		return 0, nil, err
	}
	before := maps.Clone(w.devices)
	var names []string
	for _, v := range views {
		// The listing may be older than what the device itself returned. One of the same
		// second may be either: the device is described.
		ended, known := w.ended[v.Name]
		if known && v.UpdatedAt.Before(ended) {
			continue
		}
		if delete(before, v.Name); v.DeviceState == device.Cleaning || v.UpdatedAt.Equal(ended) {
			names = append(names, v.Name)
		} else {
			w.devices[v.Name] = deviceSnapshot{DeviceStatus: v}
		}
	}
	// What the listing misses may be there still.
	described, err := w.describe(ctx, append(names, slices.Sorted(maps.Keys(before))...))
	if err != nil {
		return len(views), nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(described)) {
		s := described[name]
		_, known := w.devices[name]
		w.devices[name] = s
		if s.notFound || !isWatched(s.DeviceState) {
			delete(w.devices, name)
			w.ended[name] = s.UpdatedAt
			if known {
				gone = append(gone, s)
			}
		}
	}
	return len(views), gone, nil
}

// isWatched says whether a device in this state is shown.
func isWatched(s device.State) bool {
	return s == device.PendingCleaning || s == device.Cleaning || s == device.Error
}

// pollOne reads the one device that was named. At the end of its clean err is the outcome.
func (w *watcher) pollOne(ctx context.Context) (gone []deviceSnapshot, over bool, err error) {
	described, err := w.describe(ctx, []string{w.name})
	if err != nil {
		return nil, false, err
	}
	s := described[w.name]
	if !s.notFound && (s.DeviceState == device.PendingCleaning || s.DeviceState == device.Cleaning) {
		w.devices[w.name] = s
		return nil, false, nil
	}
	v, _, err := w.deviceStatus(ctx, w.l, w.name)
	if err != nil {
		return nil, false, err
	}
	over, outcome := cleanOutcome(v)
	if !over {
		return nil, false, nil // a new clean began between the two reads
	}
	delete(w.devices, w.name)
	return []deviceSnapshot{{DeviceStatus: v}}, true, cmp.Or(outcome, notClean(v))
}

// notClean is the end of a watch whose device may be used, or worked on, and is not clean: it was
// not cleaned yet, only named steps were done, or it was offered without a clean. nil if it is,
// or if it has a tenant by now.
func notClean(v contract.DeviceStatus) error {
	what, remedy := "is not clean", "provide "+v.Name+" to clean it"
	switch {
	case v.DeviceState == device.Allocated || !v.Dirty && !v.NotSanitized:
		return nil
	case !v.Dirty:
		what, remedy = "was not sanitized", "see burnish show "+v.Name
	}
	return failf(device.CodeRefused, remedy, "the device is in state %s, and %s", v.DeviceState, what).
		about(v.Name, v.DeviceState)
}

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

// printedLine is what was printed for a device.
type printedLine struct {
	what string
	done int64
	at   time.Time
}

// printNew prints what is new: lines for people and logs, objects for programs.
func (w *watcher) printNew(all, gone []deviceSnapshot) error {
	for _, s := range gone {
		if err := w.printOne(s, true); err != nil {
			return err
		}
		delete(w.printed, s.Name)
	}
	wasIdle := w.isIdle
	if w.isIdle = len(all) == 0 && w.name == "" && w.format == formatTable; w.isIdle && !wasIdle {
		return w.print("no clean is running\n")
	}
	for _, s := range all {
		if err := w.printOne(s, false); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) printOne(s deviceSnapshot, over bool) error {
	o := watchObject{
		Name: s.Name, UUID: contract.DeviceUUID(s.Name), State: s.DeviceState, CleanStep: s.CleanStep, Progress: s.Progress,
		Rate: s.rate, NeedsOperator: s.NeedsOperator, Fault: s.Fault, LastError: s.LastError, Remedy: s.Remedy, Over: over,
	}
	if s.notFound {
		o.State = device.Absent
	}
	now := printedLine{what: s.statusText() + s.step().Waiting, done: s.step().Done, at: w.now()}
	if w.format != formatTable { // what only depends on the time is not a change
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		now.what = string(text)
	}
	before := w.printed[s.Name]
	if !over && before.what == now.what && (before.done == now.done || now.at.Sub(before.at) < progressLineInterval) {
		return nil
	}
	w.printed[s.Name] = now
	if o.Time = now.at.UTC(); !s.ends.IsZero() {
		left := s.left(now.at).Seconds()
		o.Left = &left
	}
	return w.printNext(o, func() string { return local(now.at) + "  " + s.line(now.at) + "\n" })
}

// step is the progress of the running step; empty without one.
func (s deviceSnapshot) step() contract.StatusProgress {
	if s.Progress == nil {
		return contract.StatusProgress{}
	}
	return *s.Progress
}

// left is how long the running step still takes, where that is known.
func (s deviceSnapshot) left(now time.Time) time.Duration { return max(s.ends.Sub(now), 0) }

// statusText describes the device's state without its progress.
func (s deviceSnapshot) statusText() string {
	state := string(s.DeviceState)
	switch {
	case s.notFound:
		return "gone"
	case s.DeviceState == device.Error:
		return strings.TrimSuffix("error: "+attention(s.DeviceStatus), ": ")
	case s.NeedsOperator:
		return state + ", needs an operator: " + attention(s.DeviceStatus)
	case s.DeviceState == device.PendingCleaning:
		return state + ", clean about to start"
	case s.DeviceState == device.Cleaning && s.CleanStep == nil:
		return state + ", between steps"
	case s.DeviceState == device.Cleaning:
		return state + ", " + s.CleanStep.Step
	}
	return state
}

// line is everything in one line.
func (s deviceSnapshot) line(now time.Time) string {
	parts := []string{s.Name + ": " + s.statusText()}
	if s.DeviceState == device.Cleaning && !s.notFound {
		if text := progressLine(s.Progress); text != "" {
			parts = append(parts, text)
		}
		if s.rate > 0 {
			parts = append(parts, rateText(s.rate))
		}
		if !s.ends.IsZero() {
			parts = append(parts, s.left(now).Round(time.Second).String()+" left")
		}
	}
	return oneLine(strings.Join(parts, ", "))
}

// group is what a watched device is at, in the order in which they are shown.
type group int

const (
	groupRunning group = iota
	groupFailed
	groupQueued
)

var groupNames = [...]string{groupRunning: "running", groupFailed: "failed", groupQueued: "queued"}

// group is the part of the picture that the device belongs to.
func (s deviceSnapshot) group() group {
	switch {
	case s.DeviceState == device.Error || s.NeedsOperator:
		return groupFailed
	case s.DeviceState == device.PendingCleaning, s.step().Waiting != "", s.Progress == nil && s.Waiting != nil:
		return groupQueued
	}
	return groupRunning
}

// before is the order of the picture: what runs, what ends next first; then what failed, the last first;
// then what waits, in its order. What is not known comes last.
func (s deviceSnapshot) before(other deviceSnapshot) int {
	way := cmp.Compare(s.group(), other.group())
	switch {
	case way != 0:
		return way
	case s.group() == groupFailed:
		way = other.UpdatedAt.Compare(s.UpdatedAt)
	case s.group() == groupQueued:
		// Of 0, which is not known, one less is the largest.
		way = cmp.Or(cmp.Compare(uint(s.place())-1, uint(other.place())-1), s.UpdatedAt.Compare(other.UpdatedAt))
	case s.ends.IsZero() != other.ends.IsZero():
		return other.ends.Compare(s.ends)
	default:
		way = cmp.Or(s.ends.Compare(other.ends), s.UpdatedAt.Compare(other.UpdatedAt))
	}
	return cmp.Or(way, strings.Compare(s.Name, other.Name))
}

// place is the device's place in line; 0 if it is not known.
func (s deviceSnapshot) place() int {
	if s.Waiting != nil && s.Waiting.Place > 0 {
		return s.Waiting.Place
	}
	place := 0
	// Of other texts nothing is read, and the place stays unknown.
	_, _ = fmt.Sscanf(s.step().Waiting, "queued for a slot (%d", &place)
	return place
}

// watchPage is the picture of a watch.
func watchPage(all []deviceSnapshot, ended []string, now time.Time) live.Page {
	slices.SortFunc(all, deviceSnapshot.before)
	p := live.Page{Table: terminal.NewTable(all, watchColumns(now)), Time: now, Foot: ended, Head: "no clean is running"}
	var counts [3]int
	var rate int64
	for _, s := range all {
		p.Keys = append(p.Keys, s.Name)
		if counts[s.group()]++; s.group() == groupRunning {
			rate += s.rate
		}
	}
	if len(all) > 0 {
		p.Head = fmt.Sprintf("%d running, %d queued, %d failed", counts[groupRunning], counts[groupQueued],
			counts[groupFailed])
	}
	if rate > 0 {
		p.Head += ", " + rateText(rate)
	}
	return p
}

// watchColumns are those of a watch.
func watchColumns(now time.Time) []terminal.Column[deviceSnapshot] {
	type snapshot = deviceSnapshot
	since := func(from, to time.Time) float64 {
		if from.IsZero() || to.IsZero() {
			return 0
		}
		return to.Sub(from).Seconds()
	}
	return []terminal.Column[snapshot]{
		{Title: "NAME", Keep: 100, Least: 16, Text: func(s snapshot) string { return s.Name }},
		{Title: "STATE", Keep: 98, Text: func(s snapshot) string { return groupNames[s.group()] },
			Order: func(a, b snapshot) int { return cmp.Compare(a.group(), b.group()) }},
		{Title: "HOST", Keep: 40, Least: 8, Text: func(s snapshot) string { return s.Hostname }},
		{Title: "STEP", Keep: 85, Text: func(s snapshot) string {
			if s.CleanStep == nil {
				return ""
			}
			return s.CleanStep.Step
		}},
		number("%", 95, func(s snapshot) float64 { return s.step().Percent },
			func(s snapshot) string { return fmt.Sprintf("%.1f", s.Progress.Percent) }),
		number("LEFT", 90, func(s snapshot) float64 { return since(now, s.ends) },
			func(s snapshot) string { return terminal.Duration(s.left(now)) }),
		number("RATE", 75, func(s snapshot) float64 { return float64(s.rate) },
			func(s snapshot) string { return rateText(s.rate) }),
		number("PROGRESS", 65, func(s snapshot) float64 { return since(s.step().ProgressAt, now) },
			func(s snapshot) string { return age(now, s.Progress.ProgressAt) + " ago" }),
		number("BUDGET", 60, func(s snapshot) float64 { return since(now, s.step().BudgetEnds) }, func(s snapshot) string {
			if left := s.Progress.BudgetEnds.Sub(now); left > 0 {
				return terminal.Duration(left)
			}
			return "over"
		}),
		number("SINCE", 50, func(s snapshot) float64 { return since(s.UpdatedAt, now) },
			func(s snapshot) string { return age(now, s.UpdatedAt) }),
		{Title: "NOTE", Keep: 97, Least: 12, Text: deviceSnapshot.note},
	}
}

// note is how far a device is, and what it does, waits for, or needs.
func (s deviceSnapshot) note() string {
	p := s.step()
	switch {
	case s.group() == groupFailed:
		return attention(s.DeviceStatus)
	case p.Waiting != "":
		return p.Waiting
	case s.Waiting != nil:
		return s.Waiting.Message
	case s.group() == groupQueued:
		return "its clean to start"
	case p.Total > 0 || p.Percent > 0:
		full := min(int(barWidth*max(p.Percent, 0)/100), barWidth)
		return "[" + strings.Repeat("=", full) + strings.Repeat("-", barWidth-full) + "]"
	}
	return p.Doing
}
