package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// The bounds of a turnover beside that of Ironic: deploy, delete, clean, available.
const (
	maxPeerTime      = 1.0 / 3
	minPeerRate      = 25 // turnovers a second of the largest fleet
	minPeerRatio     = 2  // of that rate
	maxPeerProcessor = 1
)

// enoughRounds of a fleet make a bound certain.
const enoughRounds = 4

// states waits, as a client does that only reads, until a device is in a state and takes the next
// request. It returns when the state was first seen.
type states func(ctx context.Context, id, state string) (time.Time, error)

// peer is one side of the comparison.
type peer struct {
	name string
	// processes are all of this side, by what they are.
	processes map[string]cpuMeter
	// add makes a device that is available.
	add func(ctx context.Context, name string) (id string, err error)
	// poll waits for one device by reading it again and again.
	poll states
	// list reads the state of all devices in one request.
	list func(ctx context.Context) (map[string]string, error)
	// is reads one device, where a list may lag behind it; nil: it does not.
	is func(ctx context.Context, id, state string) (bool, error)
	// turnover gives the device away, takes it back and waits until it is available.
	turnover func(ctx context.Context, id string, await states) (values, error)
}

func (p *peer) one(id string) measurement {
	return func(ctx context.Context) (values, error) { return p.turnover(ctx, id, p.poll) }
}

// listed waits until the list shows the state, and the device itself has it.
func (p *peer) listed(await states) states {
	if p.is == nil {
		return await
	}
	return func(ctx context.Context, id, state string) (time.Time, error) {
		for {
			if _, err := await(ctx, id, state); err != nil {
				return time.Time{}, err
			}
			if is, err := p.is(ctx, id, state); err != nil || is {
				return time.Now(), err
			}
		}
	}
}

// peers measures Burnish and Ironic side by side, both asked over the network only. A note says
// where Ironic is not installed.
func (b *bench) peers(ctx context.Context) error {
	if missing := openstack.MissingIronic(); missing != "" {
		b.note("peers: skipped: %s", missing)
		return nil
	}
	dir, err := b.folder("ironic")
	if err != nil {
		return err
	}
	b.progress("peers: starting Ironic")
	ironic, err := openstack.StartIronic(ctx, dir)
	if err != nil {
		return err
	}
	b.atEnd(ironic.Stop)
	if dir, err = b.folder("peers"); err != nil {
		return err
	}
	ours, err := b.burnishPeer(ctx, dir)
	if err != nil {
		return err
	}
	theirs := ironicPeer(ironic, false)
	b.note("peers: Burnish and Ironic with fake hardware, each on SQLite (WAL, synchronous=2), asked over loopback; states are polled")
	if err := b.peersOne(ctx, ours, theirs, ironicPeer(ironic, true)); err != nil {
		return err
	}
	for i, fleet := range b.peerFleets {
		if err := b.peersMany(ctx, ours, theirs, fleet, i == len(b.peerFleets)-1); err != nil {
			return err
		}
	}
	return nil
}

// peersOne measures one device of each side at a time.
func (b *bench) peersOne(ctx context.Context, all ...*peer) error {
	var turnovers []measurement
	for _, p := range all {
		id, err := p.add(ctx, p.name+"-one")
		if err != nil {
			return err
		}
		turnovers = append(turnovers, p.one(id))
	}
	b.progress("peers: one device at a time")
	if _, err := interleave(ctx, b.peerWarmUp, turnovers...); err != nil {
		return err
	}
	got, err := interleave(ctx, b.peerRounds, turnovers...)
	if err != nil {
		return err
	}
	ours, theirs, steps := got[0], got[1], got[2]
	compare := func(name string, ours, theirs []float64) figure {
		return compared(name, "ms", median(ours), median(theirs), quantileRatio(ours, theirs, 0.5))
	}
	b.note("peers: %d turnovers of one device a side, in turn", len(ours["turnover"]))
	b.add(
		compare("turnover, median, Ironic's deploy + delete + clean", ours["turnover"], theirs["turnover"]).ratioAtMost(maxPeerTime),
		compare("from unbind to available, Ironic's delete + clean", ours["clean"], theirs["clean"]),
		compare("turnover, median, Ironic's with two clean steps", ours["turnover"], steps["turnover"]),
		compare("from unbind to available, Ironic's with two clean steps", ours["clean"], steps["clean"]),
	)
	return nil
}

