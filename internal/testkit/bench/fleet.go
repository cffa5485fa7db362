package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"golang.org/x/time/rate"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/backends"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	maxFirstUpdate = 5000 // milliseconds from the start of a control worker
	maxListExtra   = 1000 // milliseconds of a listing beyond Temporal's own
	minManyRatio   = 0.8  // of the rate of few devices at once
	// fleetWithin bounds one turnover of many at once.
	fleetWithin = 10 * time.Minute
	// fleetPolls is how often in a second states are asked for, of all devices together: with a
	// pace for each, the questions of many that wait take the server's processors.
	fleetPolls = 200
	// startBatch is how many devices of the fleet are started at once.
	startBatch = 100
)

// fleet is many devices on many hosts, and one control worker. The hosts are SDK workers of
// this process, one for each host's queue, whose steps do nothing.
type fleet struct {
	devices
	*site.Site
	control *site.Worker
	names   []string

	mu       sync.Mutex
	verified map[string]chan struct{} // by device: the last step of its clean has ended
}

func hostOf(i, hosts int) string { return fmt.Sprintf("rack%03d", i%hosts) }

// largeFleet measures one control worker with a large fleet.
func (b *bench) largeFleet(ctx context.Context) error {
	dir, err := b.folder("fleet")
	if err != nil {
		return err
	}
	server, err := b.server(ctx, dir)
	if err != nil {
		return err
	}
	f := &fleet{devices: devices{polls: rate.NewLimiter(fleetPolls, 1)}, verified: map[string]chan struct{}{}}
	if f.Site, err = site.New(b.programs, server, site.DefaultNamespace, "control", dir); err != nil {
		return err
	}
	if f.client, err = server.Dial(site.DefaultNamespace); err != nil {
		return err
	}
	b.atEnd(func() error { f.client.Close(); return nil })
	if err := b.populate(ctx, f); err != nil {
		return err
	}
	f.control = f.Worker("control", fmt.Sprintf("BURNISH_WORKFLOW_CACHE=%d", b.fleetDevices+b.fleetDevices/10))
	b.atEnd(func() error { return f.control.Process.Stop() })
	if err := f.startHosts(b); err != nil {
		return err
	}
	b.progress("fleet: %d starts of the control worker", b.fleetStarts)
	if err := f.starts(ctx, b); err != nil {
		return err
	}
	b.progress("fleet: listings")
	if err := f.listings(ctx, b); err != nil {
		return err
	}
	return f.rates(ctx, b)
}

// populate starts the devices on the server, in the cache of a worker that then ends, and
// measures the memory that they take there. Each is a copy of one that has turned over until
// its run continued as new; those that will turn over have a provider in the inventory.
func (b *bench) populate(ctx context.Context, f *fleet) error {
	v := &variant{name: "fleet-seed", task: task{
		Product: true, Real: true, Queue: contract.Queue, Host: "bench-fleet", Address: f.Server.Address, Cache: b.fleetDevices + b.fleetDevices/10, Slots: 1,
	}}
	if err := b.startVariant(ctx, v); err != nil {
		return err
	}
	b.progress("fleet: the device that all are copies of")
	x, err := v.availableSample(ctx)
	if err != nil {
		return err
	}
	generations, err := f.provide(ctx, b)
	if err != nil {
		return err
	}
	before, err := v.worker.usedMemory(ctx, true)
	if err != nil {
		return err
	}
	b.progress("fleet: starting %d devices on %d hosts", b.fleetDevices, b.fleetHosts)
	began := time.Now()
	from := 0
	for ; from < b.fleetDevices && time.Since(began) < b.fleetTime; from += startBatch {
		batch := f.names[from : from+startBatch]
		if err := parallel(len(batch), func(i int) error {
			return v.startCopy(ctx, x, batch[i], hostOf(from+i, b.fleetHosts), generations[batch[i]])
		}); err != nil {
			return err
		}
		if err := v.awaitCached(ctx, from+len(batch)+1); err != nil {
			return err
		}
	}
	if from < b.fleetDevices {
		b.note("fleet: only %d of %d devices could be started in %s", from, b.fleetDevices, b.fleetTime)
		b.fleetDevices, f.names = from, f.names[:from]
	}
	if most := b.fleetAtOnce + b.fleetFew + b.fleetStarts; from < most {
		return fmt.Errorf("fleet: %d devices are too few for turnovers of %d", from, most)
	}
	took := time.Since(began)
	after, err := v.worker.usedMemory(ctx, true)
	if err != nil {
		return err
	}
	kib := func(after, before uint64) float64 {
		return (float64(after) - float64(before)) / 1024 / float64(b.fleetDevices)
	}
	b.note("fleet: %d devices on %d hosts, started in %.0f s; each with %s", b.fleetDevices, b.fleetHosts, took.Seconds(), x)
	b.add(
		boundedMemory(single(fmt.Sprintf("fleet of %d: worker's memory a device", b.fleetDevices), "KiB", kib(after.Heap, before.Heap)+kib(after.Stack, before.Stack)), b.fleetDevices),
		single("  of it live objects", "KiB", kib(after.Live, before.Live)),
		single("  of it stacks", "KiB", kib(after.Stack, before.Stack)),
	)
	return b.stopLast(v)
}

