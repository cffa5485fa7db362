package block

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// inode identifies a file while it exists.
type inode struct{ dev, ino uint64 }

func inodeOf(stat *unix.Stat_t) inode {
	return inode{dev: uint64(stat.Dev), ino: stat.Ino}
}

// inodeAt is the inode that a path names now. It follows symbolic links and opens nothing.
func inodeAt(path string) (inode, error) {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Stat(path, &stat) }); err != nil {
		return inode{}, err
	}
	return inodeOf(&stat), nil
}

// checkFileUnused refuses a file that swap, a loop device or a mount uses (F14), because
// O_EXCL on a regular file excludes no one (measured below a mounted loop). own is the loop
// device that is the target itself, or "".
func (s system) checkFileUnused(path string, target inode, own string) error {
	is := func(b backing) (string, bool) { return fmt.Sprintf("%q", path), b.file == target }
	if err := s.checkNotSwap(is); err != nil {
		return err
	}
	if err := s.checkNotLoop(own, is); err != nil {
		return err
	}
	return s.checkNotMounted(path, target)
}

// backing is what swap or a loop device is on: a file, or the device dev.
type backing struct {
	file inode
	dev  uint64
}

// checkNotSwap refuses a target that is used as swap. is recognizes it, and names it.
func (s system) checkNotSwap(is func(backing) (string, bool)) error {
	name := filepath.Join(s.proc, "swaps")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without swap
	}
	if err != nil {
		return hardware.IOFault("read", name, err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "/") {
			continue // the header line
		}
		swap := unescape(fields[0])
		var stat unix.Stat_t
		err := retryEINTR(func() error { return unix.Stat(swap, &stat) })
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, or in another mount namespace: checkSingleOpener and claim find it
		}
		if err != nil {
			return hardware.IOFault("stat the swap", swap, err)
		}
		if what, ok := is(backing{inodeOf(&stat), deviceNumber(&stat)}); ok {
			return hardware.Busy("%s is used as swap", what)
		}
	}
	return nil
}

// checkNotLoop refuses a target that is behind any loop device except own. is recognizes it, and names it.
func (s system) checkNotLoop(own string, is func(backing) (string, bool)) error {
	attached, err := filepath.Glob(filepath.Join(s.sys, "block/loop*/loop/backing_file"))
	if err != nil {
		return hardware.IOFault("list the loop devices below", s.sys, err)
	}
	for _, file := range attached {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		if name == own {
			continue
		}
		found, known, err := s.loopBacking(name, file)
		if err != nil {
			return err
		}
		if what, ok := is(found); known && ok {
			return hardware.Busy("%s is behind the loop device %s", what, name)
		}
	}
	return nil
}

// loopBacking reads what is behind a loop device. known is false if the loop was detached, or
// if neither its node nor its file is accessible here; checkSingleOpener still finds it.
func (s system) loopBacking(name, backingFile string) (found backing, known bool, err error) {
	fd, err := unix.Open(filepath.Join(s.dev, name), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil {
		info, err := unix.IoctlLoopGetStatus64(fd)
		err = errors.Join(err, unix.Close(fd))
		switch {
		case err == nil:
			return backing{inode{dev: info.Device, ino: info.Inode}, info.Rdevice}, true, nil
		case loopDetached(err):
			return backing{}, false, nil // detached after it was listed
		default:
			return backing{}, false, hardware.IOFault("read the status of the loop device", name, err)
		}
	}
	// In a container the node is often missing or not accessible. sysfs has the file's name.
	text, err := os.ReadFile(backingFile)
	switch {
	case loopDetached(err):
		return backing{}, false, nil // detached after it was listed
	case err != nil:
		return backing{}, false, hardware.IOFault("read", backingFile, err)
	}
	var stat unix.Stat_t
	err = retryEINTR(func() error { return unix.Stat(strings.TrimSuffix(string(text), "\n"), &stat) })
	return backing{inodeOf(&stat), uint64(stat.Rdev)}, err == nil, nil
}

// loopDetached: the loop device lost its file, or was removed, after it was listed. An
// attribute that was open already then gives ENODEV.
func loopDetached(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV)
}

// checkNotMounted refuses a file that is bind-mounted itself, as containers do with single
// files.
func (s system) checkNotMounted(path string, target inode) error {
	mounts, err := s.mountsOf(target.dev)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		found, err := inodeAt(m.point)
		if err != nil {
			continue // covered by another mount, or gone: the file cannot be reached through it
		}
		if found == target {
			return hardware.Busy("%q is mounted at %q", path, m.point)
		}
	}
	return nil
}

// checkSingleOpener proves that no other process has the file open: for writing if our descriptor
// reads, or at all if it writes. It takes a lease, which the kernel grants only then, and
// returns it at once. This finds a guest that runs on the file, and what the tables above do
// not show here.
func (s system) checkSingleOpener(ctx context.Context, fd int, path string, writable bool) error {
	wanted := unix.F_RDLCK
	if writable {
		wanted = unix.F_WRLCK
	}
	err := hardware.RetryInterrupted(ctx, s.busyTimeout, func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, wanted)
		return err
	})
	who := ""
	if errors.Is(err, unix.EAGAIN) {
		who = s.opener(path, fd)
	}
	if err := leaseFault(path, who, err); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK); err != nil && !errors.Is(err, unix.EAGAIN) {
		return hardware.IOFault("give back the lease on", path, err)
	}
	return nil
}

// leaseFault explains why the kernel refused a lease. who is what is known of the process that
// has the file open.
func leaseFault(path, who string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN):
		return hardware.Busy("%q is held open by another process%s", path, who)
	case errors.Is(err, unix.EACCES):
		return hardware.Refused(device.CodeNotAllowed, "let the worker's user own it, or give the worker CAP_LEASE",
			"cannot check who else has %q open: it belongs to another user", path)
	case errors.Is(err, unix.EINVAL):
		return hardware.Refused(device.CodeNotAllowed, "set the kernel's fs.leases-enable to 1",
			"cannot check who else has %q open: this host grants no leases", path)
	default:
		return fmt.Errorf("check who has %q open: %w", path, err)
	}
}
