package placement

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"golang.org/x/sync/errgroup"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// inFlight is how many requests of one Lister call are under way at once.
const inFlight = 8

// maxPerHostQueries is up to how many hosts get one request each; for more hosts, or if a
// host's tree is not known, one request reads the whole list.
const maxPerHostQueries = 8

// candidateThreshold is from how many free providers of a class one request for
// allocation candidates replaces a request for each. That request costs Placement time for
// each free provider of the class, wanted or not: about a thirtieth of a request, by the
// figures of earlier benches. So at least one listed provider in perCandidate must be worth a
// request.
const (
	candidateThreshold = 4
	perCandidate       = 30
)

// ListNova is inventory.Lister's. A provider without an inventory of exactly one class
// is logged and shown with total 0, so that it does not hide the others.
func (s *Store) ListNova(ctx context.Context, hosts []string, wanted func(string) bool,
	each func(inventory.ProviderSnapshot) error) error {
	all, err := s.listNovaOnHosts(ctx, hosts)
	if err != nil {
		return err
	}
	ofHosts := map[string]bool{}
	for _, host := range hosts {
		ofHosts[strings.ToLower(host)] = true
	}
	v := &listing{store: s, each: each, required: []string{s.trait(OneTimeUse), "!" + s.trait(OwnTrait)}}
	for _, p := range all {
		d := s.deviceOf(p.Name)
		switch {
		case len(hosts) > 0 && !ofHosts[d.host]:
		case wanted != nil && !wanted(d.name):
			v.others = append(v.others, inventory.ProviderSnapshot{
				Provider: inventory.Provider{UUID: p.UUID, Name: p.Name}, Device: d.name, Host: d.host, ListedOnly: true,
			})
		default:
			v.add(p, d.name, d.host)
		}
	}
	return v.run(ctx)
}

// listNovaOnHosts lists Nova's providers, at least all of these hosts.
func (s *Store) listNovaOnHosts(ctx context.Context, hosts []string) ([]resourceproviders.ResourceProvider, error) {
	if len(hosts) == 0 || len(hosts) > maxPerHostQueries {
		return s.listNova(ctx, "")
	}
	var all []resourceproviders.ResourceProvider
	for _, host := range hosts {
		trees := s.cache.rootsOf(strings.ToLower(host))
		if len(trees) == 0 {
			return s.listNova(ctx, "")
		}
		for _, tree := range trees {
			some, err := s.listNova(ctx, tree)
			if err != nil {
				return nil, err
			}
			if len(some) == 0 { // the tree may be gone, and the host may have another
				return s.listNova(ctx, "")
			}
			all = append(all, some...)
		}
	}
	return unique(all), nil
}

func unique(all []resourceproviders.ResourceProvider) []resourceproviders.ResourceProvider {
	have := map[string]bool{}
	return slices.DeleteFunc(all, func(p resourceproviders.ResourceProvider) bool {
		had := have[p.UUID]
		have[p.UUID] = true
		return had
	})
}

// ListOwn is inventory.Lister's.
func (s *Store) ListOwn(ctx context.Context, uuids []string, each func(inventory.ProviderSnapshot) error) error {
	if len(uuids) == 0 {
		return nil
	}
	own := s.trait(OwnTrait)
	all, err := s.list(ctx, own, "")
	if unknownTrait(err, own) {
		return nil // no provider has an unknown trait
	}
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, uuid := range uuids {
		wanted[uuid] = true
	}
	v := &listing{store: s, each: each, required: []string{own}}
	for _, p := range all {
		if wanted[p.UUID] {
			host := strings.ToLower(p.Name[:max(strings.LastIndex(p.Name, "_"), 0)])
			v.add(p, "", host)
		}
	}
	return v.run(ctx)
}

// listing is one call of a Lister.
type listing struct {
	store    *Store
	each     func(inventory.ProviderSnapshot) error
	required []string

	rows   []*row                       // the providers that are read
	others []inventory.ProviderSnapshot // those that are passed on as they are

	mu     sync.Mutex // held while each runs
	err    error      // each's, after which it is not called again
	failed int        // the rows that could not be read since the last one that could
}

