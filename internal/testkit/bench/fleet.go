package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
	"golang.org/x/time/rate"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/workflows/contract"
)

const (
	maxFirstUpdate = 5000 // milliseconds from the start of a control worker
	maxListExtra   = 1000 // milliseconds of a listing beyond Temporal's own
	minManyRatio   = 0.8  // of the rate of few devices at once
	// fleetPolls is how often in a second states are asked for, of all devices together.
	fleetPolls = 200
)

// fleet is many devices on many hosts, and one control worker. The hosts are a crew, whose steps do
// nothing.
type fleet struct {
	*place
	names     []string
	many, few []string // those that turn over at once
	restarts  []string // one for each start of the control worker
}

// fleet measures one control worker with a large fleet.
func (b *bench) fleet(ctx context.Context) error {
	devices, hosts := scale(b, 10000, 1000), scale(b, 200, 20)
	many, few, restarts := scale(b, 1000, 100), scale(b, 100, 20), scale(b, 5, 3)
	p, err := b.place(ctx, "fleet")
	if err != nil {
		return err
	}
	p.polls = rate.NewLimiter(fleetPolls, 1)
	f := &fleet{place: p}
	var racks []string
	for i := range hosts {
		racks = append(racks, fmt.Sprintf("rack%03d", i))
	}
	for i := range devices {
		f.names = append(f.names, fmt.Sprintf("%s-%05d", racks[i%hosts], i))
	}
	f.many, f.few, f.restarts = f.names[:many], f.names[many:many+few], f.names[many+few:many+few+restarts]
	if err := b.populate(ctx, f, racks); err != nil {
		return err
	}
	f.worker = p.Worker("control", noSweep, fmt.Sprintf("BURNISH_WORKFLOW_CACHE=%d", 2*devices))
	b.atEnd(func() error { return f.worker.Process.Stop() })
	if _, err := b.start(p, crew{hosts: racks, steps: noSteps(), signaled: "zero"}); err != nil {
		return err
	}
	b.progress("fleet: %d starts of the control worker", restarts)
	if err := f.starts(ctx, b); err != nil {
		return err
	}
	b.progress("fleet: listings")
	if err := f.listings(ctx, b); err != nil {
		return err
	}
	return f.rates(ctx, b)
}

// populate starts the devices, in the cache of a crew that then ends, and measures the memory that
// they take there. Each is a copy of one that has turned over until its run continued as new; those
// that will turn over have a provider in the inventory.
func (b *bench) populate(ctx context.Context, f *fleet, racks []string) error {
	worker.SetStickyWorkflowCacheSize(2 * len(f.names))
	store, err := fileStore(ctx, f.State)
	if err != nil {
		return err
	}
	files, err := fileStore(ctx, filepath.Join(f.Dir, "seed"))
	if err != nil {
		return err
	}
	stop, err := b.start(f.place, crew{
		queue: contract.Queue, store: files, hosts: []string{f.Host}, steps: noSteps(), signaled: contract.ActivityUnreserve,
	})
	if err != nil {
		return err
	}
	b.progress("fleet: the device that all are copies of")
	id, err := f.enrollFake(ctx, "one")
	if err != nil {
		return err
	}
	x, err := f.sample(ctx, id)
	if err != nil {
		return err
	}
	generations := map[string]int64{}
	for _, name := range slices.Concat(f.many, f.few, f.restarts) {
		if generations[name], err = provide(ctx, store, name); err != nil {
			return err
		}
	}
	b.progress("fleet: starting %d devices on %d hosts", len(f.names), len(racks))
	if err := b.idle(ctx, f.place, len(f.names), func(i int) (string, error) {
		name := f.names[i]
		return contract.WorkflowID(name), x.copy(ctx, f.place, name, racks[i%len(racks)], generations[name])
	}); err != nil {
		return err
	}
	return stop()
}

