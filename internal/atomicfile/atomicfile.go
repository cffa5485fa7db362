// Package atomicfile replaces files so that a crash leaves either the old or the
// new content, and locks open files. Every durable file of Burnish is written by it.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// TempPrefix begins the name of a file that is not written completely. It holds a
// character that Burnish escapes in the names of its own files.
const TempPrefix = ".tmp#"

// fsync puts an open file or folder on stable storage; tests replace it.
var fsync = (*os.File).Sync

// Write makes content the whole content of path, with mode 0600. When it returns nil,
// the file is on stable storage. After an error the old file is unchanged, or, if
// only the folder could not be flushed, the new one is already in its place. Two
// writers of one path never mix their contents.
func Write(path string, content []byte) error {
	return put(path, os.Rename, func(file *os.File) error {
		_, err := file.Write(content)
		return err
	})
}

// Create makes a file that does not exist yet, as durably as Write: it gets its name
// once fill has written it. The error is fs.ErrExist where path exists.
func Create(path string, fill func(*os.File) error) error {
	return put(path, renameNew, fill)
}

func renameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

func put(path string, rename func(from, to string) error, fill func(*os.File) error) (err error) {
	folder := filepath.Dir(path)
	temp, err := os.CreateTemp(folder, TempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// On a full disk an unfinished file is what fills it.
			err = errors.Join(err, removeIfExists(temp.Name()))
		}
	}()
	if err := fill(temp); err != nil {
		return errors.Join(err, temp.Close())
	}
	// Before the rename: after a power cut, a name whose bytes are not yet on disk is
	// an empty file.
	if err := errors.Join(fsync(temp), temp.Close()); err != nil {
		return err
	}
	if err := rename(temp.Name(), path); err != nil {
		return err
	}
	return SyncFolder(folder)
}

// Remove removes a file, durably.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in folder durable.
func SyncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(fsync(dir), dir.Close())
}

// RemoveUnfinished removes what crashed writers left in folder. The caller makes sure
// that no other process writes there.
func RemoveUnfinished(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), TempPrefix) {
			if err := removeIfExists(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeIfExists(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
