// Package inventorytest has the suite that every inventory backend passes, and Faulty, a
// Store that injects faults before or after chosen calls.
package inventorytest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// Fixture is a backend under test. Allocate and Deallocate act as a scheduler: they give one
// unit of the provider to a consumer, which is a UUID, and take it back.
type Fixture struct {
	Store      inventory.Store
	Allocate   func(ctx context.Context, provider, consumer string) error
	Deallocate func(ctx context.Context, provider, consumer string) error
	// Open opens the same inventory again, as another process does.
	Open func(t *testing.T) inventory.Store
}

// NewProvider is a provider that no other test uses, so that the suite can run on a shared
// inventory.
func NewProvider() inventory.Provider {
	id := uuid.NewString()
	return inventory.Provider{
		UUID:   id,
		Name:   "host_" + id,
		Class:  "CUSTOM_BURNISH_TEST",
		Traits: []string{"CUSTOM_BURNISH_TEST"},
	}
}

// RequireCode requires a Fault of this code with a message of one line.
func RequireCode(t *testing.T, code device.Code, err error) {
	t.Helper()
	require.Error(t, err)
	f, ok := device.AsFault(err)
	require.True(t, ok, "no fault: %v", err)
	require.Equal(t, code, f.Code, "%v", err)
	require.NotEmpty(t, f.Message)
	require.False(t, strings.Contains(err.Error(), "\n"), "more than one line: %q", err)
	switch code {
	case device.CodeConflict, device.CodeInventoryUnavailable:
		require.Equal(t, device.Transient, f.Class)
	default:
		require.NotEqual(t, device.Transient, f.Class, "%s must not be retried", code)
	}
}

// Run tests a backend against the port's promises and the rules built on them.
func Run(t *testing.T, newFixture func(t *testing.T) Fixture) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Fixture)
	}{
		{"ReservedFromCreation", reservedFromCreation}, // S2.40
		{"CreateIsIdempotent", createIsIdempotent},
		{"NameClash", nameClash},
		{"NoProvider", noProvider},
		{"EveryPutRaisesTheGenerationByOne", putRaisesGeneration},     // F5
		{"ConflictWritesNothing", conflictWritesNothing},              // F5
		{"AllocationRaisesTheGeneration", allocationRaisesGeneration}, // F4
		{"DeallocationDoesNotRaiseTheGeneration", deallocationKeepsGeneration},
		{"ReservedProviderIsNotAllocated", reservedIsNotAllocated}, // S0.1
		{"ReserveWhileAllocated", reserveWhileAllocated},           // F4
		{"ARecordOfTheTenant", recordOfTheTenant},                  // F24
		{"ProvidersOfAHardware", providersOfAHardware},             // F35
		{"AHardwareIsRecordedWhereItIsKnown", hardwareIsAdded},     // F35
		{"PutBeyondTotal", putBeyondTotal},
		{"DeleteAndDeleteAgain", deleteProvider},
		{"ANewProviderCountsFromTheStart", newProviderCounts}, // F28
		{"DeleteInUse", deleteInUse},
		{"EightWritersLoseNoUpdate", concurrentWriters},
		{"ReadUnderWritersIsConsistent", readUnderWriters},
		{"OneOfEightReservationsWins", concurrentReservations}, // S0.27
		{"EndedContext", endedContext},
		{"OneBindingByTheRules", oneBinding}, // F4, F5
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newFixture(t)) })
	}
}

// createProvider creates a provider and returns its UUID.
func createProvider(t *testing.T, f Fixture) string {
	t.Helper()
	p := NewProvider()
	require.NoError(t, f.Store.Create(t.Context(), p))
	return p.UUID
}

// free creates a provider that a scheduler can allocate.
func free(t *testing.T, f Fixture) string {
	t.Helper()
	id := createProvider(t, f)
	put(t, f, id, 0)
	return id
}

func stock(t *testing.T, f Fixture, id string) inventory.Reservation {
	t.Helper()
	st, err := f.Store.Reservation(t.Context(), id)
	require.NoError(t, err)
	return st
}

func usages(t *testing.T, f Fixture, id string) inventory.Usage {
	t.Helper()
	u, err := f.Store.Usages(t.Context(), id)
	require.NoError(t, err)
	return u
}

// put writes reserved whatever the generation is.
func put(t *testing.T, f Fixture, id string, reserved int) inventory.Reservation {
	t.Helper()
	st, err := f.Store.PutReserved(t.Context(), id, stock(t, f, id).Generation, reserved, nil)
	require.NoError(t, err)
	return st
}

