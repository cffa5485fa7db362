package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
)

// started gives what a worker with these variables logs at its start.
func started(t *testing.T, variables map[string]string) (lines []testlog.Line, text string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "BURNISH_") {
			t.Setenv(name, "") // which counts as not set
		}
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
	settings, err := config.LoadWorker()
	require.NoError(t, err)
	var log testlog.Log
	logSettings(logs.New(&log, logs.Options{Format: logs.JSON}), settings)
	lines, err = testlog.Trail(log.String())
	require.NoError(t, err)
	return lines, log.String()
}

// What a worker starts with is in its log: each setting, host.yaml, and variables that are
// misspelled. No password is.
func TestTheEffectiveSettings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "host.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
allow:
  paths: ["/srv/*.img"]
  device_spec: [{vendor_id: "8086", address: "0000:0a:00.*"}]
  nodes: [ABC]
  fake: true
secrets: /etc/burnish/secrets.yaml
`), 0o600))
	lines, text := started(t, map[string]string{
		"BURNISH_ROLE": "host", "BURNISH_HOST": "h1", "BURNISH_STATE_DIR": dir, "BURNISH_HOST_FILE": file, "BURNISH_MAX_CLEANS_PER_HOST": "7",
		"BURNISH_AMQP_URL": "amqp://nova:hunter2@rabbit:5672/v", "BURNISH_NOVA_HOSTS": "cmp2=n2,cmp1=n1", "BURNISH_HOSTFILE": "/x", "BURNISH_API_TOKEN": "hunter3",
	})
	require.Len(t, lines, 3)
	require.Equal(t, []string{logs.UnknownSetting, logs.Settings, logs.Rules},
		[]string{lines[0].Text("msg"), lines[1].Text("msg"), lines[2].Text("msg")})
	require.Equal(t, []string{"BURNISH_HOSTFILE", "BURNISH_HOST_FILE"},
		[]string{lines[0].Text(logs.Variable), lines[0].Text(logs.Nearest)})
	for variable, value := range map[string]string{
		"BURNISH_ROLE": "host", "BURNISH_MAX_CLEANS_PER_HOST": "7", "BURNISH_HOST_SILENT_AFTER": "5m0s", "BURNISH_NOVA_HOSTS": "cmp1=n1,cmp2=n2",
		"BURNISH_VERIFY": "full", "BURNISH_DRIVERS": "block,fake", "BURNISH_LOG_LEVEL": "info",
	} {
		require.Equal(t, value, lines[1].Text(variable), variable)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Worker]()) {
		if tag, ok := f.Tag.Lookup("env"); ok {
			require.Contains(t, lines[1], "BURNISH_"+strings.Split(tag, ",")[0])
		}
	}
	require.Contains(t, lines[1].Text("BURNISH_AMQP_URL"), "rabbit")
	require.NotContains(t, text, "hunter")
	require.Equal(t, []string{file, "[block fake]", "[/srv/*.img]", "[ABC]", "true", "/etc/burnish/secrets.yaml", "[]"},
		[]string{
			lines[2].Text(logs.File), lines[2].Text(logs.Drivers), lines[2].Text(logs.Paths), lines[2].Text(logs.Nodes),
			lines[2].Text(logs.Fake),
			lines[2].Text(logs.Secrets), lines[2].Text(logs.Scripts)})
	require.Contains(t, lines[2].Text(logs.Specs), `"vendor_id":"8086"`)

	lines, _ = started(t, map[string]string{"BURNISH_ROLE": "control", "BURNISH_STATE_DIR": dir})
	require.Len(t, lines, 1, "a control worker has no host.yaml")
}

// The level of the log is that of its settings.
func TestTheLevelOfTheLog(t *testing.T) {
	for name, tt := range map[string]struct {
		settings config.Logs
		level    slog.Level
	}{
		"default": {config.Logs{}, slog.LevelInfo},
		"warn":    {config.Logs{LogLevel: "warn"}, slog.LevelWarn},
		"debug":   {config.Logs{LogLevel: "debug"}, slog.LevelDebug},
		"DEBUG=1": {config.Logs{LogLevel: "error", Debug: true}, slog.LevelDebug},
	} {
		require.Equal(t, tt.level, tt.settings.Least(), name)
	}
}
