package main

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
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
	// maxHistories bounds the devices whose history one poll of events asks for.
	maxHistories = 100
	// turnHistories is how many of them the listing need not show as changed: an act may leave
	// no trace in it.
	turnHistories = 5
)

// deviceEvent is one event of a device's history, or of its fault.
type deviceEvent struct {
	Time   time.Time   `json:"time"`
	Device string      `json:"device"`
	Kind   string      `json:"kind"` // act, binding, clean, fault, state
	Event  string      `json:"event"`
	By     string      `json:"by,omitempty"`
	From   string      `json:"from,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Fault  device.Code `json:"fault,omitempty"`
}

func (a *app) eventsCommand() *cobra.Command {
	var (
		f      filter
		follow bool
		since  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "events [NAME|UUID]",
		Short: "show what happened to devices, in the order of time",
		Long: `It shows what the devices' histories keep: acts, with who did them and why, bindings and
cleans that have ended; and the clean that runs, and the fault that each device has now.
Without a NAME it asks each device that the flags select; that needs a running control worker.
With --follow it goes on with what comes, until Ctrl-C. Of a device that changes nothing a
listing shows, an event may come some polls later.
With -o json each event is one line.`,
		Example: `  burnish events h1_0000:01:00.0
  burnish events --host h1 --since 1h --follow`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usagef("takes one NAME or UUID, not %d", len(args))
			case len(args) == 1 && selected(cmd.Flags()):
				return usagef("a NAME and --%s exclude each other", strings.Join(selectorNames, "/--"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			if since < 0 {
				return usagef("--since %s: must not be negative", since)
			}
			t := &eventTrail{app: a, filter: &f, known: map[string]deviceTrail{}}
			if since > 0 {
				t.since = a.now().Add(-since)
			}
			run := func(l deviceClient, name string) error {
				t.l, t.name = l, name
				if follow {
					return t.follow(cmd.Context())
				}
				_, events, err := t.poll(cmd.Context(), true)
				return cmp.Or(t.printEvents(events), err)
			}
			if len(args) == 0 {
				return a.devices(cmd.Context(), func(l deviceClient) error { return run(l, "") })
			}
			return a.withDevice(cmd.Context(), args[0], run)
		},
	}
	f.selectors(cmd.Flags())
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new events, until Ctrl-C")
	cmd.Flags().DurationVar(&since, "since", 0, "`DURATION`: only events that are not older (all that are kept)")
	return cmd
}

// eventTrail prints events, each once.
type eventTrail struct {
	*app
	l      deviceClient
	name   string // of the one device; "" for all
	filter *filter
	since  time.Time
	known  map[string]deviceTrail
}

// deviceTrail is what is known of one device.
type deviceTrail struct {
	listed contract.DeviceStatus
	asked  time.Time
	events map[deviceEvent]bool
	fault  string
}

// keptEvents is how many events a live view keeps.
const keptEvents = 5000

func (t *eventTrail) follow(parent context.Context) error {
	var all []deviceEvent
	look := func(ctx context.Context, view *live.Screen, first bool) (int, error) {
		listed, events, err := t.poll(ctx, first)
		if view == nil {
			return listed, cmp.Or(t.printEvents(events), err)
		}
		all = append(all, events...)
		all = all[max(len(all)-keptEvents, 0):]
		if err == nil {
			view.Show(eventPage(all, t.now()))
		}
		return listed, err
	}
	return t.goOn(parent, t.l, pollInterval, true, t.opening, look)
}

// eventPage is the events in a live view, each of which opens its device.
func eventPage(all []deviceEvent, now time.Time) live.Page {
	text := func(title string, keep, least int, of func(deviceEvent) string) live.Column[deviceEvent] {
		return live.Column[deviceEvent]{Column: terminal.Column{Title: title, Keep: keep, Least: least}, Text: of}
	}
	at := text("TIME", 95, 0, func(e deviceEvent) string { return local(e.Time) })
	at.Order = func(a, b deviceEvent) int { return a.Time.Compare(b.Time) }
	fault := text("FAULT", 80, 8, func(e deviceEvent) string { return string(e.Fault) })
	fault.Color = func(_ int, code string) terminal.Color { return terminal.Fault(code) }
	p := live.NewPage(all, []live.Column[deviceEvent]{
		at,
		text("DEVICE", 100, 16, func(e deviceEvent) string { return e.Device }),
		text("EVENT", 99, 12, func(e deviceEvent) string { return e.Event }),
		fault,
		text("BY", 70, 6, func(e deviceEvent) string { return byText(e.By) }),
		text("FROM", 50, 6, func(e deviceEvent) string { return e.From }),
		text("REASON", 60, 10, func(e deviceEvent) string { return e.Reason }),
	}, func(e deviceEvent) string { return fmt.Sprint(e) }, func(e deviceEvent) string { return e.Device })
	p.Time, p.Head, p.Tail = now, fmt.Sprintf("%d events", len(all)), true
	return p
}

// poll gives what is new, in the order of time.
func (t *eventTrail) poll(ctx context.Context, first bool) (listed int, events []deviceEvent, err error) {
	views := []contract.DeviceStatus{{Name: t.name}}
	if t.name == "" {
		if views, err = t.find(ctx, t.l, t.filter); err != nil {
			return 0, nil, err
		}
	}
	asked := views
	if !first && t.name == "" {
		asked = t.changed(views)
	}
	var (
		mu     sync.Mutex
		failed error
	)
	parallel(len(asked), parallelism, func(i int) {
		if ctx.Err() != nil {
			return
		}
		now := t.now()
		v, err := t.ask(ctx, asked[i].Name)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			events = append(events, t.news(v, asked[i], now)...)
		case t.name == "" && asFailure(err).code == device.CodeNotFound: // deleted meanwhile
		default:
			failed = err
		}
	})
	slices.SortFunc(events, func(a, b deviceEvent) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Device, b.Device))
	})
	return len(views), events, cmp.Or(failed, ctx.Err())
}

// ask gives a device's history. One that a listing had runs: its workflow alone is asked.
func (t *eventTrail) ask(ctx context.Context, name string) (contract.DeviceStatus, error) {
	if name == t.name {
		return t.queryDevice(ctx, t.l, name)
	}
	rctx, cancel := t.requestContext(ctx)
	defer cancel()
	v, err := t.l.Query(rctx, name)
	switch {
	case client.NotFound(err):
		return v, noSuchDevice(name)
	case err != nil:
		return v, t.explain(ctx, t.l, name, err)
	}
	return v, nil
}

// changed gives the devices to ask: those that the listing shows otherwise than before, and a
// few of the others in turn.
func (t *eventTrail) changed(views []contract.DeviceStatus) []contract.DeviceStatus {
	same := func(v contract.DeviceStatus) bool {
		before, ok := t.known[v.Name]
		return ok && reflect.DeepEqual(before.listed, v)
	}
	changed := slices.DeleteFunc(slices.Clone(views), same)
	others := slices.DeleteFunc(slices.Clone(views), func(v contract.DeviceStatus) bool { return !same(v) })
	slices.SortStableFunc(others, func(a, b contract.DeviceStatus) int {
		return t.known[a.Name].asked.Compare(t.known[b.Name].asked)
	})
	changed = changed[:min(len(changed), maxHistories)]
	return append(changed, others[:min(len(others), turnHistories)]...)
}

// news gives the events of a device that are new, in the order of its history.
func (t *eventTrail) news(v, listed contract.DeviceStatus, now time.Time) (all []deviceEvent) {
	before := t.known[v.Name]
	after := deviceTrail{listed: listed, asked: now, events: map[deviceEvent]bool{}, fault: v.Fault}
	add := func(e deviceEvent) {
		after.events[e] = true
		if !before.events[e] && !e.Time.Before(t.since) {
			all = append(all, e)
		}
	}
	for _, e := range contract.HistoryOf(v).Events() {
		add(deviceEvent{
			Time: e.At.UTC(), Device: v.Name, Kind: kindOf(e), Event: eventText(e),
			By: e.By, From: e.From, Reason: e.Reason, Fault: eventFault(e),
		})
	}
	// A clean is in the history when it has ended.
	if v.DeviceState == device.Cleaning && !v.StateSince.IsZero() {
		add(deviceEvent{Time: v.StateSince.UTC(), Device: v.Name, Kind: "state", Event: "a clean is running",
			By: contract.ByBurnish})
	}
	if before.fault != "" && before.fault != v.Fault {
		all = append(all, deviceEvent{Time: v.UpdatedAt, Device: v.Name, Kind: "fault", Event: "fault ended: " + before.fault,
			By: contract.ByBurnish})
	}
	if v.Fault != "" {
		e := deviceEvent{Time: v.UpdatedAt, Device: v.Name, Kind: "fault", Event: "fault in state " + string(v.DeviceState),
			By: contract.ByBurnish, Reason: v.LastError, Fault: device.Code(v.Fault)}
		if before.fault != v.Fault {
			add(e)
		}
	}
	t.known[v.Name] = after
	return all
}

// kindOf names what an event is of.
func kindOf(e contract.Event) string {
	switch {
	case e.Binding != nil:
		return "binding"
	case e.Clean != nil:
		return "clean"
	}
	return "act"
}

// printEvents prints events.
func (t *eventTrail) printEvents(events []deviceEvent) error {
	for _, e := range events {
		if err := t.printNext(e, func() string { return t.fold(t.eventLine(e) + "\n") }); err != nil {
			return err
		}
	}
	return nil
}

// eventLine is one event for people.
func (t *eventTrail) eventLine(e deviceEvent) string {
	text := oneLine(e.Device + ": " + e.Event)
	if e.By != contract.ByBurnish {
		text += oneLine(", by " + byText(e.By))
		if e.From != "" {
			text += oneLine(" from " + e.From)
		}
	}
	if e.Fault != "" {
		text += ", fault " + oneLine(string(e.Fault))
	}
	if e.Reason != "" {
		text += ", reason: " + oneLine(e.Reason)
	}
	return local(e.Time) + "  " + text
}
