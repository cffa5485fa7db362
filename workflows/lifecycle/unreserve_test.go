package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// An attempt that hangs times out after a minute; when its write arrives later, its generation
// is outdated.
//
// F5
func TestLateUnreserveHasNoEffect(t *testing.T) {
	w := newBound(t)
	w.noLocalCalls = true // one in the task calls no more after its second
	slow := true
	w.lag = func(activity string) (time.Duration, time.Duration) {
		if activity == contract.ActivityUnreserve && slow {
			slow = false
			return time.Hour, time.Millisecond
		}
		return time.Millisecond, time.Millisecond
	}
	ok[contract.Result](w.unbind("i1"))
	w.returned()
	w.makeBound("i2")
	w.pass(2 * time.Hour)
	require.Equal(t, 1, w.inventory.Reserved, "the late write unreserved a bound device")
	last := w.inventory.Writes[len(w.inventory.Writes)-1]
	require.Zero(t, last.Reserved)
	require.False(t, last.Done)
}

// requireMatchingGenerations checks that each successful write of reserved = 0 used the
// generation of the reservation before it: nothing else was written in between.
func (w *deviceEnv) requireMatchingGenerations() {
	w.t.Helper()
	for i, low := range w.inventory.Writes {
		if low.Reserved != 0 || !low.Done {
			continue
		}
		raised := false
		for _, up := range w.inventory.Writes[:i] {
			raised = raised || up.Reserved == 1 && up.Done && up.Generation+1 == low.Generation
		}
		require.True(w.t, raised, "unreserved with generation %d, which no reservation produced", low.Generation)
	}
}
