package configdrive

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWriteReplacesPlainFilesAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.iso")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
	require.NoError(t, Write(path, []byte("new")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(path, link))
	require.ErrorContains(t, Write(link, []byte("other")), "is not a plain file")
	require.ErrorContains(t, Write(dir, []byte("other")), "is not a plain file")
	require.ErrorIs(t, Write(filepath.Join(dir, "none", "x"), nil), os.ErrNotExist)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	require.Equal(t, []string{"config.iso", "link"}, namesIn(t, dir))
}

// A full disk keeps the old image, and nothing that is half written.
func TestAFullDiskKeepsTheOldImage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system that is small enough to fill")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	path := filepath.Join(dir, "config.iso")
	require.NoError(t, Write(path, []byte("old")))
	image, err := Image([]byte(someDocument), someTime)
	require.NoError(t, err)
	require.ErrorIs(t, Write(path, bytes.Repeat(image, 2)), unix.ENOSPC)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	require.Equal(t, []string{"config.iso"}, namesIn(t, dir))
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
