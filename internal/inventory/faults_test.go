package inventory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/testkit/suites/inventorytest"
)

// broken is one rule that the next test interrupts before and after each of its calls. known
// is the generation before the first attempt.
type broken struct {
	name         string
	burned, used bool
	calls        []inventorytest.Kind
	want         int  // reserved after the write
	records      bool // the write records the tenant
	run          func(ctx context.Context, s inventory.Store, p inventory.Provider, known int64) (device.Inventory, error)
	// again checks the second run; took says whether the write of the first took effect.
	again func(t *testing.T, b broken, w *fixture, p inventory.Provider, known int64, took bool)
}

// repeat runs the rule again without faults, and returns the calls that it made.
func (b broken) repeat(t *testing.T, w *fixture, p inventory.Provider,
	known int64) (device.Inventory, []inventorytest.Kind, error) {
	f := inventorytest.NewFaulty(w.store)
	v, err := b.run(t.Context(), f, p, known)
	return v, f.Kinds(), err
}

func raiseKnown(ctx context.Context, s inventory.Store, p inventory.Provider, known int64) (device.Inventory, error) {
	return inventory.EnsureReserved(ctx, s, p.UUID, &known, inventory.Holder{})
}

func raiseUnknown(ctx context.Context, s inventory.Store, p inventory.Provider, _ int64) (device.Inventory, error) {
	return inventory.EnsureReserved(ctx, s, p.UUID, nil, inventory.Holder{})
}

func burnAs(maybeOwnWrite bool) func(context.Context, inventory.Store, inventory.Provider,
	int64) (device.Inventory, error) {
	return func(ctx context.Context, s inventory.Store, p inventory.Provider, known int64) (device.Inventory, error) {
		return inventory.ReserveForBind(ctx, s, p.UUID, ptr(tenant), &known, maybeOwnWrite)
	}
}

// burnsAgain: with nothing known of the generation, the repetition burns once more.
func burnsAgain(t *testing.T, b broken, w *fixture, p inventory.Provider, known int64, took bool) {
	v, kinds, err := b.repeat(t, w, p, known)
	require.NoError(t, err)
	require.True(t, v.Burned())
	require.Equal(t, b.calls, kinds)
	before := known
	if took {
		before++
	}
	require.Equal(t, before+1, v.Generation)
}

var brokenRules = []broken{
	{
		name: "Read", calls: readCalls,
		run: func(ctx context.Context, s inventory.Store, p inventory.Provider, _ int64) (device.Inventory, error) {
			return inventory.Read(ctx, s, p.UUID)
		},
		again: func(t *testing.T, b broken, w *fixture, p inventory.Provider, known int64, _ bool) {
			v, _, err := b.repeat(t, w, p, known)
			require.NoError(t, err)
			require.Equal(t, device.Inventory{Generation: known, Total: 1}, v)
		},
	},
	{name: "Raise, free", calls: burned, want: 1, run: raiseUnknown, again: burnsAgain},
	{name: "Raise, burned", burned: true, calls: burned, want: 1, run: raiseUnknown, again: burnsAgain},
	{name: "Raise, in use", used: true, calls: burned, want: 1, run: raiseUnknown, again: burnsAgain},
	{name: "Raise, burned and in use", burned: true, used: true, calls: burned, want: 1, run: raiseUnknown, again: burnsAgain},
	{
		name: "Raise with expect", calls: burned, want: 1, run: raiseKnown,
		again: func(t *testing.T, b broken, w *fixture, p inventory.Provider, known int64, took bool) {
			if !took {
				burnsAgain(t, b, w, p, known, false)
				return
			}
			// It cannot distinguish its own write from another's, and stays on the safe side.
			before := w.reservation()
			_, _, err := b.repeat(t, w, p, known)
			inventorytest.RequireCode(t, device.CodeInventoryGenerationAhead, err)
			require.Equal(t, before, w.reservation())
		},
	},
	{
		name: "Burn that may be ours", calls: burned, want: 1, records: true, run: burnAs(true),
		again: func(t *testing.T, b broken, w *fixture, p inventory.Provider, known int64, took bool) {
			v, kinds, err := b.repeat(t, w, p, known)
			require.NoError(t, err)
			require.Equal(t, inventory.Reservation{Generation: known + 1, Total: 1, Reserved: 1,
				Record: device.RecordOf(tenant)}, w.reservation(), "one burn, not two")
			require.True(t, v.Burned())
			require.Equal(t, known+1, v.Generation)
			if took {
				require.Equal(t, readCalls, kinds)
			} else {
				require.Equal(t, burned, kinds)
			}
		},
	},
	{
		name: "Burn that is not ours", calls: burned, want: 1, records: true, run: burnAs(false),
		again: func(t *testing.T, b broken, w *fixture, p inventory.Provider, known int64, took bool) {
			v, _, err := b.repeat(t, w, p, known)
			if took {
				inventorytest.RequireCode(t, device.CodeAlreadyBurned, err)
			} else {
				require.NoError(t, err)
				require.True(t, v.Burned())
			}
			require.Equal(t, inventory.Reservation{Generation: known + 1, Total: 1, Reserved: 1,
				Record: device.RecordOf(tenant)}, w.reservation())
		},
	},
	{
		name: "Lower", burned: true, calls: []inventorytest.Kind{inventorytest.PutReserved, inventorytest.Stock}, want: 0,
		run: func(ctx context.Context, s inventory.Store, p inventory.Provider, known int64) (device.Inventory, error) {
			return inventory.Unreserve(ctx, s, p.UUID, known)
		},
		again: func(t *testing.T, b broken, w *fixture, p inventory.Provider, known int64, took bool) {
			_, kinds, err := b.repeat(t, w, p, known)
			if took {
				inventorytest.RequireCode(t, device.CodeConflict, err)
				require.Equal(t, []inventorytest.Kind{inventorytest.PutReserved}, kinds)
			} else {
				require.NoError(t, err)
			}
			v, err := inventory.Read(t.Context(), w.store, p.UUID)
			require.NoError(t, err)
			require.Equal(t, device.Inventory{Generation: known + 1, Total: 1}, v, "reserved=0 is done")
		},
	},
	{
		name: "Publish again", calls: append([]inventorytest.Kind{inventorytest.Create}, burned...), want: 1,
		run:   publish,
		again: burnsAgain,
	},
}

