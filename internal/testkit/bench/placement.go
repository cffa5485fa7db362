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
	"burnish/internal/inventory"
	"burnish/internal/inventory/backends"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

const (
	maxBindRatio    = 1.3
	maxInFlight     = 8
	extraRequests   = 10 // of a reconciliation, beside one for each enrolled and allocated device
	maxFreeRequests = 20

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
func (b *bench) placement(ctx context.Context) {
	if missing := openstack.Missing(); missing != "" {
		b.note("placement: skipped: %s", missing)
		return
	}
	c := &cloud{server: must.Get(openstack.StartPlacement(ctx, must.Get(b.folder("placement")), openstack.Options{}))}
	c.recorder = openstack.NewRecorder(c.server.URL)
	c.nova = openstack.NewClient(c.recorder.URL)
	err := must.Try(func() {
		for _, measure := range []func(context.Context, *cloud){b.placementBinds, b.reconciliations, b.notifications} {
			must.Do(errors.Join(must.Try(func() { measure(ctx, c) }), b.stop()))
		}
	})
	c.recorder.Close()
	must.Do(errors.Join(err, c.server.Close()))
}

// placementBinds measures a bind, compared with the baseline's update with one activity, in which
// the same store sends the same requests to the same Placement. The devices are files.
func (b *bench) placementBinds(ctx context.Context, c *cloud) {
	p := must.Get(b.place(ctx, "bind"))
	sides := b.sides(p, 1, true, func(string) inventory.Store {
		return must.Get(backends.Open(ctx, "placement",
			backends.Options{Placement: placement.Settings{Getenv: openstack.Noauth(c.recorder.URL)}}))
	})
	var all []measurement
	for _, s := range sides {
		id := must.Get(s.add(ctx, "one"))
		c.recorder.Reset()
		instance := must.Get(s.bind(ctx, id))
		calls := c.recorder.Calls()
		must.Be(slices.Equal(calls, bindRequests), "a bind on %s sends %q, not %q", s.host, calls, bindRequests)
		must.Do(s.unbindAndClean(ctx, id, instance))
		all = append(all, s.turnover(id))
	}
	b.progress("placement: binds")
	got := warm(ctx, scale(b, 10, 3), scale(b, 150, 15), all...)
	requests := float64(len(bindRequests))
	b.add(
		single("requests of a bind, Placement", "", requests).atMost(requests),
		compared("bind answered, median, Placement (baseline: a bare entity)", "ms", got[0]["bind"],
			got[1]["bind"]).ratioAtMost(maxBindRatio),
	)
}

// installationOn has Placement as its inventory. Reconciliation runs on request only.
func (b *bench) installationOn(ctx context.Context, c *cloud, name string, env ...string) *place {
	return must.Get(b.installation(ctx, name, append([]string{
		"BURNISH_INVENTORY=placement", "BURNISH_DRIVERS=block", noSweep,
		"OS_AUTH_TYPE=none", "OS_PLACEMENT_ENDPOINT_OVERRIDE=" + c.recorder.URL,
	}, env...)...))
}

// importDevice enrolls a device whose provider is Nova's and waits until it is available.
func (p *place) importDevice(ctx context.Context, address string) (id string) {
	name := p.Host + "_" + address
	d := p.FileDevice(name, 1<<20)
	must.Do(os.WriteFile(d.Path, make([]byte, d.Size), 0o600))
	return must.Get(p.enroll(ctx, contract.EnrollInput{Import: true, Enrollment: contract.Enrollment{
		Name: name, Host: p.Host, Address: address, Driver: d.Driver, Type: "DISK",
		Settings: map[string]string{"path": d.Path}, Owner: device.OwnerNova, OneTimeUse: true,
	}}))
}

// reconciliations counts the requests of a reconciliation, and the events in unchanged devices.
func (b *bench) reconciliations(ctx context.Context, c *cloud) {
	count, enrolled := scale(b, 1000, 100), scale(b, 50, 8)
	p := b.installationOn(ctx, c, "reconcile")
	b.progress("placement: reconciliations of %d providers, %d of them of devices", count, enrolled)
	providers := c.fill(ctx, p.Host, count, enrolled)
	ids := collect(8, enrolled, func(n int) string { return p.importDevice(ctx, addressOf(n)) })
	b.reconciliation(ctx, c, p, fmt.Sprintf("%d free providers", count), ids, maxFreeRequests)
	consumers := make([]string, len(providers))
	for n := range consumers {
		consumers[n] = uuid.NewString()
	}
	must.Do(errors.Join(c.server.Allocate(ctx, providers, consumers), c.server.Burn(ctx, providers)))
	p.reconcile(ctx)
	for _, id := range ids {
		must.Do(p.await(ctx, id, device.Allocated))
	}
	b.reconciliation(ctx, c, p, fmt.Sprintf("%d allocated providers", count), ids, float64(enrolled+extraRequests))
}

// fill creates Nova's providers of n free devices. The first are of one host, all others of
// hosts that are not Burnish's.
func (c *cloud) fill(ctx context.Context, host string, n, ofHost int) (devices []string) {
	must.Do(c.nova.CreateClass(ctx, pciClass))
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
	must.Do(c.server.Fill(ctx, rows))
	return devices
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

// reconciliation measures one reconciliation when nothing has changed since the last.
func (b *bench) reconciliation(ctx context.Context, c *cloud, p *place, what string, ids []string,
	maxRequests float64) {
	// The first ones may find differences, and read what the worker has not cached yet.
	state := p.reconcile(ctx)
	for try := 1; state.Last.Hinted > 0; try++ {
		must.Be(try < 5, "a reconciliation of %s still finds %d that differ: %+v", what, state.Last.Hinted, state.Mismatches)
		state = p.reconcile(ctx)
	}
	before := p.positions(ctx, ids)
	c.recorder.Reset()
	state = p.reconcile(ctx)
	requests, inFlight := c.recorder.Count(), c.recorder.MaxInFlight()
	after := p.positions(ctx, ids)
	must.Be(state.Last.Devices == len(ids), "a reconciliation of %d devices saw %+v", len(ids), state.Last)
	changed := 0
	for n := range ids {
		if before[n] != after[n] {
			changed++
		}
	}
	b.add(
		single("requests of a reconciliation, "+what, "", float64(requests)).atMost(maxRequests),
		single("  of them at once", "", float64(inFlight)).atMost(maxInFlight),
		single(fmt.Sprintf("  of %d unchanged devices, those with an event", len(ids)), "", float64(changed)).atMost(0),
	)
}

// positions are the ends of the devices' histories, once they are idle.
func (p *place) positions(ctx context.Context, ids []string) []position {
	return collect(len(ids), len(ids), func(n int) position { return must.Get(p.settled(ctx, ids[n])) })
}

// reconcile requests a reconciliation and waits for its end.
func (p *place) reconcile(ctx context.Context) contract.InventoryReconcileState {
	// One that already runs began before this request.
	state := p.reconciled(ctx, 1)
	must.Do(p.burnish.ReconcileNow(ctx, "default", 0, contract.ReconcileRequest{Source: "bench"}))
	return p.reconciled(ctx, state.FullRuns+1)
}

// reconciled waits until the cloud's workflow has reconciled so often and is idle.
func (p *place) reconciled(ctx context.Context, times int) (state contract.InventoryReconcileState) {
	must.Do(awaitNoError(ctx, 20*time.Millisecond, "a reconciliation to end", func() (bool, string, error) {
		var err error
		if state, err = p.burnish.ReconcileState(ctx, "default"); err != nil {
			return false, err.Error(), nil // its workflow starts with the worker
		}
		if state.Fault != nil {
			err = fmt.Errorf("the reconciliation failed: %s", state.Fault.Message)
		}
		return state.FullRuns >= times && !state.Requested, fmt.Sprintf("%+v", state), err
	}))
	return state
}
