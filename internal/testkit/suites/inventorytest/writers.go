package inventorytest

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

const writers, rounds = 8, 4

// parallel runs fn in eight goroutines and returns their errors: only the test's own
// goroutine may fail the test.
func parallel(fn func(i int) error) []error {
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	return errs
}

// writeWithRetry writes reserved and the tenant until it meets no conflict, and returns what
// it wrote.
func writeWithRetry(ctx context.Context, s inventory.Store, id string, reserved int,
	tenant string) (inventory.Reservation, error) {
	for {
		st, err := s.Reservation(ctx, id)
		if err != nil {
			return st, err
		}
		st, err = s.PutReserved(ctx, id, st.Generation, reserved, recordOf(tenant))
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeConflict {
			continue // another writer was faster
		}
		return st, err
	}
}

// concurrentWriters has eight writers on one provider, each with its own Store as a process
// has one. Each write takes a generation of its own, the last one is what is there, and who
// reads in between sees what was written at that generation.
func concurrentWriters(t *testing.T, f Fixture) {
	id := createProvider(t, f)
	before := stock(t, f, id)
	var stores [writers]inventory.Store
	var tenants [writers]string
	for i := range writers {
		stores[i], tenants[i] = f.Open(t), uuid.NewString()
	}
	wrote, saw := make([][]inventory.Reservation, writers), make([][]inventory.Reservation, writers)
	errs := parallel(func(i int) error {
		for range rounds {
			st, err := writeWithRetry(t.Context(), stores[i], id, i%2, tenants[i])
			if err != nil {
				return err
			}
			wrote[i] = append(wrote[i], st)
			if st, err = stores[i].Reservation(t.Context(), id); err != nil {
				return err
			}
			saw[i] = append(saw[i], st)
		}
		return nil
	})
	at := map[int64]inventory.Reservation{}
	for i := range writers {
		require.NoError(t, errs[i])
		for _, st := range wrote[i] {
			require.NotContains(t, at, st.Generation, "two writes returned one generation")
			require.Equal(t, inventory.Reservation{Generation: st.Generation, Total: 1, Reserved: i % 2,
				Record: *recordOf(tenants[i])}, st)
			at[st.Generation] = st
		}
	}
	require.Len(t, at, writers*rounds)
	for _, some := range saw {
		for _, st := range some {
			require.Equal(t, at[st.Generation], st, "a read differs from what was written")
		}
	}
	last := stock(t, f, id)
	require.Equal(t, before.Generation+writers*rounds, last.Generation)
	require.Equal(t, at[last.Generation], last)
}

// readUnderWriters takes the provider through bindings in one goroutine while seven read.
// Each snapshot must be a state that the provider had at its generation.
func readUnderWriters(t *testing.T, f Fixture) {
	type state struct{ reserved, used int }
	id, ctx, consumer := createProvider(t, f), t.Context(), uuid.NewString()
	generation := stock(t, f, id).Generation
	history := map[int64][]state{generation: {{1, 0}}}
	put := func(reserved int) error {
		_, err := f.Store.PutReserved(ctx, id, generation, reserved, nil)
		return err
	}
	writeRounds := func() error {
		for range rounds {
			for _, step := range []struct {
				do   func() error
				then state
			}{
				{func() error { return put(0) }, state{0, 0}},
				{func() error { return f.Allocate(ctx, id, consumer) }, state{0, 1}},
				{func() error { return put(1) }, state{1, 1}},
				{func() error { return f.Deallocate(ctx, id, consumer) }, state{1, 0}},
			} {
				if err := step.do(); err != nil {
					return err
				}
				st, err := f.Store.Reservation(ctx, id)
				if err != nil {
					return err
				}
				generation = st.Generation
				history[generation] = append(history[generation], step.then)
			}
		}
		return nil
	}
	var snapshots [writers][]device.Inventory
	read := func(i int) error {
		for range 2 * rounds {
			v, err := inventory.Read(ctx, f.Store, id)
			if fault, ok := device.AsFault(err); ok && fault.Code == device.CodeConflict {
				continue // permitted after five conflicts in a row
			}
			if err != nil {
				return err
			}
			snapshots[i] = append(snapshots[i], v)
		}
		return nil
	}
	for _, err := range parallel(func(i int) error {
		if i == 0 {
			return writeRounds()
		}
		return read(i)
	}) {
		require.NoError(t, err)
	}
	require.NoError(t, read(0))
	require.Len(t, snapshots[0], 2*rounds, "without a writer every read succeeds")
	for _, some := range snapshots {
		for _, v := range some {
			require.Contains(t, history[v.Generation], state{v.Reserved, v.Used}, "at generation %d", v.Generation)
		}
	}
}

func concurrentReservations(t *testing.T, f Fixture) {
	id := free(t, f)
	before := stock(t, f, id)
	var instances [writers]string
	errs := parallel(func(i int) error {
		instances[i] = uuid.NewString()
		_, err := inventory.ReserveForBind(t.Context(), f.Store, id, recordOf(instances[i]), nil, false)
		return err
	})
	won, winner := 0, ""
	for i, err := range errs {
		if err == nil {
			won, winner = won+1, instances[i]
			continue
		}
		RequireCode(t, device.CodeAlreadyBurned, err)
	}
	require.Equal(t, 1, won, "one device, one instance")
	require.Equal(t, inventory.Reservation{
		Generation: before.Generation + 1, Total: 1, Reserved: 1, Record: *recordOf(winner),
	}, stock(t, f, id))
}
