package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/file"
	"burnish/internal/testkit/suites/inventorytest"
	"burnish/workflows/contract"
)

// inventoryFixture is one provider in an inventory that can fail at each call.
type inventoryFixture struct {
	t     *testing.T
	store *file.Store
	stock contract.ReservationRequest
	// generation is the provider's when the test begins.
	generation int64
}

// newInventoryFixture makes a provider with reserved = 0, as an available device has it, or 1.
func newInventoryFixture(t *testing.T, reserved int) *inventoryFixture {
	t.Helper()
	store, err := file.New(t.TempDir())
	require.NoError(t, err)
	s := &inventoryFixture{t: t, store: store}
	s.stock = contract.ReservationRequest{UUID: contract.DeviceUUID("d1"), Name: "d1", Class: "CUSTOM_NVME"}
	v, err := inventory.EnsureProvider(t.Context(), store, inventory.Provider{UUID: s.stock.UUID, Name: "d1", Class: "CUSTOM_NVME"})
	require.NoError(t, err)
	if reserved == 0 {
		v, err = inventory.Unreserve(t.Context(), store, s.stock.UUID, v.Generation)
		require.NoError(t, err)
	}
	s.generation = v.Generation
	return s
}

// expecting is the input of a workflow that expects the generation.
func (s *inventoryFixture) expecting() contract.ReservationRequest {
	in := s.stock
	in.Expect = &s.generation
	return in
}

// now reads the inventory without injected failures.
func (s *inventoryFixture) now() device.Inventory {
	s.t.Helper()
	v, err := inventory.Read(s.t.Context(), s.store, s.stock.UUID)
	require.NoError(s.t, err)
	return v
}

// others writes reserved as another client does.
func (s *inventoryFixture) others(reserved ...int) {
	s.t.Helper()
	for _, r := range reserved {
		_, err := s.store.PutReserved(s.t.Context(), s.stock.UUID, s.now().Generation, r, nil)
		require.NoError(s.t, err)
	}
}

// call runs one attempt of a control activity over a store that fails at the points.
func (s *inventoryFixture) call(attempt int32, name string, in contract.ReservationRequest, points ...inventorytest.Point) (device.Inventory, []inventorytest.Request, error) {
	faulty := inventorytest.NewFaulty(s.store)
	for _, p := range points {
		faulty.Fail(p, inventorytest.Lost())
	}
	stock, err := s.callOver(faulty, attempt, name, in)
	return stock, faulty.Requests(), err
}

func (s *inventoryFixture) callOver(store inventory.Store, attempt int32, name string, in contract.ReservationRequest) (device.Inventory, error) {
	control := &activities.Control{Store: store}
	env := again(s.t, attempt).env()
	env.RegisterActivityWithOptions(map[string]any{
		contract.ActivityEnsureProvider: control.EnsureProvider, contract.ActivityReserveForBind: control.ReserveForBind,
		contract.ActivityReadReservation: control.ReadReservation, contract.ActivityEnsureReserved: control.EnsureReserved, contract.ActivityUnreserve: control.Unreserve,
		contract.ActivityDeleteProvider: control.DeleteProvider,
	}[name], activity.RegisterOptions{Name: name})
	value, err := env.ExecuteActivity(name, in)
	if err != nil {
		return device.Inventory{}, err
	}
	var stock device.Inventory
	return stock, value.Get(&stock)
}

// points are the moments before and after each of so many calls.
func points(calls int) []inventorytest.Point {
	var all []inventorytest.Point
	for i := range calls {
		all = append(all, inventorytest.BeforeCall(i+1), inventorytest.AfterCall(i+1))
	}
	return all
}

// writes counts the writes that reached the store.
func (s *inventoryFixture) writes() int64 { return s.now().Generation - s.generation }

