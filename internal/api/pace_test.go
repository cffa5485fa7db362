package api

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// Many readers at once take a share of the time of few places; one alone does not wait.
func TestReadsTakeAShareOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(pageRest)
		began := time.Now()
		for range 20 {
			require.NoError(t, p.read(t.Context(), time.Minute, func() error { <-time.After(10 * time.Millisecond); return nil }))
			synctest.Wait()
		}
		require.Equal(t, 200*time.Millisecond, time.Since(began), "one alone")
		var busy, inFlight, most atomic.Int64
		var wait sync.WaitGroup
		began = time.Now()
		for range 200 {
			wait.Go(func() {
				require.NoError(t, p.read(t.Context(), time.Minute, func() error {
					most.Store(max(most.Load(), inFlight.Add(1)))
					<-time.After(10 * time.Millisecond)
					inFlight.Add(-1)
					busy.Add(10)
					return nil
				}))
			})
		}
		wait.Wait()
		places := int64(max(1, runtime.GOMAXPROCS(0)/2))
		require.LessOrEqual(t, most.Load(), places)
		share := float64(busy.Load()) / float64(places*time.Since(began).Milliseconds())
		require.InDelta(t, 1./(1+pageRest), share, 0.03)
	})
}

// A read that gets no answer does not keep the others out, and one that finds no place in its
// time says so.
func TestReadsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(deviceRest)
		hang := make(chan struct{})
		var wait sync.WaitGroup
		for range 3 * cap(p.places) {
			wait.Go(func() {
				require.NoError(t, p.read(t.Context(), maxPageHeld, func() error { <-hang; return nil }))
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.read(ctx, maxHeld, func() error { return nil })
		fault, ok := device.AsFault(err)
		require.True(t, ok)
		require.Equal(t, device.CodeUnreachable, fault.Code)
		began := time.Now()
		require.NoError(t, p.read(t.Context(), maxHeld, func() error { return nil }))
		require.Less(t, time.Since(began), 3*(maxPageHeld+maxRest))
		close(hang)
		wait.Wait()
	})
}
