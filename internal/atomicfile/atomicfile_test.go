package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteReplacesTheWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, Write(path, []byte("the first content")))
	require.NoError(t, Write(path, []byte("second")))
	requireOnly(t, path, "second")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

// Before it gets its name, the file is on stable storage; then the folder is, with the name.
// A power cut at any moment leaves the old file or the new one, and an acknowledged write
// is never lost.
//
// F2, F26
func TestAWriteIsOnStableStorageWhenItReturns(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "f")
	var synced []string
	failing := ""
	failed := errors.New("the disk failed")
	before := fsync
	t.Cleanup(func() { fsync = before })
	fsync = func(f *os.File) error {
		what := "folder"
		if f.Name() != folder {
			content, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			what = string(content)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			now = []byte("nothing")
		}
		synced = append(synced, what+" while the name is of "+string(now))
		if what == failing {
			return failed
		}
		return before(f)
	}
	require.NoError(t, Write(path, []byte("first")))
	require.NoError(t, Write(path, []byte("second")))
	require.Equal(t, []string{
		"first while the name is of nothing", "folder while the name is of first",
		"second while the name is of first", "folder while the name is of second",
	}, synced)

	failing = "third"
	require.ErrorIs(t, Write(path, []byte("third")), failed)
	requireOnly(t, path, "second")
	failing = "folder"
	require.ErrorIs(t, Write(path, []byte("fourth")), failed, "a name that a power cut may take back is not acknowledged")
	synced = nil
	require.ErrorIs(t, Remove(path), failed)
	require.Len(t, synced, 1)
}

func TestConcurrentWritersNeverMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	contents := map[string]bool{}
	var writers sync.WaitGroup
	for i := range 8 {
		content := make([]byte, 64<<10)
		for at := range content {
			content[at] = byte('a' + i)
		}
		contents[string(content)] = true
		writers.Go(func() {
			if err := Write(path, content); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, contents[string(got)])
	requireOnly(t, path, string(got))
}

func TestAFailedWriteLeavesTheOldFileAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, Write(path, []byte("old")))
	failed := errors.New("no space")
	require.ErrorIs(t, put(path, os.Rename, func(*os.File) error { return failed }), failed)
	require.ErrorIs(t, put(path, func(_, _ string) error { return failed }, func(*os.File) error { return nil }), failed)
	requireOnly(t, path, "old")
}

func TestCreateNeverReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, Create(path, func(f *os.File) error { return f.Truncate(2) }))
	require.ErrorIs(t, Create(path, func(f *os.File) error { return f.Truncate(5) }), fs.ErrExist)
	requireOnly(t, path, "\x00\x00")
}

func TestRemoveUnfinishedKeepsFinishedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, Write(path, []byte("kept")))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), TempPrefix+"1"), []byte("ke"), 0o600))
	require.NoError(t, RemoveUnfinished(filepath.Dir(path)))
	requireOnly(t, path, "kept")
	require.NoError(t, Remove(path))
	require.ErrorIs(t, Remove(path), fs.ErrNotExist)
}

func TestALockBelongsToTheOpenFileUntilEveryCopyIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		return f
	}
	holder, other := open(), open()
	require.NoError(t, TryLock(int(holder.Fd())))
	require.NoError(t, TryLock(int(holder.Fd())), "its own lock")
	require.ErrorIs(t, TryLock(int(other.Fd())), ErrLocked)
	got := make(chan error, 1)
	go func() { got <- Lock(int(other.Fd())) }()
	require.NoError(t, holder.Close())
	require.NoError(t, <-got)
	require.NoError(t, other.Close())
}

// requireOnly says that path has this content and its folder nothing else.
func requireOnly(t *testing.T, path, content string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, string(got))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
