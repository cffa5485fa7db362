package placement_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

// A provider whose total somebody raised is reserved, whatever its total, and never offered:
// it would be given to two instances. The refusal costs no request where the inventory is
// known.
//
// S0.14, F5
func TestOnlyATotalOfOneIsLowered(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, _ := s.free(t)
	has, err := s.nova.Inventory(t.Context(), p.UUID)
	require.NoError(t, err)
	status, text, err := s.nova.Do(t.Context(), http.MethodPut, "/resource_providers/"+p.UUID+"/inventories/"+p.Class,
		map[string]any{"resource_provider_generation": has.Generation, "total": 2, "reserved": 1, "max_unit": 1}, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)

	v, err := inventory.EnsureReserved(t.Context(), s.store, p.UUID, nil, inventory.Holder{})
	require.NoError(t, err)
	require.True(t, v.Burned())
	require.Equal(t, 2, v.Reserved)
	for requests, store := range []*placement.Store{s.store, s.open(t, placement.Settings{})} {
		s.recorder.Reset()
		_, err = inventory.Unreserve(t.Context(), store, p.UUID, v.Generation)
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
		require.ErrorContains(t, err, "total 2")
		require.Equal(t, requests, s.recorder.Count())
	}
	now, err := inventory.Read(t.Context(), s.store, p.UUID)
	require.NoError(t, err)
	require.True(t, now.Burned())
	require.Equal(t, v.Generation, now.Generation, "nothing was written")
}
