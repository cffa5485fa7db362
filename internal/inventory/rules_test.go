package inventory_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/file"
	"burnish/internal/testkit/suites/inventorytest"
)

// tenant is the instance that a bind is for.
const tenant = "5f3c2a8e-1b7d-4c90-9e42-7a10c6d5b3f8"

// fixture is one provider that was unreserved once, behind a Faulty.
type fixture struct {
	t      *testing.T
	store  *file.Store
	faulty *inventorytest.Faulty
	p      inventory.Provider
	id     string
}

// newFixture makes a provider, which is free unless burned or used is set.
func newFixture(t *testing.T, burned, used bool) *fixture {
	t.Helper()
	store, err := file.New(t.TempDir())
	require.NoError(t, err)
	p := inventorytest.NewProvider()
	w := &fixture{t: t, store: store, faulty: inventorytest.NewFaulty(store), p: p, id: p.UUID}
	require.NoError(t, store.Create(t.Context(), p))
	w.put(0)
	if used {
		w.allocate()
	}
	if burned {
		w.put(1)
	}
	return w
}

func (w *fixture) reservation() inventory.Reservation {
	w.t.Helper()
	st, err := w.store.Reservation(w.t.Context(), w.id)
	require.NoError(w.t, err)
	return st
}

func (w *fixture) used() int {
	w.t.Helper()
	u, err := w.store.Usages(w.t.Context(), w.id)
	require.NoError(w.t, err)
	return u.Used
}

// put and allocate act as other clients, without the Faulty.
func (w *fixture) put(reserved int) {
	w.t.Helper()
	_, err := w.store.PutReserved(w.t.Context(), w.id, w.reservation().Generation, reserved, nil)
	require.NoError(w.t, err)
}

func (w *fixture) allocate() {
	w.t.Helper()
	require.NoError(w.t, w.store.UnsafeAllocate(w.t.Context(), w.id, uuid.NewString()))
}

// useAndRelease allocates and releases: it changes only the generation.
func (w *fixture) useAndRelease() {
	w.t.Helper()
	consumer := uuid.NewString()
	require.NoError(w.t, w.store.UnsafeAllocate(w.t.Context(), w.id, consumer))
	require.NoError(w.t, w.store.UnsafeDeallocate(w.t.Context(), w.id, consumer))
}

// meanwhile lets another client act at a point.
func (w *fixture) meanwhile(at inventorytest.Point, do func()) {
	w.faulty.Do(at, func() error { do(); return nil })
}

func (w *fixture) read() (device.Inventory, error) {
	return inventory.Read(w.t.Context(), w.faulty, w.id)
}

func (w *fixture) ensureReserved(expect *int64) (device.Inventory, error) {
	return inventory.EnsureReserved(w.t.Context(), w.faulty, w.id, expect, inventory.Holder{})
}

func (w *fixture) reserveForBind(expect *int64, maybeOwnWrite bool) (device.Inventory, error) {
	return inventory.ReserveForBind(w.t.Context(), w.faulty, w.id, ptr(tenant), expect, maybeOwnWrite)
}

func (w *fixture) unreserve(generation int64) (device.Inventory, error) {
	return inventory.Unreserve(w.t.Context(), w.faulty, w.id, generation)
}

// requireUnchanged requires that a refusal wrote nothing.
func (w *fixture) requireUnchanged(before inventory.Reservation) {
	w.t.Helper()
	require.Equal(w.t, before, w.reservation())
	require.NotContains(w.t, w.faulty.Kinds(), inventorytest.PutReserved)
}

var (
	readCalls = []inventorytest.Kind{inventorytest.Usages, inventorytest.Stock}
	burned    = []inventorytest.Kind{inventorytest.Usages, inventorytest.Stock, inventorytest.PutReserved,
		inventorytest.Stock}
)

// F4
func TestEnsureReservedWritesWithTheGenerationOfTheUsages(t *testing.T) {
	w := newFixture(t, false, false)
	g := w.reservation().Generation
	v, err := w.ensureReserved(&g)
	require.NoError(t, err)
	require.Equal(t, device.Inventory{Generation: g + 1, Total: 1, Reserved: 1}, v)
	require.Equal(t, burned, w.faulty.Kinds())
	require.Equal(t, g, w.faulty.Requests()[2].Generation)
}