func TestReserveForBindAcceptsItsOwnEarlierWrite(t *testing.T) {
	t.Parallel()
	for _, expect := range []bool{true, false} {
		for _, p := range points(4) {
			t.Run(fmt.Sprintf("%s, expecting %v", p, expect), func(t *testing.T) {
				s := newInventoryFixture(t, 0)
				in := s.stock
				if expect {
					in = s.expecting()
				}
				_, _, err := s.call(1, contract.ActivityReserveForBind, in, p)
				requireFault(t, err, device.CodeInventoryUnavailable, true)
				stock, requests, err := s.call(2, contract.ActivityReserveForBind, in)
				require.NoError(t, err)
				require.Equal(t, device.Inventory{Generation: s.generation + 1, Total: 1, Reserved: 1}, stock)
				require.EqualValues(t, 1, s.writes(), "one burn is one write, although an answer was lost")
				if p == inventorytest.AfterCall(3) || p == inventorytest.BeforeCall(4) || p == inventorytest.AfterCall(4) {
					require.Len(t, requests, 2, "it found its own write and wrote again")
				}
			})
		}
	}
	t.Run("a second time", func(t *testing.T) {
		s := newInventoryFixture(t, 0)
		for attempt := int32(1); attempt <= 3; attempt++ {
			_, _, err := s.call(attempt, contract.ActivityReserveForBind, s.expecting(), inventorytest.After(inventorytest.PutReserved, 1), inventorytest.Before(inventorytest.Stock, 1+int(attempt)%2))
			if attempt < 3 {
				requireFault(t, err, device.CodeInventoryUnavailable, true)
			}
		}
		stock, _, err := s.call(4, contract.ActivityReserveForBind, s.expecting())
		require.NoError(t, err)
		require.Equal(t, s.generation+1, stock.Generation)
	})
}

func TestReserveForBindRejectsAnothersWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		attempt int32
		others  func(*inventoryFixture)
		code    device.Code
	}{
		{"burned before the first attempt", 1, func(s *inventoryFixture) { s.others(1) }, device.CodeAlreadyBurned},
		{"given back and burned", 1, func(s *inventoryFixture) { s.others(1, 0, 1) }, device.CodeAlreadyBurned},
		{"more than one write past what is known", 2, func(s *inventoryFixture) { s.others(1, 1) }, device.CodeInventoryGenerationAhead},
		{"our write, then given back and burned", 2, func(s *inventoryFixture) { s.others(1, 0, 1) }, device.CodeInventoryGenerationAhead},
		{"our write, then given back", 2, func(s *inventoryFixture) { s.others(1, 0) }, device.CodeInventoryGenerationAhead},
		{"written since", 1, func(s *inventoryFixture) { s.others(0) }, device.CodeInventoryGenerationAhead},
		{"in use", 1, func(s *inventoryFixture) { require.NoError(t, s.store.UnsafeAllocate(t.Context(), s.stock.UUID, "vm")) }, device.CodeInUse},
		{"in use, second attempt", 2, func(s *inventoryFixture) { require.NoError(t, s.store.UnsafeAllocate(t.Context(), s.stock.UUID, "vm")) }, device.CodeInUse},
		{"used and freed meanwhile", 2, func(s *inventoryFixture) {
			require.NoError(t, s.store.UnsafeAllocate(t.Context(), s.stock.UUID, "vm"))
			require.NoError(t, s.store.UnsafeDeallocate(t.Context(), s.stock.UUID, "vm"))
		}, device.CodeInventoryGenerationAhead},
		{"no provider", 1, func(s *inventoryFixture) { require.NoError(t, s.store.Delete(t.Context(), s.stock.UUID)) }, device.CodeNoProvider},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newInventoryFixture(t, 0)
			c.others(s)
			_, requests, err := s.call(c.attempt, contract.ActivityReserveForBind, s.expecting())
			requireFault(t, err, c.code, false)
			for _, r := range requests {
				require.NotEqual(t, inventorytest.PutReserved, r.Kind, "it wrote what it refused")
			}
		})
	}
}

