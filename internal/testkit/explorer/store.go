package explorer

import (
	"context"
	"strconv"

	"burnish/internal/device"
	"burnish/internal/inventory"
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
		u.Used, u.Consumers = 1, []string{s.used.String()}
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
		r.Record = device.RecordOf(s.tenant.String())
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

// carryOut carries a call of the inventory out, as activities/control.go does.
func (t turn) carryOut(c call) (device.Inventory, device.Code) {
	i, wasReserved := &t.w.inv, t.w.inv.reserved
	found, err := t.request(store{i}, c)
	if c.kind == lower {
		t.w.attended = false // it is out of the host's hands again
	}
	if wasReserved && !i.reserved && i.exists && t.unaccounted() != noParty {
		t.broken("the reservation is lowered, and the device holds the bytes of " + t.w.bytes[t.w.slot].String())
	}
	if wasReserved && !i.reserved && i.exists && t.w.held {
		t.broken("an operator holds the device, and it is offered")
	}
	if err != nil {
		f, ok := device.AsFault(err)
		if !ok {
			t.broken("no fault: " + err.Error())
			return device.Inventory{}, device.CodeInternal
		}
		return device.Inventory{}, f.Code
	}
	return t.without.answer(found), ""
}

func (t turn) request(s store, c call) (device.Inventory, error) {
	ctx := context.Background()
	id := strconv.Itoa(int(s.provider))
	if c.kind == lower {
		id = strconv.Itoa(int(c.provider))
		v, err := inventory.Unreserve(ctx, s, id, int64(c.generation))
		return t.inventoryOf(v, c.provider), err
	}
	if t.nova && !s.exists {
		return device.Inventory{}, inventory.NoProvider(id)
	}
	if t.nova && c.provider != 0 && c.provider != s.provider {
		return device.Inventory{}, &device.Fault{Code: device.CodeInventoryGenerationAhead}
	}
	var expect *int64
	if c.expects {
		e := int64(c.expect)
		expect = &e
	}
	if t.nova {
		c.tenant = keepTenant
	}
	var v device.Inventory
	var err error
	switch c.kind {
	case resolve:
		if !t.nova {
			if err := s.Create(ctx, inventory.Provider{UUID: id}); err != nil {
				return device.Inventory{}, err
			}
		}
		v, err = inventory.EnsureReserved(ctx, s, id, nil, inventory.Holder{})
	case readReservation, lowerRead, readToLeave:
		v, err = inventory.Read(ctx, s, id)
	case bindReserve:
		v, err = inventory.ReserveForBind(ctx, s, id, c.holder().Record, expect, c.earlier() > 0)
	default:
		if expect != nil && c.provider == 0 {
			*expect += c.earlier()
		}
		v, err = inventory.EnsureReserved(ctx, s, id, expect, c.holder())
	}
	return t.inventoryOf(v, s.provider), err
}

// earlier is how often the call may have written before: activities.earlierWrites.
func (c call) earlier() int64 {
	if c.inTask {
		return int64(c.attempt)
	}
	return int64(c.attempt) - 1
}

// holder is what the call records of who has the device.
func (c call) holder() inventory.Holder {
	of := device.RecordOf(c.who.String())
	switch c.tenant {
	case clearTenant:
		of = device.RecordOf("")
	case keepTenant:
		return inventory.Holder{}
	}
	of.Hold, of.Bindings, of.Cleans = c.hold, int(c.bindings), int(c.cleans)
	return inventory.Holder{Record: &of, Left: c.left.String(), LeftGeneration: int64(c.leftGeneration)}
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
