package placement_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

// classes gives all inventories of a provider, as Placement answers.
func (s *testPlacement) classes(t *testing.T, id string) map[string]map[string]any {
	t.Helper()
	var answer struct {
		Inventories map[string]map[string]any `json:"inventories"`
	}
	status, text, err := s.nova.Do(t.Context(), http.MethodGet, "/resource_providers/"+id+"/inventories", nil, &answer)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
	return answer.Inventories
}

func record(tenant string) *device.Record {
	r := device.RecordOf(tenant)
	return &r
}

func (s *testPlacement) requireRecord(t *testing.T, id string, witness device.Witness, tenant string) {
	t.Helper()
	// By a worker that has just started: nothing is cached.
	st, err := s.open(t, placement.Settings{}).Reservation(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, witness, st.Witness)
	require.Equal(t, tenant, st.Tenant)
}

// Every UUID comes back from Placement as it was written, to the last bit; what is no UUID
// comes back as its TenantUUID.
//
// F24
func TestATenantIsReadBackAsWritten(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, generation := s.free(t)
	names := []string{
		"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"80000000-0000-0000-0000-000000000001", "00ffffff-fc00-0000-0000-000000000000",
		"instance-7", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "", "ein Name mit Umläuten",
	}
	for _, bit := range []int{1, 29, 30, 31, 59, 60, 61, 63, 64, 89, 90, 91, 119, 120, 126} { // the edges of the fields
		var raw uuid.UUID
		raw[bit/8] = 1 << (bit % 8)
		names = append(names, raw.String())
	}
	names = append(names, uuid.NewString())
	for _, name := range names {
		st, err := s.store.PutReserved(t.Context(), p.UUID, generation, 1, record(name))
		require.NoError(t, err, name)
		require.Equal(t, generation+1, st.Generation)
		generation = st.Generation
		back, err := s.store.Reservation(t.Context(), p.UUID)
		require.NoError(t, err)
		require.Equal(t, st, back)
		if name == "" {
			require.Equal(t, device.WitnessFree, back.Witness)
			require.Empty(t, back.Tenant)
			continue
		}
		require.Equal(t, device.WitnessBound, back.Witness)
		require.Equal(t, device.TenantUUID(name), back.Tenant)
		require.True(t, device.SameTenant(back.Tenant, name))
	}
}

// The record rides in the requests that are made anyway, also by a worker that has just started, and
// only those that change it write both inventories. Another client's write keeps it.
//
// F24, S0.34
func TestTheRecordCostsNoRequest(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, generation := s.free(t)
	require.Len(t, s.classes(t, p.UUID), 1, "a provider is made without a record")
	s.requireRecord(t, p.UUID, device.WitnessNone, "")

	s.store = s.open(t, placement.Settings{})
	s.recorder.Reset()
	v, err := inventory.ReserveForBind(t.Context(), s.store, p.UUID, record(tenant), &generation, false)
	require.NoError(t, err)
	require.Equal(t, tenant, v.Tenant)
	s.recorder.RequireCalls(t, "GET /resource_providers/*/usages", "GET /resource_providers/*/inventories",
		"PUT /resource_providers/*/inventories", "GET /resource_providers/*/inventories")
	s.requireRecord(t, p.UUID, device.WitnessBound, tenant)

	s.recorder.Reset()
	v, err = inventory.EnsureReserved(t.Context(), s.store, p.UUID, &v.Generation,
		inventory.Holder{Record: record(""), Left: tenant, LeftGeneration: v.Generation})
	require.NoError(t, err)
	require.Equal(t, device.WitnessFree, v.Witness)
	require.Equal(t, 4, s.recorder.Count())
	s.requireRecord(t, p.UUID, device.WitnessFree, "")

	s.recorder.Reset()
	v, err = inventory.Unreserve(t.Context(), s.store, p.UUID, v.Generation)
	require.NoError(t, err)
	require.Equal(t, device.WitnessFree, v.Witness)
	s.recorder.RequireCalls(t, "PUT /resource_providers/*/inventories/CUSTOM_BURNISH_TEST",
		"GET /resource_providers/*/inventories")
	s.requireRecord(t, p.UUID, device.WitnessFree, "")
	s.nova.SetReserved(p.UUID, 1)
	s.requireRecord(t, p.UUID, device.WitnessFree, "")
}

