package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// The variants of the turnover, in the order of bench.variants.
const (
	product = iota // DeviceLifecycle
	same           // the baseline: its calls are activities
	noop           // the baseline with activities that do nothing
	bare           // noop without search attributes and continue-as-new
	other          // the product as another build has it, where one takes part
)

// turnovers measures latency, throughput, events and memory of orchestration alone.
func (b *bench) turnovers(ctx context.Context) error {
	server, err := b.server(ctx, b.dir)
	if err != nil {
		return err
	}
	const baselineQueue = "burnish-bench-same"
	variants := []*variant{
		{name: "product", task: task{Product: true, Real: true, Queue: contract.Queue}},
		{name: "same", task: task{Real: true, Queue: baselineQueue}},
		{name: "noop", task: task{Queue: "burnish-bench-noop"}},
	}
	for _, v := range variants {
		v.Host, v.Address, v.Cache, v.Slots = "bench-"+v.name, server.Address, 2000, b.fleet
		if err := b.startVariant(ctx, v); err != nil {
			return err
		}
	}
	least := *variants[noop] // shares its worker process
	least.name, least.bare = "bare", true
	variants = append(variants, &least)
	if b.against != "" {
		before, err := b.otherBuild(ctx, server)
		if err != nil {
			return err
		}
		variants = append(variants, before)
	}
	b.note("one server on SQLite (WAL, synchronous=2), and a worker process for each variant, which is this program again")

	samples, err := b.latencies(ctx, variants)
	if err != nil {
		return err
	}
	if err := b.throughputs(ctx, server.Process, append(variants[:same+1:same+1], variants[min(other, len(variants)):]...)); err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	return b.idleMemory(ctx, variants, samples)
}

// otherBuild starts the product's worker of another build, in a namespace of its own.
func (b *bench) otherBuild(ctx context.Context, server *site.Server) (*variant, error) {
	v := &variant{name: "other", program: b.against, task: task{
		Product: true, Real: true, Queue: contract.Queue, Host: "bench-other", Namespace: "other",
		Address: server.Address, Cache: 2000, Slots: b.fleet,
	}}
	if err := server.NewNamespace(ctx, v.Namespace); err != nil {
		return nil, err
	}
	return v, b.startVariant(ctx, v)
}

// latencies measures one device a variant: the latency of turnovers, what they leave in the
// history, and the history of an idle device. It returns samples for the memory.
func (b *bench) latencies(ctx context.Context, variants []*variant) ([]sample, error) {
	var ids []string
	var all []measurement
	for i, v := range variants {
		id, err := v.enroll(ctx, "one")
		if err != nil {
			return nil, err
		}
		m := v.turnover(id)
		if i == noop || i == bare { // no bound depends on it
			m = everyNth(4, m)
		}
		ids, all = append(ids, id), append(all, m)
	}
	b.progress("latency: one device a variant")
	if _, err := interleave(ctx, b.warmUp, all...); err != nil {
		return nil, err
	}
	got, err := interleave(ctx, b.latency, all...)
	if err != nil {
		return nil, err
	}
	b.add(
		latencyFigure("turnover, median, the plain way", got[product], got[same], "turnover", 0.5).ratioAtMost(maxLatencyRatio),
		latencyFigure("turnover, p95, the plain way", got[product], got[same], "turnover", 0.95),
		latencyFigure("bind answered, median, the plain way", got[product], got[same], "bind", 0.5),
		latencyFigure("turnover, median, no-op activities", got[product], got[noop], "turnover", 0.5),
		latencyFigure("turnover, median, no-op, no upserts, never continued", got[product], got[bare], "turnover", 0.5),
	)
	if len(variants) > other {
		b.add(latencyFigure("turnover, median, the other build", got[product], got[other], "turnover", 0.5))
	}
	b.note("latency: %d turnovers a variant", len(got[product]["turnover"]))
	return b.histories(ctx, variants[:same+1], ids)
}

func latencyFigure(name string, product, baseline series, what string, q float64) figure {
	p, s := product[what], baseline[what]
	return compared(name, "ms", quantile(p, q), quantile(s, q), quantileRatio(p, s, q))
}

