package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
)

// The bounds that a build must keep (docs/bench.md).
const (
	latencyAtMost     = 1.15 // product to baseline, same activities
	throughputAtLeast = 0.90 // product to baseline, same activities
	idleEventsAtMost  = 15
	memoryAtMost      = 48 // KiB a device
)

// The sides, in the order in which the program keeps them.
const (
	product = iota // DeviceLifecycle
	same           // the baseline with the product's activities
	bare           // the baseline with activities that do nothing
	least          // bare, without search attributes and continue-as-new
)

// scale is how much is measured.
type scale struct {
	warm       int // turnovers of one device before the first that counts
	latency    box // turnovers of one device
	fleet      int // devices that turn over at once
	load       box // rounds of fleet, each of loadCycles turnovers
	loadCycles int
	idle       int // devices for the memory
	idleTime   time.Duration
	disks      disks
	drives     drives
	clouds     clouds
}

// bench is one run of the program.
type bench struct {
	scale
	// dir is the folder to work in, bin the programs', profiles where profiles go.
	dir, bin, profiles string
	// only is the one part to measure, of parts; empty is all.
	only string

	began  time.Time
	server *server
	sides  []*side
	result result
	stops  []func() error
}

func newBench(o options, dir string) *bench {
	s := scale{
		warm: 24, latency: box{fewest: 50, most: 250, time: 40 * time.Second},
		fleet: 100, load: box{fewest: 4, most: 10, time: 50 * time.Second}, loadCycles: 100,
		idle: 5000, idleTime: 4 * time.Minute,
		disks: disks{size: 8 << 30, rounds: 3, several: 8, each: 1 << 30},
		clouds: clouds{
			warm: 10, bind: box{fewest: 50, most: 150, time: 60 * time.Second},
			providers: 1000, enrolled: 50, rounds: 40,
		},
		drives: drives{
			controllers: 64, rounds: 3,
			guest: guestScale{
				free: pair{name: "FREE", small: 512 << 20, large: 4 << 30}, limited: pair{name: "LIMITED", small: 64 << 20, large: 1 << 30, rate: 64 << 20},
				rounds: 3, several: 8, each: 128 << 20, rate: 16 << 20,
			},
		},
	}
	if o.quick {
		s = scale{
			warm: 5, latency: box{fewest: 10, most: 40, time: 5 * time.Second},
			fleet: 20, load: box{fewest: 1, most: 2, time: 5 * time.Second}, loadCycles: 20,
			idle: 300, idleTime: 60 * time.Second,
			disks: disks{size: 512 << 20, rounds: 2, several: 8, each: 64 << 20},
			clouds: clouds{
				warm: 3, bind: box{fewest: 10, most: 20, time: 5 * time.Second},
				providers: 100, enrolled: 8, rounds: 5,
			},
			drives: drives{
				controllers: 8, rounds: 2,
				guest: guestScale{
					free: pair{name: "FREE", small: 512 << 20, large: 2 << 30}, limited: pair{name: "LIMITED", small: 64 << 20, large: 320 << 20, rate: 64 << 20},
					rounds: 1, several: 8, each: 64 << 20, rate: 16 << 20,
				},
			},
		}
	}
	return &bench{scale: s, dir: dir, bin: o.bin, profiles: o.profiles, only: o.only, began: time.Now()}
}

