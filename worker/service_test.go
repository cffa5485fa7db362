package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The unit fits the worker: it is ready when it says so, may wait for its server without
// limit, and is not started again with settings that are wrong. systemd finds no mistake in it.
func TestTheUnitIsValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "deploy", "systemd", "burnish-worker.service"))
	require.NoError(t, err)
	for _, line := range []string{
		"Type=notify", "ExecStart=/usr/local/bin/burnish-worker", "TimeoutStartSec=infinity", "RestartPreventExitStatus=2",
		"StateDirectory=burnish", "StateDirectoryMode=0700", "KillMode=process", "EnvironmentFile=/etc/burnish/worker.env",
	} {
		require.Contains(t, string(text), "\n"+line+"\n")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: systemd did not check the unit")
	}
	// The program need not be installed where the test runs.
	unit := filepath.Join(t.TempDir(), "burnish-worker.service")
	here, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t,
		os.WriteFile(unit, []byte(strings.Replace(string(text), "/usr/local/bin/burnish-worker", here, 1)), 0o600))
	answer, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", unit).
		CombinedOutput()
	require.NoError(t, err, "%s", answer)
	require.NotContains(t, string(answer), "burnish-worker.service:", "%s", answer)
}
