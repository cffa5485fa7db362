package all

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
)

// TestWhatADriverCanBesides is asked for, and nothing where it has none: what
// is above the drivers knows no kind of device.
//
// S2.1, S2.2
func TestWhatADriverCanBesides(t *testing.T) {
	drivers, err := Drivers(Names(), Host{})
	require.NoError(t, err)
	for name, d := range drivers {
		_, starts := d.(hardware.Initializer)
		_, finds := d.(hardware.Finder)
		require.Equal(t, name == "nvme", starts, name)
		require.Equal(t, name == "nvme", finds, name)
	}
}
