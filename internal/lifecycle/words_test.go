package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A device that was returned without a clean is never called clean.
func TestAnUnsanitizedDeviceIsNotCalledClean(t *testing.T) {
	d := &State{DeviceState: &contract.DeviceState{Name: "d1", Device: device.Device{State: device.Available,
		Status: device.Enabled}}}
	require.Contains(t, d.remedy(contract.VerbClean, contract.CleanInput{}), "it is clean")
	d.Device.NotSanitized = true
	require.Equal(t, "it is offered without a clean; to work on it by hand, manage d1, then clean d1 --steps STEP",
		d.remedy(contract.VerbClean, contract.CleanInput{}))
}
