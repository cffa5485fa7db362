package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Reconciler compares the devices that the server lists with their providers in the
// inventory, and sends a hint to each device that disagrees with its provider. It changes no
// state and writes no provider (F6, S2.52).
type Reconciler struct {
	Client *client.Client
	Fleet  inventory.Lister
	Log    *slog.Logger
}

// Activities gives all activities of a Reconciler by name.
func (s *Reconciler) Activities() map[string]any {
	return map[string]any{contract.ActivityReconcileInventory: s.ReconcileInventory,
		contract.ActivityCandidates: s.Candidates}
}

// ReconcileInventory compares all devices, or those of some hosts and instances, with their
// providers. A second run finds no difference at devices that have read their provider
// since. Retried: an inventory or a server that does not answer.
func (s *Reconciler) ReconcileInventory(ctx context.Context,
	in contract.ReconcileInput) (contract.ReconcileResult, error) {
	out, err := s.reconcile(ctx, in)
	return out, asError(err, "the reconciliation")
}

func (s *Reconciler) reconcile(ctx context.Context, in contract.ReconcileInput) (contract.ReconcileResult, error) {
	// Everything is read after this moment: a device that is bound later drops the hint.
	w := &reconciliation{
		Reconciler: s, startedAt: time.Now().UTC(), found: map[string]bool{}, hintedDevices: map[string]bool{},
		missingBefore: in.Missing,
	}
	whole := len(in.Hosts) == 0 && len(in.Instances) == 0
	var err error
	if w.devices, err = s.listDevices(ctx, in); err != nil {
		return contract.ReconcileResult{}, err
	}
	// Something happened to these instances: their devices get a hint before Placement has
	// listed a whole host.
	w.markByInstance(ctx, in.Instances)
	if err := w.hintsSent(ctx); err != nil {
		return contract.ReconcileResult{}, err
	}
	if err := w.compareNovaProviders(ctx, whole); err != nil {
		return contract.ReconcileResult{}, err
	}
	if err := w.compareOwnProviders(ctx); err != nil {
		return contract.ReconcileResult{}, err
	}
	w.reportMissing(ctx)
	err = w.hintsSent(ctx)
	w.out.Mismatches = kept(w.out.Mismatches)
	w.out.Unreadable = kept(w.out.Unreadable)
	w.out.Counts.Devices, w.out.Counts.Missing = len(w.devices), len(w.out.Missing)
	return w.out, err
}

// listedDevice is one device as the server lists it, which may be a moment old.
type listedDevice struct {
	name, uuid, host, instance string
	provider                   string // the provider of Nova's that it last had
	generation                 int64  // of that provider, when the device was offered
	bindings                   int    // it has had at least so many
	left                       string // the instance that its provider may still record
	state                      device.State
	held                       bool
	owner                      device.Owner
}

// listDevices lists the devices. It may miss one that continues as new meanwhile: the next
// reconciliation has it.
func (s *Reconciler) listDevices(ctx context.Context, in contract.ReconcileInput) (map[string]listedDevice, error) {
	listed := map[string]client.Execution{}
	for _, f := range whatToList(in) {
		some, err := newest(ctx, s.Client, f)
		if err != nil {
			return nil, fmt.Errorf("list the devices: %w", err)
		}
		for _, e := range some {
			client.Newest(listed, e)
		}
	}
	all := make(map[string]listedDevice, len(listed))
	for name, e := range listed {
		if e.Err != nil {
			s.Log.Warn("a device of the listing cannot be read", "device", name, "error", e.Err)
		}
		if e.Err != nil || e.Absent() {
			continue
		}
		k := listedDevice{
			name: name, uuid: contract.DeviceUUID(name), host: e.Status.Hostname, provider: e.Memo.Provider,
			generation: e.Memo.Generation, bindings: e.Memo.Bindings, left: e.Memo.Left,
			state: e.Status.DeviceState, held: e.Memo.Maintenance, owner: e.Memo.Owner,
		}
		if e.Status.InstanceUUID != nil {
			k.instance = *e.Status.InstanceUUID
		}
		all[name] = k
	}
	return all, nil
}

// whatToList are the devices of the hosts and those of the instances; all, if neither is named.
func whatToList(in contract.ReconcileInput) (all []client.Filter) {
	if len(in.Hosts) > 0 {
		all = append(all, client.Filter{client.ByHost: in.Hosts})
	}
	if len(in.Instances) > 0 {
		all = append(all, client.Filter{client.ByInstance: in.Instances})
	}
	if all == nil {
		all = []client.Filter{{}}
	}
	return all
}

// newest lists the newest run of each device that the filter selects; one that cannot be read has
// its Err.
func newest(ctx context.Context, c *client.Client, f client.Filter) (map[string]client.Execution, error) {
	all := map[string]client.Execution{}
	err := c.Pages(ctx, f, func(page []client.Execution) error {
		for _, e := range page {
			client.Newest(all, e)
		}
		return nil
	})
	return all, err
}