// histories measures the events of turnovers and of an idle device.
func (b *bench) histories(ctx context.Context, variants []*variant, ids []string) (samples []sample, err error) {
	prints := make([]footprint, len(variants))
	for i, v := range variants {
		if prints[i], err = v.footprint(ctx, ids[i]); err != nil {
			return nil, err
		}
	}
	if err := checkBaseline(prints[same]); err != nil {
		return nil, err
	}
	b.progress("idle: turning over until the runs continue as new")
	var idle []float64
	for i, v := range variants {
		events, err := v.idleHistory(ctx, ids[i])
		if err != nil {
			return nil, err
		}
		x, err := newSample(v, ids[i], events[0].GetWorkflowExecutionStartedEventAttributes())
		if err != nil {
			return nil, err
		}
		samples, idle = append(samples, x), append(idle, float64(len(events)))
	}
	b.add(
		counted("events of an idle device, just continued as new", "", idle[0], idle[1]).atMost(maxIdleEvents),
		counted("events a turnover", "", prints[0].events, prints[1].events).atMost(maxEvents),
		counted("activities a turnover", "", prints[0].activities, prints[1].activities).atMost(maxActivities),
		counted("writes of search attributes a turnover", "", prints[0].upserts, prints[1].upserts).atMost(maxUpserts),
		counted("workflow tasks a turnover", "", prints[0].tasks, prints[1].tasks),
		counted("history a turnover", "KiB", prints[0].bytes/1024, prints[1].bytes/1024),
	)
	return samples, nil
}

// cpuMeter is a process whose processor time is measured.
type cpuMeter interface{ PID() int }

// throughputs measures a fleet of each variant: turnovers a second, and processor time.
func (b *bench) throughputs(ctx context.Context, server cpuMeter, variants []*variant) error {
	b.progress("throughput: enrolling %d devices a variant", b.fleet)
	var all []measurement
	for _, v := range variants {
		ids := make([]string, b.fleet)
		if err := parallelAtMost(10, b.fleet, func(i int) (err error) {
			ids[i], err = v.enroll(ctx, fmt.Sprintf("many-%d", i))
			return err
		}); err != nil {
			return err
		}
		all = append(all, func(ctx context.Context) (values, error) { return b.load(ctx, server, v, ids) })
	}
	b.progress("throughput: rounds of %d turnovers", b.loadCycles)
	got, err := interleave(ctx, b.throughput, all...)
	if err != nil {
		return err
	}
	against := func(baseline series, name, unit, what string) figure {
		p, s := got[product][what], baseline[what]
		return compared(name, unit, median(p), median(s), pairedRatio(p, s))
	}
	line := func(name, unit, what string) figure { return against(got[same], name, unit, what) }
	b.note("throughput: %d rounds a variant, each of %d turnovers by %d devices at once", len(got[product]["rate"]), b.loadCycles, b.fleet)
	b.add(
		line(fmt.Sprintf("turnovers of %d devices at once, the plain way", b.fleet), "/s", "rate").ratioAtLeast(minThroughputRatio),
		line("server's processor time a turnover", "ms", "server"),
		line("worker's processor time a turnover", "ms", "worker"),
		line("worker's allocations a turnover", "objects", "objects"),
		line("worker's allocations a turnover", "KiB", "bytes"),
	)
	if last := got[len(got)-1]; len(got) > same+1 {
		b.add(
			against(last, "turnovers at once, the other build", "/s", "rate"),
			against(last, "server's processor time a turnover, the other build", "ms", "server"),
			against(last, "worker's processor time a turnover, the other build", "ms", "worker"),
			against(last, "worker's allocations a turnover, the other build", "objects", "objects"),
			against(last, "worker's allocations a turnover, the other build", "KiB", "bytes"),
		)
	}
	return nil
}

// load is one round of loadCycles turnovers by the whole fleet.
func (b *bench) load(ctx context.Context, server cpuMeter, v *variant, ids []string) (values, error) {
	usage := func() (server1, worker time.Duration, allocated memory, err error) {
		allocated, err = v.worker.usedMemory(ctx, false)
		server1, err2 := cpuTime(server)
		worker, err3 := cpuTime(v.worker)
		return server1, worker, allocated, errors.Join(err, err2, err3)
	}
	server0, worker0, allocated0, err := usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var started atomic.Int64
	err = parallel(len(ids), func(i int) error {
		turnover := v.turnover(ids[i])
		for started.Add(1) <= int64(b.loadCycles) {
			if _, err := turnover(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(began)
	server1, worker1, allocated1, err2 := usage()
	n := float64(b.loadCycles)
	return values{
		"rate": n / took.Seconds(), "server": milliseconds(server1-server0) / n, "worker": milliseconds(worker1-worker0) / n,
		"objects": float64(allocated1.Objects-allocated0.Objects) / n, "bytes": float64(allocated1.Bytes-allocated0.Bytes) / 1024 / n,
	}, errors.Join(err, err2)
}
