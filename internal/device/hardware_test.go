package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// One hardware has one UUID, whatever way its serial is written and wherever its file system is
// mounted; other hardware has another.
//
// F35
func TestHardwareIsTheSameUnderEveryName(t *testing.T) {
	same := [][]device.Identity{
		{
			{Serial: "S 1_x"}, {Serial: "s1X"}, {Serial: "\tS_1  X\x00"},
			{Serial: "S1X", Model: "another driver's", Path: "/dev/sdb", Size: 7, Device: 9},
		},
		{
			{Serial: "ino-802-12-0000beef", Device: 0x802, Inode: 12, Model: "file"},
			{Serial: "ino-802-12-0000beef", Device: 0x802, Inode: 12, Model: "loop"},
			{Serial: "ino-705-12-0000beef", Device: 0x705, Inode: 12, Model: "file"},
		},
		{{Serial: "ino-802-12-0000bee0", Device: 0x802, Inode: 12}},
		{{Serial: "ino-802-13-0000beef", Device: 0x802, Inode: 13}},
		{{Serial: "ino-802-12-00000000", Device: 0x802, Inode: 12}}, // its file system has no generations
		{{Serial: "ino-705-12-00000000", Device: 0x705, Inode: 12}},
	}
	seen := map[string]int{}
	for i, group := range same {
		for _, id := range group {
			require.NotEmpty(t, id.Hardware())
			if _, known := seen[id.Hardware()]; !known {
				seen[id.Hardware()] = i
			}
			require.Equal(t, i, seen[id.Hardware()], "%+v", id)
			require.Equal(t, group[0].Hardware(), id.Hardware(), "%+v", id)
		}
	}
	for _, serial := range []string{"", " _\x00"} {
		require.Empty(t, device.Identity{Serial: serial, Model: "M"}.Hardware())
	}
}
