package hardware_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
)

// F23
func TestCanonicalSerialIsTheSameFromEveryTable(t *testing.T) {
	for _, text := range []string{"S 1 x", "  S 1   x   \n", "S\t1 x\x00\x00", "S_1_x"} {
		require.Equal(t, "S_1_x", hardware.CanonicalSerial(text), "%q", text)
	}
	require.Empty(t, hardware.CanonicalSerial(" \x00"))
}

func TestSerialNumbersAreComparedWithoutCaseAndSpaces(t *testing.T) {
	for _, same := range [][2]string{{"CZ1", "CZ1"}, {"CZ1", "cz1"}, {" CZ1 ", "CZ1"}, {"C Z1", "CZ1"}, {"C_Z1", "C Z1"}} {
		require.True(t, hardware.SameSerial(same[0], same[1]), "%q", same)
		require.True(t, hardware.SameSerial(same[1], same[0]), "%q", same)
	}
	for _, other := range [][2]string{{"", ""}, {" ", ""}, {"CZ1", ""}, {"CZ1", "CZ2"}, {"CZ1", "CZ11"}, {"CZ-1", "CZ1"}} {
		require.False(t, hardware.SameSerial(other[0], other[1]), "%q", other)
		require.False(t, hardware.SameSerial(other[1], other[0]), "%q", other)
	}
}

// A device whose host read the serial number otherwise than the appliance is found in a
// listing by one of the forms.
func TestSerialFormsAreWhatAListingMayHave(t *testing.T) {
	require.Equal(t, []string{"CZ1", "cz1"}, hardware.SerialForms("CZ1"))
	require.Equal(t, []string{" c z1 ", "c_z1", "C_Z1", "CZ1", "cz1"}, hardware.SerialForms(" c z1 "))
	require.Empty(t, hardware.SerialForms(" _"))
	for _, seen := range []string{"C Z1", "c\tz1", "C_Z1", "CZ1"} {
		require.Equal(t, "CZ1", hardware.SerialKey(seen))
	}
}
