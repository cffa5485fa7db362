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
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const watchUsage = `burnish watch: follow the running cleans

usage: burnish watch [NAME|UUID] [flags]

  -o, --output table|json|yaml   json: one object per line for each change
      --timeout DURATION         stop after this time, with exit code 4

Without a NAME it shows every device in state pending_cleaning, cleaning or error, until
Ctrl-C. With a NAME it stops at the end of that device's clean: exit code 0 if the clean
succeeded, 1 if not. On a terminal it draws a bar for each device. Elsewhere it prints a
line for each change of state, and one every 10 seconds while a step runs. Rate and time
left are those of the running step. Ctrl-C does not stop the clean.

example:
  burnish watch h1_0000:01:00.0
`

const (
	// pollInterval is the time between two rounds of looks.
	pollInterval = time.Second
	// maxDescribes bounds how many devices a round asks the server for, one by one. A
	// step's heartbeat comes every 5 seconds at most: 100 devices lose nothing.
	maxDescribes = 20
)

// deviceSnapshot is one look at one device.
type deviceSnapshot struct {
	contract.DeviceStatus
	rate      int64         // bytes a second, 0 where unknown
	left      time.Duration // of the running step
	leftKnown bool          // left is known
	notFound  bool          // there is no such device any more
}

// screen is where a watch is shown.
type screen interface {
	// show takes the whole present picture, sorted by name.
	show(all []deviceSnapshot) error
	// finished tells of a device whose clean is over, once.
	finished(s deviceSnapshot) error
	// note tells something beside.
	note(text string) error
	close() error
}

func (a *app) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "watch",
		Long: watchUsage,
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

// watch looks until the operator has enough, or the clean of the one device is over.
func (a *app) watch(parent context.Context, l deviceClient, name string) (err error) {
	limited, cancel := a.waitLimit(parent)
	defer cancel()
	w := &watcher{app: a, l: l, name: name, devices: map[string]*watched{}, ended: map[string]time.Time{}, screen: a.newScreen()}
	defer func() {
		if closeErr := w.screen.close(); err == nil {
			err = closeErr
		}
	}()
	for first := true; ; first = false {
		over, err := w.poll(limited, first)
		switch {
		case over:
			return err
		case err == nil:
			w.unreachable = false
		case limited.Err() != nil: // told below
		case first || !isTransient(err):
			return err
		case !w.unreachable:
			// A server that is away for a while ends no watch; it is told once.
			w.unreachable = true
			if err := w.screen.note(asFailure(err).Error() + "; trying again"); err != nil {
				return err
			}
		}
		if a.pause(limited, pollInterval) == nil {
			continue
		}
		if parent.Err() != nil {
			return nil // Ctrl-C
		}
		return &failure{
			exit: exitTimeout, code: device.CodeTimeout, device: name,
			message: fmt.Sprintf("watched for %s; the cleans keep running", a.timeout.limit), remedy: "see burnish list",
		}
	}
}

// isTransient says whether a failed look may work a second later.
func isTransient(err error) bool {
	c := asFailure(err).code
	return c == device.CodeUnreachable || c == device.CodeTimeout
}

// watcher is one watch.
type watcher struct {
	*app
	l           deviceClient
	name        string // of the one device; "" for all
	devices     map[string]*watched
	ended       map[string]time.Time // when what is over was last changed
	screen      screen
	unreachable bool // the last round failed, and that was told
}

// watched is a device that was seen in the rounds before.
type watched struct {
	snapshot deviceSnapshot
	rate     rateEstimator
	polledAt time.Time
}