func (b *bench) measure(ctx context.Context) error {
	b.note("%d processors, load %s at the start", runtime.NumCPU(), loadAverage())
	defer func() { b.note("load %s at the end; %.0f s in all", loadAverage(), time.Since(b.began).Seconds()) }()
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{{"turnover", b.orchestration}, {"disk", b.disk}, {"nvme", b.nvme}, {"placement", b.placement}} {
		if b.only != "" && b.only != part.name {
			continue
		}
		if err := part.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// parts are what -only takes.
var parts = []string{"turnover", "disk", "nvme", "placement"}

// orchestration measures everything but the drives.
func (b *bench) orchestration(ctx context.Context) error {
	if err := b.start(); err != nil {
		return err
	}
	samples, err := b.one(ctx)
	if err != nil {
		return err
	}
	if err := b.many(ctx); err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	return b.memory(ctx, samples)
}

func (b *bench) program() string { return filepath.Join(b.bin, "burnish-devserver") }

// start starts the server and a worker process for each side; bare and least share one.
func (b *bench) start() (err error) {
	if b.server, err = startServer(b.program(), b.dir, b.dir); err != nil {
		return err
	}
	b.stops = append(b.stops, b.server.end)
	for _, s := range []struct {
		name, queue          string
		product, real, least bool
	}{
		product: {name: "product", queue: "burnish", product: true, real: true},
		same:    {name: "same", queue: "burnish-bench-same", real: true},
		bare:    {name: "bare", queue: "burnish-bench-bare"},
		least:   {name: "least", queue: "burnish-bench-bare", least: true},
	} {
		one := &side{name: s.name, product: s.product, least: s.least, queue: s.queue, host: "bench-" + s.name}
		b.sides = append(b.sides, one)
		if s.least {
			one.host, one.client, one.workers = b.sides[bare].host, b.sides[bare].client, b.sides[bare].workers
			continue
		}
		if err := b.staff(one, s.real); err != nil {
			return err
		}
	}
	b.note("one server on SQLite (WAL, synchronous=2), and a worker process for each side, which is this program again")
	return nil
}

// staff gives a side its client and its worker process.
func (b *bench) staff(s *side, real bool) (err error) {
	dir := filepath.Join(b.dir, s.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	t := task{
		Product: s.product, Real: real, Queue: s.queue, Host: s.host, Address: b.server.address, Dir: dir,
		Cache: 2000, Slots: b.fleet, Placement: s.placement,
	}
	if b.profiles != "" {
		t.CPUProfile = filepath.Join(b.profiles, s.name+".cpu")
	}
	if s.workers, err = startWorkers(s.name, b.dir, t); err != nil {
		return err
	}
	b.stops = append(b.stops, s.workers.end)
	if s.client, err = client.Dial(client.Options{HostPort: b.server.address, Logger: silent{}}); err != nil {
		return err
	}
	b.stops = append(b.stops, func() error { s.client.Close(); return nil })
	return nil
}

// stop ends what was started, the last first; a second call finds nothing to end.
func (b *bench) stop() error {
	var failed []error
	for i := len(b.stops) - 1; i >= 0; i-- {
		failed = append(failed, b.stops[i]())
	}
	b.stops = nil
	return errors.Join(failed...)
}

// one measures one device a side: the turnover's latency, what it leaves in the
// history, and what an idle device's history is. It returns samples for the memory.
func (b *bench) one(ctx context.Context) ([]sample, error) {
	var ids []string
	for _, s := range b.sides {
		id, err := s.enroll(ctx, "one")
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	say(b.began, "latency: one device a side")
	if _, err := latency(ctx, b.sides, ids, box{most: b.warm, fewest: b.warm}); err != nil {
		return nil, err
	}
	all, err := latency(ctx, b.sides, ids, b.latency)
	if err != nil {
		return nil, err
	}
	p, bodies := all[product], []string{same: "same activities", bare: "no-op activities", least: "no-op, no upserts, never continued"}
	b.add(latencies("turnover, median", bodies[same], p.whole, all[same].whole, 0.5).ratioAtMost(latencyAtMost))
	b.add(latencies("turnover, p95", bodies[same], p.whole, all[same].whole, 0.95))
	b.add(latencies("bind answered, median", bodies[same], p.bind, all[same].bind, 0.5))
	b.add(latencies("turnover, median", bodies[bare], p.whole, all[bare].whole, 0.5))
	b.add(latencies("turnover, median", bodies[least], p.whole, all[least].whole, 0.5))

	var prints []footprint
	for _, i := range []int{product, same} {
		f, err := b.sides[i].footprint(ctx, ids[i])
		if err != nil {
			return nil, err
		}
		prints = append(prints, f)
	}
	if err := alike(prints[0], prints[1]); err != nil {
		return nil, err
	}
	b.note("latency: %d turnovers a side", len(p.whole))
	b.note("each turnover has %g activities and %g upserts of search attributes on both sides", prints[0].activities, prints[0].upserts)
	say(b.began, "idle: turning over until the runs are renewed")
	var samples []sample
	var idles []float64
	for _, i := range []int{product, same} {
		run, err := b.sides[i].idle(ctx, ids[i])
		if err != nil {
			return nil, err
		}
		x, err := b.sides[i].sample(ctx, ids[i], run)
		if err != nil {
			return nil, err
		}
		samples, idles = append(samples, x), append(idles, float64(run.events))
	}
	b.add(counted("events of an idle device, just continued as new", "", idles[0], idles[1]).atMost(idleEventsAtMost))
	b.add(counted("events a turnover", "", prints[0].events, prints[1].events))
	b.add(counted("workflow tasks a turnover", "", prints[0].tasks, prints[1].tasks))
	b.add(counted("history a turnover", "KiB", prints[0].bytes/1024, prints[1].bytes/1024))
	return samples, nil
}

func latencies(name, bodies string, product, baseline []float64, q float64) measure {
	return timed(name+", "+bodies, "ms", quantile(product, q), quantile(baseline, q), ratioOf(product, baseline, q))
}

// many measures a fleet a side: turnovers a second, and the processor time of each.
func (b *bench) many(ctx context.Context) error {
	sides := b.sides[product : same+1]
	fleets := make([][]string, len(sides))
	say(b.began, "throughput: enrolling %d devices a side", b.fleet)
	for i, s := range sides {
		fleets[i] = make([]string, b.fleet)
		const atOnce = 10
		err := together(atOnce, func(k int) (err error) {
			for n := k; n < b.fleet && err == nil; n += atOnce {
				fleets[i][n], err = s.enroll(ctx, fmt.Sprintf("many-%d", n))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	say(b.began, "throughput: rounds of %d turnovers", b.loadCycles)
	all, err := throughput(ctx, b.server, sides, fleets, b.load, b.loadCycles)
	if err != nil {
		return err
	}
	of := func(i int, value func(load) float64) (values []float64) {
		for _, l := range all[i] {
			values = append(values, value(l))
		}
		return values
	}
	line := func(name, unit string, value func(load) float64) measure {
		p, a := of(product, value), of(same, value)
		return timed(name, unit, median(p), median(a), ratioOfRounds(p, a))
	}
	b.note("throughput: %d rounds a side, each of %d turnovers by %d devices at once", len(all[product]), b.loadCycles, b.fleet)
	b.add(line(fmt.Sprintf("turnovers of %d devices at once, same activities", b.fleet), "/s",
		func(l load) float64 { return l.perSecond }).ratioAtLeast(throughputAtLeast))
	b.add(line("server's processor time a turnover", "ms", func(l load) float64 { return l.server }))
	b.add(line("worker's processor time a turnover", "ms", func(l load) float64 { return l.workers }))
	return nil
}

func (b *bench) memory(ctx context.Context, samples []sample) error {
	var got []footing
	for i, x := range samples {
		say(b.began, "memory: idle devices of side %s", b.sides[i].name)
		f, err := b.idleMemory(ctx, *b.sides[i], x)
		if err != nil {
			return err
		}
		got = append(got, f)
	}
	b.note("memory: %d idle devices (baseline: %d), all of them in the worker's cache of %d; each with %s (baseline: %s)",
		got[0].devices, got[1].devices, b.cache(), samples[0].describe(), samples[1].describe())
	b.add(counted("worker's memory an idle device", "KiB", got[0].perDevice, got[1].perDevice).atMost(memoryAtMost))
	b.add(counted("  of it heap", "KiB", got[0].heap, got[1].heap))
	b.add(counted("  of that in live objects", "KiB", got[0].live, got[1].live))
	b.add(counted("  of it stacks", "KiB", got[0].stack, got[1].stack))
	return nil
}

// cache holds all devices of the memory measurement, with room to spare.
func (b *bench) cache() int { return b.idle + b.idle/10 }

func (b *bench) add(m measure) { b.result.Measures = append(b.result.Measures, m) }

func (b *bench) note(format string, args ...any) {
	b.result.Notes = append(b.result.Notes, fmt.Sprintf(format, args...))
}

// loadAverage is the machine's over the last minute: how noisy the figures are.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
