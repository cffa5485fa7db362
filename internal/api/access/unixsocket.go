package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// longestSocket is what the kernel takes as the path of a socket.
	longestSocket = 107
	// answerTimeout is how long another process at a socket has to answer.
	answerTimeout = 2 * time.Second
)

// listenUnix listens on a socket that only this process's user and root may use. Its
// directory, and each above, must be safe: who may rename the socket may stand in its place.
// What a killed worker has left is replaced, a socket on which something answers is not.
func listenUnix(ctx context.Context, path string) (_ net.Listener, err error) {
	if len(path) > longestSocket {
		return nil, fmt.Errorf("%s is longer than %d bytes, the most that a socket's path may have", path, longestSocket)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err := checkDirectories(dir); err != nil {
		return nil, err
	}
	// Two workers that start at once look one after the other.
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	// The socket's own mode, before it has a name: so it never has another one.
	how := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return failed
	}}
	return how.Listen(ctx, "unix", path) // which removes the socket when it is closed
}

// checkDirectories checks that no other user may replace what is in the directory.
func checkDirectories(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		var st unix.Stat_t
		if err := unix.Stat(at, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: at, Err: err}
		}
		if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
			return fmt.Errorf("%s belongs to the user %d, not to root or the worker's user", at, st.Uid)
		}
		shared := st.Mode&0o022 != 0
		sticky := st.Mode&unix.S_ISVTX != 0
		if shared && (at == dir || !sticky) {
			return fmt.Errorf("%s may be written by others than its owner (mode %04o); use a directory of the worker's own", at,
				st.Mode&0o7777)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// removeStale removes a socket on which nothing listens.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is no socket", path)
	}
	ask := net.Dialer{Timeout: answerTimeout}
	c, err := ask.DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("another process listens on %s", path), c.Close())
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("another process may listen on %s: %w", path, err)
	}
	return os.Remove(path)
}
