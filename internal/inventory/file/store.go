// Package file keeps the inventory in a directory, with one JSON file for each provider,
// for sites without OpenStack Placement. Generations change as in Placement, and several
// processes may work on one directory at a time.
//
//	<dir>/<uuid>.json    one provider
//	<dir>/hardware/<id>  the UUIDs of the providers that record this hardware
//	<dir>/.lock          held during a call; never removed
//
// A write is durable when the call returns. Unknown fields are kept.
package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/inventory"
)

// Store is an inventory.Store on one directory. Many goroutines may use it, and other
// Stores, also of other processes, may use the same directory.
type Store struct {
	dir, index string        // index is hardwareDir
	turn       chan struct{} // one goroutine of this Store at a time; see lock
}

var _ inventory.Store = (*Store)(nil)

// New opens the directory, and creates it (0700) where there is none.
func New(dir string) (*Store, error) {
	if dir == "" {
		return nil, errors.New("the file inventory needs a directory")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("inventory directory: %w", err)
	}
	s := &Store{dir: dir, index: filepath.Join(dir, hardwareDir), turn: make(chan struct{}, 1)}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("inventory directory: %w", err)
	}
	return s, nil
}

func (s *Store) prepare() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.lockPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, missing := os.Stat(s.index); missing != nil {
		err = errors.Join(atomicfile.Lock(int(f.Fd())), s.buildIndex())
	}
	// Where another process holds the lock, it may be writing: its files stay.
	if err == nil {
		err = atomicfile.TryLock(int(f.Fd()))
	}
	if err == nil {
		err = errors.Join(atomicfile.RemoveUnfinished(s.dir), atomicfile.RemoveUnfinished(s.index))
	} else if errors.Is(err, atomicfile.ErrLocked) {
		err = nil
	}
	return errors.Join(err, f.Close(), atomicfile.SyncFolder(s.dir), atomicfile.SyncFolder(filepath.Dir(s.dir)))
}

// Create is inventory.Store's. It compares an existing provider only by UUID and name:
// another class or other traits are not changed. Burnish alone makes providers here, and a
// device's UUID is made of its name: no two of them have one name.
func (s *Store) Create(ctx context.Context, p inventory.Provider) error {
	if err := checkUUID(p.UUID); err != nil {
		return err
	}
	if p.Name == "" || p.Class == "" {
		return inventory.Invalid(fmt.Sprintf("provider %s has no name or no resource class", p.UUID), "give it both")
	}
	return s.locked(ctx, func() error {
		r, err := s.read(p.UUID)
		if err != nil {
			return err
		}
		if r != nil && r.Name != p.Name {
			return inventory.Invalid(
				fmt.Sprintf("provider %s is named %q, not %q", p.UUID, r.Name, p.Name),
				"a provider keeps its name: delete it first, or enroll the device by the name that it has")
		}
		if r == nil {
			r = &record{
				UUID: p.UUID, Name: p.Name, Class: p.Class, Traits: p.Traits,
				Total: 1, Reserved: 1,
			}
		} else if slices.Equal(r.Hardware, inventory.WithHardware(r.Hardware, p)) {
			return nil
		}
		return s.writeHardware(r, p)
	})
}

// Usages is inventory.Store's.
func (s *Store) Usages(ctx context.Context, uuid string) (inventory.Usage, error) {
	var u inventory.Usage
	err := s.with(ctx, uuid, func(r *record) error {
		u = inventory.Usage{Generation: r.Generation, Used: r.Used, Consumers: r.Consumers}
		return nil
	})
	return u, err
}

// Reservation is inventory.Store's.
func (s *Store) Reservation(ctx context.Context, uuid string) (inventory.Reservation, error) {
	var st inventory.Reservation
	err := s.with(ctx, uuid, func(r *record) error {
		st = r.reservation()
		return nil
	})
	return st, err
}

