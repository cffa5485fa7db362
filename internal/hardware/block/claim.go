package block

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// checkDiskUnused refuses a disk that the kernel's tables show in use, it or one of
// its partitions (F12). The tables tell who it is; the claim that Open makes
// with O_EXCL also keeps away what they do not show, as another namespace's mount.
func (s system) checkDiskUnused(path string, n node) error {
	if err := s.checkNotSystem(path, n); err != nil {
		return err
	}
	parts, err := s.partitions(n)
	if err != nil {
		return err
	}
	for _, part := range parts {
		holders, err := os.ReadDir(filepath.Join(part.dir, "holders"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return hardware.IOFault("list the holders of", part.name, err)
		}
		if len(holders) > 0 {
			return hardware.Busy("%q: %s is held by %s", path, part.name, holders[0].Name())
		}
	}
	mounts, err := s.mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if part, ok := s.mountedOf(m, parts); ok {
			return hardware.Busy("%q: %s is mounted at %q", path, part.name, m.point)
		}
	}
	err = s.eachSwap(func(_ string, stat *unix.Stat_t) error {
		if part, ok := findByNumber(parts, deviceNumber(stat)); ok {
			return hardware.Busy("%q: %s is used as swap", path, part.name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.checkNotLoop(path, n.name, func(l backing) bool {
		_, ok := findByNumber(parts, l.dev)
		return ok
	})
}

// deviceNumber is the number of the device that a stat is of, 0 where it is of none.
func deviceNumber(stat *unix.Stat_t) uint64 {
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0
	}
	return uint64(stat.Rdev)
}

// findByNumber finds the disk or partition with this number.
func findByNumber(parts []node, dev uint64) (node, bool) {
	at := slices.IndexFunc(parts, func(p node) bool { return dev != 0 && p.dev == dev })
	if at < 0 {
		return node{}, false
	}
	return parts[at], true
}

// mountedOf finds the disk or partition that is mounted by m. A btrfs has a number of
// its own; what it was mounted from tells one of its devices.
func (s system) mountedOf(m mount, parts []node) (node, bool) {
	for _, part := range parts {
		if m.number == formatNumber(part.dev) {
			return part, true
		}
	}
	return findByNumber(parts, s.sourceOf(m))
}

// sourceOf is the number of the device that m was mounted from, 0 where there is none.
func (s system) sourceOf(m mount) uint64 {
	if !strings.HasPrefix(m.source, s.dev+"/") {
		return 0
	}
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Stat(m.source, &stat) }); err != nil {
		return 0 // an old name of it; its number is compared as well
	}
	return deviceNumber(&stat)
}

// checkNotSystem refuses a disk on which the system itself lies, or this worker's state,
// through whatever is stacked in between (F12).
func (s system) checkNotSystem(path string, n node) error {
	mounts, err := s.mounts()
	if err != nil {
		return err
	}
	for _, place := range s.protectedDirs {
		var stat unix.Stat_t
		err := retryEINTR(func() error { return unix.Stat(place, &stat) })
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return hardware.IOFault("look at", place, err)
		}
		devs := []uint64{uint64(stat.Dev)}
		for _, m := range mounts {
			if source := s.sourceOf(m); m.number == formatNumber(stat.Dev) && source != 0 {
				devs = append(devs, source)
			}
		}
		for _, dev := range devs {
			dir, err := s.deviceDir(dev)
			if errors.Is(err, fs.ErrNotExist) {
				continue // of no disk, as a tmpfs
			}
			if err != nil {
				return hardware.IOFault("look up the disk of", place, err)
			}
			if below, err := s.standsOn(dir, n.dir, 0); err != nil {
				return hardware.IOFault("look at what lies below", dir, err)
			} else if below {
				return hardware.Refused(device.CodeNotAllowed, "name another disk", "%q is the disk under %s", path, place)
			}
		}
	}
	return nil
}

