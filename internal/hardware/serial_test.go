package hardware_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// F23
func TestCanonicalSerialIsTheSameFromEveryTable(t *testing.T) {
	for _, text := range []string{"S 1 x", "  S 1   x   \n", "S\t1 x\x00\x00", "S_1_x"} {
		require.Equal(t, "S_1_x", hardware.CanonicalSerial(text), "%q", text)
	}
	require.Empty(t, hardware.CanonicalSerial(" \x00"))
}

// What factories, firmware, BMCs, bridges and hypervisors report for a serial that nobody wrote.
func TestAPlaceholderIsNoSerial(t *testing.T) {
	for _, none := range []string{
		"", "0", "00000000", "0000-0000", "NA", "N/A", "n.a.", "None", "(none)", "NULL", "(null)", "<empty>", "unknown",
		"INVALID", "Unknow", "-", "--------", "........", "Not Applicable", "NOT APPLICABLE", "not_applicable",
		"NotApplicable",
		"Not Available", "Not Specified", "Not Present", "Not Set", "Not Provided", "Undefined", "Unspecified", "TBD",
		"Default string", "Default_String", "To Be Filled By O.E.M.", "To be filled by OEM",
		"TO BE FILLED BY O.E.M", "O.E.M.",
		"System Serial Number", "Chassis Serial Number", "Base Board Serial Number", "Type2 - Board Serial Number",
		"Serial Number", "SerNum0", "No Serial Number", "12345", "12345678", "123456789", "0123456789", "1234567890",
		"123456789012", "0123456789ABCDEF", "0123456789abcdef", "1234567890ABCDEF", "12345678901234567890", "ABCDEFGH",
		"MB-1234567890", "BSN12345678901234567", "SN00000000", "FFFFFFFF", "ffffffffffffffff", "XXXXXXXXXX",
		"1111111", "zzzz",
		"\xff\xff\xff\xff", "naa.0000000000000000", "eui.0000000000000000", "0x0000000000000000",
		"uuid.00000000-0000-0000-0000-000000000000",
	} {
		require.Empty(t, hardware.CanonicalSerial(none), "%q", none)
		require.Empty(t, hardware.SerialForms(none), "%q", none)
		require.False(t, hardware.SameSerial(none, none), "%q", none)
		require.Empty(t, device.Identity{Serial: none}.Hardware(), "%q", none)
	}
	for _, serial := range []string{
		"S", "S1", "SN00", "SN123456", "S64FNX0T100001", "PHLF7300003T1P0GGN", "CZ3406N4WX", "GGZWSZZ", "00000001", "disk 1",
		"vol-1", "QM00001", "1234", "5000c500a1b2c3d4", "nonstop7", "deadbeef", "Z1Z00001", "S/N 0042", "NA12345X",
		"111111112", "naa.5000c500a1b2c3d4", "eui.0025385b71b0a1b2",
	} {
		require.NotEmpty(t, hardware.CanonicalSerial(serial), "%q", serial)
		require.True(t, hardware.SameSerial(serial, serial), "%q", serial)
	}
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
		require.Equal(t, "CZ1", device.SerialKey(seen))
	}
}
