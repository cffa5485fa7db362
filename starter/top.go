package main

import (
	"cmp"
	"context"
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
				t := &loadMeter{app: a, l: l, filter: &f, rates: map[string]*rateEstimator{}}
				if watch {
					return t.watch(cmd.Context(), interval)
				}
				if _, err := t.look(cmd.Context()); err != nil {
					return err
				}
				if a.pause(cmd.Context(), interval) != nil {
					return a.stopped(cmd.Context())
				}
				load, err := t.look(cmd.Context())
				if err != nil {
					return err
				}
				return a.emit(load, func() string { return t.text(load) })
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
	*app
	l      deviceClient
	filter *filter

	mu    sync.Mutex
	rates map[string]*rateEstimator // of the devices in cleaning
}

// look lists the fleet, and describes each device that is being cleaned.
func (t *loadMeter) look(ctx context.Context) (fleetLoad, error) {
	views, err := t.find(ctx, t.l, t.filter)
	if err != nil {
		return fleetLoad{}, err
	}
	cleaning := map[string]bool{}
	for _, v := range views {
		if v.DeviceState == device.Cleaning {
			cleaning[v.Name] = true
		}
	}
	maps.DeleteFunc(t.rates, func(name string, _ *rateEstimator) bool { return !cleaning[name] })
	var (
		snapshots = make([]deviceSnapshot, len(views))
		failed    error
	)
	parallel(len(views), parallelism, func(i int) {
		snapshots[i] = deviceSnapshot{DeviceStatus: views[i]}
		if !cleaning[views[i].Name] || ctx.Err() != nil {
			return
		}
		s, err := t.describe(ctx, views[i])
		t.mu.Lock()
		defer t.mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		snapshots[i] = s
	})
	if failed != nil {
		return fleetLoad{}, failed
	}
	return loadOf(snapshots, t.now()), nil
}

// describe asks for one running device. One that is gone meanwhile is as it was listed.
func (t *loadMeter) describe(ctx context.Context, v contract.DeviceStatus) (deviceSnapshot, error) {
	rctx, cancel := t.requestContext(ctx)
	defer cancel()
	e, err := t.l.Describe(rctx, v.Name)
	switch {
	case client.NotFound(err):
		return deviceSnapshot{DeviceStatus: v}, nil
	case err != nil:
		return deviceSnapshot{}, t.explain(ctx, t.l, v.Name, err)
	}
	now := t.now()
	s := deviceSnapshot{DeviceStatus: e.Status}
	s.Hostname = v.Hostname
	if s.Progress = e.Progress(s.DeviceStatus, now); s.Progress == nil {
		return s, nil
	}
	beat := e.Pending[s.CleanStep.Step].Progress
	if beat == nil || s.group() != groupRunning {
		return s, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.rates[v.Name]
	if m == nil {
		m = &rateEstimator{}
		t.rates[v.Name] = m
	}
	m.add(*beat, now)
	s.rate = m.rate()
	return s, nil
}

// loadOf counts devices by their hosts.
func loadOf(all []deviceSnapshot, now time.Time) fleetLoad {
	hosts := map[string]*hostLoad{}
	total := hostLoad{Host: "all", States: map[device.State]int{}}
	for _, s := range all {
		h := hosts[s.Hostname]
		if h == nil {
			h = &hostLoad{Host: s.Hostname, States: map[device.State]int{}}
			hosts[s.Hostname] = h
		}
		for _, into := range []*hostLoad{h, &total} {
			into.Devices++
			into.States[s.DeviceState]++
			into.Rate += s.rate
			switch {
			case s.group() == groupFailed:
				into.Failed++
			case s.group() == groupQueued && isWatched(s.DeviceState):
				into.Queued++
			case s.DeviceState == device.Cleaning:
				into.Running++
			}
		}
	}
	load := fleetLoad{Time: now.UTC().Truncate(time.Second), Total: total, Hosts: []hostLoad{}}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		load.Hosts = append(load.Hosts, *hosts[host])
	}
	return load
}

// page is the load for people, the total first; each host opens the listing of its devices.
func (f fleetLoad) page() live.Page {
	number := func(title string, keep int, of func(hostLoad) int64) live.Column[hostLoad] {
		return live.Column[hostLoad]{
			Column: terminal.Column{Title: title, Keep: keep, Right: true},
			Text:   func(h hostLoad) string { return fmt.Sprint(of(h)) },
			Order:  func(a, b hostLoad) int { return cmp.Compare(of(a), of(b)) },
		}
	}
	host := func(h hostLoad) string { return h.Host }
	failed := number("FAILED", 94, func(h hostLoad) int64 { return int64(h.Failed) })
	failed.Color = func(_ int, count string) terminal.Color {
		if count == "0" {
			return terminal.Plain
		}
		return terminal.Bad
	}
	rate := number("RATE", 93, func(h hostLoad) int64 { return h.Rate })
	rate.Text = func(h hostLoad) string {
		if h.Rate == 0 {
			return ""
		}
		return size(h.Rate) + "/s"
	}
	columns := []live.Column[hostLoad]{
		{Column: terminal.Column{Title: "HOST", Keep: 100, Least: 10}, Text: host},
		number("RUNNING", 95, func(h hostLoad) int64 { return int64(h.Running) }),
		number("QUEUED", 90, func(h hostLoad) int64 { return int64(h.Queued) }),
		failed,
		rate,
		number("DEVICES", 80, func(h hostLoad) int64 { return int64(h.Devices) }),
	}
	for i, s := range device.States() {
		if f.Total.States[s] > 0 {
			title := strings.ToUpper(strings.ReplaceAll(string(s), "_", "-"))
			columns = append(columns, number(title, 60-i, func(h hostLoad) int64 { return int64(h.States[s]) }))
		}
	}
	opens := func(h hostLoad) string {
		if h.Host == f.Total.Host {
			return ""
		}
		return h.Host
	}
	p := live.NewPage(slices.Insert(slices.Clone(f.Hosts), 0, f.Total), columns, host, opens)
	p.Time, p.Head = f.Time, fmt.Sprintf("%d devices on %d hosts", f.Total.Devices, len(f.Hosts))
	return p
}

// text is the load in lines.
func (t *loadMeter) text(load fleetLoad) string {
	return load.page().Table.Text(t.width(), t.palette())
}

// watch looks again each interval, until the operator ends it.
func (t *loadMeter) watch(parent context.Context, interval time.Duration) error {
	look := func(ctx context.Context, view *live.Screen, _ bool) (int, error) {
		load, err := t.look(ctx)
		switch {
		case err != nil:
			return 0, err
		case view != nil:
			view.Show(load.page())
			return load.Total.Devices, nil
		}
		return load.Total.Devices, t.printNext(load, func() string { return local(load.Time) + "\n" + t.text(load) + "\n" })
	}
	return t.goOn(parent, t.l, interval, true, t.openingHost, look)
}

// openingHost gives the devices of a host as list does.
func (t *loadMeter) openingHost(ctx context.Context, l deviceClient) func(host string) (string, error) {
	return func(host string) (string, error) {
		f := *t.filter
		f.hosts = []string{host}
		views, err := t.find(ctx, l, &f)
		if err != nil {
			return "", err
		}
		return t.listing(views), nil
	}
}
