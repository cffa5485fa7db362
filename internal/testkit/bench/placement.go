package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	pciClass       = "CUSTOM_PCI_1B36_0010"
	devicesPerHost = 8 // of a host that is not Burnish's
)

// bindRequests are all requests of one bind (S0.4): usages, the known inventory, the write
// that reserves and records the instance, and the inventory read back.
var bindRequests = []string{
	"GET /resource_providers/*/usages",
	"GET /resource_providers/*/inventories",
	"PUT /resource_providers/*/inventories",
	"GET /resource_providers/*/inventories",
}

// cloud is a real Placement. All requests go through the recorder; nova acts as Nova.
type cloud struct {
	server   *openstack.Server
	recorder *openstack.Recorder
	nova     openstack.Client
}

// placement measures what a real Placement costs: a bind, a reconciliation of many
// providers, and the time from Nova's notification to the first step of a clean. A note
// names what is not installed.
func (b *bench) placement(ctx context.Context) error {
	if missing := openstack.Missing(); missing != "" {
		b.note("placement: skipped: %s", missing)
		return nil
	}
	dir, err := b.folder("placement")
	if err != nil {
		return err
	}
	c := &cloud{}
	if c.server, err = openstack.StartPlacement(ctx, dir, openstack.Options{}); err != nil {
		return err
	}
	c.recorder = openstack.NewRecorder(c.server.URL)
	c.nova = openstack.NewClient(c.recorder.URL)
	b.note("placement: a real Placement on SQLite, one process; all requests, the baseline's too, are counted on the way")
	err = b.binds(ctx, c)
	for _, measure := range []func(context.Context, *cloud) error{b.reconciliations, b.notificationLatency} {
		if err = errors.Join(err, b.stop()); err == nil {
			err = measure(ctx, c)
		}
	}
	err = errors.Join(err, b.stop())
	c.recorder.Close()
	return errors.Join(err, c.server.Close())
}

// binds measures a bind, compared with the baseline's update with one activity, in which the
// same store sends the same requests to the same Placement.
func (b *bench) binds(ctx context.Context, c *cloud) error {
	dir, err := b.folder("bind-server")
	if err != nil {
		return err
	}
	server, err := b.server(ctx, dir)
	if err != nil {
		return err
	}
	var all []measurement
	for _, v := range []*variant{
		{name: "bind", task: task{Product: true, Queue: contract.Queue}},
		{name: "bind-same", task: task{Queue: "burnish-bench-same"}},
	} {
		v.Real, v.Host, v.Address, v.Placement, v.Cache, v.Slots = true, "bench-"+v.name, server.Address, c.recorder.URL, 2000, 1
		if err := b.startVariant(ctx, v); err != nil {
			return err
		}
		id, err := v.enroll(ctx, "one")
		if err != nil {
			return err
		}
		c.recorder.Reset()
		instance, err := v.bind(ctx, id)
		if err != nil {
			return err
		}
		if calls := c.recorder.Calls(); !slices.Equal(calls, bindRequests) {
			return fmt.Errorf("a bind of variant %s sends %q, not %q", v.name, calls, bindRequests)
		}
		if err := v.unbindAndClean(ctx, id, instance); err != nil {
			return err
		}
		all = append(all, v.turnover(id))
	}
	b.progress("placement: binds")
	if _, err := interleave(ctx, b.bindWarmUp, all...); err != nil {
		return err
	}
	got, err := interleave(ctx, b.bindRounds, all...)
	if err != nil {
		return err
	}
	requests := float64(len(bindRequests))
	b.note("placement: %d binds a variant, in turn; the baseline is an update with one activity, in which the same store sends the same %g requests to the same Placement",
		len(got[0]["bind"]), requests)
	b.add(
		counted("requests of a bind, Placement", "", requests, requests).atMost(requests),
		latencyFigure("bind answered, median, Placement", got[0], got[1], "bind", 0.5).ratioAtMost(maxBindRatio),
		latencyFigure("bind answered, p95, Placement", got[0], got[1], "bind", 0.95),
		latencyFigure("turnover, median, Placement", got[0], got[1], "turnover", 0.5),
	)
	return nil
}

