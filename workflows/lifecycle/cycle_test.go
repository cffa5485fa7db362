package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// S2.43
func TestWholeCycle(t *testing.T) {
	w := newWorld(t, safePolicy())
	w.offered()
	binding := w.taken("i1")
	require.Equal(t, 1, binding)
	ok[contract.Result](w.unbind("i1"))
	require.Equal(t, 1, w.shelf.reserved, "S0.7")
	w.stepRuns("zero")
	require.Equal(t, 1, w.shelf.reserved, "S0.8")
	v := w.reach(device.Available)
	w.quiet()
	require.False(t, v.Dirty)
	require.True(t, w.host.clean())
	require.Zero(t, w.shelf.reserved)
	require.Equal(t, 2, w.taken("i2"))
	w.noDefect()
}
