package activities_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

func (s *testHost) discover(t *testing.T, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
	t.Helper()
	return execute[contract.DiscoveryResult](first(t), contract.ActivityDiscover, s.hardware.Discover, in)
}

func (s *testHost) forget(t *testing.T, name string) error {
	t.Helper()
	_, err := execute[any](first(t), contract.ActivityForget, s.hardware.Forget,
		contract.DiscoverInput{Enrollment: s.enrollment(name)})
	return err
}

// firstDiscovery is the input of a device's first Discover.
func (s *testHost) firstDiscovery(name string) contract.DiscoverInput {
	return contract.DiscoverInput{Enrollment: s.enrollment(name), UUID: contract.DeviceUUID(name)}
}

func (s *testHost) record(name string) host.Record {
	s.t.Helper()
	r, found, err := s.host.LoadRecord(name)
	require.NoError(s.t, err)
	require.True(s.t, found)
	return r
}

// S0.24
func TestDiscoverRecordsTheDeviceAndReportsIt(t *testing.T) {
	t.Parallel()
	s := newTestHost(t)
	in := s.firstDiscovery("d1")
	in.Enrollment.Type, in.Enrollment.Address, in.Enrollment.OneTimeUse = "NVMe", "0000:01:00.0", true
	in.Enrollment.Host = strings.ToUpper(in.Enrollment.Host)
	in.Enrollment.Settings = map[string]string{"size": "1GiB"}
	in.Enrollment.Pool = &contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/1",
		Template: "/rest/server-profile-templates/1", Dynamic: true}
	in.Binding = 4
	s.disk.clearAction, s.disk.clearStrategy, s.disk.liveMigratable = "zero", "block", true
	facts, err := s.discover(t, in)
	require.NoError(t, err)
	require.Equal(t, "zero", facts.ClearAction)
	require.Equal(t, "block", facts.ClearStrategy)
	require.True(t, facts.LiveMigratable)
	require.Equal(t, s.disk.identity, facts.Identity)
	require.Equal(t, device.Shred, facts.Operation)
	require.Equal(t, "a double", facts.Note)
	for _, s := range steps.All() {
		require.Equal(t, s.Version, facts.Steps[s.Name], s.Name)
	}
	require.Len(t, facts.Steps, len(steps.All()))
	require.False(t, facts.ObservedAt.IsZero())
	require.Equal(t, &contract.HostDeviceRecord{Enrollment: in.Enrollment, Identity: s.disk.identity, Binding: 4},
		facts.Record)

	r := s.record("d1")
	require.Equal(t, contract.DeviceUUID("d1"), r.UUID)
	require.Equal(t, "double", r.Driver)
	require.Equal(t, "0000:01:00.0", r.Address)
	require.Equal(t, map[string]string{"size": "1GiB"}, r.Settings)
	require.Equal(t, "NVMe", r.Type)
	require.Equal(t, device.OwnerSelf, r.Owner)
	require.True(t, r.OneTimeUse)
	require.Equal(t, *in.Enrollment.Pool, contract.Pool(*r.Pool))
	require.Equal(t, s.disk.identity, r.Identity)
	require.False(t, r.Forgotten)
	require.Empty(t, s.disk.history(), "it opened the device")

	again, err := s.discover(t, in)
	require.NoError(t, err)
	require.False(t, facts.Record.KnownBefore)
	require.True(t, again.Record.KnownBefore)
	again.ObservedAt, again.Record.KnownBefore = facts.ObservedAt, false
	require.Equal(t, facts, again, "a second Discover finds the same")
}

func TestDiscoverRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*contract.DiscoverInput)
		code   device.Code
		says   string
	}{
		{"another host", func(in *contract.DiscoverInput) { in.Enrollment.Host = "elsewhere" }, device.CodeInvalid, "not elsewhere"},
		{"an unknown driver", func(in *contract.DiscoverInput) { in.Enrollment.Driver = "nvme" }, device.CodeUnknownDriver, `no driver "nvme"`},
		{"what the driver refuses", func(in *contract.DiscoverInput) { in.Enrollment.Name = "d7" }, device.CodeTargetMissing, "d7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestHost(t)
			in := s.firstDiscovery("d1")
			c.change(&in)
			_, err := s.discover(t, in)
			refusal := requireFault(t, err, c.code, false)
			require.Contains(t, refusal.Fault.Message, c.says)
			require.Equal(t, in.Enrollment.Name, refusal.Device)
			records, err := s.host.ListRecords()
			require.NoError(t, err)
			require.Empty(t, records, "a refused device was recorded")
		})
	}
	t.Run("the remedy names the host's drivers", func(t *testing.T) {
		s := newTestHost(t)
		in := s.firstDiscovery("d1")
		in.Enrollment.Driver = ""
		_, err := s.discover(t, in)
		require.Contains(t, requireFault(t, err, device.CodeUnknownDriver, false).Fault.Remedy, "double")
	})
}

