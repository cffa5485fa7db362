package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	// maxDescribes bounds the devices that one poll describes one by one. A step's heartbeat
	// comes at most every 5 seconds, so that 100 devices lose nothing.
	maxDescribes = 20
	// hiddenDescribes is how many of them may be out of view, so that those which end soon, or
	// leave their queue, come into view.
	hiddenDescribes = 5
	// longestPlace bounds how much later a queued device is described for its place in line.
	longestPlace = 60
)

// deviceSnapshot is one device at the time of a poll.
type deviceSnapshot struct {
	contract.DeviceStatus
	rate      int64         // bytes a second, 0 if unknown
	left      time.Duration // of the running step
	leftKnown bool          // left is known
	polledAt  time.Time     // when rate and left were taken
	notFound  bool          // the device does not exist any more
}

// screen is where a watch is shown.
type screen interface {
	// show takes all devices that are watched, sorted by name.
	show(all []deviceSnapshot) error
	// finished shows a device whose clean has ended, once.
	finished(s deviceSnapshot) error
	// note shows a remark.
	note(text string) error
	// shown names the running devices that are in view; nil: all of them.
	shown() []string
	close() error
}

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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("takes one NAME or UUID, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.devices(cmd.Context(), func(l deviceClient) error { return a.watch(cmd.Context(), l, "") })
			}
			return a.withDevice(cmd.Context(), args[0], func(l deviceClient, name string) error {
				return a.watch(cmd.Context(), l, name)
			})
		},
	}
}

// watch polls until the operator stops it, or the clean of the one device has ended.
func (a *app) watch(parent context.Context, l deviceClient, name string) (err error) {
	limited, cancel := a.waitLimit(parent)
	defer cancel()
	screen := a.newScreen(limited, cancel, l)
	w := &watcher{app: a, l: l, name: name, devices: map[string]*watched{}, ended: map[string]time.Time{}, screen: screen}
	defer func() {
		if closeErr := w.screen.close(); err == nil {
			err = closeErr
		}
	}()
	err = a.follow(limited, pollInterval, screen.note, func(first bool) (int, bool, error) {
		ended, err := w.poll(limited, first)
		return w.listed, ended, err
	})
	switch {
	case !errors.Is(err, errStopped):
		return err
	case isInterrupted(limited):
		return w.interrupted()
	}
	return &failure{
		exit: exitTimeout, code: device.CodeTimeout, device: name,
		message: fmt.Sprintf("watched for %s; the cleans keep running", a.timeout.limit), remedy: "see burnish list",
	}
}

// interrupted is the end of a watch by Ctrl-C, which ends nothing else.
func (w *watcher) interrupted() error {
	if w.name == "" {
		return interrupted("the cleans go on", "")
	}
	f := interrupted("the clean goes on", "see burnish show "+w.name)
	f.device = w.name
	return f
}

// watcher is one watch.
type watcher struct {
	*app
	l       deviceClient
	name    string // of the one device; "" for all
	devices map[string]*watched
	ended   map[string]time.Time // last change of each device that is not watched any more
	screen  screen
	listed  int // how many devices the last listing had
}

// watched is a device of the polls before.
type watched struct {
	snapshot deviceSnapshot
	rate     rateEstimator
	polledAt time.Time
}