// row is one provider of a listing.
type row struct {
	inventory.ProviderSnapshot
	fault            *device.Fault // why it could not be read
	invalid          *device.Fault // why its inventory counts as empty
	listedGeneration int64         // the generation in the list
	inventory        cachedInventory
	current          bool // known is of the generation in the list
}

func (v *listing) add(p resourceproviders.ResourceProvider, name, host string) {
	r := &row{listedGeneration: int64(p.Generation)}
	r.UUID, r.Name, r.Device, r.Host = p.UUID, p.Name, name, host
	r.inventory, r.current = v.store.cache.inventory(p.UUID, r.listedGeneration)
	v.rows = append(v.rows, r)
}

// run reads what is not cached and emits every provider.
func (v *listing) run(ctx context.Context) error {
	for _, p := range v.others {
		if err := v.each(p); err != nil { // nothing else runs yet
			return err
		}
	}
	// Inventories first: they show which are free, and of which class.
	err := v.forEachRow(ctx, func(ctx context.Context, r *row) (err error) {
		if r.current {
			return nil
		}
		r.inventory, r.current, err = v.readInventory(ctx, r)
		return v.ownFault(ctx, r, err)
	})
	if err != nil {
		return err
	}
	free, err := v.findUnused(ctx)
	if err != nil {
		return err
	}
	return v.forEachRow(ctx, func(ctx context.Context, r *row) error {
		if r.fault != nil {
			return v.emit(r, inventory.Usage{})
		}
		if r.current && free[r.UUID] {
			return v.emit(r, inventory.Usage{Generation: r.inventory.generation})
		}
		u, err := v.readUsage(ctx, r)
		if err = v.ownFault(ctx, r, err); err != nil {
			return err
		}
		return v.emit(r, u)
	})
}

// rowTimeout bounds what is read of one provider.
const rowTimeout = 20 * time.Second

// mayFail is how many providers may fail one after the other until Placement itself is
// asked whether it answers.
const mayFail = 8

// ownFault keeps the fault of a provider that could not be read, so that the others are
// read nevertheless. It returns errors that are not of this provider alone: the end of the
// call, a provider that is gone, a Placement that does not answer.
func (v *listing) ownFault(ctx context.Context, r *row, err error) error {
	fault, ok := device.AsFault(err)
	switch {
	case err == nil:
		v.mu.Lock()
		defer v.mu.Unlock()
		v.failed = 0
		return nil
	case !ok, ctx.Err() != nil, fault.Code == device.CodeNoProvider:
		return err
	}
	v.mu.Lock()
	v.failed++
	ask := v.failed%mayFail == 0
	v.mu.Unlock()
	if ask {
		if err := v.store.answers(ctx); err != nil {
			return err
		}
	}
	r.fault = fault
	return nil
}

// answers asks Placement for nothing.
func (s *Store) answers(ctx context.Context) error {
	return s.do(ctx, requestInfo{}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		_, err := resourceproviders.List(c, resourceproviders.ListOpts{Name: "burnish"}).AllPages(ctx)
		return err
	})
}

