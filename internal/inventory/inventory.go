// Package inventory keeps a device's reservation where schedulers look for it: the
// port to a store with OpenStack Placement's semantics, and the rules (SAFETY F4
// and F5) by which Burnish raises and lowers `reserved` through it. A backend is a
// folder below this one, one line in all/all.go, and a test that calls inventorytest.
package inventory

import "context"

// Provider is the resource provider of one device: one device, one provider,
// total = 1 (S0.14, S2.37).
type Provider struct {
	UUID   string   `json:"uuid"`
	Name   string   `json:"name"`
	Class  string   `json:"class"`
	Traits []string `json:"traits,omitempty"`
}

// Stock is a provider's inventory of its one resource class, at one generation.
type Stock struct {
	Generation int64 `json:"generation"`
	Total      int   `json:"total"`
	Reserved   int   `json:"reserved"`
}

// Usage is what consumers hold of a provider, at one generation. Consumers are
// named where the backend knows them.
type Usage struct {
	Generation int64    `json:"generation"`
	Used       int      `json:"used"`
	Consumers  []string `json:"consumers,omitempty"`
}

// Store is the port: Placement's calls as they are, one request each. Errors hold a
// *device.Fault: no_provider (there is none), conflict (the generation is not the
// present one: nothing was written), in_use, inventory_invalid (final), and
// inventory_unavailable (transient: whether the call took effect is unknown). A
// context that ends is inventory_unavailable, and errors.Is finds its error too.
//
// The generation counts what may have changed a reader's mind, and misses one
// thing: each PutReserved raises it by exactly one, also where it writes the value
// that is already there, and each allocation raises it; the end of an allocation
// does NOT. So an unchanged generation proves that nothing was allocated since, and
// never that nothing was released.
type Store interface {
	// Create makes the provider with total 1 and reserved 1, burned from the first
	// moment on. A provider with this UUID and name already there: no change, no
	// error. Another UUID under the name, or another name under the UUID:
	// inventory_invalid.
	Create(ctx context.Context, p Provider) error
	// Usages reads what is allocated.
	Usages(ctx context.Context, uuid string) (Usage, error)
	// Stock reads the inventory.
	Stock(ctx context.Context, uuid string) (Stock, error)
	// PutReserved writes reserved if generation is the provider's present one, and
	// returns the stock with the new generation. It may be written while allocated.
	PutReserved(ctx context.Context, uuid string, generation int64, reserved int) (Stock, error)
	// Delete removes the provider. None there: no error. In use: in_use.
	Delete(ctx context.Context, uuid string) error
}
