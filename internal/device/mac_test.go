package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMACsHaveOneSpelling(t *testing.T) {
	for given, want := range map[string]string{
		"52:54:00:ab:cd:ef": "52:54:00:ab:cd:ef",
		"52:54:00:AB:CD:EF": "52:54:00:ab:cd:ef",
		"52-54-00-AB-cd-ef": "52:54:00:ab:cd:ef",
		"01:22:22:42:22:21": "01:22:22:42:22:21", // the specification's, a multicast one
	} {
		have, err := CanonicalMAC(given)
		require.NoError(t, err)
		require.Equal(t, want, have)
	}
	for _, given := range []string{"", "52:54:00:ab:cd", "52:54:00:ab:cd:ef:00", "525400abcdef", "52:54:00:ab:cd:eg",
		" 52:54:00:ab:cd:ef",
		"52:54:00:ab:cd:ef\n", "*", "52:54:00:ab:cd:e?", "[5]2:54:00:ab:cd:ef"} {
		_, err := CanonicalMAC(given)
		require.Error(t, err, "%q", given)
		require.NotContains(t, err.Error(), "\n")
	}
}