// F13
func TestReenrollmentAsAnotherDeviceIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(s *testHost, in *contract.DiscoverInput)
		code   device.Code
		says   string
	}{
		{"driver", func(s *testHost, in *contract.DiscoverInput) {
			s.hardware.Drivers["other"] = s.disks
			in.Enrollment.Driver = "other"
		}, device.CodeAlreadyExists, "another driver (double)"},
		{"settings", func(_ *testHost, in *contract.DiscoverInput) {
			in.Enrollment.Settings = map[string]string{"path": "/dev/sda"}
		}, device.CodeAlreadyExists, "another setting ("},
		{"fewer settings", func(_ *testHost, in *contract.DiscoverInput) { in.Enrollment.Settings = nil }, device.CodeAlreadyExists, "another setting ("},
		{"another server of the pool", func(_ *testHost, in *contract.DiscoverInput) {
			in.Enrollment.Pool = &contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/2"}
		}, device.CodeAlreadyExists, "another shared pool (rack1 /rest/server-hardware/1)"},
		{"no shared pool", func(_ *testHost, in *contract.DiscoverInput) { in.Enrollment.Pool = nil }, device.CodeAlreadyExists, "another shared pool"},
		{"serial", func(s *testHost, _ *contract.DiscoverInput) { s.disk.identity.Serial = "S9" }, device.CodeSerialMismatch, "another serial"},
		{"size", func(s *testHost, _ *contract.DiscoverInput) { s.disk.identity.Size *= 2 }, device.CodeIdentityChanged, "another size"},
		{"model", func(s *testHost, _ *contract.DiscoverInput) { s.disk.identity.Model = "other" }, device.CodeIdentityChanged, "another model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestHost(t)
			in := s.firstDiscovery("d1")
			in.Enrollment.Settings = map[string]string{"path": "/dev/sdb"}
			in.Enrollment.Pool = &contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/1"}
			_, err := s.discover(t, in)
			require.NoError(t, err)
			before := s.record("d1")
			changed := in
			c.change(s, &changed)
			_, err = s.discover(t, changed)
			require.Contains(t, requireFault(t, err, c.code, false).Fault.Message, c.says)
			require.Equal(t, before, s.record("d1"), "the record was changed")

			require.NoError(t, s.forget(t, "d1"))
			_, err = s.discover(t, changed)
			require.NoError(t, err, "after Forget, the slot may hold any device")
		})
	}
	t.Run("the workflow knows the identity", func(t *testing.T) {
		s := newTestHost(t)
		in := s.firstDiscovery("d1")
		in.Known = s.disk.identity
		in.Known.Serial = "S0"
		_, err := s.discover(t, in)
		refusal := requireFault(t, err, device.CodeSerialMismatch, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
	})
	t.Run("the driver gets the identity that the host has recorded", func(t *testing.T) {
		s := newTestHost(t)
		var known []device.Identity
		s.disks.found = func(_ hardware.Target, k device.Identity) error { known = append(known, k); return nil }
		for range 2 {
			_, err := s.discover(t, s.firstDiscovery("d1"))
			require.NoError(t, err)
		}
		require.NoError(t, s.forget(t, "d1"))
		_, err := s.discover(t, s.firstDiscovery("d1"))
		require.NoError(t, err)
		require.Equal(t, []device.Identity{{}, s.disk.identity, {}}, known)
	})
	t.Run("new firmware is the same device", func(t *testing.T) {
		s := newTestHost(t)
		_, err := s.discover(t, s.firstDiscovery("d1"))
		require.NoError(t, err)
		s.disk.identity.Firmware = "2.0"
		facts, err := s.discover(t, s.firstDiscovery("d1"))
		require.NoError(t, err)
		require.Equal(t, "2.0", facts.Identity.Firmware)
		require.Equal(t, "2.0", s.record("d1").Identity.Firmware)
	})
}

