package lifecycle_test

import (
	"context"
	"errors"
	"slices"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// fakeInventory is an inventory of one provider, in memory, with Placement's generations. It
// writes down every PutReserved, and asks `meddle` around every call.
type fakeInventory struct {
	// made is the provider as it was last asked for.
	created      inventory.Provider
	exists       bool
	novaProvider string // the UUID of the one that Nova made, where it did
	providerGone bool   // Nova's is gone, and not made anew yet
	generation   int64
	reserved     int
	consumers    []string
	writes       []write
	uuids        []string // whom each call named
	// meddle may fail a call before it takes effect, or lose its answer after.
	injectFault func(call string, after bool) error
	// wrote is told of every change of reserved or of the consumers.
	onWrite func(what string)
}

// write is one PutReserved as the store saw it.
type write struct {
	generation int64
	reserved   int
	done       bool // it took effect
}

var errConnectionLost = errors.New("the line broke")

// lost is what a call says whose answer did not arrive, or that did not arrive itself.
func lostAnswer() error { return inventory.Unavailable("inventory", "wait", errConnectionLost) }

func (s *fakeInventory) call(name, uuid string, do func() error) error {
	s.uuids = append(s.uuids, uuid)
	if s.injectFault != nil {
		if err := s.injectFault(name, false); err != nil {
			return err
		}
	}
	if !s.exists && name != "Create" && name != "Delete" || s.novaProvider != "" && (uuid != s.novaProvider || s.providerGone) {
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
			s.exists, s.generation, s.reserved, s.consumers = true, 0, 1, nil
			s.notify("create")
		}
		return nil
	})
}

// Find gives the provider that Nova made: free, until it or Burnish burns it.
func (s *fakeInventory) Find(_ context.Context, name string) (inventory.Provider, error) {
	if s.providerGone {
		return inventory.Provider{}, inventory.NoProvider("of " + name)
	}
	if s.novaProvider == "" {
		s.recreate("nova-1")
	}
	return inventory.Provider{UUID: s.novaProvider, Name: name}, nil
}

// makeNovas makes Nova's provider, or makes it anew, as Nova does: nothing is reserved.
func (s *fakeInventory) recreate(id string) {
	s.providerGone = false
	s.novaProvider, s.exists, s.generation, s.reserved, s.consumers = id, true, 0, 0, nil
	s.notify("create")
}

func (s *fakeInventory) Usages(_ context.Context, uuid string) (inventory.Usage, error) {
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
	var st inventory.Reservation
	err := s.call("Stock", uuid, func() error {
		st = s.snapshot()
		return nil
	})
	if err != nil {
		return inventory.Reservation{}, err
	}
	return st, nil
}

func (s *fakeInventory) PutReserved(_ context.Context, uuid string, generation int64, reserved int) (inventory.Reservation, error) {
	var st inventory.Reservation
	err := s.call("PutReserved", uuid, func() error {
		w := write{generation: generation, reserved: reserved, done: generation == s.generation}
		s.writes = append(s.writes, w)
		if !w.done {
			return inventory.Conflict(uuid, generation)
		}
		s.reserved = reserved
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
	return inventory.Reservation{Generation: s.generation, Total: 1, Reserved: s.reserved}
}

// allocate is what a scheduler does; it says whether there was room.
func (s *fakeInventory) allocate(consumer string) bool {
	if !s.exists || len(s.consumers)+1 > 1-s.reserved {
		return false
	}
	s.allocateUnchecked(consumer)
	return true
}

// force allocates without asking for room, as an operator's hand or a restored
// database may.
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

// outsider writes reserved as somebody who is not Burnish would.
func (s *fakeInventory) writeByOther(reserved int) {
	s.reserved = reserved
	s.generation++
	s.notify("outsider")
}

// lowerings gives the writes that set reserved to 0.
func (s *fakeInventory) unreserves() []write {
	var all []write
	for _, w := range s.writes {
		if w.reserved == 0 {
			all = append(all, w)
		}
	}
	return all
}

// times fails a call so often and is then silent; fail is asked for each error.
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
