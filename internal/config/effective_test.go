package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
)

// A misspelled variable is named with the one that was probably meant, and with none if it is
// like no other.
func TestTheNearestSetting(t *testing.T) {
	for unknown, near := range map[string]string{
		"BURNISH_HOSTFILE":          "BURNISH_HOST_FILE",
		"BURNISH_DRIVER":            "BURNISH_DRIVERS",
		"BURNISH_STATEDIR":          "BURNISH_STATE_DIR",
		"BURNISH_MAX_CLEANS":        "BURNISH_MAX_CLEANS_PER_HOST",
		"BURNISH_LOGLEVEL":          "BURNISH_LOG_LEVEL",
		"BURNISH_AMPQ_URL":          "BURNISH_AMQP_URL",
		"BURNISH_API_TOKN":          "BURNISH_API_TOKEN",
		"BURNISH_SILENT_AFTER":      "BURNISH_HOST_SILENT_AFTER",
		"BURNISH_EXTRA_HOP_COUNTER": "",
		"BURNISH_X":                 "",
	} {
		require.Equal(t, near, config.Nearest(unknown), unknown)
	}
}
