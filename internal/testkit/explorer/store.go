package explorer

import (
	"context"
	"strconv"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// store is the provider as an inventory.Store, so that the product's own rules work on it.
type store struct{ *stock }

var _ inventory.Store = store{}

func (s store) missing(id string) bool { return !s.exists || id != strconv.Itoa(int(s.provider)) }

// Create implements inventory.Store.
func (s store) Create(_ context.Context, p inventory.Provider) error {
	if !s.exists {
		*s.stock = stock{exists: true, reserved: true}
	}
	return nil
}

// Usages implements inventory.Store.
func (s store) Usages(_ context.Context, id string) (inventory.Usage, error) {
	if s.missing(id) {
		return inventory.Usage{}, inventory.NoProvider(id)
	}
	u := inventory.Usage{Generation: int64(s.generation)}
	if s.used != noParty {
		u.Used, u.Consumers = 1, []string{s.used.id()}
	}
	return u, nil
}

// Reservation implements inventory.Store.
func (s store) Reservation(_ context.Context, id string) (inventory.Reservation, error) {
	if s.missing(id) {
		return inventory.Reservation{}, inventory.NoProvider(id)
	}
	r := inventory.Reservation{Generation: int64(s.generation), Total: 1, Reserved: number(s.reserved)}
	if s.recorded {
		r.Record = device.RecordOf(s.tenant.id())
		r.Hold, r.Bindings, r.Cleans = s.hold, int(s.bindings), int(s.cleans)
	}
	return r, nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// PutReserved implements inventory.Store.
func (s store) PutReserved(ctx context.Context, id string, generation int64, reserved int,
	of *device.Record) (inventory.Reservation, error) {
	switch {
	case s.missing(id):
		return inventory.Reservation{}, inventory.NoProvider(id)
	case generation != int64(s.generation):
		return inventory.Reservation{}, inventory.Conflict(id, generation)
	}
	s.generation++
	s.reserved = reserved == 1
	if of != nil {
		s.recorded, s.stock.tenant = true, whoIs(of.Tenant)
		s.hold, s.bindings, s.cleans = of.Hold, int8(of.Bindings), int8(of.Cleans)
	}
	return s.Reservation(ctx, id)
}

// OfHardware implements inventory.Store: no other name of the hardware is modeled.
func (s store) OfHardware(context.Context, string) ([]inventory.Provider, error) { return nil, nil }

// Delete implements inventory.Store.
func (s store) Delete(context.Context, string) error {
	*s.stock = stock{}
	return nil
}

// carryOut carries a call of the inventory out, as the control worker's activities do.
func (t turn) carryOut(c lifecycle.Call, attempt int8) (*device.Inventory, *device.Fault) {
	i, wasReserved := &t.w.inv, t.w.inv.reserved
	in := c.In.(contract.ReservationRequest)
	found, err := t.requested(store{i}, c, in, int64(attempt))
	if c.Activity == contract.ActivityUnreserve {
		t.w.attended = false // it is out of the host's hands again
	}
	lowered := wasReserved && !i.reserved && i.exists
	if left := t.unaccounted(); lowered && left != noParty && !(t.shared && left == stranger) { // F34: its bind asks again
		t.broken("the reservation is lowered, and the device holds the bytes of " + t.w.bytes[t.w.slot].String())
	}
	if lowered && t.w.held {
		t.broken("an operator holds the device, and it is offered")
	}
	if err != nil {
		f, ok := device.AsFault(err)
		if !ok {
			t.broken("no fault: " + err.Error())
		}
		return nil, f
	}
	return &found, nil
}

func (t turn) requested(s store, c lifecycle.Call, in contract.ReservationRequest,
	earlier int64) (device.Inventory, error) {
	ctx := context.Background()
	id := strconv.Itoa(int(s.provider))
	if c.How.InTask {
		earlier++ // the task may have been lost before
	}
	switch {
	case c.Activity == contract.ActivityUnreserve:
		id = in.Provider
		if id == "" {
			id = "0"
		}
		v, err := inventory.Unreserve(ctx, s, id, in.Generation)
		n, _ := strconv.Atoi(id)
		return t.inventoryOf(v, int8(n)), err
	case t.nova && !s.exists:
		return device.Inventory{}, inventory.NoProvider(id)
	case t.nova && in.Provider != "" && in.Provider != id:
		return device.Inventory{}, &device.Fault{Code: device.CodeInventoryGenerationAhead}
	}
	holder := inventory.Holder{Record: in.Record, Left: in.Left, LeftGeneration: in.LeftGeneration}
	if t.nova {
		holder = inventory.Holder{}
	}
	var v device.Inventory
	var err error
	switch c.Activity {
	case contract.ActivityEnsureProvider:
		if !t.nova {
			if err := s.Create(ctx, inventory.Provider{UUID: id}); err != nil {
				return device.Inventory{}, err
			}
		}
		v, err = inventory.EnsureReserved(ctx, s, id, nil, inventory.Holder{})
	case contract.ActivityReadReservation:
		v, err = inventory.Read(ctx, s, id)
	case contract.ActivityReserveForBind:
		v, err = inventory.ReserveForBind(ctx, s, id, holder.Record, in.Expect, earlier > 0)
	default:
		if in.Provider == "" {
			holder.Earlier = earlier
		}
		v, err = inventory.EnsureReserved(ctx, s, id, in.Expect, holder)
	}
	return t.inventoryOf(v, s.provider), err
}

func (t turn) inventoryOf(v device.Inventory, provider int8) device.Inventory {
	if !t.nova {
		return v
	}
	consumer := ""
	if v.Used > 0 {
		consumer = v.Consumer()
	}
	v.Provider, v.Record = strconv.Itoa(int(provider)), device.RecordOf(consumer)
	return v
}