// reconciliation is one attempt of ReconcileInventory.
type reconciliation struct {
	*Reconciler
	startedAt     time.Time
	devices       map[string]listedDevice
	missingBefore []string // the devices without a provider at the last reconciliation
	out           contract.ReconcileResult
	found         map[string]bool // the devices whose provider was read
	hintedDevices map[string]bool // the devices that got a hint
	failed        error           // the first hint's that was not delivered
	hintsFailed   int             // how many more were not
}

// markByInstance sends a hint to the devices of owner nova that these instances have.
func (w *reconciliation) markByInstance(ctx context.Context, instances []string) {
	for _, name := range slices.Sorted(maps.Keys(w.devices)) {
		if k := w.devices[name]; k.owner == device.OwnerNova && k.state == device.Allocated &&
			slices.Contains(instances, k.instance) {
			w.hint(ctx, name)
		}
	}
}

// compareNovaProviders compares the devices for which another service made the providers.
func (w *reconciliation) compareNovaProviders(ctx context.Context, whole bool) error {
	var hosts []string
	for _, k := range w.devices {
		if k.owner == device.OwnerNova && !slices.Contains(hosts, k.host) {
			hosts = append(hosts, k.host)
		}
	}
	if len(hosts) == 0 && !whole {
		return nil
	}
	slices.Sort(hosts)
	if whole {
		hosts = nil
	}
	// Devices that are not enrolled are counted, and nothing is asked about them: `import` does.
	enrolled := func(name string) bool { _, ok := w.devices[name]; return ok }
	return w.Fleet.ListNova(ctx, hosts, enrolled, func(s inventory.ProviderSnapshot) error {
		w.out.Counts.Providers++
		k, ok := w.devices[s.Device]
		switch {
		case s.Fault != nil && !w.readable(k, s):
		case ok && k.owner == device.OwnerNova:
			w.compare(ctx, k, s)
		case ok:
			w.reportTwoOwners(k, s)
		case whole:
			w.out.Counts.Unenrolled++
		}
		return nil
	})
}

