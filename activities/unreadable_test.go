package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A provider of an enrolled device that cannot be read is counted and named, and all others
// are compared. Its device is not without a provider. That of a device that is not enrolled is
// read by the import, which names it.
//
// F29
func TestAnUnreadableProviderEndsNoReconciliation(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	lost := &device.Fault{Class: device.Transient, Code: device.CodeInventoryUnavailable,
		Message: "Placement: it answers 500"}
	s.adds("h1_a", device.Available, device.OwnerNova, false, device.Inventory{Total: 1})
	s.adds("h1_b", device.Available, device.OwnerSelf, false, device.Inventory{Total: 1})
	s.sights("h1_c", device.OwnerNova, device.Inventory{Total: 1})
	s.adds("h1_d", device.Available, device.OwnerNova, false,
		device.Inventory{Total: 1, Reserved: 1, Used: 1, Consumers: []string{"i1"}})
	s.adds("h1_e", device.Allocated, device.OwnerSelf, false,
		device.Inventory{Total: 1, Used: 1, Consumers: []string{"i2"}})
	s.foreign[0].Fault, s.foreign[1].Fault, s.own[0].Fault = lost, lost, lost
	out := s.must(contract.ReconcileInput{})
	require.Equal(t, 2, out.Counts.Unreadable)
	require.Len(t, out.Unreadable, 2)
	for i, name := range []string{"h1_a", "h1_b"} {
		require.Equal(t, name, out.Unreadable[i].Name)
		require.Contains(t, out.Unreadable[i].What, "it answers 500")
	}
	require.Empty(t, out.Missing)
	require.Equal(t, []string{"h1_d", "h1_e"}, s.hinted())

	found := s.candidates(contract.CandidatesInput{})
	require.Len(t, found.Devices, 1)
	require.Equal(t, "h1_c", found.Devices[0].Name)
	require.Equal(t, lost, found.Devices[0].Fault)
}