// poll reads all devices once and shows them. With one device, ended says that its clean has
// ended, with err as the outcome.
func (w *watcher) poll(ctx context.Context, first bool) (ended bool, err error) {
	if w.name != "" {
		return w.pollOne(ctx, first)
	}
	views, err := w.find(ctx, w.l,
		&filter{states: []string{string(device.PendingCleaning), string(device.Cleaning), string(device.Error)}})
	if err != nil {
		return false, err
	}
	w.listed = len(views)
	listed := map[string]contract.DeviceStatus{}
	for _, v := range views {
		// The listing may be older than what the device itself returned. One of the same
		// second may be either: the device is described.
		if ended, ok := w.ended[v.Name]; !ok || !v.UpdatedAt.Before(ended) {
			listed[v.Name] = v
		}
	}
	described, err := w.describeAll(ctx, w.toDescribe(listed))
	if err != nil {
		return false, err
	}
	for _, name := range slices.Sorted(maps.Keys(described)) {
		known := w.devices[name] != nil
		s := w.record(name, described[name])
		delete(listed, name)
		if !s.notFound && isWatched(s.DeviceState) {
			continue
		}
		delete(w.devices, name)
		w.ended[name] = s.UpdatedAt
		if known {
			if err := w.screen.finished(s); err != nil {
				return false, err
			}
		}
	}
	for name, v := range listed {
		before := w.devices[name]
		if before == nil {
			w.devices[name] = &watched{snapshot: deviceSnapshot{DeviceStatus: v}}
		} else if v.DeviceState != device.Cleaning || before.snapshot.DeviceState != device.Cleaning ||
			v.UpdatedAt.After(before.snapshot.UpdatedAt) {
			before.snapshot = deviceSnapshot{DeviceStatus: v}
		}
	}
	return false, w.screen.show(w.picture())
}

// isWatched says whether a device in this state is shown.
func isWatched(s device.State) bool {
	return s == device.PendingCleaning || s == device.Cleaning || s == device.Error
}

// toDescribe gives the devices to describe one by one: those that the listing no longer has,
// because it may lag, and those in cleaning, the least recently polled first.
func (w *watcher) toDescribe(listed map[string]contract.DeviceStatus) []string {
	var names []string
	for name := range w.devices {
		if _, ok := listed[name]; !ok {
			names = append(names, name)
		}
	}
	for name, v := range listed {
		if v.UpdatedAt.Equal(w.ended[name]) {
			names = append(names, name)
		}
	}
	missing := len(names)
	for name, v := range listed {
		if v.DeviceState == device.Cleaning && !v.UpdatedAt.Equal(w.ended[name]) {
			names = append(names, name)
		}
	}
	// Whoever is far back in a queue will not run soon.
	due := func(name string) time.Time {
		before := w.devices[name]
		if before == nil || before.polledAt.IsZero() {
			return time.Time{}
		}
		return before.polledAt.Add(time.Duration(min(before.snapshot.place(), longestPlace)) * time.Second)
	}
	running := names[missing:]
	slices.SortFunc(running, func(a, b string) int {
		return cmp.Or(due(a).Compare(due(b)), strings.Compare(a, b))
	})
	room := max(maxDescribes-missing, 0)
	if shown := w.screen.shown(); len(shown) > 0 {
		inView := func(name string) bool { return slices.Contains(shown, name) }
		visible := slices.DeleteFunc(slices.Clone(running), func(name string) bool { return !inView(name) })
		hidden := slices.DeleteFunc(slices.Clone(running), inView)
		visible = visible[:min(len(visible), max(room-min(len(hidden), hiddenDescribes), 0))]
		running = slices.Concat(visible, hidden)
	}
	missing = min(missing, maxDescribes)
	return append(names[:missing:missing], running[:min(len(running), room)]...)
}

// describeAll describes devices, a few at a time. A device that does not exist is not running.
func (w *watcher) describeAll(ctx context.Context, names []string) (map[string]client.Execution, error) {
	var (
		mu        sync.Mutex
		described = map[string]client.Execution{}
		failed    error
	)
	parallel(len(names), parallelism, func(i int) {
		e, err := w.describe(ctx, names[i])
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		described[names[i]] = e
	})
	return described, failed
}

func (w *watcher) describe(ctx context.Context, name string) (client.Execution, error) {
	rctx, cancel := w.requestContext(ctx)
	defer cancel()
	e, err := w.l.Describe(rctx, name)
	switch {
	case client.NotFound(err):
		return client.Execution{Name: name}, nil
	case err != nil:
		return client.Execution{}, w.explain(ctx, w.l, name, err)
	}
	return e, nil
}

