package inventorytest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// Kind is the name of a method of the port.
type Kind string

// The methods of the port.
const (
	Create      Kind = "Create"
	Usages      Kind = "Usages"
	Stock       Kind = "Stock"
	PutReserved Kind = "PutReserved"
	Delete      Kind = "Delete"
	OfHardware  Kind = "OfHardware"
)

// Point is a moment in a sequence of calls: before or after one of them.
type Point struct {
	kind  Kind // "" is any
	nth   int  // from 1 among calls of the kind; 0 is every call
	after bool
}

// BeforeCall is before the nth call of any kind, from 1; 0 is every call.
func BeforeCall(nth int) Point { return Point{nth: nth} }

// AfterCall is after the nth call took effect and before it returns.
func AfterCall(nth int) Point { return Point{nth: nth, after: true} }

// Before is before the nth call of a kind, from 1; 0 is every call.
func Before(kind Kind, nth int) Point { return Point{kind: kind, nth: nth} }

// After is after the nth call of a kind took effect and before it returns.
func After(kind Kind, nth int) Point { return Point{kind: kind, nth: nth, after: true} }

// Request is one call to a Faulty.
type Request struct {
	Kind       Kind
	UUID       string
	Generation int64          // PutReserved's
	Reserved   int            // PutReserved's
	Record     *device.Record // PutReserved's
	Err        error          // the result
}

// Faulty is a Store that records every call and injects faults at given Points. Faults are
// set before the calls.
type Faulty struct {
	store inventory.Store

	mu         sync.Mutex
	injections []injection
	requests   []Request
	counts     map[Kind]int
}

type injection struct {
	at Point
	do func() error
}

var _ inventory.Store = (*Faulty)(nil)

// NewFaulty wraps a store.
func NewFaulty(s inventory.Store) *Faulty {
	return &Faulty{store: s, counts: map[Kind]int{}}
}

// ErrLost is the cause of Lost.
var ErrLost = errors.New("connection reset by the test")

// Lost is the fault of a connection that broke: inventory_unavailable.
func Lost() error {
	return inventory.Unavailable("inventory", "let the test end", ErrLost)
}

// Fail makes the call fail with err at the point. Before the call it has no effect; after
// it, it took effect and only the answer is lost.
func (f *Faulty) Fail(at Point, err error) {
	f.Do(at, func() error { return err })
}

// Do runs fn at the point, as another writer would. An error of fn becomes the call's.
func (f *Faulty) Do(at Point, fn func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injections = append(f.injections, injection{at, fn})
}

// Requests are the calls so far, in the order of their ends.
func (f *Faulty) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Request(nil), f.requests...)
}

// Kinds are the kinds of the calls so far.
func (f *Faulty) Kinds() []Kind {
	var kinds []Kind
	for _, r := range f.Requests() {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// Create is inventory.Store's.
func (f *Faulty) Create(ctx context.Context, p inventory.Provider) error {
	return f.call(Request{Kind: Create, UUID: p.UUID}, func() error { return f.store.Create(ctx, p) })
}

// Usages is inventory.Store's.
func (f *Faulty) Usages(ctx context.Context, uuid string) (inventory.Usage, error) {
	return callFor(f, Request{Kind: Usages, UUID: uuid}, func() (inventory.Usage, error) {
		return f.store.Usages(ctx, uuid)
	})
}

// Reservation is inventory.Store's.
func (f *Faulty) Reservation(ctx context.Context, uuid string) (inventory.Reservation, error) {
	return callFor(f, Request{Kind: Stock, UUID: uuid}, func() (inventory.Reservation, error) {
		return f.store.Reservation(ctx, uuid)
	})
}

// PutReserved is inventory.Store's.
func (f *Faulty) PutReserved(ctx context.Context, uuid string, generation int64, reserved int,
	record *device.Record) (inventory.Reservation, error) {
	r := Request{Kind: PutReserved, UUID: uuid, Generation: generation, Reserved: reserved, Record: record}
	return callFor(f, r, func() (inventory.Reservation, error) {
		return f.store.PutReserved(ctx, uuid, generation, reserved, record)
	})
}

// OfHardware is inventory.Store's.
func (f *Faulty) OfHardware(ctx context.Context, hardware string) ([]inventory.Provider, error) {
	return callFor(f, Request{Kind: OfHardware, UUID: hardware}, func() ([]inventory.Provider, error) {
		return f.store.OfHardware(ctx, hardware)
	})
}

// Delete is inventory.Store's.
func (f *Faulty) Delete(ctx context.Context, uuid string) error {
	return f.call(Request{Kind: Delete, UUID: uuid}, func() error { return f.store.Delete(ctx, uuid) })
}

// callFor is call with a result, which a lost answer does not have.
func callFor[T any](f *Faulty, r Request, do func() (T, error)) (result T, err error) {
	err = f.call(r, func() (err error) {
		result, err = do()
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return result, nil
}

// call runs a call and what is injected around it. It holds no lock meanwhile, so that an
// injection may call the Faulty itself.
func (f *Faulty) call(r Request, do func() error) error {
	f.mu.Lock()
	f.counts[""]++
	f.counts[r.Kind]++
	all, own := f.counts[""], f.counts[r.Kind]
	f.mu.Unlock()

	r.Err = func() error {
		if err := f.run(r.Kind, all, own, false); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return f.run(r.Kind, all, own, true)
	}()

	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
	return r.Err
}

func (f *Faulty) run(kind Kind, all, own int, after bool) error {
	f.mu.Lock()
	injections := append([]injection(nil), f.injections...)
	f.mu.Unlock()
	for _, s := range injections {
		n := own
		if s.at.kind == "" {
			n = all
		} else if s.at.kind != kind {
			continue
		}
		if s.at.after != after || s.at.nth != 0 && s.at.nth != n {
			continue
		}
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

// String is for the names of tests.
func (p Point) String() string {
	when, kind := "before", p.kind
	if p.after {
		when = "after"
	}
	if kind == "" {
		kind = "call"
	}
	return fmt.Sprintf("%s %s %d", when, kind, p.nth)
}
