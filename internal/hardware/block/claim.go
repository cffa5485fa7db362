package block

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// checkDiskUnused refuses a disk if the kernel's tables show it or one of its partitions in
// use (F12). The tables show who uses it. The O_EXCL claim of Open also excludes users that
// the tables do not show here, such as a mount in another namespace.
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
	is := func(b backing) (string, bool) {
		part, ok := findByNumber(parts, b.dev)
		return fmt.Sprintf("%q: %s", path, part.name), ok
	}
	if err := s.checkNotSwap(is); err != nil {
		return err
	}
	return s.checkNotLoop(n.name, is)
}

// deviceNumber is the number of the block device in stat, or 0.
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

// mountedOf finds the disk or partition that m mounts. A btrfs has its own number, so the
// source of the mount counts too.
func (s system) mountedOf(m mount, parts []node) (node, bool) {
	for _, part := range parts {
		if m.number == formatNumber(part.dev) {
			return part, true
		}
	}
	return findByNumber(parts, s.sourceOf(m))
}

// sourceOf is the number of the device that m was mounted from, or 0.
func (s system) sourceOf(m mount) uint64 {
	if !strings.HasPrefix(m.source, s.dev+"/") {
		return 0
	}
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Stat(m.source, &stat) }); err != nil {
		return 0 // the device was renamed; its number is compared as well
	}
	return deviceNumber(&stat)
}

// checkNotSystem refuses a disk that holds the system or this worker's state, also below
// stacked devices (F12).
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
			return hardware.IOFault("stat", place, err)
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
				continue // not on a disk, such as a tmpfs
			}
			if err != nil {
				return hardware.IOFault("find the disk of", place, err)
			}
			if below, err := s.standsOn(dir, n.dir, 0); err != nil {
				return hardware.IOFault("list the devices below", dir, err)
			} else if below {
				return hardware.Refused(device.CodeNotAllowed, "enroll another disk", "%q is the disk below %s", path, place)
			}
		}
	}
	return nil
}

// standsOn: the device dir is the disk, one of its partitions, or stacked on one of them.
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

// claim opens a device exclusively. Mounts, swap, md, dm and everyone else who opens with
// O_EXCL respect this until the last copy of the descriptor is closed (F12). It waits for a
// user who has it open only for a moment.
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
		return -1, hardware.Busy("%q is claimed by a mount, a volume or another process%s", path, s.opener(path, -1))
	}
	return fd, err
}

// opener says who has the target at path open, besides the descriptor ours, or nothing.
func (s system) opener(path string, ours int) string {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Stat(path, &stat) }); err != nil {
		return ""
	}
	return hardware.DescribeUser(s.proc, &stat, ours)
}

// checkNoWriters refuses a target that another process could write to: O_EXCL excludes
// only those who use it too, and a guest does not. Only processes that this worker may inspect
// are found, so the claim is the real protection; this finds some of those who made no claim.
// unseen is what it could not look into (F40).
func (s system) checkNoWriters(ctx context.Context, path string, search hardware.Search) (unseen string, err error) {
	search.Proc, search.Writers = s.proc, true
	var found *hardware.User
	err = hardware.RetryInterrupted(ctx, s.busyTimeout, func() (err error) {
		found, unseen, err = search.First()
		if found != nil && err == nil {
			return unix.EAGAIN
		}
		return err
	})
	switch {
	case errors.Is(err, unix.EAGAIN) && found != nil:
		return "", hardware.Busy("%q is %s for writing by %s", path, found.How, found)
	case err != nil && ctx.Err() == nil:
		return "", hardware.IOFault("find out who has", path, err)
	}
	return unseen, err
}
