package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A wait that never ends becomes an error that says what was waited for, and why in vain.
func TestEachWaitHasABound(t *testing.T) {
	forever := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	alive := func() string { return "" }
	log := func() string { return "the log: it sleeps" }
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := within(t.Context(), time.Minute, "the drive FREE0 to be clean", alive, log, forever)
		require.EqualError(t, err, "waited 60 s in vain for the drive FREE0 to be clean (it takes longer than 1m0s): context canceled; the log: it sleeps")
		require.Equal(t, time.Minute, time.Since(began))
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ended := func() string {
			if time.Since(began) >= 5*time.Second {
				return "the guest ended"
			}
			return ""
		}
		err := within(t.Context(), time.Hour, "the drive FREE0 to be clean", ended, log, forever)
		require.ErrorContains(t, err, "waited 5 s in vain for the drive FREE0 to be clean (the guest ended)")
	})
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, within(t.Context(), time.Minute, "it", alive, log, func(context.Context) error { return nil }))
		broken := errors.New("it is in state error")
		err := within(t.Context(), time.Minute, "it", alive, log, func(context.Context) error { return broken })
		require.ErrorIs(t, err, broken)
		require.EqualError(t, err, "waited 0 s in vain for it: it is in state error; the log: it sleeps")
	})
}