// An allocation at any moment of an EnsureReserved either shows in its snapshot or is refused
// by the inventory: no instance has the device when it is cleaned.
//
// F4
func TestEnsureReservedDetectsAnAllocationAtAnyMoment(t *testing.T) {
	for n := range len(burned) {
		for _, at := range []inventorytest.Point{inventorytest.BeforeCall(n + 1), inventorytest.AfterCall(n + 1)} {
			t.Run(at.String(), func(t *testing.T) {
				w := newFixture(t, false, false)
				w.faulty.Do(at, func() error {
					err := w.store.UnsafeAllocate(t.Context(), w.id, uuid.NewString())
					if f, ok := device.AsFault(err); ok && f.Code == device.CodeConflict {
						return nil // burned: the scheduler cannot allocate it
					}
					return err
				})
				v, err := w.ensureReserved(nil)
				require.NoError(t, err)
				require.Equal(t, w.used(), v.Used, "an instance has the device and the snapshot shows it as free")
				require.Len(t, v.Consumers, v.Used)
				require.Equal(t, w.reservation(), inventory.Reservation{Generation: v.Generation, Total: 1, Reserved: 1})
				beforeWrite := n < 2 || at == inventorytest.BeforeCall(3)
				require.Equal(t, beforeWrite, v.Used == 1)
			})
		}
	}
}

// The same after another client unreserved the provider: the allocation always succeeds.
//
// F4
func TestEnsureReservedDetectsAnUnreservedAndAllocatedProvider(t *testing.T) {
	for n := range len(burned) {
		for _, at := range []inventorytest.Point{inventorytest.BeforeCall(n + 1), inventorytest.AfterCall(n + 1)} {
			t.Run(at.String(), func(t *testing.T) {
				w := newFixture(t, true, false)
				w.meanwhile(at, func() { w.put(0); w.allocate() })
				v, err := w.ensureReserved(nil)
				require.NoError(t, err)
				if at == inventorytest.AfterCall(4) {
					return // this is after the last read, and the snapshot has the generation of that
				}
				require.Equal(t, 1, v.Used)
				require.True(t, v.Burned())
				require.Equal(t, v.Generation, w.reservation().Generation)
			})
		}
	}
}

// F4
func TestEnsureReservedBurnsAProviderInUse(t *testing.T) {
	for _, already := range []bool{false, true} {
		w := newFixture(t, already, true)
		v, err := w.ensureReserved(nil)
		require.NoError(t, err)
		require.True(t, v.Burned())
		require.Equal(t, 1, v.Used)
		require.Len(t, v.Consumers, 1)
		require.Equal(t, 1, w.reservation().Reserved)
	}
}

// EnsureReserved writes a burned provider too: an Unreserve that is still in flight then fails.
//
// F5
func TestLateUnreserveAfterEnsureReservedFails(t *testing.T) {
	w := newFixture(t, true, false)
	g := w.reservation().Generation
	_, err := w.ensureReserved(nil)
	require.NoError(t, err)
	_, err = w.unreserve(g) // sent before the EnsureReserved, arrives after it
	inventorytest.RequireCode(t, device.CodeConflict, err)
	require.Equal(t, 1, w.reservation().Reserved)
}

// F10
func TestEnsureReservedRefusesAHigherGeneration(t *testing.T) {
	w := newFixture(t, false, false)
	known := w.reservation().Generation
	w.useAndRelease()
	before := w.reservation()
	_, err := w.ensureReserved(&known)
	inventorytest.RequireCode(t, device.CodeInventoryGenerationAhead, err)
	w.requireUnchanged(before)
	require.Len(t, w.faulty.Kinds(), 1)

	_, err = w.ensureReserved(&before.Generation)
	require.NoError(t, err)
}

