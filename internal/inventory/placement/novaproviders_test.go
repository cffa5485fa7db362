package placement_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

const otuClass = "CUSTOM_PCI_144D_A80A"

func TestFindByHostAndAddress(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{},
		placement.Settings{NovaHosts: map[string]string{"CMP_07.Example.Org": "node-7"}})
	mapped, plain := s.nova.Host("cmp_07.example.org"), s.nova.Host("Node_8")
	a := s.nova.Device(mapped, "cmp_07.example.org", "0000:3b:00.0", otuClass)
	b := s.nova.Device(plain, "Node_8", "0000:3b:00.0", otuClass)
	// Neither of these is a one-time-use device of another service.
	s.nova.Provider(uuid.NewString(), "node-7_0000:3B:00.1", mapped, otuClass, 0, "OWNER_NOVA")
	ours := inventorytest.NewProvider()
	ours.Name, ours.Traits = "node-7_0000:3b:00.2", []string{placement.OneTimeUse}
	require.NoError(t, s.store.Create(t.Context(), ours))

	s.recorder.Reset()
	for name, want := range map[string]inventory.Provider{
		"node-7_0000:3b:00.0": {UUID: a, Name: "cmp_07.example.org_0000:3B:00.0"},
		"node_8_0000:3b:00.0": {UUID: b, Name: "Node_8_0000:3B:00.0"},
		"NODE_8_0000:3B:00.0": {UUID: b, Name: "Node_8_0000:3B:00.0"},
	} {
		p, err := s.store.Find(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, p)
	}
	require.Equal(t, 1, s.recorder.Count(), "found in the cache")
	for _, name := range []string{"node-7_0000:3b:00.1", "node-7_0000:3b:00.2", "cmp_07.example.org_0000:3b:00.0",
		"node-9_0000:3b:00.0"} {
		s.recorder.Reset()
		_, err := s.store.Find(t.Context(), name)
		inventorytest.RequireCode(t, device.CodeNoProvider, err)
		require.Equal(t, 1, s.recorder.Count(), "a miss costs one request")
	}

	// Find returns the class once it is known.
	_, err := s.store.Reservation(t.Context(), a)
	require.NoError(t, err)
	p, err := s.store.Find(t.Context(), "node-7_0000:3b:00.0")
	require.NoError(t, err)
	require.Equal(t, otuClass, p.Class)

	// Burnish never deletes a provider of Nova's.
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.store.Delete(t.Context(), a))
}

// Nova re-creates a deleted provider with another UUID and reserved = 0. After any call
// finds that the old one is gone, Find gives the new one.
func TestRecreatedProvider(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	const name, address = "node-7_0000:3b:00.0", "0000:3b:00.0"
	root := s.nova.Host("node-7")
	id := s.nova.Device(root, "node-7", address, otuClass)
	for call, do := range map[string]func(string) error{
		"Usages":      func(id string) error { _, err := s.store.Usages(t.Context(), id); return err },
		"Stock":       func(id string) error { _, err := s.store.Reservation(t.Context(), id); return err },
		"PutReserved": func(id string) error { _, err := s.store.PutReserved(t.Context(), id, 2, 1, nil); return err },
		"Raise": func(id string) error {
			_, err := inventory.EnsureReserved(t.Context(), s.store, id, nil, inventory.Holder{})
			return err
		},
	} {
		p, err := s.store.Find(t.Context(), name)
		require.NoError(t, err, call)
		require.Equal(t, id, p.UUID, call)
		_, err = inventory.EnsureReserved(t.Context(), s.store, p.UUID, nil, inventory.Holder{})
		require.NoError(t, err)
		again := s.nova.Recreate(id, root, "node-7", address, otuClass)
		inventorytest.RequireCode(t, device.CodeNoProvider, do(id))
		p, err = s.store.Find(t.Context(), name)
		require.NoError(t, err, call)
		require.Equal(t, again, p.UUID, call)
		v, err := inventory.Read(t.Context(), s.store, again)
		require.NoError(t, err)
		require.False(t, v.Burned(), "Nova makes it free")
		id = again
	}
	s.nova.Delete(id)
	inventorytest.RequireCode(t, device.CodeNoProvider,
		func() error { _, err := s.store.Usages(t.Context(), id); return err }())
	_, err := s.store.Find(t.Context(), name)
	inventorytest.RequireCode(t, device.CodeNoProvider, err)
}

// A list answer from before the provider was deleted is delayed until a call has found that
// the provider is gone.
func TestFindNeverGivesWhatIsKnownToBeGone(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	const name = "node-7_0000:3b:00.0"
	root := s.nova.Host("node-7")
	id := s.nova.Device(root, "node-7", "0000:3b:00.0", otuClass)
	answered, deleted := make(chan struct{}), make(chan struct{})
	s.recorder.Inject(openstack.Match{Method: http.MethodGet, Path: `\?required=`, Nth: 1},
		openstack.Injection{After: func() {
			close(answered)
			<-deleted
		}})
	found := make(chan error, 1)
	go func() {
		_, err := s.store.Find(t.Context(), name)
		found <- err
	}()
	<-answered
	s.nova.Delete(id)
	_, err := s.store.Usages(t.Context(), id)
	inventorytest.RequireCode(t, device.CodeNoProvider, err)
	close(deleted)
	inventorytest.RequireCode(t, device.CodeNoProvider, <-found)
}

func TestTwoProvidersForOneDevice(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{},
		placement.Settings{NovaHosts: map[string]string{"a": "node-7", "b": "node-7"}})
	a, b := s.nova.Host("a"), s.nova.Host("b")
	first := s.nova.Device(a, "a", "0000:3b:00.0", otuClass)
	second := s.nova.Device(b, "b", "0000:3b:00.0", otuClass)
	_, err := s.store.Find(t.Context(), "node-7_0000:3b:00.0")
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	require.ErrorContains(t, err, first)
	require.ErrorContains(t, err, second)
	s.nova.Delete(first)
	p, err := s.store.Find(t.Context(), "node-7_0000:3b:00.0")
	require.NoError(t, err)
	require.Equal(t, second, p.UUID)
}

// Many devices are searched before their providers exist.
func TestConcurrentFindsShareOneList(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	const callers = 50
	begun := make(chan struct{})
	s.recorder.Inject(openstack.Match{Nth: 1}, openstack.Injection{Before: func() { <-begun }})
	var started, ended sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		started.Add(1)
		ended.Go(func() {
			started.Done()
			_, errs[i] = s.store.Find(t.Context(), fmt.Sprintf("node-%d_0000:3b:00.0", i))
		})
	}
	started.Wait()
	close(begun)
	ended.Wait()
	for _, err := range errs {
		inventorytest.RequireCode(t, device.CodeNoProvider, err)
	}
	require.Less(t, s.recorder.Count(), callers/2)
}
