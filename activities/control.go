package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/proof"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Control holds the activities of a control worker: the inventory, and queries to the
// Temporal server.
type Control struct {
	Store  inventory.Store
	Client *client.Client
	// Real: schedulers allocate what is in Store, so that no fake device may be in it.
	Real bool
	// Gate has hosts prove their cleans before a device is offered; nil: what they answer is believed.
	Gate *proof.Gate
}

// Activities gives all activities of a control worker by name.
func (c *Control) Activities() map[string]any {
	return map[string]any{
		contract.ActivityEnsureProvider: c.EnsureProvider, contract.ActivityReserveForBind: c.ReserveForBind,
		contract.ActivityReadReservation: c.ReadReservation,
		contract.ActivityEnsureReserved:  c.EnsureReserved, contract.ActivityUnreserve: c.Unreserve,
		contract.ActivityDeleteProvider:  c.DeleteProvider,
		contract.ActivityFindPreviousRun: c.FindPreviousRun, contract.ActivityFindBySerial: c.FindBySerial,
		contract.ActivityForgetLater: c.ForgetLater,
	}
}

// EnsureProvider creates the device's provider, reserved, or reserves the one that exists.
// A provider of Nova's is only reserved, never created. A second run finds it done.
// Retried: an inventory that does not answer.
func (c *Control) EnsureProvider(ctx context.Context, in contract.ReservationRequest) (device.Inventory, error) {
	return c.withProvider(ctx, in, func(id string) (device.Inventory, error) {
		if in.Owner == device.OwnerNova {
			return inventory.EnsureReserved(ctx, c.Store, id, nil, inventory.Holder{})
		}
		return inventory.EnsureProvider(ctx, c.Store, inventory.Provider{
			UUID: id, Name: in.Name, Class: in.Class, Traits: in.Traits,
			Hardware: in.Hardware, FormerHardware: in.FormerHardware,
		})
	})
}

// ReserveForBind reserves the device for a bind, records its instance in the same write
// (F24), and reads both back (S0.4). A
// second run accepts the write of a first one whose answer was lost. Retried: an inventory
// that does not answer. Final: a device in use, a reservation by someone else, a
// generation that is newer than the workflow's.
func (c *Control) ReserveForBind(ctx context.Context, in contract.ReservationRequest) (device.Inventory, error) {
	return c.withProvider(ctx, in, func(id string) (device.Inventory, error) {
		return inventory.ReserveForBind(ctx, c.Store, id, recordFor(in), in.Expect, earlierWrites(ctx, in) > 0)
	})
}

// ReadReservation reads the device's provider. It writes nothing. Retried: an inventory
// that does not answer.
func (c *Control) ReadReservation(ctx context.Context, in contract.ReservationRequest) (device.Inventory, error) {
	return c.withProvider(ctx, in, func(id string) (device.Inventory, error) { return inventory.Read(ctx, c.Store, id) })
}

// EnsureReserved reserves the device's provider unless it is reserved, and reads it back
// (F4). The same write records who has it; another instance's record stays, and the
// snapshot shows it (F24). A second run finds it reserved. Retried: an inventory that does
// not answer.
func (c *Control) EnsureReserved(ctx context.Context, in contract.ReservationRequest) (device.Inventory, error) {
	return c.withProvider(ctx, in, func(id string) (device.Inventory, error) {
		holder := inventory.Holder{Record: recordFor(in), Left: in.Left, LeftGeneration: in.LeftGeneration}
		if in.Provider == "" {
			// Each earlier attempt may have written once before its answer was lost. To a
			// provider of Nova's others write too: there the doubt stays, and it is cleaned.
			holder.Earlier = earlierWrites(ctx, in)
		}
		if c.Gate != nil && (in.Owner == device.OwnerNova || id == contract.DeviceUUID(in.Name)) {
			holder.Receipt = func(before, now device.Inventory) string {
				return c.Gate.Give(in.Name, id, before, now, in.Receipt)
			}
		}
		return inventory.EnsureReserved(ctx, c.Store, id, in.Expect, holder)
	})
}

// Unreserve lowers the reservation with exactly the given generation, and reads it back
// (F5). It reads no generation itself, and writes to the provider that the generation is
// of. The server never retries it. Final: a clean that its host does not prove.
func (c *Control) Unreserve(ctx context.Context, in contract.ReservationRequest) (device.Inventory, error) {
	id := in.UUID
	if in.Owner == device.OwnerNova {
		id = in.Provider
	}
	if c.Gate != nil {
		if err := c.Gate.MayOffer(in.Name, id, in.Generation, in.Receipt, in.Statements); err != nil {
			return device.Inventory{}, asError(err, in.Name)
		}
	}
	v, err := inventory.Unreserve(ctx, c.Store, id, in.Generation)
	return of(in.Provider, v), asError(err, in.Name)
}