// A write that a lost attempt may have made is taken for it, unless it records that an operator holds the device, which
// this call does not say.
//
// F43
func TestEnsureReservedKnowsItsEarlierWrites(t *testing.T) {
	hold := func(h device.Hold) *device.Record { return &device.Record{Witness: device.WitnessFree, Hold: h} }
	for _, c := range []struct {
		found, says *device.Record
		earlier     int64
		refused     bool
	}{
		{hold(device.HoldNone), hold(device.HoldNone), 1, false},
		{hold(device.HoldNone), hold(device.HoldNone), 0, true},
		{hold(device.HoldOperator), hold(device.HoldOperator), 1, false},
		{hold(device.HoldNone), hold(device.HoldOperator), 1, false},
		{hold(device.HoldOperator), hold(device.HoldNone), 1, true},
		{hold(device.HoldOperator), nil, 1, false},
	} {
		w := newFixture(t, false, false)
		known := w.reservation().Generation
		w.record(1, c.found)
		before := w.reservation()
		_, err := inventory.EnsureReserved(t.Context(), w.faulty, w.id, &known,
			inventory.Holder{Record: c.says, Earlier: c.earlier})
		if c.refused {
			inventorytest.RequireCode(t, device.CodeInventoryGenerationAhead, err)
			w.requireUnchanged(before)
		} else {
			require.NoError(t, err, "%+v", c)
		}
	}
}

// A write while EnsureReserved runs shows in its snapshot. It does not mean that the
// database was restored.
//
// F10
func TestEnsureReservedAcceptsConcurrentWrites(t *testing.T) {
	for _, at := range []inventorytest.Point{inventorytest.Before(inventorytest.Stock, 1),
		inventorytest.Before(inventorytest.PutReserved, 1), inventorytest.Before(inventorytest.Stock, 2)} {
		t.Run(at.String(), func(t *testing.T) {
			w := newFixture(t, false, false)
			known := w.reservation().Generation
			w.meanwhile(at, func() { w.put(w.reservation().Reserved) })
			v, err := w.ensureReserved(&known)
			require.NoError(t, err)
			require.Greater(t, v.Generation, known+1)
		})
	}
}

// S0.27
func TestReserveForBindRefusesAndWritesNothing(t *testing.T) {
	known := func(d int64) func(int64) *int64 {
		return func(g int64) *int64 { g += d; return &g }
	}
	nothing := func(int64) *int64 { return nil }
	for _, test := range []struct {
		name          string
		burned, used  bool
		expect        func(int64) *int64
		maybeOwnWrite bool
		want          device.Code
	}{
		{"in use", false, true, known(0), false, device.CodeInUse},
		{"in use and burned", true, true, known(0), false, device.CodeInUse},
		{"in use, ours or not", true, true, nothing, true, device.CodeInUse},
		{"in use and newer", true, true, known(-1), true, device.CodeInUse},
		{"burned", true, false, known(0), false, device.CodeAlreadyBurned},
		{"burned and newer", true, false, known(-1), false, device.CodeAlreadyBurned},
		{"burned, nothing known", true, false, nothing, false, device.CodeAlreadyBurned},
		{"burned before our attempt", true, false, known(0), true, device.CodeAlreadyBurned},
		{"burned two writes past our attempt", true, false, known(-2), true, device.CodeAlreadyBurned},
		{"newer", false, false, known(-1), false, device.CodeInventoryGenerationAhead},
		{"newer, ours or not", false, false, known(-1), true, device.CodeInventoryGenerationAhead},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, test.burned, test.used)
			before := w.reservation()
			_, err := w.reserveForBind(test.expect(before.Generation), test.maybeOwnWrite)
			inventorytest.RequireCode(t, test.want, err)
			w.requireUnchanged(before)
			require.Equal(t, readCalls, w.faulty.Kinds())
		})
	}
}

func TestReserveForBindAcceptsItsEarlierWrite(t *testing.T) {
	w := newFixture(t, false, false)
	g := w.record(1, ptr(tenant))
	earlier := g - 1
	for _, expect := range []*int64{&earlier, nil} {
		v, err := w.reserveForBind(expect, true)
		require.NoError(t, err)
		require.Equal(t, device.Inventory{Generation: g, Total: 1, Reserved: 1, Record: device.RecordOf(tenant)}, v)
	}
	require.NotContains(t, w.faulty.Kinds(), inventorytest.PutReserved)
}

