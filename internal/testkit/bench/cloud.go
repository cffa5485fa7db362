package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

// Bounds of docs/bench.md for a real Placement.
const (
	bindAtMost       = 1.3 // to an update with one activity that makes the same calls
	inFlightAtMost   = 8
	sweepBeyond      = 10   // requests of a sweep beside one for each allocated provider
	freeSweepAtMost  = 20   // requests of a sweep of free providers
	messagesAtMost   = 0    // events in histories of devices that did not change
	firstStepAtMost  = 1000 // milliseconds, p95
	novasClass       = "CUSTOM_PCI_1B36_0010"
	novasHostDevices = 8 // of a host that has no worker
)

// bindCalls are the requests of one bind, and all of them (S0.4): is it used, what is
// known of it, burn it, read it back.
var bindCalls = []string{
	"GET /resource_providers/*/usages",
	"GET /resource_providers/*/inventories",
	"PUT /resource_providers/*/inventories/CUSTOM_BENCH",
	"GET /resource_providers/*/inventories",
}

// clouds is how much is measured of a cloud.
type clouds struct {
	warm      int // turnovers of a device before the first bind that counts
	bind      box
	providers int // of one-time-use devices that a sweep looks at
	enrolled  int // how many of them are Burnish's
	rounds    int // notifications
}

// cloud is a real Placement. All that is asked of it goes through the recorder; the
// scheduler stands for Nova.
type cloud struct {
	server   *openstack.Server
	recorder *openstack.Recorder
	nova     *openstack.Scheduler
}

// placement measures what a real Placement costs: a bind, a sweep of many providers, and
// the time from Nova's notification to the first step of a clean. What is not installed
// here is skipped, and said.
func (b *bench) placement(ctx context.Context) error {
	skipped, err := emulated(func(t testing.TB) error {
		c := &cloud{server: openstack.Start(t, openstack.Options{})}
		c.recorder = openstack.Record(t, c.server.URL)
		c.nova = openstack.NewScheduler(t, c.recorder.URL)
		b.note("placement: a real Placement on SQLite, one process; what is asked of it, by the baseline too, is counted on the way")
		if err := b.binds(ctx, c); err != nil {
			return err
		}
		if err := b.sweeps(ctx, t, c); err != nil {
			return err
		}
		return b.notifications(ctx, c)
	})
	if skipped != "" {
		b.note("placement: skipped: %s", skipped)
	}
	return err
}

