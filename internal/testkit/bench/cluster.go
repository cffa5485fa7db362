package main

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/time/rate"

	"go.temporal.io/sdk/worker"

	"burnish/internal/inventory"
	"burnish/internal/testkit/cluster"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/site"
)

// The namespaces of the real workers, and of a large fleet.
const (
	sizing = "sizing"
	large  = "large"
)

// cluster measures turnovers on a Temporal cluster, on PostgreSQL and two servers: those of one device beside
// the bare entity there and beside Burnish on SQLite; those of many at once; and what one costs each process.
func (b *bench) cluster(ctx context.Context) {
	if missing := cluster.Missing(); missing != "" {
		b.note("cluster: skipped: %s", missing)
		return
	}
	fleet := scale(b, 1000, 50)
	worker.SetStickyWorkflowCacheSize(10 * fleet)
	c := must.Get(cluster.Start(ctx, cluster.Options{Programs: filepath.Dir(b.programs.Server),
		Dir: must.Get(b.folder("cluster-server"))}))
	b.atEnd(c.Stop)
	server := &site.Server{Address: c.Address}
	for _, namespace := range []string{site.DefaultNamespace, sizing, large} {
		must.Do(server.NewNamespace(ctx, namespace))
	}
	store := func(dir string) inventory.Store { return must.Get(fileStore(ctx, dir)) }
	there := b.sides(must.Get(b.placeOn(server, site.DefaultNamespace, "cluster")), fleet, false, store)
	here := b.sides(must.Get(b.place(ctx, "cluster-sqlite")), fleet, false, store)
	three := []*side{there[0], there[1], here[0]} // Burnish, the bare entity, Burnish on SQLite
	b.progress("cluster: one device a side")
	var one, many []measurement
	for _, s := range three {
		one = append(one, s.turnover(must.Get(s.add(ctx, "one"))))
	}
	got := warm(ctx, scale(b, 12, 3), scale(b, 60, 10), one...)
	b.add(
		compared("turnover on a cluster, median (baseline: a bare entity there)", "ms", got[0]["turnover"],
			got[1]["turnover"]).ratioAtMost(maxLatencyRatio),
		compared("  the same (baseline: Burnish on SQLite)", "ms", got[0]["turnover"], got[2]["turnover"]),
	)
	b.progress("cluster: %d devices at once", fleet)
	for _, s := range three {
		s.polls = rate.NewLimiter(fleetPolls, 1)
		ids := collect(10, fleet, func(i int) string { return must.Get(s.add(ctx, fmt.Sprintf("many-%d", i))) })
		many = append(many, func(ctx context.Context) (values, error) {
			return load(fleet, fleet, nil, func(i int) error {
				_, err := s.turnover(ids[i])(ctx)
				return err
			})
		})
	}
	got = must.Get(interleave(ctx, scale(b, 4, 1), many...))
	b.add(
		compared(fmt.Sprintf("  turnovers of %d devices at once (baseline: a bare entity there)", fleet), "/s",
			got[0]["rate"], got[1]["rate"]).ratioAtLeast(minThroughputRatio),
		compared("  the same (baseline: Burnish on SQLite)", "/s", got[0]["rate"], got[2]["rate"]),
	)
	b.sizes(ctx, c, must.Get(b.placeOn(server, sizing, "cluster-sizing")), fleet)
	devices := scale(b, 40000, 1000)
	b.fleetOn(ctx, must.Get(b.placeOn(server, large, "cluster-fleet")), fmt.Sprintf(", of %d on a cluster", devices),
		devices, scale(b, 2000, 20))
}

// sizes measures the processor time of a turnover in each kind of process, with real workers.
func (b *bench) sizes(ctx context.Context, c *cluster.Cluster, p *place, fleet int) {
	b.progress("cluster: real workers")
	p.polls = rate.NewLimiter(fleetPolls, 1)
	control, host := p.Worker("control", noSweep), p.Worker("host", fmt.Sprintf("BURNISH_MAX_CLEANS_PER_HOST=%d", fleet))
	for _, w := range []*site.Worker{control, host} {
		must.Do(w.Start(ctx))
		b.atEnd(func() error { return w.Process.Stop() })
	}
	ids := collect(10, fleet, func(i int) string { return must.Get(p.enrollFake(ctx, fmt.Sprintf("d%d", i))) })
	kinds := []struct {
		name string
		of   []running
	}{
		{"the two servers", []running{c.Servers[0], c.Servers[1]}}, {"the database", []running{c.Database}},
		{"the control worker", []running{control}}, {"the host worker", []running{host}},
	}
	used := func(of []running) (ms float64) {
		for _, p := range of {
			ms += milliseconds(must.Get(groupTime(p)))
		}
		return ms
	}
	var before []float64
	for _, k := range kinds {
		before = append(before, used(k.of))
	}
	turnovers := 2 * fleet
	rate := must.Get(load(fleet, turnovers, nil, func(i int) error {
		_, err := p.turnover(ids[i])(ctx)
		return err
	}))["rate"]
	b.add(single(fmt.Sprintf("  turnovers of %d devices at once, real workers", fleet), "/s", rate))
	for i, k := range kinds {
		b.add(single("  processor time of one: "+k.name, "ms", (used(k.of)-before[i])/float64(turnovers)))
	}
}
