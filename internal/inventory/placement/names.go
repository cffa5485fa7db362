package placement

import (
	"context"
	"strings"
	"sync"
	"time"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// A list of all names serves for namesLast times as long as it took to read, and at
// least for namesAtLeast: enrolling a fleet must not read it for each device.
// Meanwhile Placement itself refuses the very same name.
const (
	namesLifetimeFactor = 10
	namesMinLifetime    = time.Second
)

// named is a provider by its name.
type namedProvider struct{ uuid, name string }

// names is a list of all of Placement's providers, of any owner.
type nameCache struct {
	turn chan struct{} // held by who reads the list

	mu    sync.Mutex
	until time.Time                  // it serves
	name  map[string][]namedProvider // by lower case, and by the device that it may be for
}

// nameIsFree refuses a name that another provider has, in whichever case, or under
// Nova's name of the host: one device, one provider (S0.14).
func (s *Store) nameIsFree(ctx context.Context, p inventory.Provider) error {
	if err := s.readNames(ctx); err != nil {
		return err
	}
	for _, other := range s.names.find(p.Name) {
		if other.uuid == p.UUID {
			continue
		}
		// The list may be older than this.
		have, err := s.provider(ctx, other.uuid)
		if isCode(err, device.CodeNoProvider) {
			continue
		}
		if err != nil {
			return err
		}
		if !strings.EqualFold(have.Name, p.Name) && s.deviceOf(have.Name).name != strings.ToLower(p.Name) {
			continue
		}
		return s.nameTaken(ctx, p, namedProvider{have.UUID, have.Name})
	}
	return nil
}

func (s *Store) nameTaken(ctx context.Context, p inventory.Provider, by namedProvider) error {
	traits, _, err := s.readTraits(ctx, by.uuid)
	if err != nil {
		return err
	}
	for _, trait := range traits {
		if trait == s.trait(OwnTrait) {
			return inventory.Invalid(
				"the name "+by.name+" belongs to provider "+by.uuid+", not to "+p.UUID,
				"delete the other provider if its device is gone, or give this one another name")
		}
	}
	return s.notOurs(by.uuid, by.name)
}

// readNames reads the list if the last one is too old.
func (s *Store) readNames(ctx context.Context) error {
	select {
	case s.names.turn <- struct{}{}:
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
	defer func() { <-s.names.turn }()
	if s.names.fresh() {
		return nil
	}
	began := time.Now()
	all, err := s.list(ctx, "", "")
	if err != nil {
		return err
	}
	by := map[string][]namedProvider{}
	for _, p := range all {
		lower, n := strings.ToLower(p.Name), namedProvider{p.UUID, p.Name}
		by[lower] = append(by[lower], n)
		if d := s.deviceOf(p.Name).name; d != lower {
			by[d] = append(by[d], n)
		}
	}
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	s.names.name, s.names.until = by, began.Add(max(namesMinLifetime, namesLifetimeFactor*time.Since(began)))
	return nil
}

func (n *nameCache) fresh() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.name != nil && time.Now().Before(n.until)
}

func (n *nameCache) find(name string) []namedProvider {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]namedProvider(nil), n.name[strings.ToLower(name)]...)
}

// add notes a provider that this process made.
func (n *nameCache) add(p namedProvider) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.name != nil {
		lower := strings.ToLower(p.name)
		n.name[lower] = append(n.name[lower], p)
	}
}

// drop makes the next look read the list.
func (n *nameCache) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.name = nil
}