func publish(ctx context.Context, s inventory.Store, p inventory.Provider, _ int64) (device.Inventory, error) {
	return inventory.EnsureProvider(ctx, s, p)
}

// Every call of every rule fails once before it is made and once with its answer lost. The
// rule stops there with an error, the reservation is what the calls so far have made it, and
// a second run behaves as the rule's doc comment says.
//
// F4, F5
func TestAFaultBeforeAndAfterEveryCall(t *testing.T) {
	for _, b := range brokenRules {
		for n := 1; n <= len(b.calls); n++ {
			for _, after := range []bool{false, true} {
				at := inventorytest.BeforeCall(n)
				if after {
					at = inventorytest.AfterCall(n)
				}
				t.Run(fmt.Sprintf("%s, %s (%s)", b.name, at, b.calls[n-1]), func(t *testing.T) {
					t.Parallel()
					w := newFixture(t, b.burned, b.used)
					p := w.p
					before, used := w.reservation(), w.used()
					w.faulty.Fail(at, inventorytest.Lost())

					v, err := b.run(t.Context(), w.faulty, p, before.Generation)
					inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
					require.ErrorIs(t, err, inventorytest.ErrLost)
					require.Zero(t, v)
					require.Equal(t, b.calls[:n], w.faulty.Kinds(), "it continued, or retried by itself")

					took := false
					for i, kind := range b.calls[:n] {
						took = took || kind == inventorytest.PutReserved && (i < n-1 || after)
					}
					want := before
					if took {
						want.Generation, want.Reserved = before.Generation+1, b.want
						if b.records {
							want.Record = device.RecordOf(tenant)
						}
					}
					require.Equal(t, want, w.reservation())
					require.Equal(t, used, w.used())
					b.again(t, b, w, p, before.Generation, took)
				})
			}
		}
	}
}

// A first EnsureProvider that fails at any call leaves no provider, or a burned one.
func TestAnInterruptedEnsureProviderLeavesNothingFree(t *testing.T) {
	calls := append([]inventorytest.Kind{inventorytest.Create}, burned...)
	for n := 1; n <= len(calls); n++ {
		for _, at := range []inventorytest.Point{inventorytest.BeforeCall(n), inventorytest.AfterCall(n)} {
			t.Run(at.String(), func(t *testing.T) {
				w := newFixture(t, false, false)
				p := inventorytest.NewProvider()
				w.faulty.Fail(at, inventorytest.Lost())
				_, err := inventory.EnsureProvider(t.Context(), w.faulty, p)
				inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
				require.Equal(t, calls[:n], w.faulty.Kinds())

				st, err := w.store.Reservation(t.Context(), p.UUID)
				if at == inventorytest.BeforeCall(1) {
					inventorytest.RequireCode(t, device.CodeNoProvider, err)
				} else {
					require.NoError(t, err)
					require.Equal(t, 1, st.Reserved)
				}
				v, err := inventory.EnsureProvider(t.Context(), w.store, p)
				require.NoError(t, err)
				require.True(t, v.Burned())
			})
		}
	}
}

// A fault that is not a conflict ends the rule, and is returned unchanged.
func TestRulesReturnEveryOtherFault(t *testing.T) {
	others := []error{inventory.NoProvider("x"), inventory.InUse("x", nil), inventory.Invalid("m", "r")}
	for _, b := range brokenRules {
		for n := 1; n <= len(b.calls); n++ {
			t.Run(fmt.Sprintf("%s, call %d", b.name, n), func(t *testing.T) {
				t.Parallel()
				w := newFixture(t, b.burned, b.used)
				want := others[n%len(others)]
				w.faulty.Fail(inventorytest.BeforeCall(n), want)
				_, err := b.run(t.Context(), w.faulty, w.p, w.reservation().Generation)
				require.ErrorIs(t, err, want)
				require.Len(t, w.faulty.Kinds(), n)
			})
		}
	}
}
