package placement_test

import (
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

// traits reads a provider's traits.
func (s *testPlacement) traits(t *testing.T, id string) []string {
	t.Helper()
	var answer struct {
		Traits []string `json:"traits"`
	}
	status, text, err := s.nova.Do(t.Context(), http.MethodGet, "/resource_providers/"+id+"/traits", nil, &answer)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
	return answer.Traits
}

// S2.37, D12
func TestCreateMakesClassTraitsAndInventoryOnce(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p := inventory.Provider{
		UUID: uuid.NewString(), Name: "node-7_0000:3b:00.0", Class: "CUSTOM_NVME_SAMSUNG_PM9A3",
		Traits: []string{placement.OneTimeUse, "HW_NVME_CES", "CUSTOM_MINE"},
	}
	s.recorder.RequireDirtyIsBurned(t, func(string) bool { return true })
	require.NoError(t, s.store.Create(t.Context(), p))
	require.ElementsMatch(t, append(p.Traits, placement.OwnTrait), s.traits(t, p.UUID))
	has, err := s.nova.Inventory(t.Context(), p.UUID)
	require.NoError(t, err)
	require.Equal(t, p.Class, has.Class)
	require.Equal(t, map[string]any{"total": 1.0, "reserved": 1.0, "min_unit": 1.0, "max_unit": 1.0, "step_size": 1.0,
		"allocation_ratio": 1.0}, has.Fields)
	require.NotContains(t, s.log.String(), "level=WARN")

	s.recorder.Reset()
	require.NoError(t, s.store.Create(t.Context(), p))
	for _, e := range s.recorder.Exchanges() {
		require.Equal(t, http.MethodGet, e.Method, "the second Create wrote")
	}
}

// It is found by its name in any case, by Nova's name of the host, and by its UUID; with
// other traits or none, with or without an inventory.
//
// S2.36
func TestAnotherControllersProvider(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{},
		placement.Settings{NovaHosts: map[string]string{"Cmp_7.example.org": "node-7"}})
	root := s.nova.Host("cmp_7.example.org")
	for i, make := range []func(p *inventory.Provider){
		func(p *inventory.Provider) { s.nova.Provider(uuid.NewString(), p.Name, "", "CUSTOM_X", 0) },
		func(p *inventory.Provider) { s.nova.Provider(uuid.NewString(), strings.ToUpper(p.Name), "", "", 0) },
		func(p *inventory.Provider) {
			s.nova.Provider(uuid.NewString(), strings.Replace(p.Name, "node", "Node", 1), "", "", 0, "OWNER_NOVA")
		},
		func(p *inventory.Provider) {
			_, address, _ := strings.Cut(p.Name, "_")
			s.nova.Device(root, "cmp_7.example.org", address, "CUSTOM_PCI_144D_A80A")
		},
		func(p *inventory.Provider) { s.nova.Provider(p.UUID, p.Name, "", "CUSTOM_X", 0) },
		func(p *inventory.Provider) { s.nova.Provider(p.UUID, p.Name, "", "", 0, "OWNER_NOVA") },
		func(p *inventory.Provider) { s.nova.Provider(p.UUID, "other"+p.Name, "", "", 0, "OWNER_NOVA") },
	} {
		p := inventorytest.NewProvider()
		p.Name = "node-7_0000:3b:00." + string(rune('0'+i))
		make(&p)
		before, _ := s.recorder.Latest(p.UUID)
		s.recorder.Reset()
		// its cache of names is empty
		store := s.open(t, placement.Settings{NovaHosts: map[string]string{"Cmp_7.example.org": "node-7"}})
		err := store.Create(t.Context(), p)
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
		for _, e := range s.recorder.Exchanges() {
			require.Equal(t, http.MethodGet, e.Method, "%d: it wrote", i)
		}
		after, _ := s.recorder.Latest(p.UUID)
		require.Equal(t, before, after)
		if i < 6 {
			require.Contains(t, s.log.String(), "level=ERROR", "%d", i)
			require.ErrorContains(t, err, placement.OwnTrait)
		}
		if has, _ := s.recorder.Latest(p.UUID); has.Exists {
			inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.store.Delete(t.Context(), p.UUID))
		}
	}
}

// The cached list of names is outdated. A name of our own is taken until its provider is deleted.
//
// S2.36
func TestNameTakenMeanwhile(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	require.NoError(t, s.store.Create(t.Context(), inventorytest.NewProvider())) // reads the names
	p := inventorytest.NewProvider()
	s.nova.Provider(uuid.NewString(), p.Name, "", "CUSTOM_X", 0)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.store.Create(t.Context(), p))

	ours, heir := inventorytest.NewProvider(), inventorytest.NewProvider()
	heir.Name = ours.Name
	require.NoError(t, s.store.Create(t.Context(), ours))
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.store.Create(t.Context(), heir))
	require.NoError(t, s.store.Delete(t.Context(), ours.UUID))
	require.NoError(t, s.store.Create(t.Context(), heir))
}

