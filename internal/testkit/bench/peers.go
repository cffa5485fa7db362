package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/client"
)

// The bounds of a turnover beside that of Ironic: deploy, delete, clean, available.
const (
	maxPeerTime      = 0.30
	minPeerRatio     = 3 // of the rate of many at once
	maxPeerProcessor = 0.4
)

// states waits, as a client does that only reads, until a device is in a state and takes the next
// request. It returns when the state was first seen.
type states func(ctx context.Context, id, state string) (time.Time, error)

// peer is one side of the comparison.
type peer struct {
	name string
	// processes are all of this side.
	processes []running
	// add makes a device that is available.
	add func(ctx context.Context, name string) (id string, err error)
	// poll waits for one device by reading it again and again.
	poll states
	// list reads the state of all devices in one request.
	list func(ctx context.Context) (map[string]string, error)
	// turnover gives the device away, takes it back and waits until it is available.
	turnover func(ctx context.Context, id string, await states) (available time.Time, err error)
}

// peers measures Burnish and Ironic side by side, both asked over the network only. A note says
// where Ironic is not installed.
func (b *bench) peers(ctx context.Context) {
	if missing := openstack.MissingIronic(); missing != "" {
		b.note("peers: skipped: %s", missing)
		return
	}
	ironic := must.Get(openstack.StartIronic(ctx, must.Get(b.folder("ironic"))))
	b.atEnd(ironic.Stop)
	ours := must.Get(b.installation(ctx, "peers", "BURNISH_DRIVERS=fake", "BURNISH_MAX_CLEANS_PER_HOST=1000"))
	var one, many []measurement
	fleet := scale(b, 100, 20)
	for _, p := range []*peer{burnishPeer(ours), ironicPeer(ironic)} {
		ids := collect(10, fleet, func(i int) string { return must.Get(p.add(ctx, fmt.Sprintf("%s-%d", p.name, i))) })
		one = append(one, func(ctx context.Context) (values, error) {
			began := time.Now()
			available, err := p.turnover(ctx, ids[0], p.poll)
			return values{took: milliseconds(available.Sub(began))}, err
		})
		many = append(many, func(ctx context.Context) (values, error) { return p.load(ctx, ids) })
	}
	b.progress("peers: one device at a time")
	got := warm(ctx, scale(b, 10, 3), scale(b, 150, 15), one...)
	b.add(compared("turnover, median (baseline: Ironic's deploy + delete + clean)", "ms", got[0][took],
		got[1][took]).ratioAtMost(maxPeerTime))
	b.progress("peers: %d devices at once", fleet)
	got = must.Get(interleave(ctx, scale(b, someRounds, 1), many...))
	b.add(
		compared(fmt.Sprintf("  turnovers of %d devices at once", fleet), "/s", got[0]["rate"],
			got[1]["rate"]).ratioAtLeast(minPeerRatio),
		compared("  processor time for each", "ms", got[0]["processor"], got[1]["processor"]).ratioAtMost(maxPeerProcessor),
	)
}

// load is one round of two turnovers by each device of a fleet, which one client watches.
func (p *peer) load(ctx context.Context, ids []string) (values, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := newWatcher()
	watching := make(chan struct{})
	go func() { defer close(watching); w.run(ctx, p.list) }()
	defer func() { cancel(); <-watching }()
	return load(len(ids), 2*len(ids), p.processes, func(i int) error {
		_, err := p.turnover(ctx, ids[i], w.await)
		if err != nil {
			cancel() // the others wait in vain
		}
		return err
	})
}

// burnishPeer is a real server and worker. Bind and unbind are answered when they are done, so that
// only the clean is waited for.
func burnishPeer(p *place) *peer {
	return &peer{
		name: "Burnish", processes: []running{p.Server.Process, p.worker}, add: p.enrollFake, list: p.listStates,
		poll: func(ctx context.Context, id, state string) (time.Time, error) {
			err := p.await(ctx, id, device.State(state))
			return time.Now(), err
		},
		turnover: func(ctx context.Context, id string, await states) (time.Time, error) {
			instance, err := p.bind(ctx, id)
			if err == nil {
				err = p.unbind(ctx, id, instance)
			}
			if err != nil {
				return time.Time{}, err
			}
			for { // a list may lag behind the device
				available, err := await(ctx, id, string(device.Available))
				if err != nil {
					return available, err
				}
				if now, err := p.state(ctx, id); err != nil || now == device.Available {
					return available, err
				}
			}
		},
	}
}