// provide creates the free provider of a device, and returns its generation.
func provide(ctx context.Context, store inventory.Store, name string) (int64, error) {
	id := contract.DeviceUUID(name)
	if err := store.Create(ctx, inventory.Provider{
		UUID: id, Name: name, Class: "CUSTOM_BENCH", Hardware: device.Identity{Serial: name}.Hardware(),
	}); err != nil {
		return 0, err
	}
	before, err := store.Reservation(ctx, id)
	if err != nil {
		return 0, err
	}
	free, err := store.PutReserved(ctx, id, before.Generation, 0, &device.Record{Witness: device.WitnessFree})
	return free.Generation, err
}

// starts measures how long a control worker takes from its start to its first answer. The
// update is sent as the process starts, to a device that is not in its cache. The first start
// follows a worker that ended in order; before each later one the worker is killed, so that the
// server still assigns devices to it.
func (f *fleet) starts(ctx context.Context, b *bench) error {
	var times []float64
	for i, name := range f.restarts {
		if i > 0 {
			if err := f.worker.Process.Kill(); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := f.worker.Launch(); err != nil {
			return err
		}
		id := contract.WorkflowID(name)
		instance, err := f.bind(ctx, id)
		if err != nil {
			return err
		}
		times = append(times, milliseconds(time.Since(began)))
		if err := f.unbindAndClean(ctx, id, instance); err != nil {
			return err
		}
	}
	b.add(
		single("  start of a control worker to its first answered update", "ms", times[0]).atMost(maxFirstUpdate),
		single(fmt.Sprintf("  the same after kill -9, greatest of %d", len(times)-1), "ms",
			slices.Max(times[1:])).atMost(maxFirstUpdate),
	)
	return nil
}

// listings compares the listing of the whole fleet with Temporal's own.
func (f *fleet) listings(ctx context.Context, b *bench) error {
	want := len(f.names) + 1 // and the one that all are copies of
	own := timed(func(ctx context.Context) error {
		out, err := f.Must(ctx, "list")
		if lines := strings.Count(out, "\n"); err == nil && lines != want+1 {
			err = fmt.Errorf("list has %d lines, not those of %d devices", lines, want)
		}
		return err
	})
	temporal := timed(func(ctx context.Context) error {
		found, err := f.listStates(ctx)
		if err == nil && len(found) != want {
			err = fmt.Errorf("Temporal lists %d devices of %d", len(found), want) //nolint:staticcheck // a name
		}
		return err
	})
	if _, err := interleave(ctx, 1, own, temporal); err != nil {
		return err
	}
	got, err := interleave(ctx, 5, own, temporal)
	if err == nil {
		b.add(beyond("  `burnish list` beyond Temporal's own listing, median", got[0][took], got[1][took], maxListExtra))
	}
	return err
}

// rates compares the turnovers of very many devices at once with those of few.
func (f *fleet) rates(ctx context.Context, b *bench) error {
	b.progress("fleet: turnovers of %d devices at once", len(f.many))
	got, err := interleave(ctx, scale(b, 2, 1), f.steady(f.many, len(f.many)), f.steady(f.few, len(f.many)))
	if err != nil {
		return err
	}
	b.add(compared(fmt.Sprintf("  turnovers of %d devices at once (baseline: %d at once)", len(f.many), len(f.few)), "/s",
		got[0]["rate"], got[1]["rate"]).ratioAtLeast(minManyRatio))
	return nil
}

// steady measures n turnovers of devices that all turn over again and again: from when half as
// many turnovers as devices have ended, until n more have.
func (f *fleet) steady(names []string, n int) measurement {
	return func(ctx context.Context) (values, error) {
		var mu sync.Mutex
		var ends []time.Time
		if _, err := load(len(names), n+len(names), nil, func(i int) error {
			_, err := f.turnover(contract.WorkflowID(names[i]))(ctx)
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, time.Now())
			return err
		}); err != nil {
			return nil, err
		}
		from := len(names) / 2
		return values{"rate": float64(n-1) / ends[from+n-1].Sub(ends[from]).Seconds()}, nil
	}
}
