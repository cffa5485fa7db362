package udev

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const userData = "../../../deploy/guest/user-data.yaml"

// cloudInit is the path of cloud-init, as a guest's image has it.
func cloudInit(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Skip("cloud-init is missing: run deploy/setup-test.sh")
	}
	return program
}

// S1.38
func TestCloudInitTakesTheHooksUserData(t *testing.T) {
	t.Parallel()
	program := cloudInit(t)
	out, err := exec.CommandContext(t.Context(), program, "schema", "--config-file", userData).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Valid cloud-config")

	wrong := filepath.Join(t.TempDir(), "user-data.yaml")
	require.NoError(t, os.WriteFile(wrong, []byte("#cloud-config\nbootcmd: 7\n"), 0o600))
	out, err = exec.CommandContext(t.Context(), program, "schema", "--config-file", wrong).CombinedOutput()
	require.Error(t, err, "%s", out)
}

// atBoot has cloud-init run the user data's bootcmd where $1 holds nothing but a hook, which prints
// its arguments and ends with $3.
const atBoot = `set -e
mount -t tmpfs tmpfs "$(dirname "$1")"
for dir in /var/lib /var/log /run; do mount -t tmpfs tmpfs $dir; done
printf '#!/bin/sh\necho "the hook ran: $*"\nexit %s\n' "$3" >"$1"
chmod 0755 "$1"
exec cloud-init --file "$2" single --name bootcmd --frequency always`

// At each boot cloud-init runs the hook where the documentation installs it; without a document
// the guest starts all the same, and says so.
//
// S1.38
func TestCloudInitRunsTheHookThatIsInstalled(t *testing.T) {
	t.Parallel()
	cloudInit(t)
	if os.Getuid() != 0 {
		t.Skip("a mount namespace with a hook of its own needs root")
	}
	page, err := os.ReadFile("../../../docs/role-tagging.md")
	require.NoError(t, err)
	installed := regexp.MustCompile("burnish-udev-tags\\) as `(/[^`]+)`").FindSubmatch(page)
	require.NotNil(t, installed, "the page says where the hook is installed")
	for exit, want := range map[string]string{
		"0": `running 'single'[^\n]*\nthe hook ran: \n$`, "1": `the hook ran: \nburnish-udev-tags failed: devices have no tags\n$`,
	} {
		out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", atBoot, "sh", string(installed[1]),
			userData, exit).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Regexp(t, want, string(out))
	}
}