// PutReserved is inventory.Store's. A value outside 0…total is inventory_invalid.
func (s *Store) PutReserved(ctx context.Context, uuid string, generation int64, reserved int,
	of *device.Record) (inventory.Reservation, error) {
	var st inventory.Reservation
	err := s.with(ctx, uuid, func(r *record) error {
		if r.Generation != generation {
			return inventory.Conflict(uuid, generation)
		}
		if reserved < 0 || reserved > r.Total {
			return inventory.Invalid(
				fmt.Sprintf("reserved=%d of provider %s is not between 0 and its total, %d", reserved, uuid, r.Total),
				"reserve all of the device or nothing")
		}
		if reserved < r.Total && r.Total != 1 {
			return inventory.NotOne(uuid, r.Total)
		}
		r.Reserved = reserved
		if of != nil {
			r.Tenant, r.Hold, r.Bindings, r.Cleans = &of.Tenant, of.Hold, of.Bindings, of.Cleans
		}
		r.Generation++
		if err := s.write(r); err != nil {
			return err
		}
		st = r.reservation()
		return nil
	})
	return st, err
}

// Delete is inventory.Store's.
func (s *Store) Delete(ctx context.Context, uuid string) error {
	if err := checkUUID(uuid); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		r, err := s.read(uuid)
		if err != nil || r == nil {
			return err
		}
		if r.Used > 0 {
			return inventory.InUse(uuid, r.Consumers)
		}
		if err := s.remove(s.path(uuid)); err != nil {
			return err
		}
		return s.unlist(uuid, r.Hardware)
	})
}

// UnsafeAllocate allocates the provider to a consumer as a scheduler would. Only tests
// and simulations may call it: Burnish makes no allocation (F6). As in Placement,
// used + 1 must fit into total − reserved, or the fault is conflict; it raises the
// generation.
func (s *Store) UnsafeAllocate(ctx context.Context, uuid, consumer string) error {
	return s.with(ctx, uuid, func(r *record) error {
		if r.Used+1 > r.Total-r.Reserved {
			return &device.Fault{
				Class: device.Transient,
				Code:  device.CodeConflict,
				Message: fmt.Sprintf("provider %s has no capacity left: total %d, reserved %d, used %d", uuid, r.Total,
					r.Reserved, r.Used),
				Remedy: "wait until it is released",
			}
		}
		r.Consumers = append(r.Consumers, consumer)
		r.Used++
		r.Generation++
		return s.write(r)
	})
}

// UnsafeDeallocate ends a consumer's allocation. As in Placement the generation does not
// change.
func (s *Store) UnsafeDeallocate(ctx context.Context, uuid, consumer string) error {
	return s.with(ctx, uuid, func(r *record) error {
		i := slices.Index(r.Consumers, consumer)
		if i < 0 {
			return &device.Fault{
				Class:   device.Permanent,
				Code:    device.CodeNotFound,
				Message: fmt.Sprintf("%s has no allocation of provider %s", consumer, uuid),
			}
		}
		r.Consumers = slices.Delete(r.Consumers, i, i+1)
		r.Used--
		return s.write(r)
	})
}

// with runs fn on the provider's record, under the lock.
func (s *Store) with(ctx context.Context, uuid string, fn func(*record) error) error {
	if err := checkUUID(uuid); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		r, err := s.read(uuid)
		if err != nil {
			return err
		}
		if r == nil {
			return inventory.NoProvider(uuid)
		}
		return fn(r)
	})
}

// read gives a provider's record, nil where there is none.
func (s *Store) read(uuid string) (*record, error) {
	data, found, err := readFile(s.path(uuid), restoreRemedy)
	if !found || err != nil {
		return nil, err
	}
	r, err := decode(uuid, data)
	if err != nil {
		return nil, inventory.Invalid(fmt.Sprintf("%s: %v", s.path(uuid), err), restoreRemedy)
	}
	return r, nil
}

// restoreRemedy is safe whatever the file held: a provider that is created again is burned.
const restoreRemedy = "restore the file from a backup, or move it away and enroll the device again: its provider is " +
	"created burned, and it is cleaned"

// write replaces a provider's file, durably.
func (s *Store) write(r *record) error {
	data, err := json.Marshal(r, jsontext.Multiline(true), jsontext.WithIndent("  "))
	if err != nil {
		return inventory.Invalid(fmt.Sprintf("%s: %v", s.path(r.UUID), err), restoreRemedy)
	}
	return s.replace(s.path(r.UUID), append(data, '\n'))
}

func (s *Store) path(uuid string) string { return filepath.Join(s.dir, uuid+".json") }
