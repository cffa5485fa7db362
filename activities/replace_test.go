package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// With Replace, Discover accepts other hardware than the recorded one, and records it.
//
// D10
func TestDiscoverAcceptsOtherHardwareOnlyWithReplace(t *testing.T) {
	t.Parallel()
	s := newTestHost(t)
	_, err := s.discover(t, s.firstDiscovery("d1"))
	require.NoError(t, err)
	s.add("d1", "S2")
	_, err = s.discover(t, s.firstDiscovery("d1"))
	requireFault(t, err, device.CodeSerialMismatch, false)
	require.Equal(t, "S1", s.record("d1").Identity.Serial)

	in := s.firstDiscovery("d1")
	in.Replace = true
	var first bool
	s.disks.found = func(_ hardware.Target, known device.Identity) error { first = known == device.Identity{}; return nil }
	facts, err := s.discover(t, in)
	require.NoError(t, err)
	require.True(t, first, "signatures are checked as at a first enrollment")
	require.Equal(t, "S2", facts.Identity.Serial)
	require.Equal(t, "S2", s.record("d1").Identity.Serial)

	// It does not accept the hardware of another device.
	s.add("d2", "S7")
	_, err = s.discover(t, s.firstDiscovery("d2"))
	require.NoError(t, err)
	s.add("d1", "S7")
	_, err = s.discover(t, in)
	require.Equal(t, "d2", requireFault(t, err, device.CodeDuplicateSerial, false).Fault.Other)
}

// The hardware of d1 is expected in the slot of d2.
//
// D10
func TestDiscoverAtAnotherSlot(t *testing.T) {
	t.Parallel()
	moving := func(s *testHost) contract.DiscoverInput {
		in := s.firstDiscovery("d2")
		in.Known, in.MovedFrom = s.disk.identity, "d1"
		return in
	}
	enrolled := func(t *testing.T, serial string) *testHost {
		s := newTestHost(t)
		_, err := s.discover(t, s.firstDiscovery("d1"))
		require.NoError(t, err)
		s.add("d2", serial)
		return s
	}
	t.Run("it is there", func(t *testing.T) {
		s := enrolled(t, "S1")
		var from string
		s.disks.found = func(to hardware.Target, _ device.Identity) error { from = to.MovedFrom; return nil }
		for range 2 { // the first answer was lost
			_, err := s.discover(t, moving(s))
			require.NoError(t, err)
			require.Equal(t, "d1", from, "the driver needs to know that this hardware is enrolled")
		}
	})
	t.Run("other hardware is there", func(t *testing.T) {
		s := enrolled(t, "S2")
		_, err := s.discover(t, moving(s))
		requireFault(t, err, device.CodeIdentityChanged, false)
	})
	t.Run("hardware without a serial cannot be distinguished", func(t *testing.T) {
		s := enrolled(t, "")
		s.disk.identity.Serial = ""
		_, err := s.discover(t, moving(s))
		requireFault(t, err, device.CodeIdentityChanged, false)
	})
	t.Run("another device is there", func(t *testing.T) {
		s := enrolled(t, "S2")
		_, err := s.discover(t, s.firstDiscovery("d2"))
		require.NoError(t, err)
		_, err = s.discover(t, moving(s))
		requireFault(t, err, device.CodeAlreadyExists, false)
	})
	t.Run("a third device has this hardware", func(t *testing.T) {
		s := enrolled(t, "S1")
		require.NoError(t, s.forget(t, "d1"))
		s.add("d3", "S1")
		_, err := s.discover(t, s.firstDiscovery("d3"))
		require.NoError(t, err)
		_, err = s.discover(t, moving(s))
		requireFault(t, err, device.CodeDuplicateSerial, false)
	})
}

// F23
func TestFindBySerial(t *testing.T) {
	t.Parallel()
	const d1, d7 = "d1", "d7"
	for _, c := range []struct {
		ids    []string // those that the listing has
		listed bool     // d1 itself must be among them
		found  string
		again  bool
	}{
		{[]string{}, false, "", false},
		{[]string{d1}, false, "", false},
		{[]string{d1, d7}, false, "d7", false},
		{[]string{}, true, "", true},
		{[]string{d1}, true, "", false},
		{[]string{d1, d7}, true, "d7", false},
		{[]string{d7}, true, "d7", false},
	} {
		var query string
		server := &mocks.Client{}
		lists(server, func(asked string, _ []byte) (runs []*workflowpb.WorkflowExecutionInfo, _ []byte, _ error) {
			query = asked
			for _, id := range c.ids {
				runs = append(runs, deviceRun(id, attributes(t, contract.AttrSerial, "it's"), nil))
			}
			return runs, nil, nil
		})
		control := &activities.Control{Client: client.New(server)}
		got, err := execute[contract.DeviceBySerial](first(t), contract.ActivityFindBySerial, control.FindBySerial,
			contract.FindBySerialInput{Name: "d1", Serial: "it's", Listed: c.listed})
		require.Equal(t, "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus IN ('Running', 'Terminated', 'Canceled', "+
			"'TimedOut', 'Failed') AND DeviceState != 'retired' AND DeviceSerial STARTS_WITH 'it'", query)
		if c.again {
			requireFault(t, err, device.CodeServerUnreachable, true)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.found, got.Name, "%v", c)
	}
}
