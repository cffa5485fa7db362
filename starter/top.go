package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/starter/internal/live"
	"burnish/starter/internal/terminal"
	"burnish/workflows/client"
)

// heartbeatInterval is the longest time between two reports of a running step.
const heartbeatInterval = 5 * time.Second

// hostLoad is what the devices of a host do.
type hostLoad struct {
	Host    string               `json:"host"`
	Devices int                  `json:"devices"`
	States  map[device.State]int `json:"states"`
	// Running, Queued and Failed are the groups of watch.
	Running int `json:"running"`
	Queued  int `json:"queued"`
	Failed  int `json:"failed"`
	// Rate is what the running steps do together.
	Rate int64 `json:"bytes_per_second"`
}

// fleetLoad is the load of all hosts.
type fleetLoad struct {
	Time  time.Time  `json:"time"`
	Total hostLoad   `json:"total"`
	Hosts []hostLoad `json:"hosts"`
}

func (a *app) topCommand() *cobra.Command {
	var (
		f        filter
		watch    bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "count what the devices of each host do, and how fast",
		Long: `It counts the devices of each host that run, wait and failed, as watch shows them, and their
states. RATE is what the running steps read and write together, from two looks at each of
them, --interval apart. A host whose step has not reported in between counts with the step's
rate since its beginning.`,
		Example: `  burnish top --host h1
  burnish top --watch --interval 10s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			if interval < time.Second {
				return usagef("--interval %s: must be at least 1s", interval)
			}
			return a.devices(cmd.Context(), func(l deviceClient) error {
				t := &loadMeter{meter: meter{app: a, l: l, rates: map[string]*rateEstimator{}}, filter: &f}
				if watch {
					return a.follow(cmd.Context(), following{least: interval, open: t.open, look: t.look, stopped: a.stopped})
				}
				if _, err := t.load(cmd.Context()); err != nil {
					return err
				}
				if a.pause(cmd.Context(), interval) != nil {
					return a.stopped(cmd.Context())
				}
				load, err := t.load(cmd.Context())
				if err != nil {
					return err
				}
				return a.emit(load, func() string { return load.page().Table.Text(a.width(), a.palette()) })
			})
		},
	}
	f.selectors(cmd.Flags())
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "count again each --interval, until Ctrl-C")
	cmd.Flags().DurationVar(&interval, "interval", heartbeatInterval, "`DURATION`: the time between two looks")
	return cmd
}

// loadMeter looks at the fleet again and again.
type loadMeter struct {
	meter
	filter *filter
}

// load lists the fleet, describes each device that is being cleaned, and counts by hosts.
func (t *loadMeter) load(ctx context.Context) (fleetLoad, error) {
	views, err := t.find(ctx, t.l, t.filter)
	if err != nil {
		return fleetLoad{}, err
	}
	var names []string
	for _, v := range views {
		if v.DeviceState == device.Cleaning {
			names = append(names, v.Name)
		}
	}
	described, err := t.describe(ctx, names)
	if err != nil {
		return fleetLoad{}, err
	}
	hosts := map[string]*hostLoad{}
	total := hostLoad{Host: "all", States: map[device.State]int{}}
	for _, v := range views {
		s, ok := described[v.Name]
		if !ok || s.notFound { // it is gone meanwhile
			s = deviceSnapshot{DeviceStatus: v}
		}
		h := hosts[v.Hostname]
		if h == nil {
			h = &hostLoad{Host: v.Hostname, States: map[device.State]int{}}
			hosts[v.Hostname] = h
		}
		for _, into := range []*hostLoad{h, &total} {
			into.Devices++
			into.States[s.DeviceState]++
			switch {
			case s.group() == groupFailed:
				into.Failed++
			case s.group() == groupQueued && isWatched(s.DeviceState):
				into.Queued++
			case s.DeviceState == device.Cleaning:
				into.Running++
				into.Rate += s.rate
			}
		}
	}
	load := fleetLoad{Time: t.now().UTC().Truncate(time.Second), Total: total, Hosts: []hostLoad{}}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		load.Hosts = append(load.Hosts, *hosts[host])
	}
	return load, nil
}

// page is the load for people, the total first.
func (f fleetLoad) page() live.Page {
	count := func(title string, keep int, of func(hostLoad) int) terminal.Column[hostLoad] {
		return terminal.Column[hostLoad]{
			Title: title, Keep: keep, Right: true,
			Text:  func(h hostLoad) string { return fmt.Sprint(of(h)) },
			Order: func(a, b hostLoad) int { return cmp.Compare(of(a), of(b)) },
		}
	}
	columns := []terminal.Column[hostLoad]{
		{Title: "HOST", Keep: 100, Least: 10, Text: func(h hostLoad) string { return h.Host }},
		count("RUNNING", 95, func(h hostLoad) int { return h.Running }),
		count("QUEUED", 90, func(h hostLoad) int { return h.Queued }),
		count("FAILED", 94, func(h hostLoad) int { return h.Failed }),
		number("RATE", 93, func(h hostLoad) float64 { return float64(h.Rate) },
			func(h hostLoad) string { return rateText(h.Rate) }),
		count("DEVICES", 80, func(h hostLoad) int { return h.Devices }),
	}
	for i, s := range device.States() {
		if f.Total.States[s] > 0 {
			title := strings.ToUpper(strings.ReplaceAll(string(s), "_", "-"))
			columns = append(columns, count(title, 60-i, func(h hostLoad) int { return h.States[s] }))
		}
	}
	rows := append([]hostLoad{f.Total}, f.Hosts...)
	return live.Page{
		Table: terminal.NewTable(rows, columns), Keys: mapped(rows, func(h hostLoad) string { return h.Host }), Time: f.Time,
		Head: fmt.Sprintf("%d devices on %d hosts", f.Total.Devices, len(f.Hosts)),
	}
}

// look counts once.
func (t *loadMeter) look(ctx context.Context, view *live.Screen, _ bool) (int, bool, error) {
	load, err := t.load(ctx)
	switch {
	case err != nil:
		return 0, false, err
	case view != nil:
		view.Show(load.page())
	default:
		err = t.printNext(load, func() string {
			return local(load.Time) + "\n" + load.page().Table.Text(t.width(), t.palette()) + "\n"
		})
	}
	return load.Total.Devices, false, err
}

// open gives the devices of a host as list does, or all of them.
func (t *loadMeter) open(ctx context.Context, host string) (string, error) {
	f := *t.filter
	if host != "all" {
		f.by = client.Filter{}
		maps.Copy(f.by, t.filter.by)
		f.by[client.ByHost] = []string{host}
	}
	views, err := t.find(ctx, t.l, &f)
	return t.listing(views), err
}
