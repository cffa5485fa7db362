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
	"burnish/internal/testkit/must"
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
	where     string // in the names of the figures
	names     []string
	many, few int      // how many turn over at once
	restarts  []string // one for each start of the control worker
}

// fleet measures one control worker with a large fleet.
func (b *bench) fleet(ctx context.Context) {
	b.fleetOn(ctx, must.Get(b.place(ctx, "fleet")), "", scale(b, 10000, 1000), scale(b, 200, 20))
}

// fleetOn measures a fleet at a place that nothing else uses.
func (b *bench) fleetOn(ctx context.Context, p *place, where string, devices, hosts int) {
	restarts := scale(b, 5, 3)
	p.polls = rate.NewLimiter(fleetPolls, 1)
	f := &fleet{place: p, where: where, many: scale(b, 1000, 100), few: scale(b, 100, 20)}
	var racks []string
	for i := range hosts {
		racks = append(racks, fmt.Sprintf("rack%03d", i))
	}
	for i := range devices {
		f.names = append(f.names, fmt.Sprintf("%s-%05d", racks[i%hosts], i))
	}
	f.restarts = f.names[2*f.many : 2*f.many+restarts]
	b.populate(ctx, f, racks)
	f.worker = p.Worker("control", noSweep, fmt.Sprintf("BURNISH_WORKFLOW_CACHE=%d", 2*devices))
	b.atEnd(func() error { return f.worker.Process.Stop() })
	must.Get(b.start(p, crew{hosts: racks, steps: noSteps(), signaled: "zero"}))
	b.progress("fleet: %d starts of the control worker", restarts)
	f.starts(ctx, b)
	b.progress("fleet: listings")
	f.listings(ctx, b)
	f.rates(ctx, b)
}

// populate starts the devices, in the cache of a crew that then ends, and measures the memory that
// they take there. Each is a copy of one that has turned over until its run continued as new, and has a
// provider in the inventory: the first round of a control worker would ask each that has none, again and again.
func (b *bench) populate(ctx context.Context, f *fleet, racks []string) {
	worker.SetStickyWorkflowCacheSize(2 * len(f.names))
	store := must.Get(fileStore(ctx, f.State))
	files := must.Get(fileStore(ctx, filepath.Join(f.Dir, "seed")))
	stop := must.Get(b.start(f.place, crew{
		queue: contract.Queue, store: files, hosts: []string{f.Host}, steps: noSteps(), signaled: contract.ActivityUnreserve,
	}))
	b.progress("fleet: the device that all are copies of")
	id := must.Get(f.enrollFake(ctx, "one"))
	x := f.sample(ctx, id)
	generations := map[string]int64{}
	for _, name := range f.names {
		generations[name] = provide(ctx, store, name)
	}
	b.progress("fleet: starting %d devices on %d hosts", len(f.names), len(racks))
	b.idle(ctx, f.place, len(f.names), func(i int) string {
		name := f.names[i]
		return x.copy(ctx, f.place, name, racks[i%len(racks)], generations[name])
	})
	must.Do(stop())
}

// provide creates the free provider of a device, and returns its generation.
func provide(ctx context.Context, store inventory.Store, name string) int64 {
	id := contract.DeviceUUID(name)
	must.Do(store.Create(ctx, inventory.Provider{
		UUID: id, Name: name, Class: "CUSTOM_BENCH", Hardware: device.Identity{Serial: name}.Hardware(),
	}))
	before := must.Get(store.Reservation(ctx, id))
	return must.Get(store.PutReserved(ctx, id, before.Generation, 0,
		&device.Record{Witness: device.WitnessFree})).Generation
}

// starts measures how long a control worker takes from its start to its first answer. The
// update is sent as the process starts, to a device that is not in its cache. The first start
// follows a worker that ended in order; before each later one the worker is killed, so that the
// server still assigns devices to it.
func (f *fleet) starts(ctx context.Context, b *bench) {
	var times []float64
	for i, name := range f.restarts {
		if i > 0 {
			must.Do(f.worker.Process.Kill())
		}
		began := time.Now()
		must.Do(f.worker.Launch())
		id := contract.WorkflowID(name)
		instance := must.Get(f.bind(ctx, id))
		times = append(times, milliseconds(time.Since(began)))
		must.Do(f.unbindAndClean(ctx, id, instance))
	}
	b.add(
		single("  start of a control worker to its first answered update"+f.where, "ms", times[0]).atMost(maxFirstUpdate),
		single(fmt.Sprintf("  the same after kill -9, greatest of %d%s", len(times)-1, f.where), "ms",
			slices.Max(times[1:])).atMost(maxFirstUpdate),
	)
}

// listings compares the listing of the whole fleet with Temporal's own.
func (f *fleet) listings(ctx context.Context, b *bench) {
	want := len(f.names) + 1 // and the one that all are copies of
	got := warm(ctx, 1, 5, timed(func(ctx context.Context) {
		lines := strings.Count(must.Get(f.Must(ctx, "list")), "\n")
		must.Be(lines == want+1, "list has %d lines, not those of %d devices", lines, want)
	}), timed(func(ctx context.Context) {
		found := len(must.Get(f.listStates(ctx)))
		must.Be(found == want, "Temporal lists %d devices of %d", found, want)
	}))
	b.add(beyond("  `burnish list` beyond Temporal's own listing, median"+f.where, got[0][took], got[1][took], maxListExtra))
}

// rates compares the turnovers of very many devices at once with those of few. Both go through as many
// devices, so that a device has been idle before each of its binds, and its host looks at it.
func (f *fleet) rates(ctx context.Context, b *bench) {
	b.progress("fleet: turnovers of %d devices at once", f.many)
	first, others := f.names[:f.many], f.names[f.many:2*f.many]
	got := must.Get(interleave(ctx, scale(b, 2, 1), f.steady(first, f.many), f.steady(others, f.few)))
	b.add(compared(fmt.Sprintf("  turnovers of %d devices at once%s (baseline: %d at once)", f.many, f.where, f.few),
		"/s", got[0]["rate"], got[1]["rate"]).ratioAtLeast(minManyRatio))
}

// steady measures as many turnovers as there are devices, so many at once, each of the device that has been
// idle for longest: from when half of the first have ended.
func (f *fleet) steady(names []string, atOnce int) measurement {
	return func(ctx context.Context) (values, error) {
		idle := make(chan string, len(names))
		for _, name := range names {
			idle <- name
		}
		var mu sync.Mutex
		var ends []time.Time
		must.Get(load(atOnce, len(names)+atOnce, nil, func(int) error {
			name := <-idle
			_, err := f.turnover(contract.WorkflowID(name))(ctx)
			idle <- name
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, time.Now())
			return err
		}))
		from := atOnce / 2
		return values{"rate": float64(len(names)-1) / ends[from+len(names)-1].Sub(ends[from]).Seconds()}, nil
	}
}
