package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// S2.15
func TestTraitsSayWhatTheDeviceCan(t *testing.T) {
	for name, tt := range map[string]struct {
		can  device.Capabilities
		want []string
	}{
		"nothing": {device.Capabilities{}, []string{}},
		// S2.11
		"crypto erase": {device.Capabilities{CryptoErase: true}, []string{"HW_NVME_CES"}},
		// S2.12
		"block erase": {device.Capabilities{BlockErase: true}, []string{"HW_NVME_BES"}},
		// S2.13
		"write zeroes": {device.Capabilities{WriteZeroes: true}, []string{"HW_NVME_WZS"}},
		// S2.14
		"namespace management has no trait": {device.Capabilities{ManageNamespaces: true}, []string{}},
		"all": {
			device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true, ManageNamespaces: true},
			[]string{"HW_NVME_CES", "HW_NVME_BES", "HW_NVME_WZS"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.can.Traits()) })
	}
}

func TestWhatEachOperationNeeds(t *testing.T) {
	for operation, tt := range map[device.Operation]struct {
		can                   device.Capabilities
		always                bool
		sanitizes, overwrites bool
	}{
		device.CryptoErase: {device.Capabilities{CryptoErase: true}, false, true, false},
		device.BlockErase:  {device.Capabilities{BlockErase: true}, false, true, false},
		device.WriteZeroes: {device.Capabilities{WriteZeroes: true}, false, false, true},
		device.Shred:       {device.Capabilities{}, true, false, true},
	} {
		t.Run(string(operation), func(t *testing.T) {
			require.True(t, tt.can.Supports(operation))
			require.Equal(t, tt.always, device.Capabilities{}.Supports(operation))
			all := device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true, ManageNamespaces: true}
			switch operation {
			case device.CryptoErase:
				all.CryptoErase = false
			case device.BlockErase:
				all.BlockErase = false
			case device.WriteZeroes:
				all.WriteZeroes = false
			}
			require.Equal(t, tt.always, all.Supports(operation), "no other capability stands in")
			require.Equal(t, tt.sanitizes, operation.Sanitizes())
			require.Equal(t, tt.overwrites, operation.Overwrites())
		})
	}
	none := device.Operation("")
	require.False(t, device.Capabilities{CryptoErase: true}.Supports(none))
	require.False(t, none.Sanitizes() || none.Overwrites())
}
