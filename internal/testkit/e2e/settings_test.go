package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// ON_INTERRUPT=error: after a crash a clean ends in state error.
//
// D1
func TestOnInterruptError(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all", "BURNISH_ON_INTERRUPT=error")
	d := enrollDirty(t, s, "fake", 128*MiB, 4*time.Second)
	s.AwaitMidWipe(t, d, steps.Chunk, 20*time.Second)
	w.Kill(t)
	e, _ := s.Journal(t, "d1")
	w.Start(t)
	v := s.AwaitState(t, "d1", 20*time.Second, device.Error)
	require.Equal(t, string(device.CodeInterrupted), v.Fault)
	require.True(t, v.NeedsOperator)
	require.Contains(t, v.Remedy, "clean")
	s.RequireReserved(t, "d1", 1)
	reprocessedBytes(t, d, e, 1) // nothing was written by the next attempt

	s.Must(t, "clean", "d1", "--wait", "--timeout", "60s")
	s.AwaitReturned(t, d, time.Second)
	// A stop in order is no crash.
	s.Bind(t, "d1", "alice")
	d.Stamp(t, 2)
	s.Unbind(t, "d1", "alice")
	s.AwaitMidWipe(t, d, 0, 20*time.Second)
	require.Zero(t, w.Stop(t, 40*time.Second))
	w.Start(t)
	s.AwaitReturned(t, d, 30*time.Second)
}

// Past its time-out a clean ends in error, with a warning that has
// the device's UUID.
//
// F8
func TestCleanupTimeout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all", "BURNISH_CLEANUP_TIMEOUT=2s")
	d := enrollDirty(t, s, "fake", 16*MiB, 8*time.Second)
	began := time.Now()
	v := s.AwaitState(t, "d1", 20*time.Second, device.Error)
	require.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
	require.Equal(t, string(device.CodeTimeout), v.Fault)
	require.True(t, v.Maintenance)
	require.True(t, v.Dirty)
	require.NotEmpty(t, v.LastError)
	s.RequireReserved(t, "d1", 1)
	warned := false
	for line := range strings.SplitSeq(w.Log(), "\n") {
		warned = warned || strings.Contains(line, "level=WARN") && strings.Contains(line, contract.DeviceUUID("d1")) && strings.Contains(line, "timeout")
	}
	require.True(t, warned, "no warning with the UUID in: %s", w.Log())

	// A longer budget is enough for what the shorter one was not.
	require.Zero(t, w.Stop(t, 40*time.Second))
	w.Env = []string{"BURNISH_CLEANUP_TIMEOUT=5m"}
	w.Start(t)
	s.Must(t, "clean", "d1")
	s.AwaitReturned(t, d, 60*time.Second)
}

// The budget is of running time: two kills do not lengthen it, the wait for a
// host does not shorten it.
//
// F8
func TestCleanupTimeoutIsRunningTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control", "BURNISH_CLEANUP_TIMEOUT=6s", "BURNISH_HOST_SILENT_AFTER=1s")
	w := s.Run(t, "host")
	d := s.Device(t, "fake", "d1", 64*MiB, 4*time.Second)
	s.Enroll(t, d)
	w.Kill(t)
	s.Must(t, "provide", "d1")
	s.AwaitDevice(t, "d1", 20*time.Second, "to wait for its host", func(v contract.DeviceStatus) bool { return v.NeedsOperator })
	outage(t, 5*time.Second)
	w.Start(t)
	s.AwaitReturned(t, d, 30*time.Second)
}

