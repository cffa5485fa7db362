package placement

import (
	"encoding/json"
	"fmt"
	"maps"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// cachedInventory is a provider's inventory as it was read, or written, at one
// generation. It is true for as long as that is the provider's present one.
type cachedInventory struct {
	generation      int64
	class           string
	total, reserved int
	ratio           float64
	// recorded is in the inventories of TenantClass and RecordClass.
	recorded device.Record
	// fields is the record as Placement gave it, to be written back.
	fields map[string]any
}

func (s cachedInventory) reservation() inventory.Reservation {
	return inventory.Reservation{
		Generation: s.generation, Total: s.total, Reserved: s.reserved, Record: s.recorded,
	}
}

// write gives the body that sets reserved at a generation and leaves the rest, also the
// inventory of another class.
func (s cachedInventory) write(generation int64, reserved int) body {
	b := maps.Clone(s.fields)
	b["reserved"] = reserved
	b["resource_provider_generation"] = generation
	return b
}

// writeAll gives the body that sets reserved and the record: all inventories that the provider
// will have.
func (s cachedInventory) writeAll(generation int64, reserved int, of device.Record) body {
	b := maps.Clone(s.fields)
	b["reserved"] = reserved
	return body{
		"resource_provider_generation": generation,
		"inventories":                  map[string]any{s.class: b, TenantClass: tenantFields(of.Tenant), RecordClass: restFields(of)},
	}
}

// body is a request's body, for whichever of gophercloud's calls takes it.
type body map[string]any

// ToResourceProviderUpdateInventoryMap is gophercloud's.
func (b body) ToResourceProviderUpdateInventoryMap() (map[string]any, error) { return b, nil }

// ToResourceProviderUpdateInventoriesMap is gophercloud's.
func (b body) ToResourceProviderUpdateInventoriesMap() (map[string]any, error) { return b, nil }

// ToResourceProviderUpdateTraitsMap is gophercloud's.
func (b body) ToResourceProviderUpdateTraitsMap() (map[string]any, error) { return b, nil }

// ToResourceProviderUpdateAggregatesMap is gophercloud's.
func (b body) ToResourceProviderUpdateAggregatesMap() (map[string]any, error) { return b, nil }

// record reads one inventory's fields. A missing field is an error, never 0: without
// reserved, the device must not count as free.
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