// record makes a snapshot of a device from its description.
func (w *watcher) record(name string, e client.Execution) deviceSnapshot {
	now := w.now()
	before := w.devices[name]
	if before == nil {
		before = &watched{}
		w.devices[name] = before
	}
	before.polledAt = now
	s := deviceSnapshot{DeviceStatus: e.Status, polledAt: now, notFound: !e.Running}
	s.Name = name
	s.Progress = e.Progress(s.DeviceStatus, now)
	if s.Progress != nil {
		if beat := e.Pending[s.CleanStep.Step].Progress; beat != nil {
			before.rate.add(*beat, now)
			s.rate = before.rate.rate()
			s.left, s.leftKnown = before.rate.remaining(now)
		}
	}
	before.snapshot = s
	return s
}

// picture is all watched devices, by name.
func (w *watcher) picture() []deviceSnapshot {
	var all []deviceSnapshot
	for _, name := range slices.Sorted(maps.Keys(w.devices)) {
		all = append(all, w.devices[name].snapshot)
	}
	return all
}

// pollOne reads the one device that was named.
func (w *watcher) pollOne(ctx context.Context, first bool) (ended bool, err error) {
	e, err := w.describe(ctx, w.name)
	if err != nil {
		return false, err
	}
	if !e.Running {
		return true, noSuchDevice(w.name)
	}
	s := w.record(w.name, e)
	if s.DeviceState == device.Absent {
		return true, notEnrolled(w.name)
	}
	if s.DeviceState == device.PendingCleaning || s.DeviceState == device.Cleaning {
		return false, w.screen.show(w.picture())
	}
	v, _, err := w.deviceStatus(ctx, w.l, w.name)
	if err != nil {
		return false, err
	}
	ended, outcome := cleanOutcome(v)
	if !ended {
		return false, nil // a new clean began between the two reads
	}
	if err := w.screen.finished(deviceSnapshot{DeviceStatus: v}); err != nil {
		return false, err
	}
	return true, cmp.Or(outcome, notClean(v))
}

// notClean is the end of a watch whose device may be used, or worked on, and is not clean: it was
// not cleaned yet, only named steps were done, or it was offered without a clean. nil if it is,
// or if it has a tenant by now.
func notClean(v contract.DeviceStatus) error {
	f := &failure{exit: exitFailed, code: device.CodeRefused, device: v.Name, state: v.DeviceState}
	switch {
	case v.DeviceState == device.Allocated:
		return nil
	case v.Dirty:
		f.message, f.remedy = fmt.Sprintf("the device is in state %s, and is not clean", v.DeviceState), "provide "+v.Name+
			" to clean it"
		return f
	case v.NotSanitized:
		f.message, f.remedy = fmt.Sprintf("the device is in state %s, and was not sanitized", v.DeviceState),
			"see burnish show "+v.Name
		return f
	}
	return nil
}

// statusText describes the device's state without its progress.
func (s deviceSnapshot) statusText() string {
	step := ""
	if s.CleanStep != nil {
		step = s.CleanStep.Step
	}
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
	case s.DeviceState == device.Cleaning && step == "":
		return state + ", between steps"
	case s.DeviceState == device.Cleaning:
		return state + ", " + step
	}
	return state
}

// rateText is the rate, and the time left.
func (s deviceSnapshot) rateText() string {
	var parts []string
	if s.rate > 0 {
		parts = append(parts, size(s.rate)+"/s")
	}
	if s.leftKnown {
		parts = append(parts, s.left.Round(time.Second).String()+" left")
	}
	return strings.Join(parts, ", ")
}

// line is everything in one line.
func (s deviceSnapshot) line() string {
	text := s.statusText()
	if s.DeviceState != device.Cleaning || s.notFound {
		return oneLine(s.Name + ": " + text)
	}
	for _, more := range []string{progressLine(s.Progress), s.rateText()} {
		if more != "" {
			text += ", " + more
		}
	}
	return oneLine(s.Name + ": " + text)
}