// standsOn tells whether the device dir is disk, a partition of it, or stands upon it.
func (s system) standsOn(dir, disk string, depth int) (bool, error) {
	const deepest = 32
	if dir == disk || filepath.Dir(dir) == disk {
		return true, nil
	}
	if depth == deepest {
		return false, fmt.Errorf("%s has more than %d layers", dir, deepest)
	}
	slaves, err := os.ReadDir(filepath.Join(dir, "slaves"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, slave := range slaves {
		next, err := filepath.EvalSymlinks(filepath.Join(dir, "slaves", slave.Name()))
		if err != nil {
			return false, err
		}
		if found, err := s.standsOn(next, disk, depth+1); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// claim opens a device exclusively: the kernel's own interlock, which mounts, swap,
// md, dm and all who ask for it respect, until the last copy of the descriptor is
// closed (F12). Who passes through is waited for.
func (s system) claim(ctx context.Context, path string, flags uint64) (int, error) {
	fd := -1
	err := hardware.RetryInterrupted(ctx, s.busyTimeout, func() (err error) {
		fd, err = openNoFollow(path, flags|unix.O_EXCL)
		if fault, ok := device.AsFault(err); ok && fault.Code == device.CodeTargetBusy {
			return unix.EAGAIN
		}
		return err
	})
	if errors.Is(err, unix.EAGAIN) {
		return -1, hardware.Busy("%q is claimed by a mount, a volume or another process", path)
	}
	return fd, err
}

// writer is a process that has the target open and may write to it.
type writer struct {
	pid  int
	name string
}

// checkNoWriters refuses a target that another descriptor than ours may be written
// through: O_EXCL keeps away only those who ask for it, and a guest does not. is
// tells the target. It sees only the processes that this worker may look at: the claim
// is what counts, and this finds some of those who did not make one.
func (s system) checkNoWriters(ctx context.Context, path string, ours int, is func(*unix.Statx_t) bool) error {
	var found *writer
	err := hardware.RetryInterrupted(ctx, s.busyTimeout, func() (err error) {
		if found, err = s.findWriter(ours, is); found != nil && err == nil {
			return unix.EAGAIN
		}
		return err
	})
	switch {
	case errors.Is(err, unix.EAGAIN) && found != nil:
		return hardware.Busy("%q is held open for writing by process %d (%s)", path, found.pid, found.name)
	case err != nil && ctx.Err() == nil:
		return hardware.IOFault("look who has open", path, err)
	}
	return err
}

// findWriter finds the first process with a descriptor, other than ours, that is of the
// target and may be written through.
func (s system) findWriter(ours int, is func(*unix.Statx_t) bool) (*writer, error) {
	entries, err := os.ReadDir(s.proc)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(s.proc, entry.Name())
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil && !notReadable(err) {
			return nil, err
		}
		for _, each := range fds {
			if pid == os.Getpid() && each.Name() == strconv.Itoa(ours) {
				continue
			}
			var stat unix.Statx_t
			// Never asks another machine: a dead NFS server must not hang a step.
			err := unix.Statx(unix.AT_FDCWD, filepath.Join(dir, "fd", each.Name()), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &stat)
			if err != nil || !is(&stat) {
				continue // closed since, or of a file system that answers nothing: no disk
			}
			writes, err := mayWrite(filepath.Join(dir, "fdinfo", each.Name()))
			if err != nil {
				return nil, err
			}
			if writes {
				name, err := os.ReadFile(filepath.Join(dir, "comm"))
				if err != nil && !notReadable(err) {
					return nil, err
				}
				return &writer{pid, strings.TrimSpace(string(name))}, nil
			}
		}
	}
	return nil, nil
}

// notReadable tells that a process or a descriptor has ended since it was listed, or that it
// belongs to another user and may not be looked at.
func notReadable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission)
}

// mayWrite reads from fdinfo whether a descriptor was opened for writing.
func mayWrite(name string) (bool, error) {
	text, err := os.ReadFile(name)
	if notReadable(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(value), 8, 64)
			return flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_PATH == 0, err
		}
	}
	return false, fmt.Errorf("%s has no line with flags", name)
}