// stopLast ends the worker of a variant that was started last, and its client.
func (b *bench) stopLast(v *variant) error {
	b.stops = b.stops[:len(b.stops)-2]
	v.client.Close()
	return v.worker.stop()
}

// availableSample enrolls a device and turns it over until its run continues as new while it
// is available and its records are full.
func (v *variant) availableSample(ctx context.Context) (x sample, err error) {
	id, err := v.enroll(ctx, "one")
	if err != nil {
		return x, err
	}
	const most = 60
	for range most {
		events, err := v.idleHistory(ctx, id)
		if err != nil {
			return x, err
		}
		if x, err = newSample(v, id, events[0].GetWorkflowExecutionStartedEventAttributes()); err != nil {
			return x, err
		}
		if s := x.product.State; x.state == device.Available && len(s.History) == contract.KeptBindings && len(s.Recent) == contract.KeptUpdates {
			return x, nil
		}
		if bound := x.product.State.Device.Binding; bound != nil {
			if err := v.unbindAndClean(ctx, id, bound.Instance); err != nil {
				return x, err
			}
		}
	}
	return x, fmt.Errorf("%s continued as new %d times, and never available with full records", id, most)
}

// provide names the devices, and creates free providers of those that will turn over. It
// returns their generations.
func (f *fleet) provide(ctx context.Context, b *bench) (map[string]int64, error) {
	for i := range b.fleetDevices {
		f.names = append(f.names, fmt.Sprintf("%s-%05d", hostOf(i, b.fleetHosts), i))
	}
	store, err := backends.Open(ctx, "file", backends.Options{Dir: filepath.Join(f.State, "inventory")})
	if err != nil {
		return nil, err
	}
	generations := map[string]int64{}
	for _, name := range f.active(b) {
		p := inventory.Provider{
			UUID: contract.DeviceUUID(name), Name: name, Class: "CUSTOM_BENCH",
			Hardware: device.Identity{Serial: name}.Hardware(),
		}
		if err := store.Create(ctx, p); err != nil {
			return nil, err
		}
		before, err := store.Reservation(ctx, p.UUID)
		if err != nil {
			return nil, err
		}
		free, err := store.PutReserved(ctx, p.UUID, before.Generation, 0, &device.Record{Witness: device.WitnessFree})
		if err != nil {
			return nil, err
		}
		generations[name] = free.Generation
	}
	return generations, nil
}

// active are the devices that turn over: the many, the few, and one for each start.
func (f *fleet) active(b *bench) []string {
	return f.names[:b.fleetAtOnce+b.fleetFew+b.fleetStarts]
}

