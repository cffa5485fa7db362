package file_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/file"
	"burnish/internal/testkit/suites/inventorytest"
)

// ofHardware is a directory with the example, of some hardware.
func ofHardware(t *testing.T) (s *file.Store, dir string, p inventory.Provider) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "inventory")
	s, p = open(t, dir), example
	p.Hardware = uuid.NewString()
	require.NoError(t, s.Create(t.Context(), p))
	return s, dir, p
}

// What says which providers are of some hardware is made again where it is lost, and never
// counts as empty.
//
// F35
func TestARecordOfHardwareIsNotOverlooked(t *testing.T) {
	s, dir, p := ofHardware(t)
	index := filepath.Join(dir, "hardware")
	found := func(by inventory.Store) {
		t.Helper()
		providers, err := by.OfHardware(t.Context(), p.Hardware)
		require.NoError(t, err)
		require.Equal(t, []inventory.Provider{{UUID: p.UUID, Name: p.Name}}, providers)
	}
	found(s)

	require.NoError(t, os.RemoveAll(index))
	_, err := s.OfHardware(t.Context(), p.Hardware)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
	unreadable := filepath.Join(dir, uuid.NewString()+".json") // of whatever hardware
	require.NoError(t, os.WriteFile(unreadable, []byte("{"), 0o600))
	found(open(t, dir))
	found(s)
}

// A provider of some hardware that cannot be read may be its tenant's.
//
// F35
func TestAnUnreadableRecordOfHardwareIsAnError(t *testing.T) {
	s, dir, p := ofHardware(t)
	provider, index := filepath.Join(dir, p.UUID+".json"), filepath.Join(dir, "hardware", p.Hardware)
	text, err := os.ReadFile(provider)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(provider, text[:len(text)/2], 0o600))
	_, err = inventory.HardwareRecords(t.Context(), s, p.Hardware)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	require.NoError(t, os.WriteFile(provider, text, 0o600))
	require.NoError(t, os.WriteFile(index, []byte("nonsense\n"), 0o600))
	_, err = inventory.HardwareRecords(t.Context(), s, p.Hardware)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	require.NoError(t, os.Remove(index))
	require.NoError(t, os.Remove(provider))
	records, err := inventory.HardwareRecords(t.Context(), s, p.Hardware)
	require.NoError(t, err)
	require.Empty(t, records)
}
