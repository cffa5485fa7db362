package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// S0.24: a live migration finds marked devices only, and the instance keeps the mark, as it
// keeps the MAC that its document needs.
func TestMarkOfALiveMigratableDevice(t *testing.T) {
	t.Parallel()
	marked := contract.DeviceStatus{Name: "h1_a", Type: "NIC", MAC: "52:54:00:00:00:01", LiveMigratable: true}
	plain := contract.DeviceStatus{Name: "h1_b", Type: "NIC"}
	live := contract.DeviceRequest{Type: "NIC", LiveMigratable: true}
	require.True(t, (&candidate{status: marked}).fits(live))
	require.False(t, (&candidate{status: plain}).fits(live))
	require.True(t, (&candidate{status: plain}).fits(contract.DeviceRequest{Type: "NIC"}))
	require.True(t, held(marked).LiveMigratable)
	require.Equal(t, marked.MAC, held(marked).MAC)
}