func TestReserveForBindLosesToAnEarlierWriter(t *testing.T) {
	for _, test := range []struct {
		name     string
		at       inventorytest.Point
		do       func(*fixture)
		known    bool
		want     device.Code // none: it succeeds
		reserved int
	}{
		{"allocated before the stock", inventorytest.Before(inventorytest.Stock, 1), (*fixture).allocate, true, device.CodeInUse, 0},
		{"allocated before the write", inventorytest.Before(inventorytest.PutReserved, 1), (*fixture).allocate, true, device.CodeInUse, 0},
		{"allocated before the write, nothing known", inventorytest.Before(inventorytest.PutReserved, 1), (*fixture).allocate, false, device.CodeInUse, 0},
		{"burned before the write", inventorytest.Before(inventorytest.PutReserved, 1), func(w *fixture) { w.put(1) }, false, device.CodeAlreadyBurned, 1},
		{"used and left before the stock", inventorytest.Before(inventorytest.Stock, 1), (*fixture).useAndRelease, true, device.CodeInventoryGenerationAhead, 0},
		{"used and left before the write", inventorytest.Before(inventorytest.PutReserved, 1), (*fixture).useAndRelease, true, device.CodeInventoryGenerationAhead, 0},
		{"written before the write, nothing known", inventorytest.Before(inventorytest.PutReserved, 1), func(w *fixture) { w.put(0) }, false, "", 1},
		{"written after the write", inventorytest.After(inventorytest.PutReserved, 1), func(w *fixture) { w.put(1) }, true, device.CodeInventoryGenerationAhead, 1},
		{"lowered and allocated after the write", inventorytest.After(inventorytest.PutReserved, 1), func(w *fixture) { w.put(0); w.allocate() }, false, device.CodeInUse, 0},
		{"lowered after the write, nothing known", inventorytest.After(inventorytest.PutReserved, 1), func(w *fixture) { w.put(0) }, false, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, false, false)
			var expect *int64
			if g := w.reservation().Generation; test.known {
				expect = &g
			}
			w.meanwhile(test.at, func() { test.do(w) })
			v, err := w.reserveForBind(expect, false)
			require.Equal(t, test.reserved, w.reservation().Reserved)
			if test.want != "" {
				inventorytest.RequireCode(t, test.want, err)
				require.Zero(t, v)
				return
			}
			require.NoError(t, err)
			require.True(t, v.Burned())
			require.Equal(t, w.reservation().Generation, v.Generation)
		})
	}
}

func TestReserveForBindRecognizesItsOwnWrite(t *testing.T) {
	w := newFixture(t, false, false)
	g := w.reservation().Generation
	w.meanwhile(inventorytest.After(inventorytest.PutReserved, 1), func() { w.put(1) })
	v, err := w.reserveForBind(nil, false)
	require.NoError(t, err)
	require.Equal(t, device.Inventory{Generation: g + 2, Total: 1, Reserved: 1, Record: device.RecordOf(tenant)}, v)
}

// F5
func TestUnreserveIsOneWriteAndOneReadBack(t *testing.T) {
	w := newFixture(t, true, false)
	g := w.reservation().Generation
	v, err := w.unreserve(g)
	require.NoError(t, err)
	require.Equal(t, device.Inventory{Generation: g + 1, Total: 1}, v)
	require.Equal(t, []inventorytest.Kind{inventorytest.PutReserved, inventorytest.Stock}, w.faulty.Kinds())
	require.Equal(t, inventorytest.Request{Kind: inventorytest.PutReserved, UUID: w.id, Generation: g},
		w.faulty.Requests()[0])
}

// F5
func TestUnreserveNeverRetriesAConflict(t *testing.T) {
	for _, test := range []struct {
		name     string
		do       func(*fixture)
		reserved int
	}{
		{"burned again", func(w *fixture) { w.put(1) }, 1},
		{"lowered by another", func(w *fixture) { w.put(0) }, 0},
		{"lowered, used and burned", func(w *fixture) { w.put(0); w.allocate(); w.put(1) }, 1},
		{"lowered, used, left, burned", func(w *fixture) { w.put(0); w.useAndRelease(); w.put(1) }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, true, false)
			observed := w.reservation().Generation
			w.meanwhile(inventorytest.Before(inventorytest.PutReserved, 1), func() { test.do(w) })
			v, err := w.unreserve(observed)
			inventorytest.RequireCode(t, device.CodeConflict, err)
			require.Zero(t, v)
			require.Equal(t, []inventorytest.Kind{inventorytest.PutReserved}, w.faulty.Kinds(),
				"it must not try another generation")
			require.Equal(t, test.reserved, w.reservation().Reserved)
		})
	}
}

