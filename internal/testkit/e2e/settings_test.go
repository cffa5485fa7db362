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
		warned = warned || strings.Contains(line, "level=WARN") && strings.Contains(line, contract.DeviceUUID("d1")) &&
			strings.Contains(line, "timeout")
	}
	require.True(t, warned, "no warning with the UUID in: %s", w.Log())

	// A longer budget is enough for what the shorter one was not.
	require.Zero(t, w.Stop(t, 40*time.Second))
	w.Env = []string{"BURNISH_CLEANUP_TIMEOUT=5m"}
	w.Start(t)
	s.Must(t, "clean", "d1")
	s.AwaitReturned(t, d, 60*time.Second)
}