// DeleteProvider deletes the device's provider; one of Nova's stays, reserved. A second run
// finds nothing to do. Retried: an inventory that does not answer.
//
// Where hosts prove their cleans, each stays: another one of the same UUID would count its generations from 0, and old
// proofs would be of it.
func (c *Control) DeleteProvider(ctx context.Context, in contract.ReservationRequest) (device.Inventory, error) {
	if in.Owner == device.OwnerNova || c.Gate != nil {
		return device.Inventory{}, nil
	}
	return device.Inventory{}, asError(c.Store.Delete(ctx, in.UUID), in.Name)
}

// withProvider calls do with the UUID of the device's provider: Burnish's own, or the one
// that Nova created. If Nova's was deleted since it was found, it searches once more.
func (c *Control) withProvider(ctx context.Context, in contract.ReservationRequest,
	do func(id string) (device.Inventory, error)) (device.Inventory, error) {
	if c.Real && in.Driver == "fake" { // SAFETY F13
		return device.Inventory{}, asError(&device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed,
			Message: "a fake device has no place in a real inventory", Remedy: "enroll it where BURNISH_INVENTORY=file"},
			in.Name)
	}
	if in.Owner != device.OwnerNova {
		v, err := do(in.UUID)
		return v, asError(err, in.Name)
	}
	nova, ok := c.Store.(inventory.NovaProviders)
	if !ok {
		return device.Inventory{}, asError(inventory.Invalid("this inventory holds no providers of Nova's",
			"set BURNISH_INVENTORY=placement, or enroll "+in.Name+" with owner=self"), in.Name)
	}
	for again := true; ; again = false {
		p, err := nova.Find(ctx, in.Name)
		if err != nil {
			return device.Inventory{}, asError(err, in.Name)
		}
		if in.Provider != "" && p.UUID != in.Provider {
			return device.Inventory{}, asError(providerRecreated(in), in.Name)
		}
		v, err := do(p.UUID)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProvider && again {
			continue
		}
		return observedByNova(of(p.UUID, v)), asError(err, in.Name)
	}
}

// observedByNova adds who has a device of Nova's: Nova's allocations say so (F24).
func observedByNova(found device.Inventory) device.Inventory {
	consumer := ""
	if found.Used > 0 {
		consumer = device.Inventory{Consumers: found.Consumers}.Consumer()
	}
	found.Record = device.RecordOf(consumer)
	return found
}

// earlierWrites is how often this call may have written before, with an answer that was lost.
func earlierWrites(ctx context.Context, in contract.ReservationRequest) int64 {
	return int64(activity.GetInfo(ctx).Attempt) - 1 + int64(in.EarlierWrites)
}

// recordFor is what a write records; nil for a provider of Nova's, where Nova's allocations
// are the record.
func recordFor(in contract.ReservationRequest) *device.Record {
	if in.Owner == device.OwnerNova {
		return nil
	}
	return in.Record
}

// providerRecreated is the fault of a reserved device whose provider Nova has re-created: the
// new one was free to be allocated. Nothing is written to it.
func providerRecreated(in contract.ReservationRequest) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInventoryGenerationAhead,
		Message: "the provider of " + in.Name + " was re-created since Burnish burned it",
		Remedy:  "none: an instance may have had it, and it is cleaned"}
}

// unlisted is the fault of a listing that the server did not give, or not in time.
func unlisted(err error) error {
	if _, ok := device.AsFault(err); ok || err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeServerUnreachable, Message: err.Error(),
		Remedy: "try again; if it goes on, check the server's visibility store, and how many requests it allows " +
			"(frontend.namespaceRPS.visibility)"}
}

// ForgetLater leaves the name of a forgotten device with the workflow of its host, which is
// away: the host's worker forgets it when it starts. A second run leaves it once. Final: as
// many names wait for that host as are kept. Retried: a server that does not answer.
func (c *Control) ForgetLater(ctx context.Context, in contract.ForgetLaterInput) error {
	waiting, err := c.Client.Forgotten(ctx, in.Host)
	if err != nil {
		return asError(err, in.Name)
	}
	if len(waiting) >= contract.KeptForgotten {
		return asError(&device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
			Message: fmt.Sprintf("%d forgotten devices wait for host %s, which is away", len(waiting), in.Host),
			Remedy:  "start burnish-worker there; if " + in.Name + " comes back, retire and forget it again"}, in.Name)
	}
	return asError(c.Client.ScanNow(ctx, in.Host, contract.ScanRequest{Source: "forget", Forget: []string{in.Name}}),
		in.Name)
}

// FindPreviousRun finds the newest run of this device's workflow that did not end by itself
// (terminated, canceled, timed out, reset or failed), and which instance had the device then. The
// answer is empty where there is none, or where the device was forgotten since. It changes
// nothing; every error is retried.
func (c *Control) FindPreviousRun(ctx context.Context, name string) (contract.PreviousRun, error) {
	found, err := c.Client.FindPreviousRun(ctx, name)
	return found, asError(unlisted(err), name)
}

// of is what the inventory says of a provider of Nova's, or, with "", of Burnish's own.
func of(provider string, v device.Inventory) device.Inventory {
	v.Provider = provider
	return v
}
