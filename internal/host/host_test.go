package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// F1
func TestSecondWorkerIsRefused(t *testing.T) {
	dir, name := testDir(t), hostName(t)
	first := startChild(t, childCommand("worker", dir, name))
	require.Equal(t, "ready", first.line(t))
	pid := fmt.Sprintf("pid %d", first.Process.Pid)

	for what, c := range map[string]struct{ dir, name string }{
		"same directory, same host":           {dir, name},
		"same directory, another host":        {dir, name + "-b"},
		"another directory, same host":        {testDir(t), name},
		"another directory, host in capitals": {testDir(t), strings.ToUpper(name)},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := Open(c.dir, c.name, nil)
			require.ErrorContains(t, err, pid)
			require.ErrorContains(t, err, "stop it first")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	t.Run("lock file deleted", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(dir, lockName)))
		_, err := Open(dir, name, nil)
		require.ErrorContains(t, err, pid)
	})
	t.Run("another directory and host", func(t *testing.T) {
		h, err := Open(testDir(t), name+"-b", nil)
		require.NoError(t, err)
		require.NoError(t, h.Close())
	})

	first.kill9(t)
	h, err := Open(dir, name, nil)
	require.NoError(t, err, "a killed worker must not block the next one")
	require.NoError(t, h.Close())
}

// F1
func TestEveryRefusalNamesTheHolder(t *testing.T) {
	h := openHost(t)
	other := testDir(t)
	for range 50 {
		_, err := Open(other, h.Name(), nil)
		require.ErrorContains(t, err, fmt.Sprintf("pid %d is already the host worker of %s", os.Getpid(), h.Name()))
	}
}

// F1
func TestCloseLetsTheNextWorkerIn(t *testing.T) {
	dir, name := testDir(t), hostName(t)
	for range 3 {
		h, err := Open(dir, name, nil)
		require.NoError(t, err)
		_, err = Open(dir, name, nil)
		require.ErrorContains(t, err, fmt.Sprintf("pid %d", os.Getpid()))
		require.NoError(t, h.Close())
		require.NoError(t, h.Close(), "a second Close does nothing")
	}
}

// F1
func TestRefusedOpenLeavesNothingBehind(t *testing.T) {
	name, other := hostName(t), testDir(t)
	h, err := Open(testDir(t), name, nil)
	require.NoError(t, err)
	_, err = Open(other, name, nil)
	require.ErrorContains(t, err, fmt.Sprintf("pid %d", os.Getpid()))
	require.NoError(t, h.Close())

	h, err = Open(other, name, nil)
	require.NoError(t, err, "the refused worker kept a lock or a socket")
	require.NoError(t, h.Close())
}

func TestOpen_Directory(t *testing.T) {
	t.Run("made for its user alone", func(t *testing.T) {
		h := openHost(t)
		for _, path := range []string{h.Dir(), h.path(lockFolder), h.path(journalFolder), h.path(devicesFolder)} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), path)
		}
	})
	t.Run("through a link", func(t *testing.T) {
		dir := testDir(t)
		require.NoError(t, os.Mkdir(dir, 0o700))
		link := dir + "-link"
		require.NoError(t, os.Symlink(dir, link))
		h, err := Open(link, hostName(t), nil)
		require.NoError(t, err)
		require.Equal(t, dir, h.Dir())
		require.NoError(t, h.Close())
	})
	for _, folder := range []string{"", lockFolder, journalFolder, devicesFolder} {
		t.Run("writable by others/"+folder, func(t *testing.T) {
			dir := testDir(t)
			path := filepath.Join(dir, folder)
			require.NoError(t, os.MkdirAll(path, 0o700))
			for _, mode := range []os.FileMode{0o720, 0o702} {
				require.NoError(t, os.Chmod(path, mode))
				_, err := Open(dir, hostName(t), nil)
				require.ErrorContains(t, err, "chmod")
				require.ErrorContains(t, err, path)
			}
		})
	}
	t.Run("another user's", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give a directory away")
		}
		dir := testDir(t)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chown(dir, 12345, 12345))
		_, err := Open(dir, hostName(t), nil)
		require.ErrorContains(t, err, "uid 12345")
	})
	t.Run("a file", func(t *testing.T) {
		dir := testDir(t)
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		_, err := Open(dir, hostName(t), nil)
		require.ErrorContains(t, err, dir)
	})
	t.Run("no name", func(t *testing.T) {
		_, err := Open("", hostName(t), nil)
		require.ErrorContains(t, err, "BURNISH_STATE_DIR")
		_, err = Open(testDir(t), "", nil)
		require.ErrorContains(t, err, "host name")
	})
	t.Run("a host name of 253 bytes", func(t *testing.T) {
		long := strings.Repeat("a", 230) + hostName(t)
		h, err := Open(testDir(t), long, nil)
		require.NoError(t, err)
		_, err = Open(testDir(t), long, nil)
		require.ErrorContains(t, err, "already the host worker")
		other, err := Open(testDir(t), long+"b", nil)
		require.NoError(t, err)
		require.NoError(t, other.Close())
		require.NoError(t, h.Close())
	})
}
