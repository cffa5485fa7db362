package inventorytest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"burnish/internal/inventory"
)

// Kind names a call of the port.
type Kind string

// The calls of the port.
const (
	Create      Kind = "Create"
	Usages      Kind = "Usages"
	Stock       Kind = "Stock"
	PutReserved Kind = "PutReserved"
	Delete      Kind = "Delete"
)

// Point is a moment in a sequence of calls: before or after one of them.
type Point struct {
	kind  Kind // any where empty
	nth   int  // counted from 1 among calls of the kind; every one where 0
	after bool
}

// BeforeCall is the moment before the nth call of any kind, from 1; 0 is every call.
func BeforeCall(nth int) Point { return Point{nth: nth} }

// AfterCall is the moment after the nth call took effect and before it answered.
func AfterCall(nth int) Point { return Point{nth: nth, after: true} }

// Before is the moment before the nth call of a kind, from 1; 0 is every one.
func Before(kind Kind, nth int) Point { return Point{kind: kind, nth: nth} }

// After is the moment after the nth call of a kind took effect and before it answered.
func After(kind Kind, nth int) Point { return Point{kind: kind, nth: nth, after: true} }

// Request is one call as Faulty saw it.
type Request struct {
	Kind       Kind
	UUID       string
	Generation int64 // PutReserved's
	Reserved   int   // PutReserved's
	Err        error // what the caller was told
}

// Faulty is a Store that does as scripted at given Points, else what the Store
// behind it does, and writes down every call. The script comes before the calls.
type Faulty struct {
	store inventory.Store

	mu       sync.Mutex
	script   []scripted
	requests []Request
	counts   map[Kind]int
}

type scripted struct {
	at Point
	do func() error
}

var _ inventory.Store = (*Faulty)(nil)

// NewFaulty wraps a store; without a script it only writes down.
func NewFaulty(s inventory.Store) *Faulty {
	return &Faulty{store: s, counts: map[Kind]int{}}
}

// ErrLost is why Lost's fault says a call failed.
var ErrLost = errors.New("connection reset by the test")

// Lost is the fault of a connection that broke: inventory_unavailable.
func Lost() error {
	return inventory.Unavailable("inventory", "let the test end", ErrLost)
}

// Fail makes the call fail with err at the point: before, the store never hears of
// it; after, it took effect and only the answer is lost.
func (f *Faulty) Fail(at Point, err error) {
	f.Do(at, func() error { return err })
}

// Do runs fn at the point: what another writer does meanwhile. An error of fn's is
// the call's.
func (f *Faulty) Do(at Point, fn func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append(f.script, scripted{at, fn})
}

// Requests gives the calls so far, in the order of their answers.
func (f *Faulty) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Request(nil), f.requests...)
}

// Kinds gives the kinds of the calls so far.
func (f *Faulty) Kinds() []Kind {
	var kinds []Kind
	for _, r := range f.Requests() {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// Create is the store's, as scripted.
func (f *Faulty) Create(ctx context.Context, p inventory.Provider) error {
	return f.call(Request{Kind: Create, UUID: p.UUID}, func() error {
		return f.store.Create(ctx, p)
	})
}

// Usages is the store's, as scripted.
func (f *Faulty) Usages(ctx context.Context, uuid string) (u inventory.Usage, err error) {
	err = f.call(Request{Kind: Usages, UUID: uuid}, func() error {
		u, err = f.store.Usages(ctx, uuid)
		return err
	})
	if err != nil {
		return inventory.Usage{}, err // a lost answer says nothing
	}
	return u, nil
}

// Stock is the store's, as scripted.
func (f *Faulty) Reservation(ctx context.Context, uuid string) (st inventory.Reservation, err error) {
	err = f.call(Request{Kind: Stock, UUID: uuid}, func() error {
		st, err = f.store.Reservation(ctx, uuid)
		return err
	})
	if err != nil {
		return inventory.Reservation{}, err
	}
	return st, nil
}

// PutReserved is the store's, as scripted.
func (f *Faulty) PutReserved(ctx context.Context, uuid string, generation int64, reserved int) (st inventory.Reservation, err error) {
	r := Request{Kind: PutReserved, UUID: uuid, Generation: generation, Reserved: reserved}
	err = f.call(r, func() error {
		st, err = f.store.PutReserved(ctx, uuid, generation, reserved)
		return err
	})
	if err != nil {
		return inventory.Reservation{}, err
	}
	return st, nil
}

// Delete is the store's, as scripted.
func (f *Faulty) Delete(ctx context.Context, uuid string) error {
	return f.call(Request{Kind: Delete, UUID: uuid}, func() error {
		return f.store.Delete(ctx, uuid)
	})
}

// call counts, runs what is scripted around the store's call, and writes down. It
// holds no lock meanwhile: a script may call the Faulty itself.
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
	script := append([]scripted(nil), f.script...)
	f.mu.Unlock()
	for _, s := range script {
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

// String says where the point is, for the names of tests.
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
