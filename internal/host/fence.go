package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
)

const (
	waitInterval  = time.Second            // how often a waiter says that it waits
	retryInterval = 100 * time.Millisecond // how often it asks for the file lock
)

// someStep stands for a holder that has not described itself yet.
const unnamedStep = "a step"

// Fence is the right to touch one device on this host (SAFETY F1): one holder in this
// process, and one open file on the machine that holds the lock. Close it when the
// last I/O has returned, not before.
type Fence struct {
	key     string
	path    string
	release func()

	mu   sync.Mutex
	file *os.File // nil after Close
	lock *keyLock
}

// Fence waits until the caller alone may touch the device of key, its serial or UUID.
// Waiters of this process are served in the order of asking. While it waits it calls
// waiting at once and then every second with who holds the fence, for the caller to
// heartbeat; it returns when ctx ends, with the cause, and never works beside the
// holder. A state directory that fails is a transient fault state_dir_error.
func (h *Host) Fence(ctx context.Context, key string, waiting func(holder string)) (*Fence, error) {
	name, err := fileName(key)
	if err != nil {
		return nil, err
	}
	if waiting == nil {
		waiting = func(string) {}
	}
	path := h.path(lockFolder, name)
	turn, err := h.fences.lock(ctx, name, waiting)
	if err != nil {
		return nil, fmt.Errorf("wait for the fence of %s: %w", key, err)
	}
	f := &Fence{key: key, path: path, lock: turn, release: func() { h.fences.unlock(name) }}
	f.file, err = h.lockFence(ctx, f, waiting)
	return f.finish(err)
}

// TryFence is Fence without waiting: a fence that is held is a transient fault
// fence_held that names the holder.
func (h *Host) TryFence(key string) (*Fence, error) {
	name, err := fileName(key)
	if err != nil {
		return nil, err
	}
	path := h.path(lockFolder, name)
	turn, holder := h.fences.tryLock(name)
	if turn == nil {
		return nil, heldFault(key, holder)
	}
	f := &Fence{key: key, path: path, lock: turn, release: func() { h.fences.unlock(name) }}
	f.file, err = lockFile(path)
	var busy *lockedError
	switch {
	case errors.As(err, &busy):
		err = heldFault(key, busy.holder)
	case err != nil:
		err = stateDirFault(fmt.Sprintf("could not lock %s: %v", path, err), h.dir)
	}
	return f.finish(err)
}

// begin signs the lock file, or gives everything back where err says that it was not
// locked.
func (f *Fence) finish(err error) (*Fence, error) {
	if err == nil {
		err = writeHolder(f.file, unnamedStep)
	}
	if err != nil {
		if f.file != nil {
			err = errors.Join(err, f.file.Close())
		}
		f.release()
		return nil, err
	}
	return f, nil
}

func heldFault(key, holder string) *device.Fault {
	return &device.Fault{
		Class: device.Transient, Code: device.CodeFenceHeld,
		Message: fmt.Sprintf("device %s is in use by %s", key, holder),
		Remedy:  "wait until it ends; it is tried again",
	}
}

// lockFence asks for the file lock without blocking, again and again: a thread that
// sleeps in flock could not be called back when ctx ends.
func (h *Host) lockFence(ctx context.Context, f *Fence, waiting func(string)) (*os.File, error) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	var told time.Time
	for {
		// First, so that an attempt which is over never gets a free lock.
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for the fence of %s: %w", f.key, context.Cause(ctx))
		}
		file, err := lockFile(f.path)
		if err == nil {
			return file, nil
		}
		var busy *lockedError
		if !errors.As(err, &busy) {
			return nil, stateDirFault(fmt.Sprintf("could not lock %s: %v", f.path, err), h.dir)
		}
		if now := time.Now(); told.IsZero() || now.Sub(told) >= waitInterval {
			told = now
			waiting(busy.holder)
		}
		retry.Reset(retryInterval)
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}

// lockedError says who holds the lock of a file, as far as the file tells.
type lockedError struct{ holder string }

func (e *lockedError) Error() string { return "held by " + e.holder }

// lockFile opens path and locks it. A file that lost its name between the two is
// given up: its lock would keep nobody out.
func lockFile(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := atomicfile.TryLock(int(file.Fd())); err != nil {
			if errors.Is(err, atomicfile.ErrLocked) {
				err = &lockedError{holder: readHolder(file)}
			}
			return nil, errors.Join(err, file.Close())
		}
		same, err := stillAt(file, path)
		if err == nil && same {
			return file, nil
		}
		if closed := file.Close(); err != nil || closed != nil {
			return nil, errors.Join(err, closed)
		}
	}
}

