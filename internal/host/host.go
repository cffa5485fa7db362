package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
)

const (
	lockFolder    = "lock"
	journalFolder = "journal"
	devicesFolder = "devices"
	lockName      = "host.lock"
)

// Host is this host's one worker with its state directory. Its methods may be called
// by many goroutines.
type Host struct {
	dir     string
	name    string
	rules   *Rules
	fences  keyedMutex
	saving  keyedMutex // by device: a journal is compared and saved
	records sync.Mutex

	closing sync.Mutex
	lock    *os.File // nil after Close
	socket  int
	cluster string
}

// Option changes what Open does.
type Option func(*Host)

// WithCluster names the cluster that the host serves. Two clusters may have a host of one
// name on one machine, each with a state directory of its own. The lock on a device itself
// keeps the two from writing to one device.
func WithCluster(cluster string) Option {
	return func(h *Host) { h.cluster = cluster + "/" }
}

// Open creates dir if it is missing, and makes this process the only worker of the host.
// While another process is, the error is one line that names it. A lock in dir finds that
// process, and so does a socket named after the host, even if that worker has another state
// directory (SAFETY F1). A killed worker whose last I/O has not returned still counts: its
// files are closed only then.
func Open(dir, hostname string, rules *Rules, options ...Option) (*Host, error) {
	if hostname == "" || strings.ContainsRune(hostname, 0) {
		return nil, fmt.Errorf("%q is not a valid host name", hostname)
	}
	if rules == nil {
		rules = &Rules{} // no device may be erased
	}
	dir, err := makeStateDir(dir)
	if err != nil {
		return nil, err
	}
	h := &Host{dir: dir, name: strings.ToLower(hostname), rules: rules, socket: -1}
	for _, option := range options {
		option(h)
	}
	if err := h.lockSingleInstance(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	for _, folder := range []string{journalFolder, devicesFolder} {
		if err := atomicfile.RemoveUnfinished(h.path(folder)); err != nil {
			return nil, errors.Join(fmt.Errorf("clean up the state directory: %w", err), h.Close())
		}
	}
	rules.protect(dir)
	return h, nil
}

// Dir is the state directory, absolute and without symbolic links.
func (h *Host) Dir() string { return h.dir }

// Name is the host's, in lower case.
func (h *Host) Name() string { return h.name }

// Rules says what may be destroyed on this host.
func (h *Host) Rules() *Rules { return h.rules }

// Close lets another worker open the host. Fences stay with their holders, and the next
// worker waits for them.
func (h *Host) Close() error {
	h.closing.Lock()
	defer h.closing.Unlock()
	var failed []error
	if h.socket >= 0 {
		failed = append(failed, unix.Close(h.socket))
		h.socket = -1
	}
	if h.lock != nil {
		failed = append(failed, h.lock.Close())
		h.lock = nil
	}
	return errors.Join(failed...)
}

func (h *Host) path(parts ...string) string {
	return filepath.Join(append([]string{h.dir}, parts...)...)
}

// makeStateDir makes the directory and its folders. It refuses a directory that another
// user can change: replacing a lock or a journal there changes what is written to devices.
func makeStateDir(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("no state directory is named; set BURNISH_STATE_DIR")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the state directory: %w", err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("resolve the state directory: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("resolve the state directory: %w", err)
	}
	if err := checkOwned(dir); err != nil {
		return "", err
	}
	for _, folder := range []string{lockFolder, journalFolder, devicesFolder} {
		path := filepath.Join(dir, folder)
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("make the state directory: %w", err)
		}
		if err := checkOwned(path); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// CheckStateDir says what is wrong with a state directory that a worker has made, in
// one line; it changes nothing.
func CheckStateDir(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("resolve the state directory: %w", err)
	}
	if err := checkOwned(dir); err != nil {
		return err
	}
	for _, folder := range []string{lockFolder, journalFolder, devicesFolder} {
		if err := checkOwned(filepath.Join(dir, folder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func checkOwned(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory; move it away", path)
	case st.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to uid %d, this worker runs as uid %d; give it a state directory of its own", path,
			st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s may be written by others (mode %04o); chmod it to 0700", path, st.Mode&0o7777)
	}
	return nil
}

// lockSingleInstance takes the lock of the directory and the socket of the host name. Both
// are closed on exec: a child must not keep the next worker from starting, only from
// touching the child's device.
func (h *Host) lockSingleInstance() error {
	path := h.path(lockName)
	lock, err := lockFile(path)
	var busy *lockedError
	if errors.As(err, &busy) {
		return fmt.Errorf("%s is already the worker of %s (it holds %s): stop it first, or give this worker a host name "+
			"and a state directory of its own", busy.holder, h.dir, path)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	h.lock = lock
	if err := h.listen(); err != nil {
		return err
	}
	return writeHolder(lock, "host worker of "+h.name)
}

// listen binds the abstract socket of the host name, and accepts no connection: it is
// enough that the name is taken. To a process that connects the kernel reports which
// process bound it.
func (h *Host) listen() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("make the socket of host %s: %w", h.name, err)
	}
	h.socket = fd
	address := &unix.SockaddrUnix{Name: socketName(h.cluster + h.name)}
	if err := unix.Bind(fd, address); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("%s is already the host worker of %s on this machine: stop it first, or give this worker a "+
				"host name of its own", listener(address), h.name)
		}
		return fmt.Errorf("bind the socket of host %s: %w", h.name, err)
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return fmt.Errorf("listen on the socket of host %s: %w", h.name, err)
	}
	return nil
}

// socketName shortens the name to the 107 bytes of an address.
func socketName(host string) string {
	if len(host) > 64 {
		sum := sha256.Sum256([]byte(host))
		host = hex.EncodeToString(sum[:])
	}
	return "@burnish.host." + host
}

// listener names the process that is bound to address. It is unknown if that process does
// not listen yet, or if its backlog is full.
func listener(address unix.Sockaddr) string {
	if pid, err := listenerPid(address); err == nil && pid > 0 {
		return fmt.Sprintf("pid %d", pid)
	}
	return "another process"
}

func listenerPid(address unix.Sockaddr) (pid int32, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.Connect(fd, address); err != nil {
		return 0, err
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return peer.Pid, nil
}