// With automated cleaning off a one-time-use device waits for the operator's
// clean, any other returns at once, not sanitized.
//
// D7
func TestAutomatedCleanOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all", "BURNISH_AUTOMATED_CLEAN=false")
	once, often := s.Device(t, "block", "once", 2*MiB, 0), s.Device(t, "block", "often", 2*MiB, 0)
	s.Enroll(t, once, "--provide", "--one-time-use")
	s.Enroll(t, often, "--provide")
	for _, d := range []Device{once, often} {
		s.AwaitReturned(t, d, 20*time.Second)
		s.Bind(t, d.Name, "alice")
		d.Stamp(t, 2)
		s.Unbind(t, d.Name, "alice")
	}
	v := s.AwaitState(t, "often", 10*time.Second, device.Available)
	require.True(t, v.NotSanitized)
	require.False(t, v.Dirty)
	s.RequireReserved(t, "often", 0)
	often.RequireStamps(t, 2)

	v = s.Show(t, "once")
	require.Equal(t, device.PendingCleaning, v.DeviceState)
	require.True(t, v.NeedsOperator)
	require.True(t, v.Dirty)
	require.Equal(t, string(device.CodeAutomatedCleanOff), v.Fault)
	s.RequireUntouched(t, once, 2, time.Second)
	s.Refused(t, device.CodeRefused, "bind", "once", "--instance", Instance("bob"))
	s.AwaitListed(t, "once", "list", "--awaiting-cleaning")
	s.Must(t, "clean", "once", "--wait", "--timeout", "30s")
	s.AwaitReturned(t, once, time.Second)

	// The next full plan ends NotSanitized.
	s.Must(t, "manage", "often")
	s.RequireReserved(t, "often", 1)
	s.Must(t, "clean", "often", "--steps", "zero,verify", "--wait", "--timeout", "30s")
	v = s.Show(t, "often")
	require.Equal(t, device.Manageable, v.DeviceState)
	require.True(t, v.NotSanitized, "named steps are no full plan (F7)")
	often.RequireZero(t)
}

// S3.2: whether a device counts as dirty when it is enrolled.
func TestCleanOnEnrollOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all", "BURNISH_CLEAN_ON_ENROLL=false")
	vouched, unvouched := s.Device(t, "block", "vouched", 2*MiB, 0), s.Device(t, "block", "unvouched", 2*MiB, 0)
	s.Enroll(t, vouched, "--clean")
	s.RequireReserved(t, "vouched", 1)
	require.False(t, s.Show(t, "vouched").Dirty)
	s.Must(t, "provide", "vouched", "--wait", "--timeout", "20s")
	vouched.RequireStamps(t, 1)
	s.RequireReserved(t, "vouched", 0)

	s.Enroll(t, unvouched)
	require.True(t, s.Show(t, "unvouched").Dirty)
	s.Must(t, "provide", "unvouched", "--wait", "--timeout", "20s")
	s.AwaitReturned(t, unvouched, time.Second)

	// A device that the operator asserted to be clean is still cleaned after its first tenant.
	s.Bind(t, "vouched", "alice")
	s.Unbind(t, "vouched", "alice")
	s.AwaitReturned(t, vouched, 20*time.Second)
}

// With cleaning on enrollment on, the operator's assertion has no effect.
func TestAssertedCleanIsIgnored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	d := s.Device(t, "block", "d1", 2*MiB, 0)
	s.Enroll(t, d, "--clean", "--provide")
	s.AwaitReturned(t, d, 20*time.Second)
}

// What nothing can erase.
//
// D4
func TestNoErasePath(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all")
	once, often := s.Fake(t, "once", 1*MiB, "erase=none"), s.Fake(t, "often", 1*MiB, "erase=none")
	s.Enroll(t, once, "--provide", "--one-time-use")
	v := s.Show(t, "once")
	require.Equal(t, device.Error, v.DeviceState)
	require.Equal(t, string(device.CodeNoErasePath), v.Fault)
	s.RequireReserved(t, "once", 1)
	s.Refused(t, device.CodeNoErasePath, "clean", "once")

	s.Enroll(t, often, "--provide")
	s.AwaitState(t, "often", 10*time.Second, device.Available)
	s.Bind(t, "often", "alice")
	often.Stamp(t, 2)
	s.RequireReserved(t, "often", 1)
	s.Unbind(t, "often", "alice")
	v = s.AwaitState(t, "often", 10*time.Second, device.Available)
	require.True(t, v.NotSanitized)
	s.RequireReserved(t, "often", 0)
	often.RequireStamps(t, 2)

	// A one-time-use device that the operator asserted to be clean is allocated once, and
	// never again.
	require.Zero(t, w.Stop(t, 40*time.Second))
	w.Env = []string{"BURNISH_CLEAN_ON_ENROLL=false"}
	w.Start(t)
	last := s.Fake(t, "last", 1*MiB, "erase=none")
	s.Enroll(t, last, "--one-time-use", "--clean", "--provide")
	s.AwaitState(t, "last", 10*time.Second, device.Available)
	s.Bind(t, "last", "alice")
	last.Stamp(t, 2)
	s.Unbind(t, "last", "alice")
	v = s.Show(t, "last")
	require.Equal(t, device.Error, v.DeviceState)
	require.Equal(t, string(device.CodeNoErasePath), v.Fault)
	s.RequireUntouched(t, last, 2, time.Second)
}