// installOn is install with Placement as the inventory. Reconciliation runs on request only.
func (b *bench) installOn(ctx context.Context, c *cloud, name string, env ...string) (*installation, error) {
	i, err := b.install(ctx, name, append([]string{
		"BURNISH_INVENTORY=placement", "BURNISH_DRIVERS=block", "BURNISH_SWEEP_INTERVAL=0",
		"OS_AUTH_TYPE=none", "OS_PLACEMENT_ENDPOINT_OVERRIDE=" + c.recorder.URL,
	}, env...)...)
	if err == nil {
		i.pollEvery = pollEvery
	}
	return i, err
}

// importDevice enrolls a device whose provider is Nova's and waits until it is available.
func (i *installation) importDevice(ctx context.Context, address string) (id string, err error) {
	name := i.Host + "_" + address
	d := i.FileDevice(name, 1<<20)
	if err := os.WriteFile(d.Path, make([]byte, d.Size), 0o600); err != nil {
		return "", err
	}
	return i.enroll(ctx, contract.EnrollInput{Import: true, Enrollment: contract.Enrollment{
		Name: name, Host: i.Host, Address: address, Driver: d.Driver, Type: "DISK",
		Settings: map[string]string{"path": d.Path}, Owner: device.OwnerNova, OneTimeUse: true,
	}})
}

// reconciliations counts the requests of a reconciliation, and the events in unchanged devices.
func (b *bench) reconciliations(ctx context.Context, c *cloud) error {
	i, err := b.installOn(ctx, c, "reconcile")
	if err != nil {
		return err
	}
	b.progress("placement: %d providers, %d devices", b.providers, b.enrolled)
	providers, err := c.fill(ctx, i.Host, b.providers, b.enrolled)
	if err != nil {
		return err
	}
	ids := make([]string, b.enrolled)
	if err := parallelAtMost(8, b.enrolled, func(n int) (err error) {
		ids[n], err = i.importDevice(ctx, addressOf(n))
		return err
	}); err != nil {
		return err
	}
	b.note("placement: a reconciliation reads %d one-time-use providers of Nova's, of which %d are of enrolled devices; it is requested by a signal to the workflow %s, when nothing has changed since the last",
		b.providers, b.enrolled, contract.ReconcileWorkflowID("default"))
	b.progress("placement: reconciliations of free providers")
	if err := b.reconciliation(ctx, c, i, "free", ids, maxFreeRequests); err != nil {
		return err
	}
	consumers := make([]string, len(providers))
	for n := range consumers {
		consumers[n] = uuid.NewString()
	}
	if err := errors.Join(c.server.Allocate(ctx, providers, consumers), c.server.Burn(ctx, providers)); err != nil {
		return err
	}
	if _, err := i.reconcile(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		if err := i.await(ctx, id, device.Allocated, turnoverWithin, pollEvery); err != nil {
			return err
		}
	}
	b.progress("placement: reconciliations of allocated providers")
	return b.reconciliation(ctx, c, i, "allocated", ids, float64(b.enrolled+extraRequests))
}

// fill creates Nova's providers of n free devices. The first are of one host, all others of
// hosts that are not Burnish's.
func (c *cloud) fill(ctx context.Context, host string, n, ofHost int) (devices []string, err error) {
	if err := c.nova.CreateClass(ctx, pciClass); err != nil {
		return nil, err
	}
	var rows []openstack.Row
	root := func(name string) openstack.Row {
		r := openstack.Row{UUID: uuid.NewString(), Name: name, Class: "VCPU"}
		rows = append(rows, r)
		return r
	}
	parent := root(strings.ToUpper(host))
	for i := range n {
		slot := i
		if other := i - ofHost; other >= 0 {
			if slot = other % devicesPerHost; slot == 0 {
				parent = root(fmt.Sprintf("bench-node-%03d", other/devicesPerHost))
			}
		}
		d := deviceRow(parent, addressOf(slot))
		devices, rows = append(devices, d.UUID), append(rows, d)
	}
	return devices, c.server.Fill(ctx, rows)
}