func reservedFromCreation(t *testing.T, f Fixture) {
	id := createProvider(t, f)
	st := stock(t, f, id)
	require.Equal(t, 1, st.Total)
	require.Equal(t, 1, st.Reserved)
	u := usages(t, f, id)
	require.Zero(t, u.Used)
	require.Empty(t, u.Consumers)
	require.Equal(t, st.Generation, u.Generation)
	RequireCode(t, device.CodeConflict, f.Allocate(t.Context(), id, uuid.NewString()))
}

func createIsIdempotent(t *testing.T, f Fixture) {
	p := NewProvider()
	require.NoError(t, f.Store.Create(t.Context(), p))
	put(t, f, p.UUID, 0)
	consumer := uuid.NewString()
	require.NoError(t, f.Allocate(t.Context(), p.UUID, consumer))
	before, used := stock(t, f, p.UUID), usages(t, f, p.UUID)

	require.NoError(t, f.Store.Create(t.Context(), p))
	require.Equal(t, before, stock(t, f, p.UUID), "the second Create changed the reservation")
	require.Equal(t, used, usages(t, f, p.UUID))
}

func nameClash(t *testing.T, f Fixture) {
	p := NewProvider()
	require.NoError(t, f.Store.Create(t.Context(), p))
	before := stock(t, f, p.UUID)
	otherName := p
	otherName.Name = NewProvider().Name
	RequireCode(t, device.CodeInventoryInvalid, f.Store.Create(t.Context(), otherName))
	require.Equal(t, before, stock(t, f, p.UUID))
	successor := NewProvider()
	successor.Name = otherName.Name
	require.NoError(t, f.Store.Create(t.Context(), successor), "the refusal claimed the name")
}

func noProvider(t *testing.T, f Fixture) {
	id := uuid.NewString()
	_, err := f.Store.Usages(t.Context(), id)
	RequireCode(t, device.CodeNoProvider, err)
	_, err = f.Store.Reservation(t.Context(), id)
	RequireCode(t, device.CodeNoProvider, err)
	_, err = f.Store.PutReserved(t.Context(), id, 0, 1, nil)
	RequireCode(t, device.CodeNoProvider, err)
	require.NoError(t, f.Store.Delete(t.Context(), id))
}

func putRaisesGeneration(t *testing.T, f Fixture) {
	id := createProvider(t, f)
	before := stock(t, f, id)
	for i, reserved := range []int{1, 0, 0, 1} {
		st, err := f.Store.PutReserved(t.Context(), id, before.Generation, reserved, nil)
		require.NoError(t, err)
		require.Equal(t, before.Generation+1, st.Generation, "write %d", i)
		require.Equal(t, reserved, st.Reserved)
		require.Equal(t, 1, st.Total)
		require.Equal(t, st, stock(t, f, id), "the result differs from the next read")
		require.Equal(t, st.Generation, usages(t, f, id).Generation)
		before = st
	}
}

func conflictWritesNothing(t *testing.T, f Fixture) {
	id := createProvider(t, f)
	put(t, f, id, 1)
	before := stock(t, f, id)
	for _, generation := range []int64{before.Generation - 1, before.Generation + 1} {
		_, err := f.Store.PutReserved(t.Context(), id, generation, 0, nil)
		RequireCode(t, device.CodeConflict, err)
		require.Equal(t, before, stock(t, f, id))
	}
}

func allocationRaisesGeneration(t *testing.T, f Fixture) {
	id := free(t, f)
	before := stock(t, f, id)
	consumer := uuid.NewString()
	require.NoError(t, f.Allocate(t.Context(), id, consumer))
	u := usages(t, f, id)
	require.Equal(t, 1, u.Used)
	if len(u.Consumers) > 0 { // some backends do not know them
		require.Equal(t, []string{consumer}, u.Consumers)
	}
	require.Greater(t, u.Generation, before.Generation)
	require.Equal(t, u.Generation, stock(t, f, id).Generation)

	_, err := f.Store.PutReserved(t.Context(), id, before.Generation, 1, nil)
	RequireCode(t, device.CodeConflict, err)
	require.Zero(t, stock(t, f, id).Reserved)
}

