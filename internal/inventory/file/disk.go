package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
	"burnish/internal/inventory"
)

const diskRemedy = "see that the inventory's directory is there, writable and not full; Burnish tries again by itself"

func (s *Store) lockPath() string { return filepath.Join(s.dir, ".lock") }

// locked runs fn while nobody else works in the directory, neither another goroutine
// nor another process. Reads take the lock too: what is renamed and not yet synced
// may be gone after a power failure, and nobody must have acted upon it.
func (s *Store) locked(ctx context.Context, fn func() error) error {
	release, err := s.lock(ctx)
	if err != nil {
		return inventory.Unavailable("lock the inventory", diskRemedy, err)
	}
	defer release()
	return fn()
}

// lock waits for the directory until ctx ends. A blocked flock cannot be called off,
// so a caller whose context ends leaves it to a goroutine, which lets go as soon as
// it has the lock and keeps the Store's turn until then: however many callers give
// up while another process holds the lock, one thread waits for it.
func (s *Store) lock(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Never made here, only by New: a directory without its lock file is not ours,
	// but say the mount point of a file system that is gone, and every provider
	// would seem not to exist.
	f, err := os.OpenFile(s.lockPath(), os.O_RDWR, 0)
	if err != nil {
		<-s.turn
		return nil, err
	}
	release := func() {
		_ = f.Close() // frees the lock; nothing was written through f
		<-s.turn
	}
	got := make(chan error, 1)
	go func() { got <- atomicfile.Lock(int(f.Fd())) }()
	select {
	case err := <-got:
		if err != nil {
			release()
			return nil, err
		}
		return release, nil
	case <-ctx.Done():
		go func() {
			<-got //nolint:errcheck // whatever it says, the file is closed next
			release()
		}()
		return nil, ctx.Err()
	}
}

// replace writes the file whole or leaves the old one as it is, and returns once
// the new one is durable.
func (s *Store) replace(path string, data []byte) error {
	if err := atomicfile.Write(path, data); err != nil {
		return inventory.Unavailable("inventory", diskRemedy, err)
	}
	return nil
}

// remove removes the file, durably.
func (s *Store) remove(path string) error {
	if err := atomicfile.Remove(path); err != nil {
		return inventory.Unavailable("inventory", diskRemedy, err)
	}
	return nil
}

// readFile says whether there is a file, and reads it. One that is there and cannot
// be read is never taken for one that is not: inventory_invalid, with the remedy.
func readFile(path, remedy string) (data []byte, found bool, err error) {
	data, err = os.ReadFile(path)
	switch {
	case err == nil:
		return data, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case isTransient(err):
		return nil, false, inventory.Unavailable("inventory", diskRemedy, err)
	default:
		return nil, false, inventory.Invalid(err.Error(), remedy)
	}
}

// passes says whether a read failed for want of something that comes back by itself.
func isTransient(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ESTALE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
