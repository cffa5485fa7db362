package must_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/must"
)

func TestTheFirstErrorEndsWhatIsTried(t *testing.T) {
	first := errors.New("first")
	went := 0
	require.ErrorIs(t, must.Try(func() {
		require.Equal(t, 7, must.Get(7, nil))
		must.Be(true, "it is")
		went++
		must.Be(false, "a wrapped %w", first)
		went++
	}), first)
	require.Equal(t, 1, went)
	require.NoError(t, must.Try(func() { must.Do(nil) }))
	require.Panics(t, func() { _ = must.Try(func() { panic("a bug") }) })
}