// No scheduler gets the second inventory: it is in no allocation candidates, in no list of
// providers with room, and no allocation of it is granted.
//
// F24
func TestTheRecordIsNotSchedulable(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, generation := s.free(t)
	for _, name := range []string{"", "ffffffff-ffff-ffff-ffff-ffffffffffff"} {
		st, err := s.store.PutReserved(t.Context(), p.UUID, generation, 1, record(name))
		require.NoError(t, err)
		st, err = s.store.PutReserved(t.Context(), p.UUID, st.Generation, 0, nil)
		require.NoError(t, err)
		generation = st.Generation
		fields := s.classes(t, p.UUID)[placement.TenantClass]
		require.Equal(t, fields["total"], fields["reserved"])
		step := int64(fields["step_size"].(float64))
		for _, amount := range []int64{1, step, int64(fields["min_unit"].(float64))} {
			for _, list := range []string{"/allocation_candidates", "/resource_providers"} {
				var found struct {
					Requests  []any `json:"allocation_requests"`
					Providers []any `json:"resource_providers"`
				}
				status, text, err := s.nova.Do(t.Context(), http.MethodGet,
					fmt.Sprintf("%s?resources=%s:%d", list, placement.TenantClass, amount), nil, &found)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, status, text)
				require.Empty(t, append(found.Requests, found.Providers...))
			}
			status, _, err := s.nova.Do(t.Context(), http.MethodPut, "/allocations/"+uuid.NewString(), map[string]any{
				"allocations": map[string]any{p.UUID: map[string]any{"resources": map[string]any{placement.TenantClass: amount}}},
				"project_id":  "p", "user_id": "u", "consumer_generation": nil, "consumer_type": "INSTANCE",
			}, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusConflict, status)
		}
		// The device itself is found as before.
		var found struct {
			Requests  []any                                                     `json:"allocation_requests"`
			Summaries map[string]struct{ Resources map[string]json.RawMessage } `json:"provider_summaries"`
		}
		_, text, err := s.nova.Do(t.Context(), http.MethodGet, "/allocation_candidates?resources="+p.Class+":1", nil, &found)
		require.NoError(t, err)
		require.Len(t, found.Requests, 1, text)
	}
	// The device's own allocation, during which the record can be written too, and the end of the
	// provider are as before.
	consumer := uuid.NewString()
	require.NoError(t, s.nova.Allocate(t.Context(), p.UUID, consumer))
	left := inventory.Holder{Record: record(tenant), Left: "ffffffff-ffff-ffff-ffff-ffffffffffff",
		LeftGeneration: generation + 1}
	v, err := inventory.EnsureReserved(t.Context(), s.store, p.UUID, nil, left)
	require.NoError(t, err)
	require.Equal(t, 1, v.Used)
	s.requireRecord(t, p.UUID, device.WitnessBound, tenant)
	require.NoError(t, s.nova.Deallocate(t.Context(), p.UUID, consumer))
	require.NoError(t, s.store.Delete(t.Context(), p.UUID))
}

// What Burnish did not write is no record: no instance is taken to have the device, and none
// to have left it.
//
// F24
func TestAnUnreadableRecordIsNone(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, generation := s.free(t)
	v, err := inventory.ReserveForBind(t.Context(), s.store, p.UUID, record(tenant), &generation, false)
	require.NoError(t, err)
	good := s.classes(t, p.UUID)[placement.TenantClass]
	generation = v.Generation
	for field, value := range map[string]any{
		"reserved": 0, "total": 1<<31 - 1, "allocation_ratio": 1.5, "min_unit": 1<<31 - 1, "max_unit": 1 << 30 * 1.5,
		"step_size": 1<<31 - 2,
	} {
		bad := map[string]any{"resource_provider_generation": generation}
		for name, v := range good {
			bad[name] = v
		}
		bad[field] = value
		status, text, err := s.nova.Do(t.Context(), http.MethodPut, "/resource_providers/"+p.UUID+"/inventories/"+
			placement.TenantClass, bad, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, text)
		generation++
		s.requireRecord(t, p.UUID, device.WitnessNone, "")
	}
}

// The class is made once, before the first provider.
//
// F24
func TestTheClassOfTheRecordIsMade(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	made := func() (n int) {
		for _, call := range s.recorder.Calls() {
			if strings.Contains(call, placement.TenantClass) {
				n++
			}
		}
		return n
	}
	for range 3 {
		require.NoError(t, s.store.Create(t.Context(), inventorytest.NewProvider()))
	}
	require.Equal(t, 1, made())
}

// The classes of the record are made with the first provider, and where a write finds that Placement does
// not know one: an earlier release made the providers, or somebody deleted the class.
//
// F24
func TestTheClassesOfTheRecordAreMade(t *testing.T) {
	for _, class := range []string{placement.TenantClass, placement.RecordClass} {
		s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
		p, generation := s.free(t)
		status, text, err := s.nova.Do(t.Context(), http.MethodDelete, "/resource_classes/"+class, nil, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, status, text)
		v, err := inventory.ReserveForBind(t.Context(), s.store, p.UUID, record(tenant), &generation, false)
		require.NoError(t, err, class)
		require.Equal(t, generation+1, v.Generation)
		s.requireRecord(t, p.UUID, device.WitnessBound, tenant)
	}
}