// peersMany measures a fleet of each side at once.
func (b *bench) peersMany(ctx context.Context, ours, theirs *peer, fleet int, bounded bool) error {
	b.progress("peers: %d devices at once", fleet)
	var all []measurement
	for _, p := range []*peer{ours, theirs} {
		ids := make([]string, fleet)
		if err := parallelAtMost(10, fleet, func(i int) (err error) {
			ids[i], err = p.add(ctx, fmt.Sprintf("%s-%d-of-%d", p.name, i, fleet))
			return err
		}); err != nil {
			return err
		}
		all = append(all, func(ctx context.Context) (values, error) { return p.load(ctx, ids, b.peerCycles*fleet) })
	}
	got, err := interleave(ctx, b.peerLoads, all...)
	if err != nil {
		return err
	}
	rate, processor := got[0]["rate"], got[0]["processor"]
	rates := compared(fmt.Sprintf("turnovers of %d devices at once, beside Ironic", fleet), "/s",
		median(rate), median(got[1]["rate"]), pairedRatio(rate, got[1]["rate"]))
	times := compared(fmt.Sprintf("processor time a turnover of %d at once, beside Ironic", fleet), "ms",
		median(processor), median(got[1]["processor"]), pairedRatio(processor, got[1]["processor"]))
	if bounded {
		rates, times = rates.ratioAtLeast(minPeerRatio), times.ratioAtMost(maxPeerProcessor)
	}
	b.add(rates, times)
	if bounded {
		absolute := single(fmt.Sprintf("turnovers of %d devices at once", fleet), "/s", median(rate))
		b.add(absolute.bounded(fmt.Sprintf("≥ %d /s", minPeerRate), absolute.Product < minPeerRate, len(rate) >= enoughRounds))
	}
	for i, p := range []*peer{ours, theirs} {
		for name := range p.processes {
			b.note("peers: %d at once: %s: %s %.1f ms of processor time a turnover", fleet, p.name, name, median(got[i][name]))
		}
		b.note("peers: %d at once: %s: %d rounds of %d turnovers, %.2f lists a turnover", fleet, p.name, len(got[i]["rate"]), b.peerCycles*fleet, median(got[i]["lists"]))
	}
	return nil
}

// load is one round of turnovers by a whole fleet, which one client watches.
func (p *peer) load(ctx context.Context, ids []string, turnovers int) (values, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := p.processorTimes()
	if err != nil {
		return nil, err
	}
	w := newWatcher(p.list)
	watching := make(chan struct{})
	go func() { defer close(watching); w.run(ctx) }()
	began := time.Now()
	var started atomic.Int64
	err = parallel(len(ids), func(i int) error {
		for started.Add(1) <= int64(turnovers) {
			if _, err := p.turnover(ctx, ids[i], p.listed(w.await)); err != nil {
				cancel() // the others wait in vain
				return err
			}
		}
		return nil
	})
	took := time.Since(began)
	cancel()
	<-watching
	after, err2 := p.processorTimes()
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	n := float64(turnovers)
	v := values{"rate": n / took.Seconds(), "lists": float64(w.lists) / n}
	for name := range p.processes {
		v[name] = milliseconds(after[name]-before[name]) / n
		v["processor"] += v[name]
	}
	return v, nil
}

func (p *peer) processorTimes() (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	var errs []error
	for name, process := range p.processes {
		var err error
		times[name], err = groupTime(process)
		errs = append(errs, err)
	}
	return times, errors.Join(errs...)
}