func deallocationKeepsGeneration(t *testing.T, f Fixture) {
	id := free(t, f)
	consumer := uuid.NewString()
	require.NoError(t, f.Allocate(t.Context(), id, consumer))
	before := stock(t, f, id)
	require.NoError(t, f.Deallocate(t.Context(), id, consumer))
	require.Equal(t, before, stock(t, f, id))
	u := usages(t, f, id)
	require.Zero(t, u.Used)
	require.Empty(t, u.Consumers)
	require.Equal(t, before.Generation, u.Generation)
}

func reservedIsNotAllocated(t *testing.T, f Fixture) {
	for _, take := range []func(id string){
		func(id string) { require.NoError(t, f.Allocate(t.Context(), id, uuid.NewString())) },
		func(id string) { put(t, f, id, 1) },
	} {
		id := free(t, f)
		take(id)
		before, used := stock(t, f, id), usages(t, f, id)
		RequireCode(t, device.CodeConflict, f.Allocate(t.Context(), id, uuid.NewString()))
		require.Equal(t, before, stock(t, f, id))
		require.Equal(t, used, usages(t, f, id))
	}
}

func reserveWhileAllocated(t *testing.T, f Fixture) {
	id := free(t, f)
	consumer := uuid.NewString()
	require.NoError(t, f.Allocate(t.Context(), id, consumer))
	st := put(t, f, id, 1)
	require.Equal(t, 1, st.Reserved)
	require.Equal(t, 1, usages(t, f, id).Used, "reserving keeps the allocation")
	require.NoError(t, f.Deallocate(t.Context(), id, consumer))
	require.Equal(t, 1, stock(t, f, id).Reserved, "it stays reserved after the release")
	RequireCode(t, device.CodeConflict, f.Allocate(t.Context(), id, uuid.NewString()))
}

// recordOfTheTenant: a new provider records nothing, a write with a tenant records it, and
// every other write keeps the record, also one that is refused and a second Create.
func recordOfTheTenant(t *testing.T, f Fixture) {
	p := NewProvider()
	require.NoError(t, f.Store.Create(t.Context(), p))
	st := stock(t, f, p.UUID)
	require.Equal(t, device.WitnessNone, st.Witness, "no record says who has a new device")
	instance, other := uuid.NewString(), uuid.NewString()
	requireRecord := func(witness device.Witness, tenant string) {
		t.Helper()
		now := stock(t, f, p.UUID)
		require.Equal(t, st, now, "the result differs from the next read")
		require.Equal(t, witness, now.Witness)
		require.Equal(t, tenant, now.Tenant)
	}
	write := func(reserved int, record *device.Record) {
		t.Helper()
		var err error
		st, err = f.Store.PutReserved(t.Context(), p.UUID, st.Generation, reserved, record)
		require.NoError(t, err)
	}
	write(0, nil)
	requireRecord(device.WitnessNone, "")
	write(1, recordOf(instance))
	requireRecord(device.WitnessBound, instance)
	write(0, nil)
	requireRecord(device.WitnessBound, instance)
	_, err := f.Store.PutReserved(t.Context(), p.UUID, st.Generation-1, 1, recordOf(other))
	RequireCode(t, device.CodeConflict, err)
	require.NoError(t, f.Store.Create(t.Context(), p))
	requireRecord(device.WitnessBound, instance)
	write(1, recordOf(other))
	requireRecord(device.WitnessBound, other)
	write(1, recordOf(""))
	requireRecord(device.WitnessFree, "")
	write(0, nil)
	requireRecord(device.WitnessFree, "")
}

// recordOf is a record with all of its fields.
func recordOf(tenant string) *device.Record {
	r := device.RecordOf(tenant)
	r.Hold, r.Bindings, r.Cleans = device.HoldMaintenance, 41, 7
	return &r
}

func putBeyondTotal(t *testing.T, f Fixture) {
	id := createProvider(t, f)
	before := stock(t, f, id)
	for _, reserved := range []int{-1, 2} {
		_, err := f.Store.PutReserved(t.Context(), id, before.Generation, reserved, nil)
		RequireCode(t, device.CodeInventoryInvalid, err)
		require.Equal(t, before, stock(t, f, id))
	}
}

func deleteProvider(t *testing.T, f Fixture) {
	id := createProvider(t, f)
	require.NoError(t, f.Store.Delete(t.Context(), id))
	_, err := f.Store.Reservation(t.Context(), id)
	RequireCode(t, device.CodeNoProvider, err)
	require.NoError(t, f.Store.Delete(t.Context(), id))
}

