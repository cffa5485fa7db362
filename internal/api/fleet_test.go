package api

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/workflows/client"
)

// slowFleet is a fleet of one device whose listing takes a while, and is numbered.
func slowFleet(takes time.Duration) *fleet {
	var n int
	return &fleet{log: slog.New(slog.DiscardHandler),
		list: func(ctx context.Context) ([]client.Execution, error) {
			n++
			listed := []client.Execution{{RunID: string(rune('0' + n))}}
			select {
			case <-time.After(takes):
				return listed, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
}

func requireListing(t *testing.T, f *fleet, number string) {
	t.Helper()
	all, err := f.read(t.Context())
	require.NoError(t, err)
	require.Equal(t, number, all[0].RunID)
}

// However many callers there are, the fleet is read once for all of them, and again when that is
// a second old, or older where reading takes longer.
func TestTheFleetIsReadOnceForAll(t *testing.T) {
	for takes, lasts := range map[time.Duration]time.Duration{10 * time.Millisecond: time.Second,
		3 * time.Second: 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := slowFleet(takes)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { requireListing(t, f, "1") })
			}
			all.Wait()
			<-time.After(lasts - time.Millisecond)
			requireListing(t, f, "1")
			<-time.After(time.Millisecond)
			requireListing(t, f, "2")
		})
	}
}

// A caller who gives up ends no other caller's read, and one that fails is repeated.
func TestACallerWhoGivesUpEndsNoOthersRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := slowFleet(2 * time.Second)
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var other sync.WaitGroup
		other.Go(func() {
			_, err := f.read(hasty)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		requireListing(t, f, "1")
		other.Wait()

		f = slowFleet(2 * DefaultTimeout)
		_, err := f.read(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		f.list = slowFleet(0).list
		requireListing(t, f, "1")
	})
}