// forEachRow calls do for each row, eight at a time. A provider that was deleted
// meanwhile is left out.
func (v *listing) forEachRow(ctx context.Context, do func(context.Context, *row) error) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for _, r := range v.rows {
		if within.Err() != nil {
			break
		}
		group.Go(func() error {
			err := do(within, r)
			if isCode(err, device.CodeNoProvider) {
				v.drop(r)
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return unavailable(ctx, err)
	}
	v.rows = slices.DeleteFunc(v.rows, func(r *row) bool { return r.UUID == "" })
	return nil
}

func (v *listing) drop(r *row) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r.UUID = ""
}

// readInventory reads a provider's inventory. An invalid one counts as total 0.
func (v *listing) readInventory(ctx context.Context, r *row) (cachedInventory, bool, error) {
	within, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	known, err := v.store.readInventory(within, r.UUID)
	if fault, ok := device.AsFault(err); ok && fault.Code == device.CodeInventoryInvalid && ctx.Err() == nil {
		r.invalid = fault
		if v.store.firstTime("inventory " + r.UUID) {
			v.store.log.Error("the inventory of a provider is not valid for one device", "provider", r.UUID, "name", r.Name,
				"error", err)
		}
		return cachedInventory{generation: r.listedGeneration}, false, nil
	}
	return known, err == nil, err
}

// findUnused asks Placement which providers it could allocate: their usages need not be
// read. Providers that the answer does not name are read one by one.
func (v *listing) findUnused(ctx context.Context) (map[string]bool, error) {
	classes := map[string]int{}
	byUUID := map[string]*row{}
	for _, r := range v.rows {
		if r.current && r.inventory.reserved < r.inventory.total {
			classes[r.inventory.class]++
			byUUID[r.UUID] = r
		}
	}
	free := map[string]bool{}
	var mu sync.Mutex
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for class, n := range classes {
		if n < candidateThreshold || n*perCandidate < n+len(v.others) {
			continue
		}
		group.Go(func() error {
			summaries, err := v.store.candidates(within, class, v.required, n+len(v.others))
			if within.Err() != nil {
				return err
			}
			if err != nil {
				v.store.log.Debug("Placement did not list allocation candidates; each provider is read", "class", class,
					"error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			for uuid, summary := range summaries {
				if r := byUUID[uuid]; r != nil && r.isFree(summary) {
					free[uuid] = true
				}
			}
			return nil
		})
	}
	return free, group.Wait()
}

// isFree says that a summary agrees with the inventory, and that nothing is used.
func (r *row) isFree(summary allocationcandidates.ProviderSummary) bool {
	of, ok := summary.Resources[r.inventory.class]
	capacity := int(float64(r.inventory.total-r.inventory.reserved) * r.inventory.ratio)
	return ok && of.Used == 0 && of.Capacity == capacity && capacity > 0
}

// candidates gives Placement's allocation candidates for one unit of a class.
func (s *Store) candidates(ctx context.Context, class string, required []string,
	expected int) (map[string]allocationcandidates.ProviderSummary, error) {
	c, err := s.connected(ctx)
	if err != nil || c.nested == nil {
		return nil, err
	}
	var answer *allocationcandidates.AllocationCandidates
	err = s.doWith(ctx, c.nested, requestInfo{}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		const margin = 100 // for providers that became free since the list
		page, err := allocationcandidates.List(c, allocationcandidates.ListOpts{
			Resources: class + ":1", Required: []string{strings.Join(required, ",")}, Limit: expected + margin,
		}).AllPages(ctx)
		if err != nil {
			return err
		}
		answer, err = allocationcandidates.ExtractAllocationCandidates(page)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer.ProviderSummaries, nil
}

// readUsage reads usages, and the inventory again if it changed, until both have the
// same generation or maxTries are used up: the result is a hint.
func (v *listing) readUsage(ctx context.Context, r *row) (inventory.Usage, error) {
	var u inventory.Usage
	for range maxTries {
		var err error
		// Not the usages: the allocations also name the consumers, at the same cost.
		u, err = v.consumers(ctx, r)
		if err != nil {
			return u, err
		}
		if !r.current && r.inventory.generation == u.Generation && r.inventory.class == "" {
			return u, nil // an invalid inventory
		}
		if r.current && r.inventory.generation == u.Generation {
			return u, nil
		}
		if known, ok := v.store.cache.inventory(r.UUID, u.Generation); ok {
			r.inventory, r.current = known, true
			return u, nil
		}
		if r.inventory, r.current, err = v.readInventory(ctx, r); err != nil {
			return u, err
		}
		if r.inventory.generation == u.Generation || !r.current {
			return u, nil
		}
	}
	return u, nil
}

// consumers reads a provider's use in the time that one provider may take.
func (v *listing) consumers(ctx context.Context, r *row) (inventory.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	return v.store.consumers(ctx, r.UUID)
}

// emit passes one provider on, unless the caller ended the listing.
func (v *listing) emit(r *row, u inventory.Usage) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return v.err
	}
	r.Class = r.inventory.class
	r.Inventory = device.Inventory{
		Generation: u.Generation, Total: r.inventory.total, Reserved: r.inventory.reserved, Used: u.Used,
		Consumers: u.Consumers, Record: r.inventory.recorded,
	}
	if r.Fault = r.invalid; r.fault != nil {
		r.Fault, r.Inventory = r.fault, device.Inventory{}
	}
	v.err = v.each(r.ProviderSnapshot)
	return v.err
}
