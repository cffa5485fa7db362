package activities_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/activities"
	"burnish/internal/clean"
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
	planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{})
	require.NoError(t, err)
	gate, err := proof.OpenGate(file, proof.NewReceipts([]byte("of the control workers")), planner)
	require.NoError(t, err)
	return gate
}

// finds is what the host signs of d1 before a clean.
func (s *testHost) finds(t *testing.T, reservation string) string {
	t.Helper()
	in := s.firstDiscovery("d1")
	in.Reservation = reservation
	found, err := s.discover(t, in)
	require.NoError(t, err)
	return found.Statement
}

// A host signs what it found and each step under the number of the reservation, also one that follows in the activity
// and one that an earlier attempt has done; what was done under another one is done again.
//
// F44
func TestAHostSignsWhatItDid(t *testing.T) {
	t.Parallel()
	inBubble(t, "under its reservation alone", func(t *testing.T) {
		s := newTestHost(t)
		result, err := s.run(first(t), s.zeroThenVerify())
		require.NoError(t, err)
		require.Empty(t, s.finds(t, ""), "it is not asked for")
		require.Empty(t, result.Statement)
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
		statements := []string{s.finds(t, in.Reservation), result.Statement, result.Next.Statement}
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

// Whoever can write in the namespace invents heartbeats and resume points, and shows a host other devices under a name.
//
// F44
func TestAHostSignsNothingThatOthersInvented(t *testing.T) {
	t.Parallel()
	asked := func(s *testHost) contract.StepInput {
		s.signing(t)
		in := s.input("zero")
		in.Reservation = "N"
		return in
	}
	inBubble(t, "that the step is done", func(t *testing.T) {
		s := newTestHost(t)
		in := asked(s)
		in.Resume = &contract.Progress{Step: "zero", Size: diskSize, Offset: diskSize}
		server := again(t, 2)
		server.lastProgress = in.Resume
		answer, err := s.run(server, in)
		require.NoError(t, err)
		require.NotEmpty(t, answer.Statement)
		require.EqualValues(t, diskSize, s.disk.durableUpTo())
	})
	inBubble(t, "that it was done, to another device", func(t *testing.T) {
		s := newTestHost(t)
		other := newDisk("S1") // where the hardware has no serial, one looks like another
		s.hardware.Drivers["other"] = &driver{disks: map[string]*disk{"d1": other}}
		in := asked(s)
		in.Enrollment.Driver = "other"
		_, err := s.run(first(t), in)
		require.NoError(t, err)
		require.EqualValues(t, diskSize, other.durableUpTo())

		in.Enrollment.Driver = "double"
		answer, err := s.run(again(t, 2), in)
		requireFault(t, err, device.CodeSuperseded, false)
		require.Empty(t, answer.Statement)
		in.Seq++
		_, err = s.run(first(t), in)
		require.NoError(t, err)
		require.EqualValues(t, diskSize, s.disk.durableUpTo())
	})
}

// Whoever can write in the namespace has control workers make providers of any name, and give receipts of them.
//
// F44
func TestAReceiptOfAnotherProviderIsWorthNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, "whatever its name is", func(t *testing.T) {
		s, inv := newTestHost(t), newInventoryFixture(t, 1)
		control := &activities.Control{Store: inv.store, Gate: s.signing(t)}
		asks := func(what string, do any, in contract.ReservationRequest) device.Inventory {
			found, err := execute[device.Inventory](first(t), what, do, in)
			require.NoError(t, err)
			return found
		}
		own := contract.ReservationRequest{Name: "d1\n" + inv.stock.UUID, Class: "CUSTOM_NVME"}
		own.UUID = contract.DeviceUUID(own.Name)
		asks(contract.ActivityEnsureProvider, control.EnsureProvider, own)
		found := asks(contract.ActivityEnsureReserved, control.EnsureReserved, own)
		in := s.zeroThenVerify()
		in.Reservation, _, _ = strings.Cut(own.UUID+"\n"+found.Receipt, ".")
		answer, err := s.run(first(t), in)
		require.NoError(t, err)
		inv.others(0, 1) // a tenant has had it since
		for found.Generation < inv.now().Generation {
			own.Receipt = found.Receipt
			found = asks(contract.ActivityEnsureReserved, control.EnsureReserved, own)
		}
		lower := inv.stock
		lower.Generation, lower.Receipt = found.Generation, own.UUID+"\n"+found.Receipt
		lower.Statements = []string{s.finds(t, in.Reservation), answer.Statement, answer.Next.Statement}
		_, err = execute[device.Inventory](first(t), contract.ActivityUnreserve, control.Unreserve, lower)
		requireFault(t, err, device.CodeNotProved, false)
		require.Equal(t, 1, inv.now().Reserved)
	})
}

// A provider that is created again would count its generations from 0, and old proofs would be of it.
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