// F4
func TestEnsureReservedReservesAFreeProvider(t *testing.T) {
	t.Parallel()
	for _, p := range points(4) {
		t.Run(p.String(), func(t *testing.T) {
			s := newInventoryFixture(t, 0)
			_, _, err := s.call(1, contract.ActivityEnsureReserved, s.expecting(), p)
			requireFault(t, err, device.CodeInventoryUnavailable, true)
			stock, _, err := s.call(2, contract.ActivityEnsureReserved, s.expecting())
			require.NoError(t, err)
			require.Equal(t, device.Inventory{Generation: s.now().Generation, Total: 1, Reserved: 1}, stock)
			require.LessOrEqual(t, s.writes(), int64(2))
		})
	}
	t.Run("each attempt may have written once", func(t *testing.T) {
		s := newInventoryFixture(t, 0)
		for attempt := int32(1); attempt <= 5; attempt++ {
			_, _, err := s.call(attempt, contract.ActivityEnsureReserved, s.expecting(), inventorytest.After(inventorytest.PutReserved, 1))
			requireFault(t, err, device.CodeInventoryUnavailable, true)
		}
		require.EqualValues(t, 5, s.writes())
		stock, _, err := s.call(6, contract.ActivityEnsureReserved, s.expecting())
		require.NoError(t, err)
		require.Equal(t, s.generation+6, stock.Generation)
	})
	for _, c := range []struct {
		attempt int32
		others  []int
		newer   bool
	}{
		{attempt: 1}, {attempt: 1, others: []int{0}, newer: true},
		{attempt: 2, others: []int{1}}, {attempt: 2, others: []int{1, 0}, newer: true},
		{attempt: 3, others: []int{1, 0}}, {attempt: 3, others: []int{1, 0, 1}, newer: true},
	} {
		t.Run(fmt.Sprintf("attempt %d after %d writes", c.attempt, len(c.others)), func(t *testing.T) {
			s := newInventoryFixture(t, 0)
			s.others(c.others...)
			before := s.now()
			_, _, err := s.call(c.attempt, contract.ActivityEnsureReserved, s.expecting())
			if !c.newer {
				require.NoError(t, err)
				return
			}
			refusal := requireFault(t, err, device.CodeInventoryGenerationAhead, false)
			require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
			require.Equal(t, before, s.now(), "it wrote what it refused")
		})
	}
	t.Run("generations that prove nothing are not compared", func(t *testing.T) {
		s := newInventoryFixture(t, 0)
		s.others(0, 0, 0)
		stock, _, err := s.call(1, contract.ActivityEnsureReserved, s.stock)
		require.NoError(t, err)
		require.Equal(t, 1, stock.Reserved)
	})
	t.Run("a device in use is reserved, and the result says that it is in use", func(t *testing.T) {
		s := newInventoryFixture(t, 0)
		require.NoError(t, s.store.UnsafeAllocate(t.Context(), s.stock.UUID, "vm"))
		stock, _, err := s.call(1, contract.ActivityEnsureReserved, s.stock)
		require.NoError(t, err)
		require.Equal(t, device.Inventory{Generation: s.generation + 2, Total: 1, Reserved: 1, Used: 1, Consumers: []string{"vm"}}, stock)
	})
}

func TestReadReservation(t *testing.T) {
	t.Parallel()
	t.Run("it writes nothing", func(t *testing.T) {
		s := newInventoryFixture(t, 0)
		stock, requests, err := s.call(1, contract.ActivityReadReservation, s.expecting())
		require.NoError(t, err)
		require.Equal(t, device.Inventory{Generation: s.generation, Total: 1}, stock)
		require.Len(t, requests, 2)
		require.Zero(t, s.writes())
	})
	for _, p := range points(2) {
		t.Run("one that fails "+p.String(), func(t *testing.T) {
			s := newInventoryFixture(t, 0)
			_, _, err := s.call(1, contract.ActivityReadReservation, s.stock, p)
			requireFault(t, err, device.CodeInventoryUnavailable, true)
			require.Zero(t, s.writes())
		})
	}
}

