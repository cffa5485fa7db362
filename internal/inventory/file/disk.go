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

const diskRemedy = "check that the inventory's directory exists, is writable and not full; Burnish tries again"

func (s *Store) lockPath() string { return filepath.Join(s.dir, ".lock") }

// locked runs fn while no other goroutine or process works in the directory. Reads take
// the lock too: a file that is renamed and not yet synced may be lost in a power
// failure, so no caller may act on it.
func (s *Store) locked(ctx context.Context, fn func() error) error {
	release, err := s.lock(ctx)
	if err != nil {
		return inventory.Unavailable("lock the inventory", diskRemedy, err)
	}
	defer release()
	return fn()
}

// lock waits for the directory until ctx ends. A blocked flock cannot be canceled, so a
// caller whose context ends leaves it to a goroutine, which releases the lock as soon as
// it gets it and keeps the Store's turn until then: one thread waits for the lock,
// however many callers give up.
func (s *Store) lock(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Only New creates the lock file. A directory without it may be the mount point of a
	// file system that is not mounted, where no provider would seem to exist.
	f, err := os.OpenFile(s.lockPath(), os.O_RDWR, 0)
	if err != nil {
		<-s.turn
		return nil, err
	}
	release := func() {
		_ = f.Close() // releases the lock; nothing was written through f
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
			<-got //nolint:errcheck // the file is closed next in any case
			release()
		}()
		return nil, ctx.Err()
	}
}

// replace writes the whole file, durably, or leaves the old one unchanged.
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

// readFile reads a file; found is false where there is none. A file that cannot be read
// never counts as missing: the fault is inventory_invalid, with the remedy.
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

// isTransient says whether a read failed for a reason that goes away by itself.
func isTransient(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ESTALE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
