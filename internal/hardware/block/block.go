// Package block erases what a path names by one pass of zeroes: whole disks, loop devices
// over a file, and regular files, which stand in for drives on machines without any. It
// writes only through the descriptor that it checked, and refuses what it cannot prove to
// be safe (F11, F12, F14). It asks no device to zero itself, because the answer would prove
// nothing about the bytes (F16).
package block

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Allow is the host's own list of what may be destroyed (F13).
type Allow interface {
	// AllowPath returns nil if the host's rules let Burnish destroy what this resolved path
	// names. Fault: not_allowed.
	AllowPath(resolved string) error
}

// Driver finds and opens targets that are named by a path.
type Driver struct {
	rules Allow
	sys   system
}

// New returns the driver. It applies rules at each Discover and before each Open for
// writing. A disk that holds one of the system's own
// directories, or one of keep, is never erased.
func New(rules Allow, keep ...string) *Driver {
	d := &Driver{rules: rules, sys: realSystem()}
	d.sys.protectedDirs = append(d.sys.protectedDirs, keep...)
	return d
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "block" }

// Discover resolves the setting path and inspects the target; see hardware.Driver. Open will
// open the resolved path and no other (F14).
func (d *Driver) Discover(ctx context.Context, t hardware.Target, known device.Identity) (hardware.Discovery, error) {
	given, err := pathSetting(t)
	if err != nil {
		return hardware.Discovery{}, err
	}
	path, err := resolve(given)
	if err != nil {
		return hardware.Discovery{}, err
	}
	if known.Path != "" && known.Path != path {
		return hardware.Discovery{},
			hardware.Changed("path", fmt.Sprintf("%q leads to %q, enrolled was %q", given, path, known.Path))
	}
	if known == (device.Identity{}) { // an enrolled one's identity is compared before any rule (F27)
		if err := d.rules.AllowPath(path); err != nil {
			return hardware.Discovery{}, err
		}
	}
	isDevice, err := classify(path)
	if err != nil {
		return hardware.Discovery{}, err
	}
	return d.discover(ctx, t, &target{sys: d.sys, rules: d.rules, given: given, enrolled: device.Identity{Path: path},
		device: isDevice, writable: true}, known)
}

// Open opens the enrolled target once, exclusively until Close, and proves on that descriptor
// that it is the enrolled one and not in use; see hardware.Driver.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (hardware.Handle, error) {
	given, err := pathSetting(t)
	if err != nil {
		return nil, err
	}
	if enrolled.Path == "" {
		return nil, hardware.Changed("path", fmt.Sprintf("%q was never enrolled", given))
	}
	if writable {
		if err := d.rules.AllowPath(enrolled.Path); err != nil {
			return nil, err
		}
	}
	isDevice, err := classify(enrolled.Path)
	if err != nil {
		return nil, err
	}
	return d.open(ctx, &target{sys: d.sys, rules: d.rules, given: given, enrolled: enrolled, device: isDevice,
		writable: writable})
}

// pathSetting reads the setting path and refuses all others.
func pathSetting(t hardware.Target) (string, error) {
	if err := t.KnownSettings("path"); err != nil {
		return "", err
	}
	given := t.Settings["path"]
	switch {
	case given == "":
		return "", hardware.Invalid("the driver block needs the setting path")
	case !filepath.IsAbs(given):
		return "", hardware.Invalid("path %q is not absolute", given)
	}
	return given, nil
}

// resolve follows every symbolic link in given. It is called only for the path in the
// settings; what it returns is opened without following links.
func resolve(given string) (string, error) {
	path, err := filepath.EvalSymlinks(given)
	if err != nil {
		return "", openFault(given, err)
	}
	return path, nil
}

// classify says whether a resolved path names a block device or a regular file, without opening it, because
// opening a device has side effects. Whoever opens it checks again on the descriptor.
func classify(path string) (isDevice bool, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, openFault(path, err)
	}
	switch mode := info.Mode().Type(); mode {
	case 0, fs.ModeDevice:
		return mode == fs.ModeDevice, nil
	case fs.ModeSymlink:
		return false, hardware.Changed("path", fmt.Sprintf("%q has become a symbolic link", path))
	}
	return false, hardware.Invalid("%q is neither a regular file nor a block device", path)
}

// openNoFollow opens a resolved path without following a symbolic link in any part of it
// (F14): RESOLVE_NO_SYMLINKS covers its parents too.
func openNoFollow(path string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if flags&unix.O_PATH == 0 {
		// If the path has become a FIFO, opening it must not block. O_NONBLOCK has no
		// effect on a regular file.
		how.Flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	var fd int
	err := retryEINTR(func() (err error) {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
		return err
	})
	if err != nil {
		return -1, openFault(path, err)
	}
	return fd, nil
}

// verifyPath proves that the enrolled path still names the open target, which is recognizes,
// and that the path in the settings still resolves to it (F14).
func verifyPath(given, enrolled string, is func(now *unix.Stat_t) bool) (err error) {
	path, err := filepath.EvalSymlinks(given)
	if err != nil {
		return hardware.Changed("path", fmt.Sprintf("%q cannot be resolved now: %v", given, err))
	}
	if path != enrolled {
		return hardware.Changed("path", fmt.Sprintf("%q leads to %q now, enrolled was %q", given, path, enrolled))
	}
	fd, err := openNoFollow(enrolled, unix.O_PATH)
	if err != nil {
		return hardware.Changed("path", fmt.Sprintf("%q was renamed or removed: %v", enrolled, err))
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return hardware.IOFault("fstat", enrolled, err)
	}
	if !is(&now) {
		return hardware.Changed("path", fmt.Sprintf("%q names something else now", enrolled))
	}
	return nil
}

// openFault explains to the operator why a path cannot be opened.
func openFault(path string, err error) error {
	cause := hardware.Reason(err)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		return hardware.Missing("%q does not exist: %v", path, cause)
	case errors.Is(err, unix.ELOOP):
		return hardware.Changed("path", fmt.Sprintf("%q contains a symbolic link", path))
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return hardware.Refused(device.CodeNotAllowed, "let the worker's user open it", "%q cannot be opened: %v", path,
			cause)
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.ETXTBSY), errors.Is(err, unix.EWOULDBLOCK):
		return hardware.Busy("%q is in use: %v", path, cause)
	default:
		return &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: fmt.Sprintf("open %q: %v", path, cause)}
	}
}

// retryEINTR repeats call while a signal interrupts it.
func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
