package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/testkit/must"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// The bounds of a turnover beside that of the bare entity.
const (
	maxLatencyRatio    = 0.55
	minThroughputRatio = 1.10
	maxEvents          = 36
	maxActivities      = 1 // the step zero, which verify follows
	maxUpserts         = 3
)

// side is Burnish, or the bare entity, on one server.
type side struct {
	*place
	crew  crew
	host  string
	files string // the folder of its devices, where they are files
}

// sides starts Burnish and the bare entity, each with a control worker and a host of its own, whose
// devices are simulated; or files, where schedulers allocate what is in the inventory.
func (b *bench) sides(p *place, slots int, scheduled bool, store func(dir string) inventory.Store) []*side {
	all := []*side{
		{place: p, host: p.Host + "-product", crew: crew{queue: contract.Queue}},
		{place: p, host: p.Host + "-baseline", crew: crew{queue: "burnish-bench-baseline", plain: true}},
	}
	for _, s := range all {
		dir := must.Get(b.folder(s.host))
		s.crew.store, s.crew.steps = store(dir), must.Get(b.realSteps(p, s.host, dir, slots))
		if s.crew.scheduled = scheduled; scheduled {
			s.files = must.Get(b.folder(s.host, "files"))
		}
		s.crew.hosts, s.crew.signaled = []string{s.host}, contract.ActivityUnreserve
		must.Get(b.start(p, s.crew))
	}
	return all
}

// add enrolls a device and waits until it is available.
func (s *side) add(ctx context.Context, name string) (id string, err error) {
	e := fakeDevice(s.host+"-"+name, s.host)
	if s.files != "" {
		e.Driver, e.Settings = "block", map[string]string{"path": filepath.Join(s.files, e.Name)}
		if err := os.WriteFile(e.Settings["path"], make([]byte, 4096), 0o600); err != nil {
			return "", err
		}
	}
	if !s.crew.plain {
		return s.enroll(ctx, contract.EnrollInput{Enrollment: e, Provide: true})
	}
	options := client.DeviceStart(e, contract.Hardware{})
	options.TaskQueue = s.crew.queue
	if _, err := s.sdk.ExecuteWorkflow(ctx, options, entityWorkflow,
		entity{Enrollment: e, Queue: s.crew.queue}); err != nil {
		return "", err
	}
	return options.ID, s.await(ctx, options.ID, device.Available)
}

// turnover measures orchestration alone: latency, history, throughput, and memory. The devices are
// simulated, and so small that erasing them takes no time.
func (b *bench) turnover(ctx context.Context) {
	fleet, idle := scale(b, 100, 20), scale(b, 5000, 300)
	worker.SetStickyWorkflowCacheSize(idle + 10*fleet)
	p := must.Get(b.place(ctx, "turnover"))
	sides := b.sides(p, fleet, false, func(dir string) inventory.Store { return must.Get(fileStore(ctx, dir)) })
	id := b.latencies(ctx, sides)
	b.throughputs(ctx, sides, fleet)
	b.progress("turnover: until the device continues as new")
	x := p.sample(ctx, id)
	b.add(single("  events of an idle device, just continued as new", "", float64(x.events)).atMost(maxIdleEvents))
	b.progress("turnover: %d idle devices", idle)
	b.idle(ctx, p, idle, func(i int) string { return x.copy(ctx, p, fmt.Sprintf("idle-%05d", i), p.Host, 0) })
}

