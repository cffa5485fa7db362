// Package inventorysim is an inventory of one provider, in memory, with the generations of Placement.
package inventorysim

import (
	"context"
	"errors"
	"slices"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// Inventory is an inventory of one provider, in memory, with Placement's generations. It
// records every PutReserved, and calls InjectFault before and after every call.
type Inventory struct {
	// Created is the provider of the last Create.
	Created      inventory.Provider
	Exists       bool
	NovaProvider string // the UUID of Nova's provider, or ""
	ProviderGone bool   // Nova's provider is gone, and not re-created yet
	Generation   int64
	Reserved     int
	Consumers    []string
	Tenant       *string       // who has the device, by the provider's record
	Rest         device.Record // what else it records
	Hardware     []string
	// Elsewhere are records under other names than d1.
	Elsewhere []inventory.HardwareRecord
	Writes    []Write
	UUIDs     []string // the provider that each call named
	// InjectFault may fail a call before it has effect, or lose its answer after.
	InjectFault func(call string, after bool) error
	// OnWrite is called after every change of reserved or of the consumers.
	OnWrite func(what string)
}

// Write is one PutReserved.
type Write struct {
	Generation int64
	Reserved   int
	Done       bool // it had effect
}

var errConnectionLost = errors.New("connection lost")

// LostAnswer is the error of a call that did not arrive, or whose answer did not.
func LostAnswer() error { return inventory.Unavailable("inventory", "wait", errConnectionLost) }

func (s *Inventory) call(name, uuid string, do func() error) error {
	s.UUIDs = append(s.UUIDs, uuid)
	if s.InjectFault != nil {
		if err := s.InjectFault(name, false); err != nil {
			return err
		}
	}
	if !s.Exists && name != "Create" && name != "Delete" || s.NovaProvider != "" &&
		(uuid != s.NovaProvider || s.ProviderGone) {
		return inventory.NoProvider(uuid)
	}
	if err := do(); err != nil {
		return err
	}
	if s.InjectFault != nil {
		return s.InjectFault(name, true)
	}
	return nil
}

func (s *Inventory) notify(what string) {
	if s.OnWrite != nil {
		s.OnWrite(what)
	}
}

// Create makes the provider, which is reserved.
func (s *Inventory) Create(_ context.Context, p inventory.Provider) error {
	s.Created = p
	return s.call("Create", p.UUID, func() error {
		if !s.Exists {
			s.Exists, s.Generation, s.Reserved, s.Consumers, s.Tenant, s.Hardware = true, 0, 1, nil, nil, nil
			s.notify("create")
		}
		if now := inventory.WithHardware(s.Hardware, p); !slices.Equal(s.Hardware, now) {
			s.Hardware, s.Generation = now, s.Generation+1
		}
		return nil
	})
}

// OfHardware gives d1's provider and those of other names.
func (s *Inventory) OfHardware(_ context.Context, hardware string) ([]inventory.Provider, error) {
	if s.InjectFault != nil {
		if err := s.InjectFault("OfHardware", false); err != nil {
			return nil, err
		}
	}
	var found []inventory.Provider
	if s.Exists && slices.Contains(s.Hardware, hardware) {
		found = append(found, s.Created)
	}
	for _, r := range s.Elsewhere {
		if r.Hardware == hardware {
			found = append(found, r.Provider)
		}
	}
	return found, nil
}

// of gives the record of another name.
func (s *Inventory) of(uuid string) (inventory.HardwareRecord, bool) {
	i := slices.IndexFunc(s.Elsewhere, func(r inventory.HardwareRecord) bool { return r.UUID == uuid })
	if i < 0 {
		return inventory.HardwareRecord{}, false
	}
	return s.Elsewhere[i], true
}

// Find gives Nova's provider, which is free until Nova or Burnish reserves it.
func (s *Inventory) Find(_ context.Context, name string) (inventory.Provider, error) {
	if s.ProviderGone {
		return inventory.Provider{}, inventory.NoNovaProvider(name)
	}
	if s.NovaProvider == "" {
		s.Recreate("nova-1")
	}
	return inventory.Provider{UUID: s.NovaProvider, Name: name}, nil
}

// Recreate creates or re-creates Nova's provider, as Nova does: nothing is reserved.
func (s *Inventory) Recreate(id string) {
	s.ProviderGone = false
	s.NovaProvider, s.Exists, s.Generation, s.Reserved, s.Consumers, s.Tenant = id, true, 0, 0, nil, nil
	s.notify("create")
}

// Usages is of inventory.Store.
func (s *Inventory) Usages(_ context.Context, uuid string) (inventory.Usage, error) {
	if other, is := s.of(uuid); is {
		return inventory.Usage{Generation: other.Generation, Used: other.Used, Consumers: other.Consumers}, nil
	}
	var u inventory.Usage
	err := s.call("Usages", uuid, func() error {
		u = inventory.Usage{Generation: s.Generation, Used: len(s.Consumers), Consumers: slices.Clone(s.Consumers)}
		return nil
	})
	if err != nil {
		return inventory.Usage{}, err
	}
	return u, nil
}

// Reservation is of inventory.Store.
func (s *Inventory) Reservation(_ context.Context, uuid string) (inventory.Reservation, error) {
	if other, is := s.of(uuid); is {
		r := inventory.Reservation{Generation: other.Generation, Total: 1, Reserved: 1}
		r.Witness, r.Tenant = other.Witness, other.Tenant
		return r, nil
	}
	var st inventory.Reservation
	err := s.call("Reservation", uuid, func() error {
		st = s.Snapshot()
		return nil
	})
	if err != nil {
		return inventory.Reservation{}, err
	}
	return st, nil
}

// PutReserved is of inventory.Store.
func (s *Inventory) PutReserved(_ context.Context, uuid string, generation int64, reserved int,
	record *device.Record) (inventory.Reservation, error) {
	var st inventory.Reservation
	err := s.call("PutReserved", uuid, func() error {
		w := Write{Generation: generation, Reserved: reserved, Done: generation == s.Generation}
		s.Writes = append(s.Writes, w)
		if !w.Done {
			return inventory.Conflict(uuid, generation)
		}
		s.Reserved = reserved
		if record != nil {
			s.Tenant, s.Rest = &record.Tenant, *record
		}
		s.Generation++
		s.notify("put")
		st = s.Snapshot()
		return nil
	})
	if err != nil {
		return inventory.Reservation{}, err
	}
	return st, nil
}

// Delete is of inventory.Store.
func (s *Inventory) Delete(_ context.Context, uuid string) error {
	return s.call("Delete", uuid, func() error {
		if len(s.Consumers) > 0 {
			return inventory.InUse(uuid, s.Consumers)
		}
		s.Exists = false
		return nil
	})
}

func (s *Inventory) Snapshot() inventory.Reservation {
	st := inventory.Reservation{Generation: s.Generation, Total: 1, Reserved: s.Reserved}
	if s.Tenant != nil {
		st.Record = device.RecordOf(*s.Tenant)
		st.Hold, st.Bindings, st.Cleans = s.Rest.Hold, s.Rest.Bindings, s.Rest.Cleans
	}
	return st
}

// Allocate allocates as a scheduler does; it says whether the capacity allowed it.
func (s *Inventory) Allocate(consumer string) bool {
	if !s.Exists || len(s.Consumers)+1 > 1-s.Reserved {
		return false
	}
	s.AllocateUnchecked(consumer)
	return true
}

// AllocateUnchecked allocates regardless of the capacity, as an operator or a restored database
// may.
func (s *Inventory) AllocateUnchecked(consumer string) {
	s.Consumers = append(s.Consumers, consumer)
	s.Generation++
	s.notify("allocate")
}

// Free ends an allocation; as in Placement the generation stays.
func (s *Inventory) Free(consumer string) {
	s.Consumers = slices.DeleteFunc(s.Consumers, func(c string) bool { return c == consumer })
	s.notify("free")
}

// WriteByOther writes reserved as another client than Burnish.
func (s *Inventory) WriteByOther(reserved int) {
	s.Reserved = reserved
	s.Generation++
	s.notify("outsider")
}

// Unreserves gives the writes that set reserved to 0.
func (s *Inventory) Unreserves() []Write {
	var all []Write
	for _, w := range s.Writes {
		if w.Reserved == 0 {
			all = append(all, w)
		}
	}
	return all
}

// Times fails the first n calls with an error of fail.
func Times(n int, call string, after bool, fail func() error) func(string, bool) error {
	return func(name string, isAfter bool) error {
		if name != call || isAfter != after || n == 0 {
			return nil
		}
		n--
		return fail()
	}
}

// Fails makes the error of a code and class, as a backend would return it.
func Fails(class device.Class, code device.Code) func() error {
	return func() error {
		return &device.Fault{Class: class, Code: code, Message: "scripted " + string(code)}
	}
}