// compareOwnProviders compares the devices whose providers are Burnish's own.
func (w *reconciliation) compareOwnProviders(ctx context.Context) error {
	names := map[string]string{}
	var ids []string
	for name, k := range w.devices {
		if k.owner != device.OwnerNova {
			names[k.uuid] = name
			ids = append(ids, k.uuid)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return w.Fleet.ListOwn(ctx, ids, func(s inventory.ProviderSnapshot) error {
		w.out.Counts.Providers++
		k, ok := w.devices[names[s.UUID]]
		if ok && (s.Fault == nil || w.readable(k, s)) {
			w.compare(ctx, k, s)
		}
		return nil
	})
}

// readable reports a provider that could not be read, and says whether the snapshot has a
// meaning nevertheless. Its device, if it is enrolled, has a provider: it is not missing.
func (w *reconciliation) readable(k listedDevice, s inventory.ProviderSnapshot) bool {
	w.out.Counts.Unreadable++
	w.out.Unreadable = append(w.out.Unreadable, contract.Mismatch{Name: cmp.Or(k.name, s.Device, s.Name),
		What: "provider " + s.UUID + ": " + s.Fault.Error()})
	w.Log.Warn("a provider cannot be read", "device", cmp.Or(k.name, s.Device), "provider", s.UUID, "name", s.Name,
		"error", s.Fault.Error())
	w.found[k.name] = true
	return s.Fault.Code == device.CodeInventoryInvalid
}

func (w *reconciliation) compare(ctx context.Context, k listedDevice, s inventory.ProviderSnapshot) {
	w.found[k.name] = true
	asked := k.ask()
	v := of("", s.Inventory)
	if k.owner == device.OwnerNova { // its workflow knows the provider by its UUID
		v = observedByNova(of(s.UUID, s.Inventory))
	}
	o, why := device.Observe(k.device(), asked.Answered(v))
	if o.Needs(device.RequestRecheck) || slices.Contains(w.missingBefore, k.name) { // a provider that is back is checked
		w.hint(ctx, k.name)
	}
	if o.Needs(device.ReportMismatch) {
		w.reportMismatch(k.name, fmt.Sprintf("%s, and the inventory has reserved=%d of %d, used=%d: %s", k.state, v.Reserved,
			v.Total, v.Used, why))
	}
}

// device is what a listing shows of the device's state: no claim, no dirty flag.
func (k listedDevice) device() device.Device {
	d := device.Device{State: k.state, Status: device.Enabled, Owner: k.owner}
	if k.held {
		d.Maintenance = device.MaintenanceOperator
	}
	if k.instance != "" {
		d.Binding = &device.Binding{Number: k.bindings, Instance: k.instance, Observed: k.owner == device.OwnerNova}
	}
	return d
}

// ask begins the question how the listed device compares with the inventory.
func (k listedDevice) ask() device.Snapshot {
	return device.Ask(device.AskReconcile, k.device(),
		device.Known{Provider: k.provider, Generation: k.generation, Bindings: k.bindings, Left: k.left})
}

func (w *reconciliation) reportMismatch(name, what string) {
	w.out.Counts.Mismatch++
	w.out.Mismatches = append(w.out.Mismatches, contract.Mismatch{Name: name, What: what})
	w.Log.Warn("state and reservation disagree: the device reads its provider", "device", name, "what", what)
}

// reportTwoOwners reports a device that Nova may give to instances and that is enrolled as
// Burnish's own: what Nova reserves is never lowered.
func (w *reconciliation) reportTwoOwners(k listedDevice, s inventory.ProviderSnapshot) {
	w.out.Counts.Mismatch++
	what := fmt.Sprintf("Nova has a provider for it too, %s with reserved=%d of %d, used=%d: once it is unused, retire "+
		"and forget it, then import it", s.UUID, s.Reserved, s.Total, s.Used)
	w.out.Mismatches = append(w.out.Mismatches, contract.Mismatch{Name: k.name, What: what})
	w.Log.Warn("a device has two owners", "device", k.name, "state", string(k.state), "what", what)
}

// reportMissing lists the devices without a provider; those that had one at the last
// reconciliation get a hint.
func (w *reconciliation) reportMissing(ctx context.Context) {
	for name, k := range w.devices {
		if w.found[name] {
			continue
		}
		if o, _ := device.Observe(k.device(), k.ask().Failed(device.CodeNoProvider)); !o.Needs(device.RequestRecheck) {
			continue
		}
		w.out.Missing = append(w.out.Missing, name)
		if !slices.Contains(w.missingBefore, name) {
			w.hint(ctx, name)
			w.Log.Warn("a device has no provider any more", "device", name, "state", string(k.state))
		}
	}
	slices.Sort(w.out.Missing)
}

// hint asks a device to read its provider; each device gets one. It is sent before the
// rest is compared: the device may be free now, and a reconciliation is long.
func (w *reconciliation) hint(ctx context.Context, name string) {
	if w.hintedDevices[name] {
		return
	}
	w.hintedDevices[name] = true
	hint := contract.Hint{Source: "reconciliation", ObservedAt: w.startedAt.Format(time.RFC3339Nano)}
	switch found, err := w.Client.Hint(ctx, name, contract.SignalObserved, hint); {
	case err == nil && found:
		w.out.Counts.Hinted++
	case err == nil: // it has ended since it was listed
	case w.failed == nil:
		w.failed = fmt.Errorf("hint to %s: %w", name, err)
	default:
		w.hintsFailed++
	}
}

// hintsSent names the first hint that was not delivered.
func (w *reconciliation) hintsSent(ctx context.Context) error {
	switch {
	case w.failed == nil, ctx.Err() != nil:
		return ctx.Err()
	case w.hintsFailed > 0:
		return fmt.Errorf("%s, and to %d more", oneLine(w.failed.Error()), w.hintsFailed)
	}
	return errors.New(oneLine(w.failed.Error()))
}

// kept sorts and bounds what is listed.
func kept(all []contract.Mismatch) []contract.Mismatch {
	slices.SortFunc(all, func(a, b contract.Mismatch) int { return strings.Compare(a.Name, b.Name) })
	return all[:min(len(all), contract.KeptMismatches)]
}

// maxCandidates bounds one result, which goes through the server.
const maxCandidates = 2000

// Candidates lists the one-time-use providers of Nova's devices that are not enrolled with
// that owner (S2.84). It changes nothing. Retried: an inventory or a server that does not answer.
func (s *Reconciler) Candidates(ctx context.Context, in contract.CandidatesInput) (contract.Candidates, error) {
	out, err := s.candidates(ctx, in)
	return out, asError(err, "the import")
}

func (s *Reconciler) candidates(ctx context.Context, in contract.CandidatesInput) (contract.Candidates, error) {
	var hosts []string
	if in.Host != "" {
		hosts = []string{strings.ToLower(in.Host)}
	}
	have, err := s.listDevices(ctx, contract.ReconcileInput{Hosts: hosts})
	if err != nil {
		return contract.Candidates{}, err
	}
	out := contract.Candidates{Devices: []contract.Candidate{}}
	wanted := func(name string) bool {
		k, enrolled := have[name]
		return (!enrolled || k.owner != device.OwnerNova) && name > in.After
	}
	err = s.Fleet.ListNova(ctx, hosts, wanted, func(p inventory.ProviderSnapshot) error {
		if !p.ListedOnly {
			out.Devices = append(out.Devices, contract.Candidate{
				Name: p.Device, Host: p.Host, Address: strings.TrimPrefix(p.Device, p.Host+"_"), Class: p.Class,
				Reserved: p.Reserved, Total: p.Total, Used: p.Used, Provider: p.UUID, Enrolled: have[p.Device].owner,
				Fault: p.Fault,
			})
		}
		return nil
	})
	if err != nil {
		return contract.Candidates{}, err
	}
	slices.SortFunc(out.Devices, func(a, b contract.Candidate) int { return strings.Compare(a.Name, b.Name) })
	most := maxCandidates
	if in.Limit > 0 {
		most = min(in.Limit, most)
	}
	if len(out.Devices) > most {
		out.Devices, out.More = out.Devices[:most], true
	}
	return out, nil
}