// F5
func TestUnreserveReportsWritesBeforeItsReadBack(t *testing.T) {
	at := inventorytest.After(inventorytest.PutReserved, 1)
	w := newFixture(t, true, false)
	g := w.reservation().Generation
	w.meanwhile(at, w.allocate)
	v, err := w.unreserve(g)
	require.NoError(t, err, "it was released, and allocated at once")
	require.Equal(t, g+1, v.Generation, "the snapshot must be older than the later write")

	w = newFixture(t, true, false)
	w.meanwhile(at, func() { w.put(1) })
	_, err = w.unreserve(w.reservation().Generation)
	inventorytest.RequireCode(t, device.CodeConflict, err)
	require.Equal(t, 1, w.reservation().Reserved)
}

func TestReadIsOfOneMoment(t *testing.T) {
	w := newFixture(t, false, false)
	w.meanwhile(inventorytest.Before(inventorytest.Stock, 1), w.allocate)
	v, err := w.read()
	require.NoError(t, err)
	require.Equal(t, 1, v.Used)
	require.Equal(t, append(readCalls, readCalls...), w.faulty.Kinds())
	require.Equal(t, w.reservation().Generation, v.Generation)
}

func TestRulesGiveUpAfterFiveWriters(t *testing.T) {
	for name, rule := range map[string]func(*fixture) (device.Inventory, error){
		"Read":  (*fixture).read,
		"Raise": func(w *fixture) (device.Inventory, error) { return w.ensureReserved(nil) },
		"Burn":  func(w *fixture) (device.Inventory, error) { return w.reserveForBind(nil, false) },
	} {
		for _, at := range []inventorytest.Point{inventorytest.Before(inventorytest.Stock, 0),
			inventorytest.Before(inventorytest.PutReserved, 0)} {
			if name == "Read" && at == inventorytest.Before(inventorytest.PutReserved, 0) {
				continue
			}
			t.Run(name+" "+at.String(), func(t *testing.T) {
				w := newFixture(t, false, false)
				w.meanwhile(at, func() { w.put(0) })
				_, err := rule(w)
				inventorytest.RequireCode(t, device.CodeConflict, err)
				n := 0
				for _, k := range w.faulty.Kinds() {
					if k == inventorytest.Usages {
						n++
					}
				}
				require.Equal(t, 5, n)
			})
		}
	}
}

// forgetful answers a write as if it took effect, and keeps the old value, as Placement does
// below microversion 1.26 with fields that it does not know.
type forgetful struct{ inventory.Store }

func (f forgetful) PutReserved(ctx context.Context, id string, generation int64, reserved int,
	record *device.Record) (inventory.Reservation, error) {
	st, err := f.Store.PutReserved(ctx, id, generation, 1-reserved, record)
	st.Reserved = reserved
	return st, err
}

// S0.4
func TestAWriteMustBeReadBack(t *testing.T) {
	w := newFixture(t, false, false)
	_, err := inventory.EnsureReserved(t.Context(), forgetful{w.store}, w.id, nil, inventory.Holder{})
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	_, err = inventory.ReserveForBind(t.Context(), forgetful{w.store}, w.id, ptr(tenant), nil, false)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	w.put(1)
	_, err = inventory.Unreserve(t.Context(), forgetful{w.store}, w.id, w.reservation().Generation)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
}

// empty has an inventory with total = 0.
type empty struct{ inventory.Store }

func (e empty) Reservation(ctx context.Context, id string) (inventory.Reservation, error) {
	st, err := e.Store.Reservation(ctx, id)
	st.Total, st.Reserved = 0, 0
	return st, err
}

// Burned is all of an inventory, not a part of it, nor all of none.
//
// S0.3
func TestNoInventoryIsNotBurned(t *testing.T) {
	require.True(t, device.Inventory{Total: 2, Reserved: 2}.Burned())
	require.False(t, device.Inventory{Total: 2, Reserved: 1}.Burned())
	w := newFixture(t, false, false)
	before := w.reservation()
	v, err := inventory.Read(t.Context(), empty{w.faulty}, w.id)
	require.NoError(t, err)
	require.False(t, v.Burned())
	_, err = inventory.EnsureReserved(t.Context(), empty{w.faulty}, w.id, nil, inventory.Holder{})
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	_, err = inventory.ReserveForBind(t.Context(), empty{w.faulty}, w.id, ptr(tenant), nil, false)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	w.requireUnchanged(before)
}
