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