// deviceRow is the provider of a one-time-use device, as Nova creates it.
func deviceRow(parent openstack.Row, address string) openstack.Row {
	return openstack.Row{
		UUID: uuid.NewString(), Name: parent.Name + "_" + strings.ToUpper(address), Root: parent.UUID, Class: pciClass,
		Traits: []string{placement.OneTimeUse, "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"},
	}
}

// addressOf is the PCI address of a host's nth device.
func addressOf(n int) string { return fmt.Sprintf("0000:%02x:00.0", n+1) }

// reconciliation measures one reconciliation of idle devices.
func (b *bench) reconciliation(ctx context.Context, c *cloud, i *installation, what string, ids []string, maxRequests float64) error {
	// The first ones may find differences, and read what the worker has not cached yet.
	for try := 1; ; try++ {
		state, err := i.reconcile(ctx)
		if err != nil {
			return err
		}
		if state.Last.Hinted == 0 {
			break
		}
		if try == 5 {
			return fmt.Errorf("reconciliation %d of %s devices still finds %d that differ: %+v", try, what, state.Last.Hinted, state.Mismatches)
		}
	}
	before, err := i.positions(ctx, ids)
	if err != nil {
		return err
	}
	c.recorder.Reset()
	began := time.Now()
	state, err := i.reconcile(ctx)
	if err != nil {
		return err
	}
	took, requests, inFlight := time.Since(began), c.recorder.Count(), c.recorder.MaxInFlight()
	after, err := i.positions(ctx, ids)
	if err != nil {
		return err
	}
	if state.Last.Devices != len(ids) || state.Last.Providers != b.providers {
		return fmt.Errorf("a reconciliation of %d devices and %d providers saw %+v", len(ids), b.providers, state.Last)
	}
	var events float64
	for n := range ids {
		if before[n] != after[n] {
			events += float64(max(after[n].length-before[n].length, 1)) // 1 for another run
		}
	}
	b.note("placement: the reconciliation of %s providers took %.1f s; %d devices were asked to re-check", what, took.Seconds(), state.Last.Hinted)
	b.add(
		single(fmt.Sprintf("requests of a reconciliation, %d %s providers", b.providers, what), "", float64(requests)).atMost(maxRequests),
		single("  of them at once", "", float64(inFlight)).atMost(maxInFlight),
		single(fmt.Sprintf("  events in the histories of %d unchanged devices", len(ids)), "", events).atMost(maxUnchangedEvents),
	)
	return nil
}

// positions are the ends of the devices' histories, once the devices are idle.
func (i *installation) positions(ctx context.Context, ids []string) ([]position, error) {
	all := make([]position, len(ids))
	return all, parallel(len(ids), func(n int) (err error) {
		all[n], err = i.settled(ctx, ids[n])
		return err
	})
}

// requestReconcile requests a reconciliation from the cloud's workflow.
func (i *installation) requestReconcile(ctx context.Context) error {
	return client.New(i.client).ReconcileNow(ctx, "default", 0, contract.ReconcileRequest{Source: "bench"})
}

// reconcile requests a reconciliation and waits for its end.
func (i *installation) reconcile(ctx context.Context) (contract.InventoryReconcileState, error) {
	// One that already runs began before this request.
	state, err := i.reconciled(ctx, 1)
	if err == nil {
		err = i.requestReconcile(ctx)
	}
	if err != nil {
		return state, err
	}
	return i.reconciled(ctx, state.FullRuns+1)
}

// reconciled waits until the cloud's workflow has reconciled so often and is idle.
func (i *installation) reconciled(ctx context.Context, times int) (state contract.InventoryReconcileState, err error) {
	err = proc.Await(ctx, turnoverWithin, 20*time.Millisecond, "a reconciliation to end", func() (bool, string) {
		var err error
		state, err = client.New(i.client).ReconcileState(ctx, "default")
		return err == nil && (state.Fault != nil || state.FullRuns >= times && !state.Requested), fmt.Sprintf("%+v %v", state, err)
	})
	if err == nil && state.Fault != nil {
		err = fmt.Errorf("the reconciliation failed: %s", state.Fault.Message)
	}
	return state, err
}
