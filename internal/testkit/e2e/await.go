package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pollEvery is the pause between two looks; Closely takes almost none.
const pollEvery = 50 * time.Millisecond

// patience is how many times the limit a wait may take: limits are written for a machine
// that has nothing else to do, and a suite with all its servers and guests on two
// processors is no such machine. What must be quick says so with a bound of its own.
const patience = 4

// Await polls until ok says true, and fails the test with the last thing seen where
// it does not come about in time.
func Await(t testing.TB, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	await(t, within, pollEvery, what, ok)
}

// Closely is Await for what lasts milliseconds.
func PollFast(t testing.TB, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	await(t, within, 500*time.Microsecond, what, ok)
}

func await(t testing.TB, within, every time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(patience * within)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		done, seen := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(t, "waited in vain", "%s did not happen within %s; last seen: %s", what, patience*within, seen)
		}
		select {
		case <-t.Context().Done():
			require.FailNow(t, "the test is over")
		case <-tick.C:
		}
	}
}

// During watches for a while that something stays as it must be; the while is what
// is tested, not a pause.
func RequireThroughout(t testing.TB, length time.Duration, what string, holds func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(length)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, seen := holds()
		require.True(t, ok, "%s: %s", what, seen)
		if time.Now().After(deadline) {
			return
		}
		select {
		case <-t.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// away lets a time pass in which something is gone: the time is the test's subject.
func outage(t testing.TB, length time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(length):
	}
}
