package placement

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"burnish/internal/inventory"
)

// seen is a provider's inventory as it was read, or written, at one generation. It
// is true for as long as that is the present one.
type cachedInventory struct {
	generation      int64
	class           string
	total, reserved int
	ratio           float64
	// fields is the record as Placement gave it, to be written back.
	fields map[string]any
}

func (s cachedInventory) reservation() inventory.Reservation {
	return inventory.Reservation{Generation: s.generation, Total: s.total, Reserved: s.reserved}
}

// write gives the body that sets reserved at a generation and leaves the rest.
func (s cachedInventory) write(generation int64, reserved int) body {
	b := maps.Clone(s.fields)
	b["reserved"] = reserved
	b["resource_provider_generation"] = generation
	return b
}

// body is a request's body, for whichever of gophercloud's calls takes it.
type body map[string]any

// ToResourceProviderUpdateInventoryMap is gophercloud's.
func (b body) ToResourceProviderUpdateInventoryMap() (map[string]any, error) { return b, nil }

// ToResourceProviderUpdateInventoriesMap is gophercloud's.
func (b body) ToResourceProviderUpdateInventoriesMap() (map[string]any, error) { return b, nil }

// ToResourceProviderUpdateTraitsMap is gophercloud's.
func (b body) ToResourceProviderUpdateTraitsMap() (map[string]any, error) { return b, nil }

// record reads one inventory's fields. What is missing is an error, never 0: a
// reserved that was not said must not look like a device that is free.
func record(class string, generation int64, fields map[string]any) (cachedInventory, error) {
	s := cachedInventory{generation: generation, class: class, fields: fields}
	for name, into := range map[string]*int{"total": &s.total, "reserved": &s.reserved} {
		n, ok := fields[name].(json.Number)
		if !ok {
			return cachedInventory{}, fmt.Errorf("an inventory without %s", name)
		}
		v, err := n.Int64()
		if err != nil {
			return cachedInventory{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = int(v)
	}
	s.ratio = 1
	if n, ok := fields["allocation_ratio"].(json.Number); ok {
		v, err := n.Float64()
		if err != nil {
			return cachedInventory{}, fmt.Errorf("allocation_ratio: %w", err)
		}
		s.ratio = v
	}
	return s, nil
}

// memory is what was last read or written of each provider's inventory.
type inventoryCache struct {
	mu sync.Mutex
	by map[string]cachedInventory
}

// keep remembers what was read last, also where its generation is lower: Placement's
// database may have been put back to an earlier time.
func (m *inventoryCache) keep(uuid string, s cachedInventory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.by[uuid] = s
}

// at gives what is known of the provider at exactly this generation.
func (m *inventoryCache) at(uuid string, generation int64) (cachedInventory, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.by[uuid]
	return s, ok && s.generation == generation
}

// class gives the class that the provider last had, "" if unknown.
func (m *inventoryCache) class(uuid string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[uuid].class
}

func (m *inventoryCache) drop(uuid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, uuid)
}