// poll looks once at everything and shows it. With one device, over says that the
// watch ends, with err as its outcome.
func (w *watcher) poll(ctx context.Context, first bool) (over bool, err error) {
	if w.name != "" {
		return w.pollOne(ctx, first)
	}
	views, err := w.find(ctx, w.l, &filter{states: []string{string(device.PendingCleaning), string(device.Cleaning), string(device.Error)}})
	if err != nil {
		return false, err
	}
	listed := map[string]contract.DeviceStatus{}
	for _, v := range views {
		// The listing may lag behind what was seen of the device itself.
		if ended, ok := w.ended[v.Name]; !ok || v.UpdatedAt.After(ended) {
			listed[v.Name] = v
		}
	}
	looks, err := w.describeAll(ctx, w.toDescribe(listed))
	if err != nil {
		return false, err
	}
	for _, name := range slices.Sorted(maps.Keys(looks)) {
		known := w.devices[name] != nil
		s := w.record(name, looks[name])
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
		} else if v.DeviceState != device.Cleaning || before.snapshot.DeviceState != device.Cleaning {
			before.snapshot = deviceSnapshot{DeviceStatus: v}
		}
	}
	return false, w.screen.show(w.picture())
}

// isWatched says whether a device in this state has a place in the picture.
func isWatched(s device.State) bool {
	return s == device.PendingCleaning || s == device.Cleaning || s == device.Error
}

// toDescribe gives the devices to ask for one by one: those that the listing no longer has,
// for it may be wrong, and those in cleaning, the longest unseen first.
func (w *watcher) toDescribe(listed map[string]contract.DeviceStatus) []string {
	var names []string
	for name := range w.devices {
		if _, ok := listed[name]; !ok {
			names = append(names, name)
		}
	}
	missing := len(names)
	for name, v := range listed {
		if v.DeviceState == device.Cleaning {
			names = append(names, name)
		}
	}
	looked := func(name string) time.Time {
		if before := w.devices[name]; before != nil {
			return before.polledAt
		}
		return time.Time{}
	}
	slices.SortFunc(names[missing:], func(a, b string) int {
		return cmp.Or(looked(a).Compare(looked(b)), strings.Compare(a, b))
	})
	return names[:min(len(names), maxDescribes)]
}

// describeAll describes devices, a few at a time. What is gone is not running.
func (w *watcher) describeAll(ctx context.Context, names []string) (map[string]client.Execution, error) {
	var (
		mu     sync.Mutex
		looks  = map[string]client.Execution{}
		failed error
	)
	parallel(len(names), parallelism, func(i int) {
		e, err := w.describe(ctx, names[i])
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		looks[names[i]] = e
	})
	return looks, failed
}

func (w *watcher) describe(ctx context.Context, name string) (client.Execution, error) {
	rctx, cancel := w.requestContext(ctx)
	defer cancel()
	e, err := w.l.Describe(rctx, name)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return client.Execution{Name: name}, nil
	case err != nil:
		return client.Execution{}, w.explain(ctx, w.l, name, err)
	}
	return e, nil
}

// record turns what the server knows of a device into a sight of it.
func (w *watcher) record(name string, e client.Execution) deviceSnapshot {
	now := w.now()
	before := w.devices[name]
	if before == nil {
		before = &watched{}
		w.devices[name] = before
	}
	before.polledAt = now
	s := deviceSnapshot{DeviceStatus: e.Status, notFound: !e.Running}
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

// picture is everything that is watched, by name.
func (w *watcher) picture() []deviceSnapshot {
	var all []deviceSnapshot
	for _, name := range slices.Sorted(maps.Keys(w.devices)) {
		all = append(all, w.devices[name].snapshot)
	}
	return all
}

// pollOne looks at the device that was named.
func (w *watcher) pollOne(ctx context.Context, first bool) (over bool, err error) {
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
	if first && s.DeviceState != device.Error {
		return true, w.screen.finished(s) // nothing to wait for
	}
	v, _, err := w.deviceStatus(ctx, w.l, w.name)
	if err != nil {
		return false, err
	}
	over, outcome := cleanOutcome(v)
	if !over {
		return false, nil // it began again between the two looks
	}
	if err := w.screen.finished(deviceSnapshot{DeviceStatus: v}); err != nil {
		return false, err
	}
	return true, outcome
}

// statusText say where the device stands, as far as no bar can.
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

// hasBar says whether a bar tells more than words.
func (s deviceSnapshot) hasBar() bool {
	return s.Progress != nil && s.Progress.Total > 0 && s.Progress.Waiting == "" && !s.NeedsOperator
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