// F5
func TestUnreserveWritesOnceWithTheGenerationGiven(t *testing.T) {
	t.Parallel()
	releasing := func(s *inventoryFixture) contract.ReservationRequest {
		in := s.stock
		in.Generation = s.generation
		return in
	}
	t.Run("lowers", func(t *testing.T) {
		s := newInventoryFixture(t, 1)
		stock, requests, err := s.call(1, contract.ActivityUnreserve, releasing(s))
		require.NoError(t, err)
		require.Equal(t, device.Inventory{Generation: s.generation + 1, Total: 1}, stock)
		require.Equal(t, []inventorytest.Request{
			{Kind: inventorytest.PutReserved, UUID: s.stock.UUID, Generation: s.generation},
			{Kind: inventorytest.Stock, UUID: s.stock.UUID},
		}, requests, "it writes first, then reads back")
	})
	for _, p := range points(2) {
		t.Run(p.String(), func(t *testing.T) {
			s := newInventoryFixture(t, 1)
			_, requests, err := s.call(1, contract.ActivityUnreserve, releasing(s), p)
			requireFault(t, err, device.CodeInventoryUnavailable, true)
			require.Equal(t, inventorytest.PutReserved, requests[0].Kind)
			for _, r := range requests[1:] {
				require.NotEqual(t, inventorytest.PutReserved, r.Kind, "it wrote twice")
			}
			if p == inventorytest.BeforeCall(1) {
				require.True(t, s.now().Burned())
			} else {
				require.Zero(t, s.now().Reserved)
			}
			// A second attempt, in spite of MaximumAttempts 1, changes nothing more.
			_, _, err = s.call(2, contract.ActivityUnreserve, releasing(s))
			if p == inventorytest.BeforeCall(1) {
				require.NoError(t, err)
			} else {
				requireFault(t, err, device.CodeConflict, true)
			}
			require.EqualValues(t, 1, s.writes())
		})
	}
	for name, others := range map[string]func(*testing.T, *inventoryFixture){
		"burned by another": func(_ *testing.T, s *inventoryFixture) { s.others(1) },
		"used and freed": func(t *testing.T, s *inventoryFixture) {
			s.others(0)
			require.NoError(t, s.store.UnsafeAllocate(t.Context(), s.stock.UUID, "vm"))
			require.NoError(t, s.store.UnsafeDeallocate(t.Context(), s.stock.UUID, "vm"))
			s.others(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newInventoryFixture(t, 1)
			others(t, s)
			before := s.now()
			_, _, err := s.call(1, contract.ActivityUnreserve, releasing(s))
			requireFault(t, err, device.CodeConflict, true)
			require.Equal(t, before, s.now(), "it lowered a later reservation")
		})
	}
}

