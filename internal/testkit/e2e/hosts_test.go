package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// Control and host are separate processes, and the host goes down: one clean begins without it, and
// one is in mid-wipe. Both devices need an operator, and both cleans go on by themselves when the
// host is back, the second at its resume point.
//
// F8
func TestHostUnreachable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control", "BURNISH_HOST_SILENT_AFTER=3s")
	w := s.Run(t, "host")
	bound := s.Device(t, "block", "bound", 4*MiB, 0)
	s.Enroll(t, bound, "--provide")
	s.AwaitReturned(t, bound, 20*time.Second)
	s.Bind(t, "bound", "alice")
	bound.Stamp(t, 2)
	d := enrollDirty(t, s, "fake", 192*MiB, 6*time.Second)
	s.AwaitMidWipe(t, d, steps.Chunk, 20*time.Second)
	w.Kill(t)
	before, _ := s.Journal(t, "d1")
	began := time.Now()
	s.Unbind(t, "bound", "alice")
	require.Less(t, time.Since(began), patience*5*time.Second, "the tenant does not wait for the host")
	v := s.AwaitDevice(t, "bound", 15*time.Second, "to need an operator", func(v contract.DeviceStatus) bool {
		return v.NeedsOperator
	})
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	require.Equal(t, string(device.CodeHostUnreachable), v.Fault)
	require.Contains(t, v.Remedy, s.Host)
	require.Equal(t, device.Cleaning, v.DeviceState)
	s.AwaitListed(t, "bound", "list", "--needs-operator", "--fault", "host_unreachable")
	bound.RequireStamps(t, 2)
	s.RequireReserved(t, "bound", 1)
	v = s.AwaitDevice(t, "d1", 60*time.Second, "to need an operator", func(v contract.DeviceStatus) bool {
		return v.NeedsOperator
	})
	require.Equal(t, string(device.CodeHostUnreachable), v.Fault)

	w.Start(t)
	PollFast(t, 20*time.Second, "the wipe to go on", func() (bool, string) {
		e, _ := s.Journal(t, "d1")
		if e.Updated.Equal(before.Updated) {
			return false, fmt.Sprintf("%+v", e)
		}
		require.GreaterOrEqual(t, e.Offset, before.Offset)
		return true, ""
	})
	require.Len(t, s.AwaitReturned(t, d, 60*time.Second).Cleans, 1)
	v = s.AwaitReturned(t, bound, 20*time.Second)
	require.False(t, v.NeedsOperator)
	require.Empty(t, v.Fault)
}

// A second worker of the same host refuses to start, and names the first.
//
// F1
func TestSecondWorkerRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.Run(t, "host")
	for role, dir := range map[string]string{"host": s.State, "all": filepath.Join(s.Dir, "other")} {
		second := s.Worker(t, role)
		second.StateDir = dir
		require.NoError(t, second.Launch())
		code, err := second.Wait(site.StartWithin)
		require.NoError(t, err)
		require.Equal(t, 1, code, "%s in %s: %s", role, dir, second.Log())
		require.Contains(t, second.Log(), fmt.Sprintf("pid %d", first.PID()), dir)
		require.NotContains(t, second.Log(), "worker started", dir)
	}
	require.True(t, first.Alive())
	// Once the first has ended, also by force, another may start.
	first.Kill(t)
	s.Run(t, "host")
}

// SIGTERM in mid-wipe: the worker ends in order and in time, the next one goes on
// and does nothing twice.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all", "BURNISH_STOP_TIMEOUT=10s")
	d := enrollDirty(t, s, "block", 256*MiB, 0)
	s.AwaitMidWipe(t, d, steps.Chunk, 20*time.Second)
	began := time.Now()
	require.Zero(t, w.Stop(t, 12*time.Second), w.Log())
	t.Logf("stopped in %.1f s", time.Since(began).Seconds())
	e, _ := s.Journal(t, "d1")
	require.False(t, e.Done, "the wipe was too quick for this test")
	require.False(t, e.Working, "an attempt that ended in order is no orphan")
	require.Zero(t, reprocessedBytes(t, d, e, 1))
	w.Start(t)
	v := s.AwaitReturned(t, d, 60*time.Second)
	require.Len(t, v.Cleans, 1)
	require.Zero(t, v.Cleans[0].Steps[0].ReprocessedBytesMax)
}
