package udev

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// S1.38
func TestCloudInitTakesTheHooksUserData(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Skip("cloud-init is missing: run deploy/setup-test.sh")
	}
	const userData = "../../../deploy/guest/user-data.yaml"
	out, err := exec.CommandContext(t.Context(), program, "schema", "--config-file", userData).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Valid cloud-config")

	wrong := filepath.Join(t.TempDir(), "user-data.yaml")
	require.NoError(t, os.WriteFile(wrong, []byte("#cloud-config\nbootcmd: 7\n"), 0o600))
	out, err = exec.CommandContext(t.Context(), program, "schema", "--config-file", wrong).CombinedOutput()
	require.Error(t, err, "%s", out)
}