// stillAt says whether path still names the open file.
func stillAt(file *os.File, path string) (bool, error) {
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, named), nil
}

// Held says whether the fence still keeps everybody else out; ask before each chunk
// and each exec. Its error, a fault state_dir_error, means: write nothing more. The lock
// file may have been deleted, or the lock been freed by a child that inherited it.
func (f *Fence) Held() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return fmt.Errorf("the fence of %s is closed", f.key)
	}
	how, err := f.lossReason()
	if err != nil {
		return stateDirFault(fmt.Sprintf("the fence of %s cannot be checked: %v", f.key, err), filepath.Dir(f.path))
	}
	if how != "" {
		return &device.Fault{
			Class: device.Transient, Code: device.CodeStateDirError,
			Message: fmt.Sprintf("the fence of %s was lost: %s", f.key, how),
			Remedy:  "leave " + f.path + " alone; the step is tried again under a new lock",
		}
	}
	return nil
}

// loss says how the fence was lost, "" if it was not.
func (f *Fence) lossReason() (how string, err error) {
	same, err := stillAt(f.file, f.path)
	if err != nil {
		return "", err
	}
	if !same {
		return "the lock file was removed or replaced", nil
	}
	// Another open file of the same name gets the lock only if nobody has it. This
	// comes before the next question, which would take a free lock anew.
	probe, err := os.OpenFile(f.path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	locked := atomicfile.TryLock(int(probe.Fd()))
	if err := probe.Close(); err != nil {
		return "", err
	}
	if locked == nil {
		return "the lock was freed", nil
	}
	if !errors.Is(locked, atomicfile.ErrLocked) {
		return "", locked
	}
	// Nothing changes for the one who holds it; for anybody else it is busy.
	if err := atomicfile.TryLock(int(f.file.Fd())); err != nil {
		return "another holds the lock", nil
	}
	return "", nil
}

// Describe says what the holder does, for those who wait. It is information only.
func (f *Fence) Describe(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return fmt.Errorf("the fence of %s is closed", f.key)
	}
	f.lock.describe(what)
	return writeHolder(f.file, what)
}

// File is the locked file, for the ExtraFiles of a child that works on the device: it
// then holds the fence as well, until it ends. Do not close it, nor use it after
// Close; it is nil then.
func (f *Fence) File() *os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file
}

// Close gives the fence back. A child that inherited File keeps it for as long as the
// child lives. A second Close does nothing.
func (f *Fence) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	// By close alone: LOCK_UN would free the lock of the children too, for it is one
	// lock of one open file (measured).
	err := f.file.Close()
	f.file = nil
	f.release()
	return err
}

// informationSize bounds what is read of a lock file.
const informationSize = 256

// writeHolder writes into a lock file who holds it.
func writeHolder(lock *os.File, what string) error {
	if err := lock.Truncate(0); err != nil {
		return stateDirFault(fmt.Sprintf("could not write %s: %v", lock.Name(), err), filepath.Dir(lock.Name()))
	}
	if _, err := fmt.Fprintf(&at{lock}, "%d %s\n", os.Getpid(), what); err != nil {
		return stateDirFault(fmt.Sprintf("could not write %s: %v", lock.Name(), err), filepath.Dir(lock.Name()))
	}
	return nil
}

// at writes at the start of a file, wherever its position is: children share that.
type at struct{ file *os.File }

func (a *at) Write(p []byte) (int, error) { return a.file.WriteAt(p, 0) }

// readHolder reads what writeHolder wrote. A process that is not there any more has left a
// child with the descriptor.
func readHolder(lock *os.File) string {
	buffer := make([]byte, informationSize)
	n, err := lock.ReadAt(buffer, 0)
	if n == 0 && err != nil {
		return "another process"
	}
	line, _, _ := strings.Cut(string(buffer[:n]), "\n")
	var pid int
	if _, err := fmt.Sscanf(line, "%d ", &pid); err != nil || pid <= 0 {
		return "another process"
	}
	_, what, _ := strings.Cut(line, " ")
	what = strings.Map(printable, what)
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return fmt.Sprintf("a child of pid %d, which has ended (%s)", pid, what)
	}
	return fmt.Sprintf("pid %d (%s)", pid, what)
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}