func deleteInUse(t *testing.T, f Fixture) {
	id := free(t, f)
	consumer := uuid.NewString()
	require.NoError(t, f.Allocate(t.Context(), id, consumer))
	before := stock(t, f, id)
	RequireCode(t, device.CodeInUse, f.Store.Delete(t.Context(), id))
	require.Equal(t, before, stock(t, f, id))
	require.Equal(t, 1, usages(t, f, id).Used)
	require.NoError(t, f.Deallocate(t.Context(), id, consumer))
	require.NoError(t, f.Store.Delete(t.Context(), id))
}

// newProviderCounts: a provider that was deleted and created again has neither the old
// generations nor the old record. A generation of its earlier life proves nothing of it: the
// count comes by it again.
func newProviderCounts(t *testing.T, f Fixture) {
	p, instance := NewProvider(), uuid.NewString()
	require.NoError(t, f.Store.Create(t.Context(), p))
	first := stock(t, f, p.UUID)
	was, err := f.Store.PutReserved(t.Context(), p.UUID, first.Generation, 1, recordOf(instance))
	require.NoError(t, err)
	require.NoError(t, f.Store.Delete(t.Context(), p.UUID))
	require.NoError(t, f.Store.Create(t.Context(), p))
	require.Equal(t, first, stock(t, f, p.UUID), "reserved, without a record, at the first generation again")
	_, err = f.Store.PutReserved(t.Context(), p.UUID, was.Generation, 0, nil)
	RequireCode(t, device.CodeConflict, err)
	require.Equal(t, was.Generation, put(t, f, p.UUID, 1).Generation)
}

func endedContext(t *testing.T, f Fixture) {
	id := createProvider(t, f)
	before := stock(t, f, id)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, usages := f.Store.Usages(ctx, id)
	_, read := f.Store.Reservation(ctx, id)
	_, write := f.Store.PutReserved(ctx, id, before.Generation, 0, nil)
	for _, err := range []error{
		usages, read, write, f.Store.Create(ctx, NewProvider()), f.Store.Delete(ctx, id),
	} {
		RequireCode(t, device.CodeInventoryUnavailable, err)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, before, stock(t, f, id))
}

// oneBinding takes a provider through the life of a device by the rules alone.
func oneBinding(t *testing.T, f Fixture) {
	ctx, p := t.Context(), NewProvider()
	v, err := inventory.EnsureProvider(ctx, f.Store, p)
	require.NoError(t, err)
	require.True(t, v.Burned())

	v, err = inventory.Unreserve(ctx, f.Store, p.UUID, v.Generation)
	require.NoError(t, err)
	require.False(t, v.Burned())
	require.Zero(t, stock(t, f, p.UUID).Reserved)

	v, err = inventory.ReserveForBind(ctx, f.Store, p.UUID, recordOf(uuid.NewString()), &v.Generation, false)
	require.NoError(t, err)
	require.True(t, v.Burned())
	_, err = inventory.ReserveForBind(ctx, f.Store, p.UUID, recordOf(uuid.NewString()), &v.Generation, false)
	RequireCode(t, device.CodeAlreadyBurned, err)

	clean, err := inventory.EnsureReserved(ctx, f.Store, p.UUID, &v.Generation, inventory.Holder{})
	require.NoError(t, err)
	require.Equal(t, v.Generation+1, clean.Generation)
	_, err = inventory.Unreserve(ctx, f.Store, p.UUID, v.Generation)
	RequireCode(t, device.CodeConflict, err)
	require.Equal(t, 1, stock(t, f, p.UUID).Reserved, "unreserved with a generation older than the clean")

	v, err = inventory.Unreserve(ctx, f.Store, p.UUID, clean.Generation)
	require.NoError(t, err)
	// This time a scheduler allocates it first.
	require.NoError(t, f.Allocate(ctx, p.UUID, uuid.NewString()))
	_, err = inventory.ReserveForBind(ctx, f.Store, p.UUID, recordOf(uuid.NewString()), &v.Generation, false)
	RequireCode(t, device.CodeInUse, err)
	require.Zero(t, stock(t, f, p.UUID).Reserved)
	seen, err := inventory.EnsureReserved(ctx, f.Store, p.UUID, nil, inventory.Holder{})
	require.NoError(t, err)
	require.True(t, seen.Burned())
	require.Equal(t, 1, seen.Used)
	view, err := inventory.Read(ctx, f.Store, p.UUID)
	require.NoError(t, err)
	require.Equal(t, 1, view.Used)
	require.Equal(t, seen.Generation, view.Generation)
}
