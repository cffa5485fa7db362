package activities_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/activities"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/proof"
	"burnish/workflows/contract"
)

// signing has the host sign what it does. The gate believes it.
func (s *testHost) signing(t *testing.T) *proof.Gate {
	t.Helper()
	dir := t.TempDir()
	key, err := proof.OpenHostKey(filepath.Join(dir, "host.key"))
	require.NoError(t, err)
	s.hardware.Key = key
	file := filepath.Join(dir, "host_keys.yaml")
	require.NoError(t, os.WriteFile(file, []byte("hosts:\n- name: "+s.host.Name()+"\n  key: "+key.Public()+
		"\n  devices: [{name: d1, driver: double}]\n"), 0o600))
	gate, err := proof.OpenGate(file, proof.NewReceipts([]byte("of the control workers")), steps.All().Planning())
	require.NoError(t, err)
	return gate
}

// A host signs each step under the number of the reservation, also one that follows in the activity and one that an
// earlier attempt has done; what was done under another one is done again.
//
// F44
func TestAHostSignsWhatItDid(t *testing.T) {
	t.Parallel()
	inBubble(t, "under its reservation alone", func(t *testing.T) {
		s := newTestHost(t)
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.Empty(t, result.Statement, "nobody asks for it")
		require.Empty(t, result.Next.Statement)

		gate := s.signing(t)
		burned := device.Inventory{Generation: 6, Total: 1, Reserved: 1}
		asked := func(generation int64) (contract.StepInput, string) {
			now := burned
			now.Generation = generation
			receipt := gate.Give("d1", "p1", burned, now, "")
			in := s.zeroThenVerify()
			in.Reservation, _, _ = strings.Cut(receipt, ".")
			return in, receipt
		}
		in, receipt := asked(7)
		in.Seq = 3
		result, err = s.run(first(t), in)
		require.NoError(t, err)
		statements := []string{result.Statement, result.Next.Statement}
		require.NoError(t, gate.MayOffer("d1", "p1", 7, receipt, statements))
		require.Error(t, gate.MayOffer("d2", "p1", 7, receipt, statements))

		calls := len(s.disk.history())
		repeated, err := s.run(again(t, 2), in)
		require.NoError(t, err)
		require.Equal(t, []string{"open", "check", "close"}, s.disk.history()[calls:calls+3], "it was done before")
		require.Equal(t, result.Statement, repeated.Statement)

		other, receipt := asked(7)
		other.Seq = 3
		_, err = s.run(first(t), other)
		requireFault(t, err, device.CodeSuperseded, false)
		require.Error(t, gate.MayOffer("d1", "p1", 7, receipt, statements))
	})
}

// A provider that is made anew would count its generations anew, and old proofs would be of it.
//
// F44
func TestAProviderStaysWhereHostsProve(t *testing.T) {
	t.Parallel()
	s := newInventoryFixture(t, 1)
	control := &activities.Control{Store: s.store, Gate: &proof.Gate{}}
	_, err := execute[device.Inventory](first(t), contract.ActivityDeleteProvider, control.DeleteProvider, s.stock)
	require.NoError(t, err)
	require.Equal(t, 1, s.now().Reserved)
	control.Gate = nil
	_, err = execute[device.Inventory](first(t), contract.ActivityDeleteProvider, control.DeleteProvider, s.stock)
	require.NoError(t, err)
	_, err = inventory.Read(t.Context(), s.store, s.stock.UUID)
	require.Error(t, err)
}
