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
	"burnish/starter/internal/frame"
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
				return a.emit(load, func() string { return load.table().Text(a.width(), a.palette()) })
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
	if beat == nil || s.group() != frame.Running {
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
			case s.group() == frame.Failed:
				into.Failed++
			case s.group() == frame.Queued && isWatched(s.DeviceState):
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

// table is the load for people, the total first.
func (f fleetLoad) table() terminal.Table {
	t := terminal.Table{Columns: []terminal.Column{
		{Title: "HOST", Keep: 100, Least: 10},
		{Title: "RUNNING", Keep: 95, Right: true},
		{Title: "QUEUED", Keep: 90, Right: true},
		{Title: "FAILED", Keep: 94, Right: true, Color: func(_ int, count string) terminal.Color {
			if count == "0" {
				return terminal.Plain
			}
			return terminal.Bad
		}},
		{Title: "RATE", Keep: 93, Right: true},
		{Title: "DEVICES", Keep: 80, Right: true},
	}}
	present := slices.DeleteFunc(device.States(), func(s device.State) bool { return f.Total.States[s] == 0 })
	for i, s := range present {
		title := strings.ToUpper(strings.ReplaceAll(string(s), "_", "-"))
		t.Columns = append(t.Columns, terminal.Column{Title: title, Keep: 60 - i, Right: true})
	}
	for _, h := range slices.Insert(slices.Clone(f.Hosts), 0, f.Total) {
		rate := ""
		if h.Rate > 0 {
			rate = terminal.Bytes(h.Rate) + "/s"
		}
		row := []string{h.Host, fmt.Sprint(h.Running), fmt.Sprint(h.Queued), fmt.Sprint(h.Failed), rate,
			fmt.Sprint(h.Devices)}
		for _, s := range present {
			row = append(row, fmt.Sprint(h.States[s]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// watch looks again each interval, until the operator ends it.
func (t *loadMeter) watch(parent context.Context, interval time.Duration) (err error) {
	ctx, cancel := t.waitLimit(parent)
	defer cancel()
	show, note, done := t.printLoad, t.noteOnce, func() error { return nil }
	if t.format == formatTable && t.screen != nil {
		page, err := t.newPage()
		if err != nil {
			return err
		}
		show, note, done = page.show, page.note, page.close
	}
	defer func() { err = cmp.Or(done(), err) }()
	err = t.follow(ctx, interval, note, func(bool) (int, bool, error) {
		load, err := t.look(ctx)
		if err != nil {
			return 0, false, err
		}
		return load.Total.Devices, false, show(load)
	})
	if errors.Is(err, errStopped) {
		return t.stopped(parent)
	}
	return err
}

// printLoad prints one look below the last.
func (t *loadMeter) printLoad(load fleetLoad) error {
	switch t.format {
	case formatJSON:
		return encode(t.stdout, t.format, compact, load)
	case formatYAML:
		if err := t.print("---\n"); err != nil {
			return err
		}
		return encode(t.stdout, t.format, compact, load)
	}
	return t.print(local(load.Time) + "\n" + load.table().Text(t.width(), t.palette()) + "\n")
}

// loadPage shows the load on a whole terminal.
type loadPage struct {
	*app
	terminal *terminal.Screen

	mu   sync.Mutex
	load fleetLoad
	text string
}

func (t *loadMeter) newPage() (*loadPage, error) {
	p := &loadPage{app: t.app}
	var err error
	if p.terminal, err = terminal.Open(t.screen, p.draw); err != nil {
		return nil, notWritten(err)
	}
	return p, nil
}

// draw gives the total and as many hosts as there is room for.
func (p *loadPage) draw(width, height int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	if p.text != "" {
		lines = append(lines, p.palette().Paint(terminal.Warn, terminal.Cut(oneLine(p.text), width)))
	}
	lines = append(lines, p.load.table().Lines(width, p.palette())...)
	if len(lines) > height {
		rest := fmt.Sprintf("… %d more hosts", len(lines)-height+1)
		lines = append(lines[:max(height-1, 0)], terminal.Cut(rest, width))
	}
	return lines
}

func (p *loadPage) show(load fleetLoad) error {
	p.mu.Lock()
	p.load, p.text = load, ""
	p.mu.Unlock()
	return p.redraw()
}

func (p *loadPage) note(text string) error {
	p.mu.Lock()
	p.text = text
	p.mu.Unlock()
	return p.redraw()
}

func (p *loadPage) redraw() error {
	if err := p.terminal.Draw(); err != nil {
		return notWritten(err)
	}
	return nil
}

// close leaves the last look on the terminal.
func (p *loadPage) close() error {
	if err := p.terminal.Close(); err != nil {
		return notWritten(err)
	}
	width, height, ok := terminal.Size(p.screen)
	if !ok || p.load.Time.IsZero() {
		return nil
	}
	return p.print(strings.Join(p.draw(width, height-1), "\n") + "\n")
}
