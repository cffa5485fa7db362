package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
)

// Wrong settings end a worker of any role that uses them with exit code 2 and one line with the
// variable's name, before it contacts a server (there is none) or polls.
//
// S0.12
func TestWrongSettingsEndEveryRoleFirst(t *testing.T) {
	tokens := writePrivate(t, "tokens.yaml", "- {user: a, roles: admin, token: t0ken}\n")
	open := writePrivate(t, "open", "- {user: a, roles: admin, token: t0ken-of-32-bytes-at-least}\n")
	require.NoError(t, os.Chmod(open, 0o644))
	policy := writePrivate(t, "policy.yaml", "cyborg:device:cleen: '@'\n")
	const tcp = "BURNISH_API_ADDRESS=127.0.0.1:18080"
	for name, tt := range map[string]struct {
		environment []string
		says        string
		everywhere  bool // also on a host; otherwise that gets as far as the settings of its server
	}{
		"VERIFY":                        {[]string{"BURNISH_VERIFY=half"}, `BURNISH_VERIFY: "half" is neither full nor sample:N`, true},
		"DRIVERS":                       {[]string{"BURNISH_DRIVERS=block,typo"}, `BURNISH_DRIVERS: there is no driver "typo"`, true},
		"INVENTORY":                     {[]string{"BURNISH_INVENTORY=typo"}, `BURNISH_INVENTORY: "typo" is not one of file, placement`, true},
		"no TLS":                        {[]string{"BURNISH_API_ADDRESS=:18080", "BURNISH_API_TOKENS=" + tokens}, "set BURNISH_API_TLS_CERT and _KEY", true},
		"no oneview.yaml":               {[]string{"BURNISH_ONEVIEW=/nowhere/oneview.yaml"}, "BURNISH_ONEVIEW: open /nowhere", false},
		"a key that others may read":    {[]string{"BURNISH_API_KEY=" + open}, "BURNISH_API_KEY: " + open + " may be read by others", false},
		"keys of hosts without a key":   {[]string{"BURNISH_HOST_KEYS=/nowhere/host_keys.yaml"}, "BURNISH_HOST_KEYS: set BURNISH_API_KEY, too", false},
		"a secret that others may read": {[]string{"BURNISH_METADATA_ADDRESS=127.0.0.1:18775", "BURNISH_METADATA_SECRET_FILE=" + open}, "BURNISH_METADATA_SECRET_FILE: " + open + " may be read by others", false},
		"a broker without Placement":    {[]string{"BURNISH_AMQP_URL=amqp://h1"}, "set BURNISH_INVENTORY=placement", false},
		"nothing to authenticate by":    {[]string{tcp}, "BURNISH_API_ADDRESS: over TCP callers need tokens", false},
		"Placement without Keystone":    {[]string{tcp, "OS_AUTH_TYPE=none", "OS_ENDPOINT=http://127.0.0.1:1", "OS_AUTH_URL=http://127.0.0.1:1"}, "BURNISH_API_ADDRESS: over TCP callers need tokens", false},
		"half of the credentials":       {[]string{tcp, "OS_AUTH_URL=http://127.0.0.1:1"}, "BURNISH_API_ADDRESS: OS_PASSWORD is not set", false},
		"no token file":                 {[]string{tcp, "BURNISH_API_TOKENS=/nowhere/tokens.yaml"}, "BURNISH_API_TOKENS: open /nowhere", false},
		"a token file for everyone":     {[]string{tcp, "BURNISH_API_TOKENS=" + open}, "may be read by others than its owner", false},
		"a wrong policy":                {[]string{tcp, "BURNISH_API_TOKENS=" + tokens, "BURNISH_API_POLICY=" + policy}, `there is no rule "cyborg:device:cleen"`, false},
		"no certificate":                {[]string{"BURNISH_API_ADDRESS=:18080", "BURNISH_API_TOKENS=" + tokens, "BURNISH_API_TLS_CERT=/nowhere/c", "BURNISH_API_TLS_KEY=/nowhere/k"}, "BURNISH_API_TLS_CERT: stat /nowhere/k", false},
	} {
		for _, role := range []string{"control", "host", "all"} {
			t.Run(name+" "+role, func(t *testing.T) {
				// Settings of a server that end the worker, so that it does not wait for one.
				t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", "/no/such.pem")
				t.Setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", "/no/such.key")
				t.Setenv("BURNISH_STATE_DIR", t.TempDir())
				t.Setenv("BURNISH_ROLE", role)
				for _, each := range tt.environment {
					variable, value, _ := strings.Cut(each, "=")
					t.Setenv(variable, value)
				}
				err := run(nil)
				if role == "host" && !tt.everywhere {
					require.ErrorContains(t, err, "/no/such.pem")
					return
				}
				require.ErrorContains(t, err, tt.says)
				require.ErrorAs(t, err, new(usageError))
				require.NotContains(t, err.Error(), "\n")
				require.NotContains(t, err.Error(), "t0ken")
			})
		}
	}
}

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
		"BURNISH_ROLE": "host", "BURNISH_HOST": "h1", "BURNISH_STATE_DIR": dir, "BURNISH_HOST_FILE": file,
		"BURNISH_MAX_CLEANS_PER_HOST": "7",
		"BURNISH_AMQP_URL":            "amqp://nova:hunter2@rabbit:5672/v", "BURNISH_NOVA_HOSTS": "cmp2=n2,cmp1=n1",
		"BURNISH_HOSTFILE": "/x", "BURNISH_API_TOKEN": "hunter3",
	})
	require.Len(t, lines, 3)
	require.Equal(t, []string{logs.UnknownSetting, logs.Settings, logs.Rules},
		[]string{lines[0].Text("msg"), lines[1].Text("msg"), lines[2].Text("msg")})
	require.Equal(t, []string{"BURNISH_HOSTFILE", "BURNISH_HOST_FILE"},
		[]string{lines[0].Text(logs.Variable), lines[0].Text(logs.Nearest)})
	for variable, value := range map[string]string{
		"BURNISH_ROLE": "host", "BURNISH_MAX_CLEANS_PER_HOST": "7", "BURNISH_HOST_SILENT_AFTER": "5m0s",
		"BURNISH_NOVA_HOSTS": "cmp1=n1,cmp2=n2",
		"BURNISH_VERIFY":     "full", "BURNISH_DRIVERS": "block,fake", "BURNISH_LOG_LEVEL": "info",
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

// The helper takes no arguments, so that its caller cannot influence it.
func TestTheHelperTakesNoArguments(t *testing.T) {
	err := run([]string{privileged.Subcommand, "--host-file=/tmp/mine"})
	require.EqualError(t, err, "nvme-helper takes no arguments")
	require.ErrorAs(t, err, new(usageError))
}

// The units fit the worker: it is ready when it says so, may wait for its server without
// limit, and is not started again with settings that are wrong. systemd finds no mistake in them.
func TestTheUnitsAreValid(t *testing.T) {
	for name, role := range map[string]string{"burnish-control": "control", "burnish-host": "host"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "deploy", "systemd", name+".service"))
			require.NoError(t, err)
			for _, line := range []string{
				"Type=notify", "ExecStart=/usr/bin/burnish-worker", "TimeoutStartSec=infinity", "RestartPreventExitStatus=2",
				"StateDirectoryMode=0700", "EnvironmentFile=/etc/burnish/" + role + ".env",
			} {
				require.Contains(t, string(text), "\n"+line+"\n")
			}
			analyze, err := exec.LookPath("systemd-analyze")
			if err != nil {
				t.Skip("systemd-analyze is not installed: systemd did not check the unit")
			}
			// The program need not be installed where the test runs.
			unit := filepath.Join(t.TempDir(), name+".service")
			here, err := os.Executable()
			require.NoError(t, err)
			require.NoError(t,
				os.WriteFile(unit, []byte(strings.Replace(string(text), "/usr/bin/burnish-worker", here, 1)), 0o600))
			answer, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", unit).
				CombinedOutput()
			require.NoError(t, err, "%s", answer)
			require.NotContains(t, string(answer), name+".service:", "%s", answer)
		})
	}
}
