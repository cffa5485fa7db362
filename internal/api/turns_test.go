package api

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

func TestReadsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		one := turns{semaphore.NewWeighted(1)}
		quick, err := one.take(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the time of the bubble
		quick()
		slow, err := one.take(t.Context())
		require.NoError(t, err)
		require.Equal(t, 20*time.Millisecond, time.Since(began), "the others had no share")
		_, err = one.take(t.Context())
		require.NoError(t, err)
		require.Equal(t, 20*time.Millisecond+turnFor, time.Since(began), "one that waits keeps others waiting")
		slow()                                 // its turn is over already
		time.Sleep(turnFor + time.Millisecond) //nolint:forbidigo // the time of the bubble
		require.True(t, one.free.TryAcquire(1))
		require.False(t, one.free.TryAcquire(1))
	})
}
