package inventorytest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// namesOf gives the names of the providers that record a hardware, as another process finds them.
func namesOf(t *testing.T, f Fixture, hardware string) []string {
	t.Helper()
	providers, err := f.Open(t).OfHardware(t.Context(), hardware)
	require.NoError(t, err)
	names := []string{}
	for _, p := range providers {
		names = append(names, p.Name)
	}
	return names
}

// of is a new provider of a hardware.
func of(hardware string) inventory.Provider {
	p := NewProvider()
	p.Hardware = hardware
	return p
}

// A hardware is found under every name, from the creation of its provider to its end, with who has
// it; a record of it that has another owner now is no record of it.
func providersOfAHardware(t *testing.T, f Fixture) {
	first, second := uuid.NewString(), uuid.NewString()
	require.Empty(t, namesOf(t, f, first))
	a, b, other := of(first), of(first), of(second)
	for _, p := range []inventory.Provider{a, b, other, NewProvider()} {
		require.NoError(t, f.Store.Create(t.Context(), p))
	}
	require.ElementsMatch(t, []string{a.Name, b.Name}, namesOf(t, f, first))
	require.Equal(t, []string{other.Name}, namesOf(t, f, second))

	_, err := inventory.ReserveForBind(t.Context(), f.Store, a.UUID,
		&device.Record{Witness: device.WitnessBound, Tenant: "alice"}, nil, true)
	RequireCode(t, device.CodeAlreadyBurned, err)
	put(t, f, a.UUID, 0)
	_, err = inventory.ReserveForBind(t.Context(), f.Store, a.UUID,
		&device.Record{Witness: device.WitnessBound, Tenant: "alice"}, nil, false)
	require.NoError(t, err)
	records, err := inventory.HardwareRecords(t.Context(), f.Store, first, b.UUID)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, a.UUID, records[0].UUID)
	require.True(t, device.SameTenant(records[0].Tenant, "alice"), records[0].Tenant)

	require.NoError(t, f.Store.Delete(t.Context(), b.UUID))
	require.Equal(t, []string{a.Name}, namesOf(t, f, first))
	require.NoError(t, f.Store.Delete(t.Context(), a.UUID))
	require.Empty(t, namesOf(t, f, first))
}

// A provider that exists gets the hardware that its device is found with, beside what it records,
// and its reservation stays; only hardware that was replaced is no longer recorded.
func hardwareIsAdded(t *testing.T, f Fixture) {
	p := NewProvider()
	require.NoError(t, f.Store.Create(t.Context(), p))
	put(t, f, p.UUID, 0)
	first, second := uuid.NewString(), uuid.NewString()
	record := func(hardware, former string) {
		p.Hardware, p.FormerHardware = hardware, former
		require.NoError(t, f.Store.Create(t.Context(), p))
		at := stock(t, f, p.UUID)
		require.NoError(t, f.Store.Create(t.Context(), p))
		require.Equal(t, at, stock(t, f, p.UUID), "the second Create changes nothing")
		require.Zero(t, at.Reserved)
	}
	record(first, "")
	record(second, "")
	require.Equal(t, []string{p.Name}, namesOf(t, f, first))
	require.Equal(t, []string{p.Name}, namesOf(t, f, second))
	record("", "")
	require.Equal(t, []string{p.Name}, namesOf(t, f, second))
	third := uuid.NewString()
	record(third, second)
	require.Equal(t, []string{p.Name}, namesOf(t, f, first))
	require.Empty(t, namesOf(t, f, second))
	require.Equal(t, []string{p.Name}, namesOf(t, f, third))
}