func TestEnsureAndDeleteProviderMayBeRepeated(t *testing.T) {
	t.Parallel()
	for _, p := range points(5) {
		t.Run("EnsureProvider "+p.String(), func(t *testing.T) {
			s := newInventoryFixture(t, 1)
			require.NoError(t, s.store.Delete(t.Context(), s.stock.UUID))
			_, _, err := s.call(1, contract.ActivityEnsureProvider, s.stock, p)
			requireFault(t, err, device.CodeInventoryUnavailable, true)
			stock, _, err := s.call(2, contract.ActivityEnsureProvider, s.stock)
			require.NoError(t, err)
			require.Equal(t, 1, stock.Reserved)
			require.True(t, s.now().Burned())
		})
	}
	for _, p := range points(1) {
		t.Run("DeleteProvider "+p.String(), func(t *testing.T) {
			s := newInventoryFixture(t, 1)
			_, _, err := s.call(1, contract.ActivityDeleteProvider, s.stock, p)
			requireFault(t, err, device.CodeInventoryUnavailable, true)
			for range 2 {
				_, _, err = s.call(2, contract.ActivityDeleteProvider, s.stock)
				require.NoError(t, err)
			}
			_, err = s.store.Reservation(t.Context(), s.stock.UUID)
			inventorytest.RequireCode(t, device.CodeNoProvider, err)
		})
	}
	t.Run("DeleteProvider in use", func(t *testing.T) {
		s := newInventoryFixture(t, 0)
		require.NoError(t, s.store.UnsafeAllocate(t.Context(), s.stock.UUID, "vm"))
		_, _, err := s.call(1, contract.ActivityDeleteProvider, s.stock)
		requireFault(t, err, device.CodeInUse, false)
	})
	t.Run("another's name", func(t *testing.T) {
		s := newInventoryFixture(t, 1)
		in := s.stock
		in.UUID = contract.DeviceUUID("d2")
		_, _, err := s.call(1, contract.ActivityEnsureProvider, in)
		requireFault(t, err, device.CodeInventoryInvalid, false)
	})
}

func TestTheClassOfAFaultSaysWhetherTheServerRetries(t *testing.T) {
	t.Parallel()
	full := device.Fault{Code: "a_code", Message: "what happened", Remedy: "what to do"}
	for class, retried := range map[device.Class]bool{device.Transient: true, device.Permanent: false, device.NeedsOperator: false} {
		for name, wrap := range map[string]func(error) error{
			"":        func(err error) error { return err },
			"wrapped": func(err error) error { return fmt.Errorf("zero: %w", err) },
			"joined":  func(err error) error { return errors.Join(errors.New("close"), err) },
		} {
			t.Run(fmt.Sprint(class, name), func(t *testing.T) {
				s := newInventoryFixture(t, 1)
				want := full
				want.Class = class
				faulty := inventorytest.NewFaulty(s.store)
				faulty.Fail(inventorytest.BeforeCall(1), wrap(&want))
				_, err := s.callOver(faulty, 1, contract.ActivityReadReservation, s.stock)
				refusal := requireFault(t, err, "a_code", retried)
				require.Equal(t, contract.Refusal{Fault: want, Device: "d1"}, refusal)
				var app *temporal.ApplicationError
				require.ErrorAs(t, err, &app)
				require.Contains(t, app.Error(), "what happened")
			})
		}
	}
	t.Run("an error that is not a fault is retried", func(t *testing.T) {
		s := newInventoryFixture(t, 1)
		faulty := inventorytest.NewFaulty(s.store)
		faulty.Fail(inventorytest.BeforeCall(1), errors.New("unforeseen"))
		_, err := s.callOver(faulty, 1, contract.ActivityReadReservation, s.stock)
		refusal := requireFault(t, err, device.CodeInternal, true)
		require.Equal(t, "unforeseen", refusal.Fault.Message)
	})
	t.Run("canceled is canceled", func(t *testing.T) {
		s := newInventoryFixture(t, 1)
		server := first(t)
		server.end(temporal.NewCanceledError())
		control := &activities.Control{Store: s.store}
		env := server.env()
		env.RegisterActivityWithOptions(control.ReadReservation, activity.RegisterOptions{Name: contract.ActivityReadReservation})
		_, err := env.ExecuteActivity(contract.ActivityReadReservation, s.stock)
		require.True(t, temporal.IsCanceledError(err), "%v", err)
	})
	t.Run("an update is refused by the same error", func(t *testing.T) {
		want := contract.Refusal{Fault: full, Device: "d1", State: device.Available}
		want.Fault.Class = device.Permanent
		got, ok := contract.RefusalOf(fmt.Errorf("update: %w", contract.Refuse(want)))
		require.True(t, ok)
		require.Equal(t, want, got)
		_, ok = contract.RefusalOf(context.Canceled)
		require.False(t, ok)
	})
}
