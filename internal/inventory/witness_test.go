package inventory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/testkit/suites/inventorytest"
)

const otherTenant = "0a9f6f0e-9a0d-4d1b-8f43-6de1c9a3b7aa"

// record writes who has the device as an earlier call did; nil keeps it.
func (w *fixture) record(reserved int, tenant *device.Record) int64 {
	w.t.Helper()
	st, err := w.store.PutReserved(w.t.Context(), w.id, w.reservation().Generation, reserved, tenant)
	require.NoError(w.t, err)
	return st.Generation
}

func (w *fixture) requireRecord(witness device.Witness, tenant string) {
	w.t.Helper()
	st := w.reservation()
	require.Equal(w.t, witness, st.Witness)
	require.Equal(w.t, tenant, st.Tenant)
}

func ptr(tenant string) *device.Record {
	r := device.RecordOf(tenant)
	return &r
}

// F24
func TestNoRecordUntilTheFirstWriteThatMakesOne(t *testing.T) {
	w := newFixture(t, true, false)
	w.requireRecord(device.WitnessNone, "")
	v, err := inventory.EnsureProvider(t.Context(), w.faulty, w.p)
	require.NoError(t, err)
	require.Equal(t, device.WitnessNone, v.Witness, "enrolling a device says nothing of who has it")
	v, err = w.ensureReserved(nil)
	require.NoError(t, err)
	require.Equal(t, device.WitnessNone, v.Witness)
	w.requireRecord(device.WitnessNone, "")
}

// A bind records its instance in the write that burns the device, the lowering write keeps
// what is recorded, and the first write of a clean clears it.
//
// F24
func TestARecordThroughOneBinding(t *testing.T) {
	w := newFixture(t, false, false)
	v, err := w.reserveForBind(nil, false)
	require.NoError(t, err)
	require.Equal(t, device.WitnessBound, v.Witness)
	require.Equal(t, tenant, v.Tenant)
	require.Equal(t, burned, w.faulty.Kinds(), "the record costs no request")
	w.requireRecord(device.WitnessBound, tenant)

	v, err = w.read()
	require.NoError(t, err)
	require.Equal(t, tenant, v.Tenant)

	v, err = inventory.EnsureReserved(t.Context(), w.faulty, w.id, &v.Generation,
		inventory.Holder{Record: ptr(""), Left: tenant, LeftGeneration: v.Generation})
	require.NoError(t, err)
	require.Equal(t, device.WitnessFree, v.Witness)
	require.Empty(t, v.Tenant)
	w.requireRecord(device.WitnessFree, "")

	v, err = w.unreserve(v.Generation)
	require.NoError(t, err)
	require.Equal(t, device.WitnessFree, v.Witness)
	w.requireRecord(device.WitnessFree, "")
}

// F24
func TestUnreserveKeepsTheRecord(t *testing.T) {
	w := newFixture(t, true, false)
	g := w.record(1, ptr(tenant))
	v, err := w.unreserve(g)
	require.NoError(t, err)
	require.Equal(t, tenant, v.Tenant)
	w.requireRecord(device.WitnessBound, tenant)
}

// Whatever is recorded: it is replaced only where it names no instance, or where it
// is the one that the caller knows to be over. The reservation is raised in any case.
//
// F24
func TestARecordOfAnotherInstanceStays(t *testing.T) {
	name := "vm-17" // not a UUID: an inventory may know it by its TenantUUID alone
	for _, test := range []struct {
		name     string
		recorded *device.Record
		tenant   *device.Record
		left     string
		later    bool // the record is newer than what the caller knows
		want     device.Witness
		who      string
	}{
		{"none, kept", nil, nil, "", false, device.WitnessNone, ""},
		{"none, cleared", nil, ptr(""), "", false, device.WitnessFree, ""},
		{"none, bound", nil, ptr(tenant), "", false, device.WitnessBound, tenant},
		{"free, kept", ptr(""), nil, "", false, device.WitnessFree, ""},
		{"free, cleared", ptr(""), ptr(""), "", false, device.WitnessFree, ""},
		{"free, bound", ptr(""), ptr(tenant), "", false, device.WitnessBound, tenant},
		{"bound, kept", ptr(tenant), nil, tenant, false, device.WitnessBound, tenant},
		{"left, cleared", ptr(tenant), ptr(""), tenant, false, device.WitnessFree, ""},
		{"left by its name", ptr(device.TenantUUID(name)), ptr(""), name, false, device.WitnessFree, ""},
		{"left, and came back since", ptr(tenant), ptr(""), tenant, true, device.WitnessBound, tenant},
		{"bound, and no instance left", ptr(tenant), ptr(""), "", false, device.WitnessBound, tenant},
		{"bound, another left", ptr(tenant), ptr(""), otherTenant, false, device.WitnessBound, tenant},
		{"bound to another", ptr(tenant), ptr(otherTenant), "", false, device.WitnessBound, tenant},
		{"bound to the same", ptr(tenant), ptr(tenant), "", false, device.WitnessBound, tenant},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, false, false)
			knows := w.record(0, test.recorded)
			if test.later {
				knows--
			}
			v, err := inventory.EnsureReserved(t.Context(), w.faulty, w.id, nil,
				inventory.Holder{Record: test.tenant, Left: test.left, LeftGeneration: knows})
			require.NoError(t, err)
			require.True(t, v.Burned())
			require.Equal(t, test.want, v.Witness, "the caller must see it")
			require.Equal(t, test.who, v.Tenant)
			w.requireRecord(test.want, test.who)
		})
	}
}

// F24
func TestReserveForBindRefusesTheRecordOfAnotherInstance(t *testing.T) {
	w := newFixture(t, false, false)
	g := w.record(0, ptr(otherTenant))
	_, err := w.reserveForBind(&g, false)
	inventorytest.RequireCode(t, device.CodeInUse, err)
	require.ErrorContains(t, err, otherTenant)
	w.requireUnchanged(w.reservation())
}

// A second attempt takes a burned provider for its own earlier write only where that
// records its instance.
//
// F24
func TestReserveForBindKnowsItsEarlierWriteByTheRecord(t *testing.T) {
	for _, test := range []struct {
		name     string
		recorded *device.Record
		want     device.Code // none: it succeeds
	}{
		{"its own", ptr(tenant), ""},
		{"none", nil, device.CodeAlreadyBurned},
		{"no instance", ptr(""), device.CodeAlreadyBurned},
		{"another instance", ptr(otherTenant), device.CodeAlreadyBurned},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, false, false)
			g := w.reservation().Generation
			w.record(1, test.recorded)
			v, err := w.reserveForBind(&g, true)
			require.NotContains(t, w.faulty.Kinds(), inventorytest.PutReserved)
			if test.want != "" {
				inventorytest.RequireCode(t, test.want, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tenant, v.Tenant)
		})
	}

	w := newFixture(t, false, false)
	g := w.reservation().Generation
	w.record(1, ptr(tenant))
	w.put(1)
	_, err := w.reserveForBind(&g, true)
	inventorytest.RequireCode(t, device.CodeInventoryGenerationAhead, err)
}