// startHosts starts one worker for each host. Its discovery finds what was enrolled.
func (f *fleet) startHosts(b *bench) error {
	do := map[string]any{"zero": f.zero, "verify": f.verify, contract.ActivityDiscover: noops.host[contract.ActivityDiscover]}
	for i := range b.fleetHosts {
		w := worker.New(f.client, contract.HostQueue(hostOf(i, b.fleetHosts)), worker.Options{DisableWorkflowWorker: true})
		for name, run := range do {
			w.RegisterActivityWithOptions(run, activity.RegisterOptions{Name: name})
		}
		if err := w.Start(); err != nil {
			return err
		}
		b.atEnd(func() error { w.Stop(); return nil })
	}
	return nil
}

func (f *fleet) zero(ctx context.Context, in contract.StepInput) (contract.StepAnswer, error) {
	if in.Next != nil {
		if _, err := f.verify(ctx, in.Following(0)); err != nil {
			return contract.StepAnswer{}, err
		}
	}
	return noopSteps(ctx, in)
}

func (f *fleet) verify(ctx context.Context, in contract.StepInput) (contract.StepResult, error) {
	select {
	case f.afterVerify(in.Enrollment.Name) <- struct{}{}:
	default: // another attempt
	}
	return noopStep(ctx, in)
}

func (f *fleet) afterVerify(name string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.verified[name] == nil {
		f.verified[name] = make(chan struct{}, 1)
	}
	return f.verified[name]
}

// turnover is bind, unbind, clean, available. It returns how long the bind took.
func (f *fleet) turnover(ctx context.Context, name string) (bound time.Duration, err error) {
	began := time.Now()
	instance, err := f.bind(ctx, contract.WorkflowID(name))
	bound = time.Since(began)
	if err != nil {
		return bound, err
	}
	return bound, f.unbindAndClean(ctx, name, instance)
}

func (f *fleet) unbindAndClean(ctx context.Context, name, instance string) error {
	if err := f.unbind(ctx, contract.WorkflowID(name), instance); err != nil {
		return err
	}
	select { // until then the server is not polled
	case <-f.afterVerify(name):
	case <-f.control.Done():
		return fmt.Errorf("%s ended: %s", f.control.Name, f.control.Tail())
	case <-time.After(fleetWithin):
		return fmt.Errorf("%s was not cleaned within %s", name, fleetWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
	return f.await(ctx, contract.WorkflowID(name), device.Available, fleetWithin, pollEvery)
}

// starts measures how long a control worker takes from its start to its first answer. The
// update is sent as the process starts, to a device that is not in its cache. The first start
// follows a worker that ended in order; before each later one the worker is killed, so that the
// server still assigns devices to it.
func (f *fleet) starts(ctx context.Context, b *bench) error {
	names := f.active(b)[b.fleetAtOnce+b.fleetFew:]
	var first float64
	var killed []float64
	for i, name := range names {
		if i > 0 {
			if err := f.control.Process.Kill(); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := f.control.Launch(); err != nil {
			return err
		}
		instance, err := f.bind(ctx, contract.WorkflowID(name))
		if err != nil {
			return err
		}
		took := milliseconds(time.Since(began))
		if i == 0 {
			first = took
		} else {
			killed = append(killed, took)
		}
		if err := f.unbindAndClean(ctx, name, instance); err != nil {
			return err
		}
	}
	b.add(
		single("  start of a control worker to its first answered update", "ms", first).atMost(maxFirstUpdate),
		single(fmt.Sprintf("  the same after kill -9, greatest of %d", len(killed)), "ms", slices.Max(killed)).atMost(maxFirstUpdate),
	)
	return nil
}

// listings compares the listing of the whole fleet with Temporal's own, and times doctor, which
// walks all hosts.
func (f *fleet) listings(ctx context.Context, b *bench) error {
	own := func() error {
		out, err := f.Must(ctx, "list")
		if lines := strings.Count(out, "\n"); err == nil && lines != b.fleetDevices+2 {
			err = fmt.Errorf("list has %d lines, not those of %d devices", lines, b.fleetDevices+1)
		}
		return err
	}
	temporal := func() error { return f.temporalList(ctx, b.fleetDevices+1) }
	if err := errors.Join(own(), temporal()); err != nil {
		return err
	}
	times := series{}
	for range b.fleetLists {
		if err := errors.Join(times.timed("list", own), times.timed("temporal", temporal)); err != nil {
			return err
		}
	}
	began := time.Now()
	r, err := f.Burnish(ctx, "doctor") // it may find something else to say: this machine has no hosts
	if err != nil {
		return err
	}
	walked := time.Since(began)
	if shown := strings.Count(r.Stdout, "rack"); shown < b.fleetHosts {
		return fmt.Errorf("doctor shows %d of %d hosts: %s", shown, b.fleetHosts, r)
	}
	b.add(
		beyond("  `burnish list` beyond Temporal's own listing, median", times["list"], times["temporal"], maxListExtra),
		single("  of it Temporal's listing", "ms", median(times["temporal"])),
		single(fmt.Sprintf("  `burnish doctor` with %d hosts", b.fleetHosts), "ms", milliseconds(walked)),
	)
	return nil
}

// temporalList reads the devices' runs by Temporal's own call, in pages as large as it gives.
func (f *fleet) temporalList(ctx context.Context, want int) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: (client.Filter{}).Query(), PageSize: 1000}
	for found := 0; ; {
		page, err := f.client.ListWorkflow(ctx, request)
		if err != nil {
			return err
		}
		found += len(page.GetExecutions())
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) > 0 {
			continue
		}
		if found < want { // an ended run may be listed beside the present one
			err = fmt.Errorf("Temporal lists %d devices of %d", found, want) //nolint:staticcheck // a name
		}
		return err
	}
}

