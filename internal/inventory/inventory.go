// Package inventory keeps a device's reservation where schedulers look for it: the
// port to a store with OpenStack Placement's semantics, and the rules (SAFETY F4
// and F5) by which Burnish raises and lowers `reserved` through it. A backend is a
// folder below this one, one line in backends/backends.go, and a test that calls inventorytest.
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

// Reservation is a provider's inventory of its one resource class, at one generation.
type Reservation struct {
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
	// Reservation reads the inventory.
	Reservation(ctx context.Context, uuid string) (Reservation, error)
	// PutReserved writes reserved if generation is the provider's present one, and
	// returns the stock with the new generation. It may be written while allocated.
	PutReserved(ctx context.Context, uuid string, generation int64, reserved int) (Reservation, error)
	// Delete removes the provider. None there: no error. In use: in_use.
	Delete(ctx context.Context, uuid string) error
}

// NovaProviders is a Store that also holds the providers which another service makes for
// its devices (owner nova). Burnish reads them, and raises and lowers their reserved
// by Store's calls; it never makes or deletes one.
type NovaProviders interface {
	// Find gives the provider that the other service made for the device called name,
	// `<host>_<address>` in lower case; Name is the one that the service gave it. It may
	// be answered from memory, but never with a UUID that is known to be gone. Faults
	// are those of Store; no_provider also where the provider does not bear the
	// one-time-use trait.
	Find(ctx context.Context, name string) (Provider, error)
}

// ProviderSnapshot is what a Lister shows of one provider: a hint, put together of several
// moments. Who acts on it looks for itself.
type ProviderSnapshot struct {
	Provider
	// Device is the name of the device, `<host>_<address>` in lower case, that a
	// foreign provider was made for; "" for one of our own.
	Device string `json:"device,omitempty"`
	// Host is the device's host in lower case, as Burnish calls it.
	Host string `json:"host,omitempty"`
	// Whole stock and use.
	ReservationSnapshot
}

// Lister is a Store that shows many providers in few requests, eight at a time at
// most. Both calls hand each provider to each, one after the other, and end with
// its error; at is called as requests are answered, so that a caller can heartbeat.
type Lister interface {
	// ListNova shows all one-time-use providers that other services made, or, with
	// hosts, those of these hosts alone (names as Burnish calls them). What an earlier
	// call of this process read and the list shows to be unchanged is not read again,
	// but for usages.
	ListNova(ctx context.Context, hosts []string, at func(), each func(ProviderSnapshot) error) error
	// ListOwn shows those of the given providers of our own that exist.
	ListOwn(ctx context.Context, uuids []string, at func(), each func(ProviderSnapshot) error) error
}
