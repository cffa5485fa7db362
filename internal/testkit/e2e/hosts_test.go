package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/proc"
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

// Of two binds at once by two processes exactly one wins, each time.
func TestTwoBindsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	d := s.Fake(t, "d1", 64<<10)
	s.Enroll(t, d, "--provide")
	const rounds = 20
	wins := map[string]int{}
	for round := range rounds {
		s.AwaitReturned(t, d, 20*time.Second)
		tenants := []string{fmt.Sprint("left", round), fmt.Sprint("right", round)}
		results := make([]proc.Result, len(tenants))
		errs := make([]error, len(tenants))
		var both sync.WaitGroup
		for i, tenant := range tenants {
			both.Go(func() {
				results[i], errs[i] = s.Site.Burnish(t.Context(), "bind", "d1", "--instance", Instance(tenant))
			})
		}
		both.Wait()
		winner := 0
		if results[0].Code != 0 {
			winner = 1
		}
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		require.Zero(t, results[winner].Code, "round %d: %v", round, results)
		require.Equal(t, 1, results[1-winner].Code, "round %d: %v", round, results)
		d.Stamp(t, uint64(round+2))
		s.AwaitTenant(t, d, tenants[winner], uint64(round+2), 5*time.Second)
		wins[strings.TrimRight(tenants[winner], "0123456789")]++
		s.Unbind(t, "d1", tenants[winner])
	}
	s.AwaitReturned(t, d, 20*time.Second)
	t.Logf("of %d rounds %v", rounds, wins)
}

// Two cleans run at once on a host; the others wait in their order and report it.
//
// S2.65
func TestMaxCleansPerHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all", "BURNISH_MAX_CLEANS_PER_HOST=2")
	var all []Device
	for i := range 6 {
		d := s.Fake(t, fmt.Sprintf("d%d", i), 4*MiB, "delay=4s")
		d.Stamp(t, 1)
		all = append(all, d)
		s.Enroll(t, d)
	}
	args := []string{"provide", "--yes", "--host", s.Host}
	s.Must(t, args...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	atOnce := make(chan int, 1)
	go func() { atOnce <- mostWiped(ctx, all) }()
	waited := map[string]bool{}
	Await(t, 60*time.Second, "all to be returned", func() (bool, string) {
		back := 0
		for _, d := range all {
			if p := s.Provider(t, d.Name); p.Reserved == 0 {
				back++
			}
			if p := s.Pending(t, d.Name, "zero"); p != nil {
				var beat contract.Progress
				if s.decode(p.GetHeartbeatDetails(), &beat) && strings.HasPrefix(beat.Waiting, "queued for a slot (") {
					waited[beat.Waiting] = true
				}
			}
		}
		return back == len(all), fmt.Sprintf("%d back", back)
	})
	stop()
	require.Equal(t, 2, <-atOnce, "cleans at once")
	require.Contains(t, waited, "queued for a slot (1st in line)")
	require.Contains(t, waited, "queued for a slot (2nd in line)")
	for _, d := range all {
		s.AwaitReturned(t, d, time.Second)
	}
}

// mostWiped is how many of the devices at most, all full of the first tenant's bytes, were wiped
// at one moment until ctx ended. Those that were in the middle when each was looked at, and still
// are when all have been, were so at one moment: between two looks one may end and another begin.
func mostWiped(ctx context.Context, all []Device) (most int) {
	half := func(d Device) bool {
		_, zero, _, err := site.Device(d).Count(1)
		return err == nil && zero > 0 && zero < d.Blocks()
	}
	for ctx.Err() == nil {
		begun := slices.DeleteFunc(slices.Clone(all), func(d Device) bool { return !half(d) })
		most = max(most, len(slices.DeleteFunc(begun, func(d Device) bool { return !half(d) })))
		select {
		case <-ctx.Done():
		case <-time.After(proc.PollEvery):
		}
	}
	return most
}
