package lifecycle_test

import (
	"context"
	"errors"
	"slices"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// fakeInventory is an inventory of one provider, in memory, with Placement's generations. It
// records every PutReserved, and calls injectFault before and after every call.
type fakeInventory struct {
	// created is the provider of the last Create.
	created      inventory.Provider
	exists       bool
	novaProvider string // the UUID of Nova's provider, or ""
	providerGone bool   // Nova's provider is gone, and not re-created yet
	generation   int64
	reserved     int
	consumers    []string
	tenant       *string       // who has the device, by the provider's record
	rest         device.Record // what else it records
	hardware     []string
	// elsewhere are records under other names than d1.
	elsewhere []inventory.HardwareRecord
	writes    []write
	uuids     []string // the provider that each call named
	// injectFault may fail a call before it has effect, or lose its answer after.
	injectFault func(call string, after bool) error
	// onWrite is called after every change of reserved or of the consumers.
	onWrite func(what string)
}

// write is one PutReserved.
type write struct {
	generation int64
	reserved   int
	done       bool // it had effect
}

var errConnectionLost = errors.New("connection lost")

// lostAnswer is the error of a call that did not arrive, or whose answer did not.
func lostAnswer() error { return inventory.Unavailable("inventory", "wait", errConnectionLost) }

func (s *fakeInventory) call(name, uuid string, do func() error) error {
	s.uuids = append(s.uuids, uuid)
	if s.injectFault != nil {
		if err := s.injectFault(name, false); err != nil {
			return err
		}
	}
	if !s.exists && name != "Create" && name != "Delete" || s.novaProvider != "" &&
		(uuid != s.novaProvider || s.providerGone) {
		return inventory.NoProvider(uuid)
	}
	if err := do(); err != nil {
		return err
	}
	if s.injectFault != nil {
		return s.injectFault(name, true)
	}
	return nil
}

func (s *fakeInventory) notify(what string) {
	if s.onWrite != nil {
		s.onWrite(what)
	}
}

func (s *fakeInventory) Create(_ context.Context, p inventory.Provider) error {
	s.created = p
	return s.call("Create", p.UUID, func() error {
		if !s.exists {
			s.exists, s.generation, s.reserved, s.consumers, s.tenant, s.hardware = true, 0, 1, nil, nil, nil
			s.notify("create")
		}
		if now := inventory.WithHardware(s.hardware, p); !slices.Equal(s.hardware, now) {
			s.hardware, s.generation = now, s.generation+1
		}
		return nil
	})
}

// OfHardware gives d1's provider and those of other names.
func (s *fakeInventory) OfHardware(_ context.Context, hardware string) ([]inventory.Provider, error) {
	if s.injectFault != nil {
		if err := s.injectFault("OfHardware", false); err != nil {
			return nil, err
		}
	}
	var found []inventory.Provider
	if s.exists && slices.Contains(s.hardware, hardware) {
		found = append(found, s.created)
	}
	for _, r := range s.elsewhere {
		if r.Hardware == hardware {
			found = append(found, r.Provider)
		}
	}
	return found, nil
}

// of gives the record of another name.
func (s *fakeInventory) of(uuid string) (inventory.HardwareRecord, bool) {
	i := slices.IndexFunc(s.elsewhere, func(r inventory.HardwareRecord) bool { return r.UUID == uuid })
	if i < 0 {
		return inventory.HardwareRecord{}, false
	}
	return s.elsewhere[i], true
}

// Find gives Nova's provider, which is free until Nova or Burnish reserves it.
func (s *fakeInventory) Find(_ context.Context, name string) (inventory.Provider, error) {
	if s.providerGone {
		return inventory.Provider{}, inventory.NoNovaProvider(name)
	}
	if s.novaProvider == "" {
		s.recreate("nova-1")
	}
	return inventory.Provider{UUID: s.novaProvider, Name: name}, nil
}

// recreate creates or re-creates Nova's provider, as Nova does: nothing is reserved.
func (s *fakeInventory) recreate(id string) {
	s.providerGone = false
	s.novaProvider, s.exists, s.generation, s.reserved, s.consumers, s.tenant = id, true, 0, 0, nil, nil
	s.notify("create")
}

func (s *fakeInventory) Usages(_ context.Context, uuid string) (inventory.Usage, error) {
	if other, is := s.of(uuid); is {
		return inventory.Usage{Generation: other.Generation, Used: other.Used, Consumers: other.Consumers}, nil
	}
	var u inventory.Usage
	err := s.call("Usages", uuid, func() error {
		u = inventory.Usage{Generation: s.generation, Used: len(s.consumers), Consumers: slices.Clone(s.consumers)}
		return nil
	})
	if err != nil {
		return inventory.Usage{}, err
	}
	return u, nil
}

func (s *fakeInventory) Reservation(_ context.Context, uuid string) (inventory.Reservation, error) {
	if other, is := s.of(uuid); is {
		r := inventory.Reservation{Generation: other.Generation, Total: 1, Reserved: 1}
		r.Witness, r.Tenant = other.Witness, other.Tenant
		return r, nil
	}
	var st inventory.Reservation
	err := s.call("Reservation", uuid, func() error {
		st = s.snapshot()
		return nil
	})
	if err != nil {
		return inventory.Reservation{}, err
	}
	return st, nil
}

func (s *fakeInventory) PutReserved(_ context.Context, uuid string, generation int64, reserved int,
	record *device.Record) (inventory.Reservation, error) {
	var st inventory.Reservation
	err := s.call("PutReserved", uuid, func() error {
		w := write{generation: generation, reserved: reserved, done: generation == s.generation}
		s.writes = append(s.writes, w)
		if !w.done {
			return inventory.Conflict(uuid, generation)
		}
		s.reserved = reserved
		if record != nil {
			s.tenant, s.rest = &record.Tenant, *record
		}
		s.generation++
		s.notify("put")
		st = s.snapshot()
		return nil
	})
	if err != nil {
		return inventory.Reservation{}, err
	}
	return st, nil
}

func (s *fakeInventory) Delete(_ context.Context, uuid string) error {
	return s.call("Delete", uuid, func() error {
		if len(s.consumers) > 0 {
			return inventory.InUse(uuid, s.consumers)
		}
		s.exists = false
		return nil
	})
}

func (s *fakeInventory) snapshot() inventory.Reservation {
	st := inventory.Reservation{Generation: s.generation, Total: 1, Reserved: s.reserved}
	if s.tenant != nil {
		st.Record = device.RecordOf(*s.tenant)
		st.Hold, st.Bindings, st.Cleans = s.rest.Hold, s.rest.Bindings, s.rest.Cleans
	}
	return st
}

// allocate allocates as a scheduler does; it says whether the capacity allowed it.
func (s *fakeInventory) allocate(consumer string) bool {
	if !s.exists || len(s.consumers)+1 > 1-s.reserved {
		return false
	}
	s.allocateUnchecked(consumer)
	return true
}

// allocateUnchecked allocates regardless of the capacity, as an operator or a restored database
// may.
func (s *fakeInventory) allocateUnchecked(consumer string) {
	s.consumers = append(s.consumers, consumer)
	s.generation++
	s.notify("allocate")
}

// free ends an allocation; as in Placement the generation stays.
func (s *fakeInventory) free(consumer string) {
	s.consumers = slices.DeleteFunc(s.consumers, func(c string) bool { return c == consumer })
	s.notify("free")
}

// writeByOther writes reserved as another client than Burnish.
func (s *fakeInventory) writeByOther(reserved int) {
	s.reserved = reserved
	s.generation++
	s.notify("outsider")
}

// unreserves gives the writes that set reserved to 0.
func (s *fakeInventory) unreserves() []write {
	var all []write
	for _, w := range s.writes {
		if w.reserved == 0 {
			all = append(all, w)
		}
	}
	return all
}

// times fails the first n calls with an error of fail.
func times(n int, call string, after bool, fail func() error) func(string, bool) error {
	return func(name string, isAfter bool) error {
		if name != call || isAfter != after || n == 0 {
			return nil
		}
		n--
		return fail()
	}
}

// fault makes the error of a code and class, as a backend would return it.
func fault(class device.Class, code device.Code) func() error {
	return func() error {
		return &device.Fault{Class: class, Code: code, Message: "scripted " + string(code)}
	}
}
