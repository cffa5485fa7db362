package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
)

// patience is how many times its limit a wait may take: limits are written for an idle
// machine, and a suite with its servers and guests on two processors is not idle. A test
// of how quick something is asserts a bound of its own.
const patience = 4

// patiently is a command line whose requests may wait for many others: their usual limit is written
// for an idle machine, too. One that says its own limit, or has none, keeps it.
func patiently(args ...string) []string {
	for _, own := range []string{"--timeout", "--wait", "watch"} {
		if slices.Contains(args, own) {
			return args
		}
	}
	return append([]string{"--timeout=100s"}, args...)
}

// Await polls until ok is true, and fails the test with the last state seen where that
// takes too long.
func Await(t testing.TB, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	require.NoError(t, proc.AwaitSlowly(t.Context(), patience*within, what, ok))
}

// PollFast is Await for a state that lasts milliseconds.
func PollFast(t testing.TB, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	poll(t, within, 500*time.Microsecond, what, ok)
}

func poll(t testing.TB, within, every time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	require.NoError(t, proc.Await(t.Context(), patience*within, every, what, ok))
}

// RequireThroughout asserts that something stays true for a while.
func RequireThroughout(t testing.TB, length time.Duration, what string, holds func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(length)
	poll(t, length, proc.PollEvery, what, func() (bool, string) {
		ok, seen := holds()
		require.True(t, ok, "%s: %s", what, seen)
		return time.Now().After(deadline), ""
	})
}

// beside runs the parts of a test at once, in the test's own place: parts that call t.Parallel would
// queue behind all other tests, while the processes of their site go on. All must pass.
func beside(t *testing.T, parts map[string]func(*testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, part := range parts {
		all.Go(func() { t.Run(name, part) })
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// outage lets the time pass in which something is down.
func outage(t testing.TB, length time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(length):
	}
}
