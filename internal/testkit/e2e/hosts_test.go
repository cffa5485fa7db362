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

// Control and host are separate processes; the host is down when the clean begins. The
// device needs an operator, and the clean goes on by itself when the host is back.
//
// F8
func TestHostUnreachable(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.Run(t, "control", "BURNISH_HOST_SILENT_AFTER=3s")
			w := s.Run(t, "host")
			d := s.Device(t, kind, "d1", 4*MiB, 0)
			s.Enroll(t, d, "--provide")
			s.AwaitReturned(t, d, 20*time.Second)
			s.Bind(t, "d1", "alice")
			d.Stamp(t, 2)
			w.Kill(t)
			began := time.Now()
			s.Unbind(t, "d1", "alice")
			require.Less(t, time.Since(began), patience*5*time.Second, "the tenant does not wait for the host")
			v := s.AwaitDevice(t, "d1", 15*time.Second, "to need an operator", func(v contract.DeviceStatus) bool { return v.NeedsOperator })
			require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
			require.Equal(t, string(device.CodeHostUnreachable), v.Fault)
			require.Contains(t, v.Remedy, s.Host)
			require.Equal(t, device.Cleaning, v.DeviceState)
			s.AwaitListed(t, "d1", "list", "--needs-operator", "--fault", "host_unreachable")
			d.RequireStamps(t, 2)
			s.RequireReserved(t, "d1", 1)

			w.Start(t)
			v = s.AwaitReturned(t, d, 20*time.Second)
			require.False(t, v.NeedsOperator)
			require.Empty(t, v.Fault)
		})
	}
}

// The host goes down in mid-wipe; afterwards the wipe goes on at its resume point.
//
// F8
func TestHostUnreachableInMidWipe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control", "BURNISH_HOST_SILENT_AFTER=3s")
	w := s.Run(t, "host")
	d := enrollDirty(t, s, "fake", 192*MiB, 6*time.Second)
	s.AwaitMidWipe(t, d, steps.Chunk, 20*time.Second)
	w.Kill(t)
	before, _ := s.Journal(t, "d1")
	v := s.AwaitDevice(t, "d1", 60*time.Second, "to need an operator", func(v contract.DeviceStatus) bool { return v.NeedsOperator })
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
	v = s.AwaitReturned(t, d, 60*time.Second)
	require.Len(t, v.Cleans, 1)
}

// A second worker of the same host refuses to start, and names the first.
//
// F1
func TestSecondWorkerRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.Run(t, "host")
	for what, dir := range map[string]string{"same state directory": s.State, "another state directory": filepath.Join(s.Dir, "other")} {
		for _, role := range []string{"host", "all"} {
			second := s.Worker(t, role)
			second.StateDir = dir
			require.NoError(t, second.Launch())
			code, err := second.Wait(site.StartWithin)
			require.NoError(t, err)
			require.Equal(t, 1, code, "%s, role %s: %s", what, role, second.Log())
			require.Contains(t, second.Log(), fmt.Sprintf("pid %d", first.PID()), what)
			require.NotContains(t, second.Log(), "worker started", what)
		}
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
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			w := s.Run(t, "all", "BURNISH_STOP_TIMEOUT=10s")
			d := enrollDirty(t, s, kind, 256*MiB, 8*time.Second)
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
		})
	}
}