// listStates reads the states of all devices by Temporal's own listing, in pages as large as it gives.
func (p *place) listStates(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	in := &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000, Query: (client.Filter{}).Query()}
	for {
		page, err := p.sdk.ListWorkflow(ctx, in)
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

// ironicPeer is Ironic with nodes whose cleans have no step.
func ironicPeer(ironic *openstack.Ironic) *peer {
	// A node takes a request once no conductor has reserved it: a request before that waits a second.
	poll := func(ctx context.Context, id, state string) (seen time.Time, err error) {
		err = awaitNoError(ctx, time.Millisecond, id+" to be "+state, func() (bool, string, error) {
			n, err := ironic.Node(ctx, id)
			if err == nil {
				err = n.Failed()
			}
			if n.State == state && seen.IsZero() {
				seen = time.Now()
			}
			return n.State == state && n.Reservation == "", n.State, err
		})
		return seen, err
	}
	request := func(ctx context.Context, id, target, state string, await states) (time.Time, error) {
		if err := ironic.Provision(ctx, id, target); err != nil {
			return time.Time{}, err
		}
		return await(ctx, id, state)
	}
	return &peer{
		name: "Ironic", processes: []running{ironic.API, ironic.Conductor}, poll: poll,
		add: func(ctx context.Context, name string) (string, error) {
			n, err := ironic.NewNode(ctx, name+"-"+uuid.NewString()[:8])
			if err == nil {
				_, err = request(ctx, n.UUID, "manage", "manageable", poll)
			}
			if err == nil {
				_, err = request(ctx, n.UUID, "provide", "available", poll)
			}
			return n.UUID, err
		},
		list: func(ctx context.Context) (map[string]string, error) {
			nodes, err := ironic.Nodes(ctx)
			found := map[string]string{}
			for _, n := range nodes {
				if failed := n.Failed(); failed != nil {
					return nil, failed
				}
				if n.Reservation == "" {
					found[n.UUID] = n.State
				}
			}
			return found, err
		},
		turnover: func(ctx context.Context, id string, await states) (time.Time, error) {
			if _, err := request(ctx, id, "active", "active", await); err != nil {
				return time.Time{}, err
			}
			return request(ctx, id, "deleted", "available", await)
		},
	}
}

// The pauses between two lists are so many times what the last one took, so that watching takes at
// most a twentieth of one processor on either side; but not shorter or longer than these.
const (
	listPause    = 19
	minListPause = 20 * time.Millisecond
	maxListPause = time.Second
)

// watcher waits for many devices by listing them all, as a client of many devices does.
type watcher struct {
	changed *sync.Cond
	// The last list, when it began, and its error, which is the last one.
	listed map[string]string
	began  time.Time
	failed error
}

func newWatcher() *watcher { return &watcher{changed: sync.NewCond(&sync.Mutex{})} }

// await waits until a list that began after this call shows the device in the state.
func (w *watcher) await(_ context.Context, id, state string) (time.Time, error) {
	asked := time.Now()
	w.changed.L.Lock()
	defer w.changed.L.Unlock()
	for w.failed == nil && (w.began.Before(asked) || w.listed[id] != state) {
		if time.Since(asked) > turnoverWithin {
			return time.Time{}, fmt.Errorf("no list showed %s in state %s within %s", id, state, turnoverWithin)
		}
		w.changed.Wait()
	}
	return time.Now(), w.failed
}

// run lists until ctx ends or a list fails, which is the result of all who wait.
func (w *watcher) run(ctx context.Context, list func(context.Context) (map[string]string, error)) {
	for failed := error(nil); failed == nil; {
		began := time.Now()
		var listed map[string]string
		if listed, failed = list(ctx); failed == nil {
			failed = ctx.Err()
		}
		elapsed := time.Since(began)
		w.changed.L.Lock()
		w.listed, w.began, w.failed = listed, began, failed
		w.changed.L.Unlock()
		w.changed.Broadcast()
		select {
		case <-time.After(min(max(elapsed*listPause, minListPause), maxListPause)):
		case <-ctx.Done():
		}
	}
}