// burnishPeer starts a server and a worker of this program. Bind and unbind are answered when they
// are done, so that only the clean is waited for.
func (b *bench) burnishPeer(ctx context.Context, dir string) (*peer, error) {
	server, err := b.server(ctx, dir)
	if err != nil {
		return nil, err
	}
	v := &variant{name: "peer", task: task{
		Product: true, Real: true, Queue: contract.Queue, Host: "bench-peer", Address: server.Address, Cache: 2000, Slots: 1000, Confirm: true,
	}}
	if err := b.startVariant(ctx, v); err != nil {
		return nil, err
	}
	return &peer{
		name:      "Burnish",
		processes: map[string]cpuMeter{"server": server.Process, "worker": v.worker},
		add:       v.enroll,
		list:      v.listStates,
		poll: func(ctx context.Context, id, state string) (time.Time, error) {
			err := v.await(ctx, id, device.State(state), turnoverWithin, pollEvery)
			return time.Now(), err
		},
		is: func(ctx context.Context, id, state string) (bool, error) {
			description, err := v.client.DescribeWorkflowExecution(ctx, id, "")
			if err != nil {
				return false, err
			}
			now, err := v.stateOf(description)
			return string(now) == state, err
		},
		turnover: func(ctx context.Context, id string, await states) (values, error) {
			began := time.Now()
			instance, err := v.bind(ctx, id)
			if err != nil {
				return nil, err
			}
			bound := time.Now()
			if err := v.unbind(ctx, id, instance); err != nil {
				return nil, err
			}
			available, err := await(ctx, id, string(device.Available))
			if err != nil {
				return nil, err
			}
			return turnoverTimes(began, bound, available), nil
		},
	}, nil
}

// listStates reads the states of all devices, as a listing does.
func (d devices) listStates(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	in := &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: 1000, Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", contract.WorkflowDeviceLifecycle),
	}
	for {
		page, err := d.client.ListWorkflow(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, one := range page.GetExecutions() {
			state, err := stateIn(one)
			if err != nil {
				return nil, err
			}
			found[one.GetExecution().GetWorkflowId()] = string(state)
		}
		if in.NextPageToken = page.GetNextPageToken(); len(in.NextPageToken) == 0 {
			return found, nil
		}
	}
}

// ironicPeer is Ironic with nodes whose cleans have two steps, or none.
func ironicPeer(ironic *openstack.Ironic, steps bool) *peer {
	// A node takes a request once no conductor has reserved it: a request before that waits a second.
	poll := func(ctx context.Context, id, state string) (seen time.Time, err error) {
		var failed error
		err = proc.Await(ctx, turnoverWithin, pollEvery, id+" to be "+state, func() (bool, string) {
			n, err := ironic.Node(ctx, id)
			if failed = errors.Join(err, n.Failed()); failed != nil {
				return true, ""
			}
			if n.State == state && seen.IsZero() {
				seen = time.Now()
			}
			return n.State == state && n.Reservation == "", n.State
		})
		return seen, errors.Join(err, failed)
	}
	name := "Ironic"
	if steps {
		name = "Ironic-steps"
	}
	return &peer{
		name:      name,
		processes: map[string]cpuMeter{"api": ironic.API, "conductor": ironic.Conductor},
		poll:      poll,
		add: func(ctx context.Context, name string) (string, error) {
			n, err := ironic.NewNode(ctx, name+"-"+uuid.NewString()[:8], steps)
			for _, to := range [][2]string{{"manage", "manageable"}, {"provide", "available"}} {
				if err == nil {
					err = ironic.Provision(ctx, n.UUID, to[0])
				}
				if err == nil {
					_, err = poll(ctx, n.UUID, to[1])
				}
			}
			return n.UUID, err
		},
		list: func(ctx context.Context) (map[string]string, error) {
			nodes, err := ironic.Nodes(ctx)
			found := map[string]string{}
			for _, n := range nodes {
				err = errors.Join(err, n.Failed())
				if n.Reservation == "" {
					found[n.UUID] = n.State
				}
			}
			return found, err
		},
		turnover: func(ctx context.Context, id string, await states) (values, error) {
			request := func(target, state string) (time.Time, error) {
				if err := ironic.Provision(ctx, id, target); err != nil {
					return time.Time{}, err
				}
				return await(ctx, id, state)
			}
			began := time.Now()
			if _, err := request("active", "active"); err != nil {
				return nil, err
			}
			taken := time.Now()
			available, err := request("deleted", "available")
			if err != nil {
				return nil, err
			}
			return turnoverTimes(began, taken, available), nil
		},
	}
}

// turnoverTimes are those of a device that was given away, taken back and available again.
func turnoverTimes(began, taken, available time.Time) values {
	return values{"turnover": milliseconds(available.Sub(began)), "clean": milliseconds(available.Sub(taken))}
}
