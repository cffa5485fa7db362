package activities_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

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
	v, err := inventory.EnsureProvider(t.Context(), store,
		inventory.Provider{UUID: s.stock.UUID, Name: "d1", Class: "CUSTOM_NVME"})
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
func (s *inventoryFixture) call(attempt int32, name string, in contract.ReservationRequest,
	points ...inventorytest.Point) (device.Inventory, []inventorytest.Request, error) {
	faulty := inventorytest.NewFaulty(s.store)
	for _, p := range points {
		faulty.Fail(p, inventorytest.Lost())
	}
	stock, err := s.callOver(faulty, attempt, name, in)
	return stock, faulty.Requests(), err
}

func (s *inventoryFixture) callOver(store inventory.Store, attempt int32, name string,
	in contract.ReservationRequest) (device.Inventory, error) {
	control := &activities.Control{Store: store}
	do := map[string]any{
		contract.ActivityEnsureProvider: control.EnsureProvider, contract.ActivityReserveForBind: control.ReserveForBind,
		contract.ActivityReadReservation: control.ReadReservation, contract.ActivityEnsureReserved: control.EnsureReserved,
		contract.ActivityUnreserve:      control.Unreserve,
		contract.ActivityDeleteProvider: control.DeleteProvider,
	}[name]
	return execute[device.Inventory](again(s.t, attempt), name, do, in)
}

// writes counts the writes that reached the store.
func (s *inventoryFixture) writes() int64 { return s.now().Generation - s.generation }

// The rules themselves are proved in package inventory. Here is what an attempt brings to them:
// each earlier one may have written once.
//
// F4
func TestAnAttemptKnowsWhatEarlierOnesMayHaveWritten(t *testing.T) {
	t.Parallel()
	const bind, reserve = contract.ActivityReserveForBind, contract.ActivityEnsureReserved
	for _, c := range []struct {
		name    string
		attempt int32
		others  []int
		code    device.Code // none: it succeeds
	}{
		{bind, 1, []int{1}, device.CodeAlreadyBurned},
		{bind, 2, []int{1}, ""},
		{bind, 2, []int{1, 1}, device.CodeInventoryGenerationAhead},
		{bind, 1, []int{0}, device.CodeInventoryGenerationAhead},
		{reserve, 1, nil, ""}, {reserve, 1, []int{0}, device.CodeInventoryGenerationAhead},
		{reserve, 2, []int{1}, ""}, {reserve, 2, []int{1, 0}, device.CodeInventoryGenerationAhead},
		{reserve, 3, []int{1, 0}, ""}, {reserve, 3, []int{1, 0, 1}, device.CodeInventoryGenerationAhead},
	} {
		t.Run(fmt.Sprintf("%s, attempt %d after %v", c.name, c.attempt, c.others), func(t *testing.T) {
			s := newInventoryFixture(t, 0)
			s.others(c.others...)
			before := s.now()
			stock, _, err := s.call(c.attempt, c.name, s.expecting())
			if c.code == "" {
				require.NoError(t, err)
				require.True(t, stock.Burned())
				return
			}
			requireFault(t, err, c.code, false)
			require.Equal(t, before, s.now(), "it wrote what it refused")
		})
	}
	t.Run("one burn is one write, although an answer was lost", func(t *testing.T) {
		s := newInventoryFixture(t, 0)
		_, _, err := s.call(1, bind, s.expecting(), inventorytest.After(inventorytest.PutReserved, 1))
		requireFault(t, err, device.CodeInventoryUnavailable, true)
		stock, requests, err := s.call(2, bind, s.expecting())
		require.NoError(t, err)
		require.Equal(t, device.Inventory{Generation: s.generation + 1, Total: 1, Reserved: 1}, stock)
		require.Len(t, requests, 2, "it found its own write and wrote again")
	})
}

// F5
func TestUnreserveWritesOnceWithTheGenerationGiven(t *testing.T) {
	t.Parallel()
	s := newInventoryFixture(t, 1)
	in := s.stock
	in.Generation = s.generation
	_, requests, err := s.call(1, contract.ActivityUnreserve, in, inventorytest.After(inventorytest.PutReserved, 1))
	requireFault(t, err, device.CodeInventoryUnavailable, true)
	require.Equal(t, inventorytest.PutReserved, requests[0].Kind, "it writes first")
	require.Equal(t, s.generation, requests[0].Generation)
	require.Zero(t, s.now().Reserved)
	// A second attempt, in spite of MaximumAttempts 1, changes nothing more.
	_, _, err = s.call(2, contract.ActivityUnreserve, in)
	requireFault(t, err, device.CodeConflict, true)
	require.EqualValues(t, 1, s.writes())
}

func TestProvidersAreMadeReadAndDeleted(t *testing.T) {
	t.Parallel()
	s := newInventoryFixture(t, 1)
	require.NoError(t, s.store.Delete(t.Context(), s.stock.UUID))
	_, _, err := s.call(1, contract.ActivityEnsureProvider, s.stock, inventorytest.AfterCall(1))
	requireFault(t, err, device.CodeInventoryUnavailable, true)
	made, _, err := s.call(2, contract.ActivityEnsureProvider, s.stock)
	require.NoError(t, err)
	require.True(t, made.Burned())
	read, requests, err := s.call(1, contract.ActivityReadReservation, s.stock)
	require.NoError(t, err)
	require.Equal(t, made, read)
	require.Len(t, requests, 2)

	_, _, err = s.call(1, contract.ActivityDeleteProvider, s.stock, inventorytest.AfterCall(1))
	requireFault(t, err, device.CodeInventoryUnavailable, true)
	_, _, err = s.call(2, contract.ActivityDeleteProvider, s.stock)
	require.NoError(t, err)
	_, err = s.store.Reservation(t.Context(), s.stock.UUID)
	inventorytest.RequireCode(t, device.CodeNoProvider, err)
}