// F23, F10
func TestOneDeviceIsEnrolledUnderOneName(t *testing.T) {
	t.Parallel()
	t.Run("by its serial", func(t *testing.T) {
		s := newTestHost(t)
		s.add("d2", "S1")
		_, err := s.discover(t, s.firstDiscovery("d1"))
		require.NoError(t, err)
		_, err = s.discover(t, s.firstDiscovery("d2"))
		refusal := requireFault(t, err, device.CodeDuplicateSerial, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
		require.Contains(t, refusal.Fault.Message, "already enrolled as d1")
		_, found, err := s.host.LoadRecord("d2")
		require.NoError(t, err)
		require.False(t, found)

		require.NoError(t, s.forget(t, "d1"))
		_, err = s.discover(t, s.firstDiscovery("d2"))
		require.NoError(t, err, "d1 was forgotten")
		_, err = s.discover(t, s.firstDiscovery("d1"))
		requireFault(t, err, device.CodeDuplicateSerial, false)
	})
	t.Run("by its inode", func(t *testing.T) {
		s := newTestHost(t)
		for i, name := range []string{"d1", "d2"} {
			s.add(name, "").identity = device.Identity{Path: fmt.Sprint("/srv/", i), Device: 1, Inode: 12, Size: mib}
		}
		_, err := s.discover(t, s.firstDiscovery("d1"))
		require.NoError(t, err)
		_, err = s.discover(t, s.firstDiscovery("d2"))
		requireFault(t, err, device.CodeDuplicateSerial, false)
	})
	t.Run("also of two concurrent enrollments", func(t *testing.T) {
		for range 20 {
			s := newTestHost(t)
			s.add("d2", "S1")
			var both sync.WaitGroup
			both.Add(2)
			s.disks.found = func(hardware.Target, device.Identity) error {
				both.Done()
				both.Wait()
				return nil
			}
			errs := make(chan error, 2)
			for _, name := range []string{"d1", "d2"} {
				go func() {
					_, err := s.discover(t, s.firstDiscovery(name))
					errs <- err
				}()
			}
			one, two := <-errs, <-errs
			if one == nil {
				one, two = two, one
			}
			require.NoError(t, two)
			requireFault(t, one, device.CodeDuplicateSerial, false)
		}
	})
	t.Run("not known while a record is unreadable", func(t *testing.T) {
		s := newTestHost(t)
		s.add("d2", "S2")
		_, err := s.discover(t, s.firstDiscovery("d1"))
		require.NoError(t, err)
		corrupt(t, s.host.Dir()+"/devices/d1.json")
		_, err = s.discover(t, s.firstDiscovery("d2"))
		refusal := requireFault(t, err, device.CodeStateDirError, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
	})
}

func TestForgetKeepsTheNumbers(t *testing.T) {
	t.Parallel()
	s := newTestHost(t)
	require.NoError(t, s.forget(t, "d1"), "an unknown device counts as forgotten")
	_, err := s.discover(t, s.firstDiscovery("d1"))
	require.NoError(t, err)
	require.NoError(t, s.host.UpdateRecord("d1", func(r *host.Record) error {
		r.Binding, r.Clean, r.Seq, r.Generation = 5, 6, 70, 8
		return nil
	}))
	for range 2 {
		require.NoError(t, s.forget(t, "d1"))
		require.True(t, s.record("d1").Forgotten)
	}
	in := s.firstDiscovery("d1")
	in.Enrollment.Settings = map[string]string{"size": "2GiB"}
	facts, err := s.discover(t, in)
	require.NoError(t, err)
	require.False(t, s.record("d1").Forgotten)
	got := facts.Record
	require.Equal(t, [4]int64{5, 6, 70, 8}, [4]int64{int64(got.Binding), int64(got.Clean), got.Seq, got.Generation})
	require.Equal(t, in.Enrollment.Settings, got.Enrollment.Settings)

	in.Known, in.Binding = facts.Identity, 2
	facts, err = s.discover(t, in)
	require.NoError(t, err)
	require.Equal(t, 5, facts.Record.Binding, "a number decreased")
	in.Binding = 9
	facts, err = s.discover(t, in)
	require.NoError(t, err)
	require.Equal(t, 9, facts.Record.Binding)
}

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