// binds measures a bind against the baseline's: an update with one activity in which the
// same store makes the same calls of the same Placement; and turnovers beside it.
func (b *bench) binds(ctx context.Context, c *cloud) (err error) {
	dir := filepath.Join(b.dir, "burn")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if b.server, err = startServer(b.program(), dir, dir); err != nil {
		return err
	}
	b.stops = append(b.stops, b.server.end)
	sides := []*side{
		{name: "burn", product: true, queue: contract.Queue},
		{name: "burn-same", queue: "burnish-bench-same"},
	}
	var ids []string
	for _, s := range sides {
		s.host, s.placement, s.files = "bench-"+s.name, c.recorder.URL, filepath.Join(b.dir, s.name, "files")
		if err := os.MkdirAll(s.files, 0o700); err != nil {
			return err
		}
		if err := b.staff(s, true); err != nil {
			return err
		}
		id, err := s.enroll(ctx, "one")
		if err != nil {
			return err
		}
		if err := c.exactly(ctx, s, id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	say(b.began, "placement: binds")
	if _, err := latency(ctx, sides, ids, box{fewest: b.clouds.warm, most: b.clouds.warm}); err != nil {
		return err
	}
	all, err := latency(ctx, sides, ids, b.clouds.bind)
	if err != nil {
		return err
	}
	p, base := all[0], all[1]
	b.note("placement: %d binds a side, in turn; the baseline is an update with one activity, in which the same store makes the same %d calls of the same Placement",
		len(p.bind), len(bindCalls))
	b.add(counted("requests of a bind, Placement", "", float64(len(bindCalls)), float64(len(bindCalls))).atMost(float64(len(bindCalls))))
	b.add(latencies("bind answered, median", "Placement", p.bind, base.bind, 0.5).ratioAtMost(bindAtMost))
	b.add(latencies("bind answered, p95", "Placement", p.bind, base.bind, 0.95))
	b.add(latencies("turnover, median", "Placement", p.whole, base.whole, 0.5))
	return b.stop()
}

// exactly insists on the requests of one bind.
func (c *cloud) exactly(ctx context.Context, s *side, id string) error {
	c.recorder.Reset()
	instance, err := s.bind(ctx, id)
	if err != nil {
		return err
	}
	if calls := c.recorder.Calls(); !slices.Equal(calls, bindCalls) {
		return fmt.Errorf("a bind of side %s asks Placement %q, not %q", s.name, calls, bindCalls)
	}
	return s.unbind(ctx, id, instance)
}

// keeper is a server and the real worker on a cloud, with a client of the server.
type keeper struct {
	*wiper
	side // its client asks for devices
	dir  string
}

// keeper starts them in a folder of this name. The worker sweeps only when it is asked to.
func (b *bench) keeper(folder string, c *cloud, env ...string) (*keeper, error) {
	k := &keeper{side: side{host: fmt.Sprintf("bench-%d-%s", os.Getpid(), folder)}, dir: filepath.Join(b.dir, folder)}
	var err error
	k.wiper, err = b.wiper(folder, append([]string{
		"BURNISH_HOST=" + k.host, "BURNISH_INVENTORY=placement", "BURNISH_DRIVERS=block", "BURNISH_SWEEP_INTERVAL=0",
		"OS_AUTH_TYPE=none", "OS_PLACEMENT_ENDPOINT_OVERRIDE=" + c.recorder.URL,
	}, env...)...)
	if err != nil {
		return nil, err
	}
	if k.client, err = client.Dial(client.Options{HostPort: k.server.address, Logger: silent{}}); err != nil {
		return nil, errors.Join(err, k.stop())
	}
	return k, nil
}

func (k *keeper) end() error {
	k.client.Close()
	return k.stop()
}

// take enrols a device of Nova's, of whose provider it takes over what stands there, and
// waits until it is available.
func (k *keeper) take(ctx context.Context, address string, size int64) (id string, err error) {
	name := k.host + "_" + strings.ToLower(address)
	if err := os.WriteFile(k.path(name), make([]byte, size), 0o600); err != nil {
		return "", err
	}
	handle, err := contract.Enroll(ctx, k.client, contract.EnrollInput{Import: true, Enrollment: contract.Enrollment{
		Name: name, Host: k.host, Address: strings.ToLower(address), Driver: "block", Type: "DISK",
		Settings: map[string]string{"path": k.path(name)}, Owner: device.OwnerNova, OneTimeUse: true,
	}})
	if err != nil {
		return "", err
	}
	if err := handle.Get(ctx, nil); err != nil {
		return "", fmt.Errorf("import %s: %w", name, err)
	}
	id = contract.WorkflowID(name)
	return id, k.awaitFree(ctx, id)
}

// sweeps counts what a sweep asks of Placement, and what it says to devices that did not
// change.
func (b *bench) sweeps(ctx context.Context, t testing.TB, c *cloud) (err error) {
	k, err := b.keeper("sweep", c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.end()) }()
	n := b.clouds
	say(b.began, "placement: %d providers, %d devices", n.providers, n.enrolled)
	devices := c.fill(t, k.host, n.providers, n.enrolled)
	ids := make([]string, n.enrolled)
	const atOnce = 8
	if err := together(atOnce, func(first int) (err error) {
		for i := first; i < n.enrolled && err == nil; i += atOnce {
			ids[i], err = k.take(ctx, addressOf(i), 1<<20)
		}
		return err
	}); err != nil {
		return err
	}
	b.note("placement: a sweep looks at %d one-time-use providers of Nova's, of which %d are of enrolled devices; it is asked for by a signal to the workflow %s, when nothing has changed since the last",
		n.providers, n.enrolled, contract.ReconcileWorkflowID("default"))
	say(b.began, "placement: sweeps of free providers")
	if err := b.sweep(ctx, c, k, "free", ids, freeSweepAtMost); err != nil {
		return err
	}
	consumers := make([]string, len(devices))
	for i := range consumers {
		consumers[i] = uuid.NewString()
	}
	if err := errors.Join(c.server.Allocate(ctx, devices, consumers), c.server.Burn(ctx, devices)); err != nil {
		return err
	}
	if _, err := k.look(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		if err := k.await(ctx, id, device.Allocated); err != nil {
			return err
		}
	}
	say(b.began, "placement: sweeps of allocated providers")
	return b.sweep(ctx, c, k, "allocated", ids, float64(n.providers+sweepBeyond))
}

// fill makes Nova's providers of so many free devices; the first are of one host, all
// others of hosts that are not Burnish's.
func (c *cloud) fill(t testing.TB, host string, n, ofHost int) (devices []string) {
	c.nova.Class(novasClass)
	var rows []openstack.Row
	root := func(name string) openstack.Row {
		r := openstack.Row{UUID: uuid.NewString(), Name: name, Class: "VCPU"}
		rows = append(rows, r)
		return r
	}
	at := root(strings.ToUpper(host))
	for i := range n {
		place := i
		if other := i - ofHost; other >= 0 {
			if place = other % novasHostDevices; place == 0 {
				at = root(fmt.Sprintf("bench-node-%03d", other/novasHostDevices))
			}
		}
		id := uuid.NewString()
		devices = append(devices, id)
		rows = append(rows, openstack.Row{
			UUID: id, Name: at.Name + "_" + strings.ToUpper(addressOf(place)), Root: at.UUID, Class: novasClass,
			Traits: []string{placement.OneTimeUse, "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"},
		})
	}
	require.NoError(t, c.server.Fill(t.Context(), rows))
	return devices
}

// addressOf is the PCI address of a host's nth device.
func addressOf(n int) string { return fmt.Sprintf("0000:%02x:00.0", n+1) }

// sweep measures one sweep of devices that have come to rest.
func (b *bench) sweep(ctx context.Context, c *cloud, k *keeper, are string, ids []string, most float64) error {
	// The first may have something to say, and reads what the worker did not know.
	for try := 1; ; try++ {
		state, err := k.look(ctx)
		if err != nil {
			return err
		}
		if state.Last.Hinted == 0 {
			break
		}
		if try == 5 {
			return fmt.Errorf("sweep %d of %s devices still finds %d that differ: %+v", try, are, state.Last.Hinted, state.Mismatches)
		}
	}
	before, err := k.events(ctx, ids)
	if err != nil {
		return err
	}
	c.recorder.Reset()
	began := time.Now()
	state, err := k.look(ctx)
	if err != nil {
		return err
	}
	took, requests, inFlight := time.Since(began), c.recorder.Count(), c.recorder.MaxInFlight()
	after, err := k.events(ctx, ids)
	if err != nil {
		return err
	}
	if state.Last.Devices != len(ids) || state.Last.Providers != b.clouds.providers {
		return fmt.Errorf("a sweep of %d devices and %d providers saw %+v", len(ids), b.clouds.providers, state.Last)
	}
	var more float64
	for i := range ids {
		if before[i] != after[i] {
			more += float64(max(after[i].length-before[i].length, 1)) // 1 where it is another run
		}
	}
	b.note("placement: the sweep of %s providers took %.1f s; %d devices were asked to look for themselves", are, took.Seconds(), state.Last.Hinted)
	b.add(alone(fmt.Sprintf("requests of a sweep, %d %s providers", b.clouds.providers, are), "", float64(requests)).atMost(most))
	b.add(alone("  of them at once", "", float64(inFlight)).atMost(inFlightAtMost))
	b.add(alone(fmt.Sprintf("  events in the histories of %d unchanged devices", len(ids)), "", more).atMost(messagesAtMost))
	return nil
}

// look has the cloud's workflow sweep, and gives what it then tells.
func (k *keeper) look(ctx context.Context) (contract.InventoryReconcileState, error) {
	// One that is under way began before this wish.
	state, err := k.rest(ctx)
	if err != nil {
		return state, err
	}
	if err := k.ask(ctx); err != nil {
		return state, err
	}
	sweeps := state.FullRuns
	return k.until(ctx, func(state contract.InventoryReconcileState) bool { return state.FullRuns > sweeps })
}

// ask asks the cloud's workflow for a sweep.
func (k *keeper) ask(ctx context.Context) error {
	return k.client.SignalWorkflow(ctx, contract.ReconcileWorkflowID("default"), "", contract.SignalReconcileNow, contract.ReconcileRequest{Source: "bench"})
}

// rest waits until the cloud's workflow has swept and has nothing more to look at.
func (k *keeper) rest(ctx context.Context) (contract.InventoryReconcileState, error) {
	return k.until(ctx, func(state contract.InventoryReconcileState) bool { return state.FullRuns > 0 && !state.Requested })
}

// until asks the cloud's workflow until ok likes the answer. Where there is none yet it
// goes on.
func (k *keeper) until(ctx context.Context, ok func(contract.InventoryReconcileState) bool) (contract.InventoryReconcileState, error) {
	ask := func() (state contract.InventoryReconcileState, err error) {
		answer, err := k.client.QueryWorkflow(ctx, contract.ReconcileWorkflowID("default"), "", contract.QueryReconcile)
		if err != nil {
			return state, err
		}
		return state, answer.Get(&state)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(cycleWithin); ; {
		state, err := ask()
		switch {
		case err == nil && state.Fault != nil:
			return state, fmt.Errorf("the sweep failed: %s", state.Fault.Message)
		case err == nil && ok(state):
			return state, nil
		case time.Now().After(deadline):
			return state, errors.Join(fmt.Errorf("no sweep ended within %s", cycleWithin), err)
		}
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-tick.C:
		}
	}
}

// length is how long a device's history is.
type length struct {
	run    string
	length int64
}

// events are the lengths of the devices' histories, which have come to rest.
func (k *keeper) events(ctx context.Context, ids []string) ([]length, error) {
	all := make([]length, len(ids))
	err := together(len(ids), func(i int) (err error) {
		all[i].run, all[i].length, err = k.settled(ctx, ids[i])
		return err
	})
	return all, err
}
