// Package inventory is the port to the store of reservations that schedulers read, with
// OpenStack Placement's semantics, and the rules (SAFETY F4 and F5) by which Burnish
// raises and lowers `reserved` in it. A backend is a folder below this one, one line in
// backends/backends.go, and a test that calls inventorytest.
package inventory

import (
	"context"

	"burnish/internal/device"
)

// Provider is the resource provider of one device: one device, one provider,
// total = 1 (S0.14, S2.37).
type Provider struct {
	UUID   string   `json:"uuid"`
	Name   string   `json:"name"`
	Class  string   `json:"class"`
	Traits []string `json:"traits,omitempty"`
	// Hardware is the device.Identity.Hardware of the device; "" if that is not known.
	// FormerHardware is the one that it replaces (D10).
	Hardware       string `json:"hardware,omitempty"`
	FormerHardware string `json:"former_hardware,omitempty"`
}

// Reservation is a provider's inventory of its one resource class, at one generation.
type Reservation struct {
	Generation int64 `json:"generation"`
	Total      int   `json:"total"`
	Reserved   int   `json:"reserved"`
	// Record is what the provider records beside it.
	device.Record
}

// Usage is what is allocated of a provider, at one generation. It names the consumers
// if the backend knows them.
type Usage struct {
	Generation int64    `json:"generation"`
	Used       int      `json:"used"`
	Consumers  []string `json:"consumers,omitempty"`
}

// Store is the port: Placement's calls, one request each. Errors hold a *device.Fault:
// no_provider, conflict (the generation is not the present one, and nothing was
// written), in_use, inventory_invalid (final), or inventory_unavailable (transient:
// whether the call took effect is unknown). The end of the context is
// inventory_unavailable, and errors.Is finds the context's error too.
//
// Each PutReserved raises the generation by exactly one, also if it writes the present
// value, and each allocation raises it; the end of an allocation does NOT. So an
// unchanged generation proves that nothing was allocated since, and never that nothing
// was released.
type Store interface {
	// Create creates the provider with total 1 and reserved 1: it is burned from the
	// start, and without a record of who has it. If it exists with this UUID and name, only
	// the hardware is recorded, beside what is recorded, without the former one; that may raise
	// the generation. If the UUID has another name, or, where others make providers too, the name
	// another UUID: inventory_invalid.
	Create(ctx context.Context, p Provider) error
	// OfHardware lists the providers, by UUID and name, that record this hardware (F35). It
	// finds one from its Create until its Delete. A UUID that no provider has gives none.
	OfHardware(ctx context.Context, hardware string) ([]Provider, error)
	// Usages reads what is allocated.
	Usages(ctx context.Context, uuid string) (Usage, error)
	// Reservation reads the inventory.
	Reservation(ctx context.Context, uuid string) (Reservation, error)
	// PutReserved writes reserved if generation is the provider's present one, and
	// returns the reservation with the new generation. It may be written while allocated.
	// Below the total it is written only where that is 1: otherwise inventory_invalid.
	// The same write replaces the record of the device (F24), whose Witness is free or bound;
	// nil keeps it as it is.
	PutReserved(ctx context.Context, uuid string, generation int64, reserved int,
		record *device.Record) (Reservation, error)
	// Delete removes the provider. Without one there is no error; in use is in_use.
	Delete(ctx context.Context, uuid string) error
}

// NovaProviders is a Store that also holds the providers that Nova creates for its
// devices (owner nova). Burnish reads them and changes their reserved by Store's calls;
// it never creates or deletes one.
type NovaProviders interface {
	// Find gives the provider that Nova created for the device called name,
	// `<host>_<address>` in lower case; its Name is Nova's. The answer may be cached, but
	// never has a UUID that is known to be gone. Faults are those of Store; the provider
	// without the one-time-use trait is no_provider too.
	Find(ctx context.Context, name string) (Provider, error)
}

// ProviderSnapshot is what a Lister shows of one provider: a hint, read in several
// moments. A caller that acts on it reads the provider first.
type ProviderSnapshot struct {
	Provider
	// Device is the name of the device, `<host>_<address>` in lower case, of Nova's
	// provider; "" for our own.
	Device string `json:"device,omitempty"`
	// Host is the device's host in lower case, as Burnish calls it.
	Host string `json:"host,omitempty"`
	device.Inventory
	// Fault is why the provider, which is there, could not be read. With it the snapshot has
	// no meaning, unless it is inventory_invalid: then the inventory counts as empty.
	Fault *device.Fault `json:"fault,omitempty"`
	// ListedOnly says that nothing but the list was asked about it, because its device is not
	// wanted: the snapshot has no meaning.
	ListedOnly bool `json:"listed_only,omitempty"`
}

// Lister is a Store that reads many providers in few requests, at most eight of them at
// once. Both calls pass each provider to each, one after the other, and end with its
// error. A provider that cannot be read is passed on with its fault, and ends neither; an
// inventory that answers nothing any more ends both.
type Lister interface {
	// ListNova lists all one-time-use providers of Nova, or, with hosts, those of these
	// hosts (names as Burnish calls them). Those of devices that wanted refuses are passed on
	// as the list has them, and cost no request; nil wants all. An inventory that an earlier
	// call read, and that did not change, is not read again; usages are, because the end of an
	// allocation changes no generation.
	ListNova(ctx context.Context, hosts []string, wanted func(device string) bool,
		each func(ProviderSnapshot) error) error
	// ListOwn lists those of the given providers of our own that exist.
	ListOwn(ctx context.Context, uuids []string, each func(ProviderSnapshot) error) error
}
