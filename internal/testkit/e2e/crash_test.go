package e2e

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/testkit/suites/hardwaretest"
)

// enrollDirty enrolls a device full of a tenant's bytes, so that its clean begins. A file
// is twice as large as a fake device: its wipe must not end before the test interrupts it.
func enrollDirty(t *testing.T, s *Site, kind string, size int64, delay time.Duration) Device {
	t.Helper()
	if kind == "block" {
		size *= 2
	}
	d := s.Device(t, kind, "d1", size, delay)
	s.Enroll(t, d, "--provide")
	return d
}

// reprocessedBytes compares the bytes at the moment of a kill with the journal: everything
// before its offset is wiped, at most two chunks after it, and the rest is untouched. It
// returns how many bytes the next attempt wipes again.
func reprocessedBytes(t *testing.T, d Device, e host.Entry, nonce uint64) int64 {
	t.Helper()
	stamped, zero, other := d.Count(t, nonce)
	require.Zero(t, other, "half written blocks")
	require.Equal(t, d.Blocks(), stamped+zero)
	again := int64(zero)*hardwaretest.Block - e.Offset
	require.GreaterOrEqual(t, again, int64(0), "the journal is ahead of the device")
	require.LessOrEqual(t, again, int64(steps.MaxRepeated))
	return again
}

// kill -9 of the worker in mid-wipe. Not parallel: the time until the work goes on is measured.
//
// F1, F2, D1, S2.70, S2.97, S3.35
func TestKillWorker(t *testing.T) {
	s := newSite(t)
	w := s.Run(t, "all")
	d := enrollDirty(t, s, "block", 256*MiB, 0)
	s.AwaitMidWipe(t, d, steps.Chunk, 20*time.Second)
	w.Kill(t)
	before, _ := s.Journal(t, "d1")
	require.Equal(t, "zero", before.Step)
	require.False(t, before.Done, "the wipe was too quick for this test")
	again := reprocessedBytes(t, d, before, 1)

	w.Start(t)
	var after host.Entry
	PollFast(t, 20*time.Second, "another attempt", func() (bool, string) {
		after, _ = s.Journal(t, "d1")
		return after.Attempt > before.Attempt || after.Seq > before.Seq, fmt.Sprintf("%+v", after)
	})
	took := after.Updated.Sub(w.Started)
	require.Equal(t, before.Seq, after.Seq, "the same scheduling goes on")
	require.Equal(t, before.Attempt+1, after.Attempt)
	require.Less(t, took, pastHeartbeat-10*time.Second, "from the worker's start to the next attempt: long before the "+
		"heartbeat time-out")
	require.GreaterOrEqual(t, after.Offset, before.Offset, "the resume point")
	v := s.AwaitReturned(t, d, 60*time.Second)
	redone := v.Cleans[0].Steps[0].ReprocessedBytesMax
	require.LessOrEqual(t, again, redone)
	require.LessOrEqual(t, redone, int64(steps.MaxRepeated))
	t.Logf("attempt 2 began %.2f s after the worker's start at %d MiB; %d bytes wiped twice", took.Seconds(),
		before.Offset/MiB, again)
}

// What lies before the journal's offset is not written again, and verify reads all
// of it: a byte that appears there after the kill is found, nothing is returned, and
// the operator's clean repairs it (F2, F7, F19).
//
// F2
func TestVerifyDoesNotTrustTheJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all")
	d := enrollDirty(t, s, "block", 256*MiB, 0)
	s.AwaitMidWipe(t, d, steps.Chunk, 20*time.Second)
	w.Kill(t)
	before, _ := s.Journal(t, "d1")
	require.False(t, before.Done, "the wipe was too quick for this test")
	require.NoError(t, hardwaretest.Stamp(hardwaretest.File(d.Path), 4096, 1))
	w.Start(t)
	v := s.AwaitState(t, "d1", 60*time.Second, device.Error)
	require.Equal(t, string(device.CodeVerifyFailed), v.Fault)
	require.True(t, v.Dirty)
	s.RequireReserved(t, "d1", 1)
	stamped, _, other := d.Count(t, 1)
	require.Equal(t, [2]int{8, 0}, [2]int{stamped, other}, "the resumed wipe wrote before its offset")

	s.Must(t, "clean", "d1", "--wait", "--timeout", "60s")
	s.AwaitReturned(t, d, time.Second)
}

// Both are killed.
//
// F2
func TestKillServerAndWorker(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	w := s.Run(t, "all")
	d := enrollDirty(t, s, "fake", 256*MiB, 8*time.Second)
	s.AwaitMidWipe(t, d, steps.Chunk, 30*time.Second)
	require.NoError(t, s.Server.Signal(syscall.SIGKILL))
	w.Kill(t)
	require.NoError(t, s.Server.Kill())
	e, _ := s.Journal(t, "d1")
	require.False(t, e.Done, "the wipe was too quick for this test")
	reprocessedBytes(t, d, e, 1)
	require.NoError(t, s.Server.Start(t.Context()))
	w.Start(t)
	require.Len(t, s.AwaitReturned(t, d, 60*time.Second).Cleans, 1)
}

// seeds is how many sequences of kills TestKillAtAnyMoment tries.
const seeds = 3

// Whatever is killed at whatever moment of a turnover, the device comes back clean, and is
// not allocatable before.
//
// F2
func TestKillAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	w := s.Run(t, "all")
	d := s.Device(t, "fake", "d1", 64*MiB, time.Second)
	s.Enroll(t, d, "--provide")
	s.AwaitReturned(t, d, 20*time.Second)
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 7))
		tenant := fmt.Sprint("tenant", seed)
		s.Bind(t, "d1", tenant)
		d.Stamp(t, seed+2)
		s.Unbind(t, "d1", tenant)
		for strike := range 2 {
			moment := time.Duration(random.IntN(1200)) * time.Millisecond
			what := random.IntN(3)
			t.Logf("seed %d, strike %d: %s after the unbind or the restart, %s", seed, strike, moment,
				[]string{"the worker", "the server", "both"}[what])
			outage(t, moment)
			if what != 0 {
				require.NoError(t, s.Server.Kill())
			}
			if what != 1 {
				w.Kill(t)
			}
			if p, err := s.Site.Provider("d1"); err == nil && p.Reserved == 0 {
				d.RequireZero(t)
			}
			outage(t, time.Duration(random.IntN(500))*time.Millisecond)
			if what != 0 {
				require.NoError(t, s.Server.Start(t.Context()))
			}
			if what != 1 {
				w.Start(t)
			}
		}
		s.AwaitReturned(t, d, 60*time.Second)
	}
}
