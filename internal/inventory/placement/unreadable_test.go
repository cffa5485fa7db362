package placement_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

// A provider whose inventory, or whose use, Placement does not give is passed on with its
// fault, and all others are read; also many of them. A Placement that answers nothing any
// more ends the list.
func TestAnUnreadableProviderHidesNoOther(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	root := s.nova.Host("node-7")
	var devices, own []string
	for i := range 10 {
		devices = append(devices, s.nova.Device(root, "node-7", fmt.Sprintf("0000:3b:%02x.0", i), otuClass))
		p := inventorytest.NewProvider()
		require.NoError(t, s.store.Create(t.Context(), p))
		own = append(own, p.UUID)
	}
	consumer := uuid.NewString()
	require.NoError(t, s.nova.Allocate(t.Context(), devices[1], consumer))
	held := make(chan struct{})
	defer close(held)
	listOwn := func() map[string]inventory.ProviderSnapshot {
		return seenBy(t, func(each func(inventory.ProviderSnapshot) error) error {
			return s.store.ListOwn(t.Context(), own, each)
		})
	}
	for name, do := range map[string]openstack.Injection{
		"500": {Status: 500, Body: `{"errors": [{"status": 500, "detail": "boom"}]}`},

		"no JSON":   {Status: 200, Body: "<html>"},
		"no answer": {Before: func() { <-held }, Drop: true},
	} {
		for _, what := range []string{"inventories", "allocations"} {
			t.Run(name+", "+what, func(t *testing.T) {
				// With an empty cache. Only what never answers needs a limit that is soon over.
				s.store = s.open(t, placement.Settings{Timeout: map[bool]time.Duration{true: 3 * time.Second}[name == "no answer"]})
				for _, id := range []string{devices[1], own[0]} {
					defer s.recorder.Inject(openstack.Match{Method: http.MethodGet, Path: id + "/" + what}, do)()
				}
				for bad, got := range map[string]map[string]inventory.ProviderSnapshot{devices[1]: s.listNova(t),
					own[0]: listOwn()} {
					require.Len(t, got, 10)
					require.NotNil(t, got[bad].Fault)
					require.Equal(t, device.CodeInventoryUnavailable, got[bad].Fault.Code)
					require.Zero(t, got[bad].Inventory)
					for id, p := range got {
						require.Equal(t, id == bad, p.Fault != nil)
						require.Equal(t, id != bad, p.Total == 1)
					}
				}
			})
		}
	}
	t.Run("all but one", func(t *testing.T) {
		s.store = s.open(t, placement.Settings{})
		for _, id := range devices[1:] {
			defer s.recorder.Inject(openstack.Match{Path: id + "/inventories"}, openstack.Injection{Status: 500})()
		}
		got := s.listNova(t)
		require.Len(t, got, 10)
		require.Nil(t, got[devices[0]].Fault)
		for _, id := range devices[1:] {
			require.NotNil(t, got[id].Fault)
		}
	})
	t.Run("none answers", func(t *testing.T) {
		s.store = s.open(t, placement.Settings{})
		defer s.recorder.Inject(openstack.Match{Path: "/inventories"}, openstack.Injection{Status: 500})()
		defer s.recorder.Inject(openstack.Match{Path: "name=burnish"}, openstack.Injection{Status: 503})()
		err := s.store.ListNova(t.Context(), nil, nil, func(inventory.ProviderSnapshot) error { return nil })
		inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
	})
}
