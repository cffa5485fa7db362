package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
)

// loaded is a fleet on two hosts, whose running device of h1 does 10 MiB a second.
func loaded(now func() time.Time) *fakeClient {
	devices := map[string]client.Execution{"a1": {}, "a2": {}, "a3": {}, "b1": {}, "b2": {}, "b3": {}}
	describe := func(name string) client.Execution {
		ran := 100*time.Second + now().Sub(clock)
		var e client.Execution
		switch name {
		case "a1": // 5 MiB a second at first, then 10
			e = cleaningAt(name, (500+10*int64(now().Sub(clock).Seconds()))*mib, 10_000*mib, ran, "")
		case "a2":
			e = cleaningAt(name, 0, 10_000*mib, 0, "queued for a slot (1st in line)")
		case "a3":
			e = standing(name, device.Available)
		case "b1":
			e = failedWith(name)
		case "b2":
			e = standing(name, device.PendingCleaning)
		default:
			e = standing(name, device.Allocated)
		}
		e.Status.Hostname = "h1"
		if name[0] == 'b' {
			e.Status.Hostname = "h2\x1b[31m"
		}
		return e
	}
	return &fakeClient{
		onList: func(string) (all []client.Execution, err error) {
			for name := range devices {
				e := describe(name)
				e.Pending = nil
				all = append(all, e)
			}
			return all, nil
		},
		onDescribe: func(name string) (client.Execution, error) { return describe(name), nil },
	}
}

// topped runs top over a fleet whose clock goes on in its pauses, of which there are so many.
func topped(t *testing.T, l func(func() time.Time) *fakeClient, pauses int, args ...string) ran {
	t.Helper()
	var (
		mu  sync.Mutex
		now = clock
	)
	present := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	return burnishWith(t, l(present), func(a *app, ctrlC func()) {
		a.now = present
		a.pause = func(ctx context.Context, d time.Duration) error {
			mu.Lock()
			now = now.Add(d)
			mu.Unlock()
			if pauses--; pauses == 0 {
				ctrlC()
			}
			return ctx.Err()
		}
	}, append([]string{"top"}, args...)...)
}

func TestTop(t *testing.T) {
	got := topped(t, loaded, 2)
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, strings.Join([]string{
		"HOST     RUNNING  QUEUED  FAILED        RATE  DEVICES  AVAILABLE  ALLOCATED  PENDING-CLEANING  CLEANING  ERROR",
		"all            1       2       1  10.0 MiB/s        6          1          1                 1         2      1",
		"h1             1       1       0  10.0 MiB/s        3          1          0                 0         2      0",
		"h2?[31m        0       1       1           -        3          0          1                 1         0      1",
		"",
	}, "\n"), got.out)

	var load fleetLoad
	require.NoError(t, json.Unmarshal([]byte(topped(t, loaded, 2, "-o", "json", "--interval", "10s").out), &load))
	require.Equal(t, int64(10*mib), load.Total.Rate)
	require.Equal(t, map[device.State]int{device.Available: 1, device.Cleaning: 2}, load.Hosts[0].States)
	require.Equal(t, clock.Add(10*time.Second), load.Time)
}

// A step that does not report between the looks counts with its rate so far.
func TestTopOfAStepThatReportsSeldom(t *testing.T) {
	still := func(func() time.Time) *fakeClient { return loaded(func() time.Time { return clock }) }
	require.Contains(t, topped(t, still, 2).out, "5.0 MiB/s")
}

func TestTopWatch(t *testing.T) {
	got := topped(t, loaded, 3, "--watch", "--interval", "7s", "-o", "json")
	require.Equal(t, exitInterrupted, got.code)
	var times []time.Time
	for line := range strings.Lines(got.out) {
		var load fleetLoad
		require.NoError(t, json.Unmarshal([]byte(line), &load))
		times = append(times, load.Time)
	}
	require.Equal(t, []time.Time{clock, clock.Add(7 * time.Second), clock.Add(14 * time.Second)}, times)

	away := 0
	broken := func(now func() time.Time) *fakeClient {
		l := loaded(now)
		list := l.onList
		l.onList = func(query string) ([]client.Execution, error) {
			if away++; away == 2 || away == 3 {
				return nil, serviceerror.NewUnavailable("closing")
			}
			return list(query)
		}
		return l
	}
	got = topped(t, broken, 4, "-w")
	require.Equal(t, exitInterrupted, got.code)
	require.Equal(t, 2, strings.Count(got.out, "HOST"))
	require.Equal(t, 1, strings.Count(got.errors, "trying again"), got.errors)

	got = topped(t, loaded, 1)
	require.Equal(t, exitInterrupted, got.code)
	require.Empty(t, got.out)
}
