package workflows_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"

	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
)

// A worker that replays a device's history, because it starts or has dropped the device from
// its memory, says nothing of what happened again.
func TestReplayLogsNothing(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(histories, "*", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, loud := range []bool{false, true} {
		var written testlog.Log
		to := log.NewStructuredLogger(logs.New(&written, logs.Options{Format: logs.JSON, Level: slog.LevelDebug}))
		replay := newReplayerWith(t, replayPolicies()["usual"], to, loud)
		for _, file := range files {
			require.NoError(t, replay(file), file)
		}
		lines, err := testlog.Trail(written.String())
		require.NoError(t, err)
		require.Equal(t, loud, len(lines) > 0, "the histories have what would be said")
	}
}
