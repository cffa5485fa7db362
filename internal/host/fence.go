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

// unnamedStep describes a holder that has not described itself yet.
const unnamedStep = "a step"

// Fence is the exclusive right to use one device on this host (SAFETY F1). Its holder has
// the key in this process, and the only open file with the lock on this machine. Close it
// after the last I/O has returned, not before.
type Fence struct {
	key  string
	path string

	mu   sync.Mutex
	file *os.File // nil after Close
	lock *keyLock
}

// Fence waits for the exclusive right to use the device of key, its serial or UUID. Waiters
// of this process are served first come, first served. While it waits it calls waiting with
// the holder, at once and then every second, so that the caller can heartbeat. It returns
// when ctx ends, with the cause. A state directory that fails is a transient fault
// state_dir_error.
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
	f := &Fence{key: key, path: path, lock: turn}
	f.file, err = h.lockFence(ctx, f, waiting)
	return f.finish(err)
}

// finish writes the holder to the lock file; if err is set, it releases everything.
func (f *Fence) finish(err error) (*Fence, error) {
	if err == nil {
		err = writeHolder(f.file, unnamedStep)
	}
	if err != nil {
		if f.file != nil {
			err = errors.Join(err, f.file.Close())
		}
		f.lock.unlock()
		return nil, err
	}
	return f, nil
}

// lockFence polls for the file lock: a thread that blocks in flock could not be stopped when
// ctx ends.
func (h *Host) lockFence(ctx context.Context, f *Fence, waiting func(string)) (*os.File, error) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	var reported time.Time
	for {
		// First, so that an attempt that has ended never gets a free lock.
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
		if now := time.Now(); reported.IsZero() || now.Sub(reported) >= waitInterval {
			reported = now
			waiting(busy.holder)
		}
		retry.Reset(retryInterval)
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}

// lockedError names the holder of a lock, as far as its file names it.
type lockedError struct{ holder string }

func (e *lockedError) Error() string { return "held by " + e.holder }

// lockFile opens path and locks it. If the file was deleted or replaced between the two, it
// starts over: that lock would exclude no other process.
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

// Held checks that the fence is still exclusive; call it before each chunk and each exec.
// Its error, a fault state_dir_error, means: write nothing more. The lock file may have been
// deleted, or a child that inherited the lock may have released it.
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
			Remedy:  "leave " + f.path + " alone; the step is retried under a new lock",
		}
	}
	return nil
}

// lossReason says how the fence was lost, "" if it was not.
func (f *Fence) lossReason() (how string, err error) {
	same, err := stillAt(f.file, f.path)
	if err != nil {
		return "", err
	}
	if !same {
		return "the lock file was removed or replaced", nil
	}
	// Another open file of the same name gets the lock only if it is free. Check this before
	// the next call, which would take a free lock.
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
	// For the holder this changes nothing; for another process it fails.
	if err := atomicfile.TryLock(int(f.file.Fd())); err != nil {
		return "another process holds the lock", nil
	}
	return "", nil
}

// Describe sets what waiters see of the holder. It is information only.
func (f *Fence) Describe(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return fmt.Errorf("the fence of %s is closed", f.key)
	}
	f.lock.describe(what)
	return writeHolder(f.file, what)
}

// File is the locked file, for the ExtraFiles of a child that uses the device: the child
// then holds the fence too, until it ends. Do not close it. After Close it is nil.
func (f *Fence) File() *os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file
}

// Close releases the fence. A child that inherited File holds it until the child ends. A
// second Close does nothing.
func (f *Fence) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	// Only close the file: LOCK_UN would also release the lock of the children, which share
	// the open file (measured).
	err := f.file.Close()
	f.file = nil
	f.lock.unlock()
	return err
}

// informationSize bounds what is read of a lock file.
const informationSize = 256

// writeHolder writes the holder into a lock file.
func writeHolder(lock *os.File, what string) error {
	if err := lock.Truncate(0); err != nil {
		return stateDirFault(fmt.Sprintf("could not write %s: %v", lock.Name(), err), filepath.Dir(lock.Name()))
	}
	if _, err := fmt.Fprintf(&at{lock}, "%d %s\n", os.Getpid(), what); err != nil {
		return stateDirFault(fmt.Sprintf("could not write %s: %v", lock.Name(), err), filepath.Dir(lock.Name()))
	}
	return nil
}

// at writes at the start of a file, independently of its position, which children share.
type at struct{ file *os.File }

func (a *at) Write(p []byte) (int, error) { return a.file.WriteAt(p, 0) }

// readHolder reads what writeHolder wrote. If that process has ended, a child of it has the
// descriptor.
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