// A Create is interrupted at each of its requests.
//
// S2.40
func TestPartialCreateIsCompleted(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	s.recorder.RequireDirtyIsBurned(t, func(string) bool { return true })
	for _, at := range []openstack.Match{
		{Method: http.MethodPost}, {Method: http.MethodPut, Path: "/resource_providers/[^/]+/traits"},
		{Method: http.MethodPut, Path: "/resource_providers/[^/]+/aggregates"},
		{Method: http.MethodPut, Path: "/inventories"}, {Method: http.MethodPut, Path: "/resource_classes/"},
	} {
		p := inventorytest.NewProvider()
		p.Hardware = uuid.NewString()
		undo := s.recorder.Inject(at, openstack.Injection{LoseAnswer: true})
		err := s.store.Create(t.Context(), p)
		undo()
		inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
		// By another worker, with an empty cache.
		require.NoError(t, s.open(t, placement.Settings{}).Create(t.Context(), p), "%+v", at)
		require.Contains(t, s.traits(t, p.UUID), placement.OwnTrait)
		of, err := s.store.OfHardware(t.Context(), p.Hardware)
		require.NoError(t, err)
		require.Equal(t, []inventory.Provider{{UUID: p.UUID, Name: p.Name}}, of)
		v, err := inventory.Read(t.Context(), s.store, p.UUID)
		require.NoError(t, err)
		require.True(t, v.Burned())
		require.NoError(t, s.store.Create(t.Context(), p))
		require.NoError(t, s.store.Delete(t.Context(), p.UUID))
	}
}

func TestOldPlacementWithoutAllTraits(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{OldTraits: true}, placement.Settings{})
	p := inventorytest.NewProvider()
	p.Traits = []string{placement.OneTimeUse, "HW_NVME_CES", "HW_NVME_ZNS_NONE_SUCH"}
	require.NoError(t, s.store.Create(t.Context(), p))
	require.Equal(t, []string{placement.OwnTrait}, s.traits(t, p.UUID))
	another := inventorytest.NewProvider()
	another.Traits = p.Traits
	require.NoError(t, s.store.Create(t.Context(), another))
	require.Equal(t, 1, strings.Count(s.log.String(), "level=WARN"), s.log)
	require.Contains(t, s.log.String(), "HW_NVME_CES")
	require.Contains(t, s.log.String(), "BURNISH_TRAITS")

	// There no provider can be a one-time-use provider of Nova's; that is logged once, too.
	_, err := s.store.Find(t.Context(), "node-7_0000:3b:00.0")
	inventorytest.RequireCode(t, device.CodeNoProvider, err)
	shown := 0
	each := func(inventory.ProviderSnapshot) error { shown++; return nil }
	require.NoError(t, s.store.ListNova(t.Context(), nil, nil, each))
	require.Zero(t, shown)

	// Configured traits replace those that Placement does not know.
	mapped :=
		s.open(t,
			placement.Settings{Traits: map[string]string{placement.OneTimeUse: "CUSTOM_ONE_TIME_USE",
				"HW_NVME_CES": "CUSTOM_NVME_CES"}})
	p = inventorytest.NewProvider()
	p.Traits = []string{placement.OneTimeUse, "HW_NVME_CES"}
	require.NoError(t, mapped.ListNova(t.Context(), nil, nil, each))
	require.NoError(t, mapped.Create(t.Context(), p))
	require.ElementsMatch(t, []string{"CUSTOM_ONE_TIME_USE", "CUSTOM_NVME_CES", placement.OwnTrait}, s.traits(t, p.UUID))
	id := uuid.NewString()
	s.nova.Provider(id, "h_0000:3B:00.0", "", "CUSTOM_X", 0, "CUSTOM_ONE_TIME_USE")
	found, err := mapped.Find(t.Context(), "h_0000:3b:00.0")
	require.NoError(t, err)
	require.Equal(t, id, found.UUID)
	require.Equal(t, 1, strings.Count(s.log.String(), "level=WARN"), s.log)

	// Another owner trait.
	own := s.open(t, placement.Settings{Traits: map[string]string{placement.OwnTrait: "CUSTOM_OWNER_BURNISH"}})
	p = inventorytest.NewProvider()
	require.NoError(t, own.ListNova(t.Context(), nil, nil, each))
	require.NoError(t, own.ListOwn(t.Context(), []string{p.UUID}, each))
	require.Zero(t, shown)
	require.NoError(t, own.Create(t.Context(), p))
	require.Contains(t, s.traits(t, p.UUID), "CUSTOM_OWNER_BURNISH")
	require.NoError(t, own.ListOwn(t.Context(), []string{p.UUID}, each))
	require.Equal(t, 1, shown)
}