// rates compares the turnovers of very many devices at once with those of few.
func (f *fleet) rates(ctx context.Context, b *bench) error {
	many, few := f.names[:b.fleetAtOnce], f.names[b.fleetAtOnce:b.fleetAtOnce+b.fleetFew]
	b.progress("fleet: turnovers of %d devices at once", b.fleetAtOnce)
	got, err := interleave(ctx, exactly(b.fleetRounds), f.steady(many, b.fleetAtOnce), f.steady(few, b.fleetAtOnce))
	if err != nil {
		return err
	}
	b.note("fleet: %d rounds, each of %d turnovers in steady state; the baseline is %d devices at once of the same fleet", b.fleetRounds, b.fleetAtOnce, b.fleetFew)
	b.add(
		compared(fmt.Sprintf("  turnovers of %d devices at once, %d at once", b.fleetAtOnce, b.fleetFew), "/s",
			median(got[0]["rate"]), median(got[1]["rate"]), pairedRatio(got[0]["rate"], got[1]["rate"])).ratioAtLeast(minManyRatio),
		counted("  a bind among them, median", "ms", median(got[0]["bind"]), median(got[1]["bind"])),
	)
	return nil
}

// steady measures n turnovers of devices that all turn over again and again: from when half as
// many turnovers as devices have ended, until n more have.
func (f *fleet) steady(names []string, n int) measurement {
	return func(ctx context.Context) (values, error) {
		var mu sync.Mutex
		var started int
		var ends []time.Time
		var binds []float64
		next := func() bool {
			mu.Lock()
			defer mu.Unlock()
			started++
			return started <= n+len(names)
		}
		err := parallel(len(names), func(i int) error {
			for next() {
				bound, err := f.turnover(ctx, names[i])
				if err != nil {
					return err
				}
				mu.Lock()
				ends, binds = append(ends, time.Now()), append(binds, milliseconds(bound))
				mu.Unlock()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		from := len(names) / 2
		return values{"rate": float64(n-1) / ends[from+n-1].Sub(ends[from]).Seconds(), "bind": median(binds[from : from+n])}, nil
	}
}
