package all

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
)

// TestS2_1_S2_2_WhatADriverCanBesides is asked for, and nothing where it has none: what
// is above the drivers knows no kind of device.
func TestS2_1_S2_2_WhatADriverCanBesides(t *testing.T) {
	drivers, err := Drivers(Names(), Host{})
	require.NoError(t, err)
	for name, d := range drivers {
		_, starts := d.(hardware.Initializer)
		_, finds := d.(hardware.Finder)
		require.Equal(t, name == "nvme", starts, name)
		require.Equal(t, name == "nvme", finds, name)
	}
}
