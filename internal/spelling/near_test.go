package spelling

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNear(t *testing.T) {
	known := []string{"verify_failed", "step_failed", "io_error", "h1", "h2", "compute-10"}
	for word, want := range map[string][]string{
		"verfy_failed": {"verify_failed"}, "VERIFY_FAILED": {"verify_failed"}, "verify": {"verify_failed"},
		"io_eror": {"io_error"},
		"h3":      {"h1", "h2"}, "1h": {"h1"}, "h9x": nil, "zzzz": nil, "": nil, "compute-1": {"compute-10"},
		"compute-01": {"compute-10"},
	} {
		require.Equal(t, want, Near(word, known), word)
	}
}
