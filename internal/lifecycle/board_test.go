package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// The address is that of the enrollment, or the name's.
func TestAddressOfABoard(t *testing.T) {
	for name, address := range map[string]string{"h1_0000:01:00.0": "0000:01:00.0", "h1_x_0000:0a:00.1": "0000:0a:00.1",
		"gpu1": "", "h1_": ""} {
		require.Equal(t, contract.BoardInfo{PCIAddress: address}, boardInfo(&contract.DeviceState{Name: name}), name)
	}
	given := contract.DeviceState{Name: "gpu1", Enrollment: contract.Enrollment{Address: "0000:02:00.0"}}
	require.Equal(t, "0000:02:00.0", boardInfo(&given).PCIAddress)
}
