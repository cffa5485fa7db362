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
	"burnish/workflows/contract"
)

const (
	// maxHistories bounds the devices whose history one poll of events asks for.
	maxHistories = 100
	// turnHistories is how many of them the listing need not show as changed: an act may leave
	// no trace in it.
	turnHistories = 5
	// keptEvents is how many events a live view keeps.
	keptEvents = 5000
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
			if len(args) == 1 && selected(cmd.Flags()) {
				return usagef("a NAME and --%s exclude each other", strings.Join(selectorNames, "/--"))
			}
			return atMostOne("NAME or UUID")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			if since < 0 {
				return usagef("--since %s: must not be negative", since)
			}
			return a.withOneOrAll(cmd.Context(), args, func(l deviceClient, name string) error {
				t := &eventTrail{app: a, l: l, name: name, filter: &f, known: map[string]deviceTrail{}}
				if since > 0 {
					t.since = a.now().Add(-since)
				}
				if follow {
					return a.follow(cmd.Context(), following{open: a.opening(l), look: t.look, stopped: a.stopped})
				}
				_, _, err := t.look(cmd.Context(), nil, true)
				return err
			})
		},
	}
	f.selectors(cmd.Flags())
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new events, until Ctrl-C")
	cmd.Flags().DurationVar(&since, "since", 0, "`DURATION`: only events that are not older (all that are kept)")
	return cmd
}

// eventTrail finds events, each once.
type eventTrail struct {
	*app
	l      deviceClient
	name   string // of the one device; "" for all
	filter *filter
	since  time.Time
	known  map[string]deviceTrail

	all []deviceEvent // for a live view
}

// deviceTrail is what is known of one device.
type deviceTrail struct {
	listed contract.DeviceStatus
	asked  time.Time
	events map[deviceEvent]bool
	fault  string
}

// look shows what is new, or prints it, as far as it could be read.
func (t *eventTrail) look(ctx context.Context, view *live.Screen, first bool) (int, bool, error) {
	listed, events, err := t.poll(ctx, first)
	if view != nil {
		t.all = append(t.all, events...)
		t.all = t.all[max(len(t.all)-keptEvents, 0):]
		if err == nil {
			view.Show(eventPage(t.all, t.now()))
		}
		return listed, false, err
	}
	for _, e := range events {
		if err := t.printNext(e, func() string { return eventLine(e) + "\n" }); err != nil {
			return listed, false, err
		}
	}
	return listed, false, err
}

// eventPage is the events in a live view, each of which opens its device.
func eventPage(all []deviceEvent, now time.Time) live.Page {
	p := live.Page{Time: now, Head: fmt.Sprintf("%d events", len(all)), Tail: true}
	p.Table = terminal.NewTable(all, []terminal.Column[deviceEvent]{
		{Title: "TIME", Keep: 95, Text: func(e deviceEvent) string { return local(e.Time) },
			Order: func(a, b deviceEvent) int { return a.Time.Compare(b.Time) }},
		{Title: "DEVICE", Keep: 100, Least: 16, Text: func(e deviceEvent) string { return e.Device }},
		{Title: "EVENT", Keep: 99, Least: 12, Text: func(e deviceEvent) string { return e.Event }},
		{Title: "FAULT", Keep: 80, Least: 8, Text: func(e deviceEvent) string { return string(e.Fault) }},
		{Title: "BY", Keep: 70, Least: 6, Text: func(e deviceEvent) string { return byText(e.By) }},
		{Title: "FROM", Keep: 50, Least: 6, Text: func(e deviceEvent) string { return e.From }},
		{Title: "REASON", Keep: 60, Least: 10, Text: func(e deviceEvent) string { return e.Reason }},
	})
	for _, e := range all {
		p.Keys, p.Opens = append(p.Keys, fmt.Sprint(e)), append(p.Opens, e.Device)
	}
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
		asked = t.due(views)
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
		v, err := t.history(ctx, asked[i].Name)
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

// history asks for a device's history. One that a listing had runs: its workflow alone is asked.
func (t *eventTrail) history(ctx context.Context, name string) (contract.DeviceStatus, error) {
	if name == t.name {
		return t.answered(ctx, t.l, name)
	}
	return t.queried(ctx, t.l, name)
}

// due gives the devices to ask, the least recently asked first: those that the listing shows otherwise
// than before, and a few of the others.
func (t *eventTrail) due(views []contract.DeviceStatus) []contract.DeviceStatus {
	views = slices.Clone(views)
	slices.SortStableFunc(views, func(a, b contract.DeviceStatus) int {
		return t.known[a.Name].asked.Compare(t.known[b.Name].asked)
	})
	same := 0
	views = slices.DeleteFunc(views, func(v contract.DeviceStatus) bool {
		if !reflect.DeepEqual(t.known[v.Name].listed, v) {
			return false
		}
		same++
		return same > turnHistories
	})
	return views[:min(len(views), maxHistories)]
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
		add(eventOf(v.Name, e))
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

// eventLine is one event for people.
func eventLine(e deviceEvent) string {
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
