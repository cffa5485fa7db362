package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Candidates lists page by page which providers could be imported: not those of enrolled
// devices, and not those without a device name.
func TestCandidatesInPages(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	s.adds("h1_0000:01:00.0", device.Available, device.OwnerNova, false, device.Inventory{Total: 1})
	for _, name := range []string{"h1_0000:04:00.0", "h1_0000:02:00.0", "h1_0000:03:00.0", ""} {
		s.sights(name, device.OwnerNova, device.Inventory{Total: 1, Reserved: 1, Used: 1})
	}
	page := s.candidates(contract.CandidatesInput{Host: "H1", Limit: 2})
	require.True(t, page.More)
	require.Equal(t, []string{"h1_0000:04:00.0", "h1_0000:02:00.0", "h1_0000:03:00.0"}, s.read,
		"nothing of an enrolled device")
	require.Equal(t, []contract.Candidate{
		{Name: "h1_0000:02:00.0", Host: "h1", Address: "0000:02:00.0", Reserved: 1, Total: 1, Used: 1, Provider: "nova-h1_0000:02:00.0"},
		{Name: "h1_0000:03:00.0", Host: "h1", Address: "0000:03:00.0", Reserved: 1, Total: 1, Used: 1, Provider: "nova-h1_0000:03:00.0"},
	}, page.Devices)
	s.read = nil
	rest := s.candidates(contract.CandidatesInput{After: page.Devices[1].Name})
	require.False(t, rest.More)
	require.Len(t, rest.Devices, 1)
	require.Equal(t, []string{"h1_0000:04:00.0"}, s.read, "nothing of an earlier page")
	require.Empty(t, s.hints)
}

// A device that its host enrolled before Nova reported it has two owners: Nova gives it to
// instances and reserves its own provider, which is never lowered. Reconciliation says so, and
// import does not pass it over in silence.
//
// S0.14
func TestADeviceWithTwoOwnersIsReported(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	const name = "h1_0000:01:00.0"
	s.adds(name, device.Manageable, device.OwnerSelf, false, device.Inventory{Total: 1, Reserved: 1})
	s.sights(name, device.OwnerNova, device.Inventory{Total: 1, Reserved: 1, Used: 1})

	out, err := s.reconcile(contract.ReconcileInput{})
	require.NoError(t, err)
	require.Equal(t, 1, out.Counts.Mismatch)
	require.Len(t, out.Mismatches, 1)
	require.Equal(t, name, out.Mismatches[0].Name)
	require.Contains(t, out.Mismatches[0].What, "Nova has a provider for it too, nova-"+name+
		" with reserved=1 of 1, used=1")
	require.Empty(t, s.hints, "the device reads its own provider, and that is in order")

	found := s.candidates(contract.CandidatesInput{})
	require.Len(t, found.Devices, 1)
	require.Equal(t, device.OwnerSelf, found.Devices[0].Enrolled)
}