// latencies measures one device of each side at a time, and what its turnovers leave in the history. It
// returns the product's.
func (b *bench) latencies(ctx context.Context, sides []*side) (id string) {
	var ids []string
	var all []measurement
	for _, s := range sides {
		id := must.Get(s.add(ctx, "one"))
		ids, all = append(ids, id), append(all, s.turnover(id))
	}
	b.progress("turnover: one device a side")
	got := warm(ctx, scale(b, 24, 5), scale(b, 200, 20), all...)
	var prints []footprint
	for i, s := range sides {
		var f footprint
		found := must.Get(s.runs(ctx, ids[i], func(events []*historypb.HistoryEvent) bool {
			var turnovers int
			f, turnovers = footprintOf(events)
			return turnovers >= 2
		}))
		must.Be(found, "no run of %s has two turnovers", ids[i])
		prints = append(prints, f)
	}
	must.Do(checkBaseline(prints[1]))
	b.note("turnover: %d turnovers of one device a side, in turn", len(got[0]["turnover"]))
	b.add(
		compared("turnover, median (baseline: a bare entity)", "ms", got[0]["turnover"],
			got[1]["turnover"]).ratioAtMost(maxLatencyRatio),
		single("  events", "", prints[0].events).atMost(maxEvents),
		single("  activities", "", prints[0].activities).atMost(maxActivities),
		single("  writes of search attributes", "", prints[0].upserts).atMost(maxUpserts),
	)
	return ids[0]
}

// throughputs measures a fleet of each side at once, and the processor time of the server.
func (b *bench) throughputs(ctx context.Context, sides []*side, fleet int) {
	b.progress("turnover: %d devices at once", fleet)
	var all []measurement
	for _, s := range sides {
		ids := collect(10, fleet, func(i int) string { return must.Get(s.add(ctx, fmt.Sprintf("many-%d", i))) })
		all = append(all, func(ctx context.Context) (values, error) {
			return load(fleet, fleet, []running{s.Server.Process}, func(i int) error {
				_, err := s.turnover(ids[i])(ctx)
				return err
			})
		})
	}
	got := must.Get(interleave(ctx, scale(b, 6, 1), all...))
	b.note("turnover: %d rounds a side of %d turnovers at once", len(got[0]["rate"]), fleet)
	b.add(
		compared(fmt.Sprintf("turnovers of %d devices at once", fleet), "/s", got[0]["rate"],
			got[1]["rate"]).ratioAtLeast(minThroughputRatio),
		compared("  server's processor time for each", "ms", got[0]["processor"], got[1]["processor"]),
	)
}

// load has so many devices do so many acts, each the next as soon as its last has ended. It measures
// the "rate" of the acts a second, and the "processor" time of these processes for each.
func load(devices, acts int, of []running, act func(i int) error) (values, error) {
	used := func() (sum time.Duration, err error) {
		for _, p := range of {
			t, err2 := groupTime(p)
			sum, err = sum+t, errors.Join(err, err2)
		}
		return sum, err
	}
	before, err := used()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var begun atomic.Int64
	err = parallel(devices, devices, func(i int) error {
		for begun.Add(1) <= int64(acts) {
			if err := act(i); err != nil {
				return err
			}
		}
		return nil
	})
	elapsed := time.Since(began)
	after, err2 := used()
	n := float64(acts)
	return values{"rate": n / elapsed.Seconds(), "processor": milliseconds(after-before) / n}, errors.Join(err, err2)
}

// footprint is what one turnover leaves in the history, on average over whole ones.
type footprint struct{ events, activities, upserts float64 }

// footprintOf counts from the first bind to the last: whole turnovers, wherever the run
// began and ended.
func footprintOf(events []*historypb.HistoryEvent) (f footprint, turnovers int) {
	var binds []int
	for i, e := range events {
		request := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest()
		if request.GetInput().GetName() == contract.VerbBind.Update() {
			binds = append(binds, i)
		}
	}
	if turnovers = len(binds) - 1; turnovers < 1 {
		return f, 0
	}
	for _, e := range events[binds[0]:binds[turnovers]] {
		f.events++
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			f.activities++
		case enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
			f.upserts++
		}
	}
	n := float64(turnovers)
	return footprint{f.events / n, f.activities / n, f.upserts / n}, turnovers
}

// checkBaseline checks that the baseline is the plain way: each call an activity, each change of the
// state a write of search attributes. A slower one would flatter the product.
func checkBaseline(f footprint) error {
	const calls = 5
	if f.activities != calls || f.upserts != calls {
		return fmt.Errorf("a turnover of the baseline has %g activities and %g upserts, and must have %d of each",
			f.activities, f.upserts, calls)
	}
	return nil
}
