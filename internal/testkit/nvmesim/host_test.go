package nvmesim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/testkit/nvmesim"
)

// small is a drive of 1 MiB.
func small(serial string) nvmesim.Controller {
	drive := nvmesim.Drive(serial)
	drive.Capacity = 1 << 20
	drive.Namespaces[0].Blocks = 1 << 20 / 512
	return drive
}

// The next host removes what a killed test process left.
func TestLeftoversAreRemoved(t *testing.T) {
	const variable = "BURNISH_NVMETEST_DIE"
	if os.Getenv(variable) != "" {
		s := nvmesim.New(t, small("S1"))
		require.NoError(t, os.WriteFile(os.Getenv(variable), []byte(s.Dir), 0o600))
		require.NoError(t, unix.Kill(os.Getpid(), unix.SIGKILL))
	}
	t.Setenv("TMPDIR", t.TempDir()) // another process's new host would remove them, too
	nvmesim.New(t, small("S1"))     // it skips the test where emulation is unavailable
	name := filepath.Join(t.TempDir(), "dir")
	c := exec.Command(os.Args[0], "-test.run=^TestLeftoversAreRemoved$")
	c.Env = append(os.Environ(), variable+"="+name)
	require.ErrorContains(t, c.Run(), "killed")
	dir, err := os.ReadFile(name)
	require.NoError(t, err)
	s := nvmesim.New(t, small("S1"))
	require.NoDirExists(t, string(dir))
	require.DirExists(t, s.Dir)
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // Another test's file may be removed meanwhile.
		require.NotContains(t, string(text), string(dir))
	}
}
