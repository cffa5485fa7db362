package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
)

// wal is SQLite's write-ahead log: one file, in which all writes of a database stand in their order, and of which a
// power loss can take only the end. So only a write that somebody is answered for has to wait for the disk: those
// before it are there with it. SQLite itself (synchronous=2) waits with every write, and lets no other one begin
// meanwhile: 61 times in a turnover by the command line, of which 25 are left.
type wal struct {
	path string
	// fatal ends the process: after a failed sync nobody knows what of the log is on the disk, and what is written
	// behind a gap in it is lost with it.
	fatal     func(error)
	fdatasync func(fd int) error

	written atomic.Uint64 // writes that asked for the disk
	mu      sync.Mutex    // held during a sync
	synced  uint64        // how many of them are there
	named   bool          // so is the file's entry in its directory
}

// sync returns nil when everything that was written before its call is on the disk. Writes that wait while another
// one is synced go together.
func (w *wal) sync() error {
	ours := w.written.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced >= ours {
		return nil
	}
	upTo := w.written.Load()
	err := syncFile(w.path, w.fdatasync)
	if err == nil && !w.named {
		err = syncFile(filepath.Dir(w.path), syscall.Fsync)
	}
	if err != nil {
		w.fatal(err)
		return err
	}
	w.synced, w.named = upTo, true
	return nil
}

// syncFile waits until what anybody has written to a file is on the disk.
func syncFile(path string, how func(fd int) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := how(int(file.Fd())); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", path, err), file.Close())
	}
	return file.Close()
}
