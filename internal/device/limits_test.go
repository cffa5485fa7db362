package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

func TestACapacityIsANumberOrAPercentage(t *testing.T) {
	for text, want := range map[string]device.Capacity{"1": {Devices: 1}, "250": {Devices: 250}, "10%": {Percent: 10},
		"100 %": {Percent: 100}} {
		got, err := device.ParseCapacity(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := device.ParseCapacity(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "ten", "1.5", "%"} {
		_, err := device.ParseCapacity(text)
		require.Error(t, err, text)
	}
	require.Equal(t, 7, device.Capacity{Devices: 7}.Floor(3))
	require.Equal(t, 1, device.Capacity{Percent: 10}.Floor(3), "a part of a device counts as a whole one")
	require.Equal(t, 100, device.Capacity{Percent: 10}.Floor(1000))
	require.Zero(t, device.Capacity{}.Floor(1000))
}
