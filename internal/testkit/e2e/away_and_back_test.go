package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/site"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// A server, a network or a worker is away for a while and comes back. The file's name puts
// the longest tests first: the others run beside them.

// pastHeartbeat is longer than the time-out of heartbeats, after which the server
// gives a step to another attempt.
const pastHeartbeat = 34 * time.Second

// The server is down for longer than the heartbeat time-out. When it is back it gives the
// step to another attempt at once, while the first attempt still runs.
//
// F3
func TestKillServerPastTheHeartbeat(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	s.Run(t, "all")
	d := enrollDirty(t, s, "fake", 320*MiB, 50*time.Second)
	s.AwaitMidWipe(t, d, steps.Chunk, 30*time.Second)
	require.NoError(t, s.Server.Kill())
	outage(t, pastHeartbeat)
	require.NoError(t, s.Server.Start(t.Context()))
	v := s.AwaitReturned(t, d, 120*time.Second)
	require.Len(t, v.Cleans, 1)
	require.Zero(t, v.Cleans[0].Steps[0].ReprocessedBytesMax, "nothing crashed on the host")
}

// The network between host and server is cut for longer than the heartbeat time-out; the
// control worker keeps its connection. The wipe stops, since the host cannot report it, and
// goes on by itself afterwards.
//
// F3
func TestPartition(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control")
	proxy := NewProxy(t, s.Server.Address)
	w := s.Worker(t, "host")
	w.Address = proxy.Address
	w.Start(t)
	d := enrollDirty(t, s, "fake", 256*MiB, 24*time.Second)
	s.AwaitMidWipe(t, d, steps.Chunk, 30*time.Second)
	proxy.Partition()
	outage(t, pastHeartbeat)
	RequireThroughout(t, time.Second, "nothing is returned", func() (bool, string) {
		p := s.Provider(t, "d1")
		return p.Reserved == 1, fmt.Sprint(p)
	})
	e, _ := s.Journal(t, "d1")
	require.Less(t, e.Offset, d.Size, "a step that could not be canceled went on to its end")
	proxy.Heal()
	v := s.AwaitReturned(t, d, 120*time.Second)
	require.Len(t, v.Cleans, 1)
	require.Zero(t, v.Cleans[0].Steps[0].ReprocessedBytesMax, "nothing crashed")
	require.True(t, w.Alive())
}

// secondHost is a host with a state directory of its own that has access to the same files.
func secondHost(t *testing.T, s *Site) *Worker {
	t.Helper()
	w := s.Worker(t, "host")
	w.Host, w.StateDir = site.NewHost(), filepath.Join(s.Dir, "elsewhere")
	w.Start(t)
	return w
}

// A worker is stopped in the middle of a chunk, past the heartbeat time-out. Its
// device is retired as lost and enrolled on another host: no other worker runs beside the
// stopped one. A machine that does not see its locks, as one that shares the disk does not,
// may give the device to an instance all the same: when the worker wakes up, the instance
// loses nothing but what one write may cover that was issued before. So does the tenant of
// the other host.
//
// F1, F32
func TestFrozenInMidWipe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control")
	w := s.Run(t, "host")
	d := enrollDirty(t, s, "block", 256*MiB, 0)
	s.AwaitMidWipe(t, d, steps.Chunk, 30*time.Second)
	w.Freeze(t)
	e, _ := s.Journal(t, "d1")
	require.False(t, e.Done, "the wipe was too quick for this test")
	other := secondHost(t, s)
	outage(t, pastHeartbeat)
	Await(t, 20*time.Second, "the server to give up the first attempt", func() (bool, string) {
		p := s.Pending(t, "d1", "zero")
		return p.GetAttempt() == 2, p.String()
	})

	s.Must(t, "retire", "d1", "--lost", "--reason", "its host does not answer")
	again := d
	again.Name = "d2"
	_, zero, _ := d.Count(t, 1)
	enroll := append(s.EnrollArgs(again, "--provide"), "--host", other.Host)
	s.Refused(t, device.CodeTargetBusy, enroll...)
	_, now, _ := d.Count(t, 1)
	require.Equal(t, zero, now, "another worker wrote while the first was stopped")

	again.Stamp(t, 2)
	w.Thaw(t)
	Await(t, 30*time.Second, "the resumed worker to end its step", func() (bool, string) {
		e, _ := s.Journal(t, "d1")
		return !e.Working, fmt.Sprintf("%+v", e)
	})
	stamped, _, _ := again.Count(t, 2)
	lost := int64(again.Blocks()-stamped) * hardwaretest.Block
	t.Logf("%d bytes of the other instance were erased after the worker woke up", lost)
	require.LessOrEqual(t, lost, int64(hardware.MaxWrite))
	Await(t, 30*time.Second, "the resumed worker to release the device", func() (bool, string) {
		r := s.Burnish(t, enroll...)
		return r.Code == 0, r.String()
	})
	s.AwaitReturned(t, again, 60*time.Second)
	s.Bind(t, "d2", "bob")
	again.Stamp(t, 3)
	s.RequireUntouched(t, again, 3, 5*time.Second)
	s.AwaitTenant(t, again, "bob", 3, time.Second)
}

// A worker is stopped while its step still waits for a slot of the host, and
// wakes up without its network, as a machine does that was suspended: by then the
// device was cleaned elsewhere and has a new tenant, who loses nothing.
//
// F1
func TestFrozenBeforeTheWipe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control")
	proxy := NewProxy(t, s.Server.Address)
	w := s.Worker(t, "host", "BURNISH_MAX_CLEANS_PER_HOST=1")
	w.Address = proxy.Address
	w.Start(t)
	// It has the host's only slot, for a few seconds.
	slow := s.Fake(t, "slow", 64*MiB, "delay=8s")
	slow.Stamp(t, 1)
	s.Enroll(t, slow, "--provide")
	s.AwaitMidWipe(t, slow, 0, 20*time.Second)
	d := enrollDirty(t, s, "block", 8*MiB, 0)
	s.AwaitDevice(t, "d1", 20*time.Second, "to wait for its slot", func(v contract.DeviceStatus) bool {
		return v.Progress != nil && strings.Contains(v.Progress.Waiting, "1st in line")
	})
	Await(t, 20*time.Second, "the slot's holder to come near its end", func() (bool, string) {
		_, zero, _ := slow.Count(t, 1)
		return zero > slow.Blocks()*3/4, fmt.Sprint(zero)
	})
	w.Freeze(t)
	proxy.Partition()
	d.RequireStamps(t, 1)
	other := secondHost(t, s)
	outage(t, pastHeartbeat)

	s.Must(t, "retire", "d1", "--lost", "--reason", "its host does not answer")
	again := d
	again.Name = "d2"
	s.Must(t, append(s.EnrollArgs(again, "--provide"), "--host", other.Host)...)
	s.AwaitReturned(t, again, 30*time.Second)
	s.Bind(t, "d2", "bob")
	again.Stamp(t, 3)

	w.Thaw(t)
	// Without an answer of the server its holder writes nothing either.
	Await(t, 30*time.Second, "the slot to come free", func() (bool, string) {
		e, _ := s.Journal(t, "slow")
		return !e.Working, fmt.Sprintf("%+v", e)
	})
	s.RequireUntouched(t, again, 3, 10*time.Second)
	proxy.Heal()
	s.RequireUntouched(t, again, 3, 5*time.Second)
	s.AwaitTenant(t, again, "bob", 3, time.Second)
	require.Equal(t, device.Retired, s.Show(t, "d1").DeviceState)
}
