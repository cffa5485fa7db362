package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// S2.43
func TestWholeCycle(t *testing.T) {
	w := newDeviceEnv(t, safePolicy())
	w.makeAvailable()
	binding := w.makeBound("i1")
	require.Equal(t, 1, binding)
	ok[contract.Result](w.unbind("i1"))
	require.Equal(t, 1, w.inventory.reserved, "S0.7")
	w.stepRuns("zero")
	require.Equal(t, 1, w.inventory.reserved, "S0.8")
	v := w.reach(device.Available)
	w.idle()
	require.False(t, v.Dirty)
	require.True(t, w.host.clean())
	require.Zero(t, w.inventory.reserved)
	require.Equal(t, 2, w.makeBound("i2"))
	w.noDefect()
}
