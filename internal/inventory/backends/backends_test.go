package backends_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/inventory"
	"burnish/internal/inventory/backends"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

func TestOpen_File(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "inventory")
	s, err := backends.Open(t.Context(), "file", backends.Options{Dir: dir})
	require.NoError(t, err)
	p := inventorytest.NewProvider()
	v, err := inventory.EnsureProvider(t.Context(), s, p)
	require.NoError(t, err)
	require.True(t, v.Burned())
	require.FileExists(t, filepath.Join(dir, p.UUID+".json"))
}

// S0.12
func TestOpenKnowsNoOtherKind(t *testing.T) {
	for _, kind := range []string{"", "File", "none"} {
		s, err := backends.Open(t.Context(), kind, backends.Options{Dir: t.TempDir()})
		require.Nil(t, s)
		require.ErrorContains(t, err, "want file, placement")
		require.False(t, strings.Contains(err.Error(), "\n"))
	}
}

func TestOpen_GivesNoStoreBesideAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	s, err := backends.Open(t.Context(), "file", backends.Options{Dir: path})
	require.Error(t, err)
	require.True(t, s == nil, "a nil *Store in the interface is not nil")
	s, err = backends.Open(t.Context(), "placement",
		backends.Options{Placement: placement.Settings{Getenv: func(string) string { return "" }}})
	require.ErrorContains(t, err, "OS_CLOUD")
	require.True(t, s == nil)
}

func TestOpen_Placement(t *testing.T) {
	server := openstack.Start(t, openstack.Options{})
	s, err := backends.Open(t.Context(), "placement",
		backends.Options{Placement: placement.Settings{Getenv: openstack.Noauth(server.URL)}})
	require.NoError(t, err)
	_, foreign := s.(inventory.NovaProviders)
	require.True(t, foreign)
	_, fleet := s.(inventory.Lister)
	require.True(t, fleet)
	v, err := inventory.EnsureProvider(t.Context(), s, inventorytest.NewProvider())
	require.NoError(t, err)
	require.True(t, v.Burned())
}
