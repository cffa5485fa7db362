// Package docs holds what operators read; its tests insist on what a requirement wants
// to be said there.
package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// says gives a page as one line of words.
func says(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return strings.Join(strings.Fields(string(text)), " ")
}

// The guarantees are documented, one by one, and so is what is none.
//
// S0.36
func TestTheGuaranteesAreDocumented(t *testing.T) {
	page := says(t, "openstack.md")
	for number, sentence := range map[string]string{
		"S0.1":  "after its instance is gone a device is offered to nobody until a clean is complete",
		"S0.3":  "**Burned** means `reserved` = `total` on the device's resource provider",
		"S0.5":  "it is burned after the claim",
		"S0.7":  "release does not lower",
		"S0.9":  "total 1, reserved 1, used 0, is exactly what may need cleaning",
		"S0.10": "it does not say that a device is dirty",
		"S0.17": "nor is the `reserved` that you set on them",
		"S0.18": "Nothing is cleaned, nothing burned",
		"S0.23": "no data goes from one device to another",
		"S0.24": "only devices marked `live_migratable` in Nova",
		"S0.25": "**2025.2 or later to move instances**",
		"S0.34": "one more write to Placement a claim",
		"S0.35": "Devices that nobody enrolled are never touched",
		"S0.37": "[sample listener](sample-listener.md)",
		"S0.38": "VFs would need a provider each with total 1, and a clean that is confined to the function",
	} {
		require.Contains(t, page, sentence, number)
	}
}

// What an erase is worth is said as what it is, and that keys outlast it.
//
// S2.61, S2.104
func TestWhatAnEraseIsWorthIsDocumented(t *testing.T) {
	page := says(t, "nvme.md")
	require.Contains(t, page, "every block that a host can address")
	require.Contains(t, page, "None is a claim against forensics")
	require.Contains(t, page, "encryption keys stay as they are")
}
