package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Attempts notes which attempts this process has in hand, so that the worker that
// follows a killed one can tell the server at once that they are nobody's (SAFETY
// F2), instead of waiting for a time-out. Each process has a folder of its own below
// dir, locked for as long as it lives. The notes survive a kill -9, not a power
// loss: then the time-outs are the net.
type Attempts struct {
	folder string
	lock   *os.File
	next   atomic.Int64
}

// Orphan is an attempt that a process left behind. Key is the fence that the attempt
// may have held, empty where it needed none.
type Orphan struct {
	Token []byte `json:"token"`
	Key   string `json:"key,omitempty"`
	What  string `json:"what"`
}

// OpenAttempts makes this process's folder below dir.
func OpenAttempts(dir string) (*Attempts, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("attempts: %w", err)
	}
	folder, err := os.MkdirTemp(dir, "worker-")
	if err != nil {
		return nil, fmt.Errorf("attempts: %w", err)
	}
	lock, err := claimFolder(folder)
	if err != nil {
		return nil, err
	}
	return &Attempts{folder: folder, lock: lock}, nil
}

// Begin notes an attempt; the function that it returns forgets it. An error means
// only that a crash now costs a time-out.
func (a *Attempts) Begin(o Orphan) (end func(), err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return func() {}, fmt.Errorf("attempts: %w", err)
	}
	path := filepath.Join(a.folder, strconv.FormatInt(a.next.Add(1), 10)+extension)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return func() {}, fmt.Errorf("attempts: %w", err)
	}
	return func() {
		// What cannot be removed is offered once more to a server that knows better.
		_ = os.Remove(path)
	}, nil
}

// Close removes this process's folder, unless an attempt is still in hand.
func (a *Attempts) Close() error {
	if err := os.Remove(a.folder); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return errors.Join(err, a.lock.Close())
	}
	return a.lock.Close()
}

// Orphans calls take for every attempt that processes which are gone left below dir,
// each in a goroutine's own time, and forgets those for which take returns nil. The
// error joins what failed; call again later for the rest.
func Orphans(dir string, take func(Orphan) error) error {
	folders, err := filepath.Glob(filepath.Join(dir, "worker-*"))
	if err != nil {
		return fmt.Errorf("attempts: %w", err)
	}
	var failed []error
	for _, folder := range folders {
		lock, err := claimFolder(folder)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue // its process lives
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, orphansIn(folder, take), lock.Close())
	}
	return errors.Join(failed...)
}

func orphansIn(folder string, take func(Orphan) error) error {
	files, err := filepath.Glob(filepath.Join(folder, "*"+extension))
	if err != nil {
		return fmt.Errorf("attempts: %w", err)
	}
	errs := make(chan error, len(files))
	for _, file := range files {
		// Side by side: one that waits for a fence must not keep the others waiting.
		go func() { errs <- orphanIn(file, take) }()
	}
	var failed []error
	for range files {
		failed = append(failed, <-errs)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

func orphanIn(file string, take func(Orphan) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("attempts: %w", err)
	}
	var o Orphan
	// A note that was cut short by the kill names no attempt that could be ended; its
	// time-out does it.
	if json.Unmarshal(text, &o) == nil && len(o.Token) > 0 {
		if err := take(o); err != nil {
			return err
		}
	}
	return os.Remove(file)
}

func claimFolder(folder string) (*os.File, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("attempts: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("attempts: lock %s: %w", folder, err), f.Close())
	}
	return f, nil
}
