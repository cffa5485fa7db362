package oneview

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// S4.1, S4.2, S4.3, S4.24
func TestTheAppliedProfileSaysWhoHasAServer(t *testing.T) {
	const ours, theirs = "/rest/server-profiles/1", "/rest/server-profiles/2"
	for _, recorded := range []string{"", ours} {
		for _, applying := range []bool{false, true} {
			for _, uuid := range []string{"", deviceUUID} {
				for _, applied := range []string{"", ours, theirs} {
					for _, name := range []string{"", deviceUUID, "web-1"} {
						s := Server{UUID: uuid, Recorded: recorded, Applying: applying}
						want := device.PoolTaken
						switch {
						case applied == "":
							want = device.PoolFree
						case applied == recorded:
							want = device.PoolOurs
						case applying && name == deviceUUID && uuid == deviceUUID:
							want = device.PoolOurs
						}
						require.Equal(t, want, s.Owner(applied, name), "%+v: %s, %q", s, applied, name)
					}
				}
			}
		}
	}
}

func TestSerialNumbersAreComparedWithoutCaseAndSpaces(t *testing.T) {
	for _, same := range [][2]string{{"CZ1", "CZ1"}, {"CZ1", "cz1"}, {" CZ1 ", "CZ1"}, {"C Z1", "CZ1"}, {"C_Z1", "C Z1"}} {
		require.True(t, sameSerial(same[0], same[1]), "%q", same)
		require.True(t, sameSerial(same[1], same[0]), "%q", same)
	}
	for _, other := range [][2]string{{"", ""}, {" ", ""}, {"CZ1", ""}, {"CZ1", "CZ2"}, {"CZ1", "CZ11"}, {"CZ-1", "CZ1"}} {
		require.False(t, sameSerial(other[0], other[1]), "%q", other)
		require.False(t, sameSerial(other[1], other[0]), "%q", other)
	}
}
