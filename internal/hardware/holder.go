package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Opener is a process that has a target open.
type Opener struct {
	PID  int
	Name string
}

// String names the process for an operator.
func (o *Opener) String() string { return fmt.Sprintf("process %d (%s)", o.PID, o.Name) }

// FindOpener finds the first process that has a target open through another descriptor than
// ours, or nil. is recognizes the target, writers leaves out who cannot write to it, and proc is
// where procfs is. Only processes that this worker may inspect are found.
func FindOpener(proc string, ours int, writers bool, is func(*unix.Statx_t) bool) (*Opener, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, entry.Name())
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil && !notReadable(err) {
			return nil, err
		}
		for _, each := range fds {
			if pid == os.Getpid() && each.Name() == strconv.Itoa(ours) {
				continue
			}
			var stat unix.Statx_t
			// DONT_SYNC never asks another machine: a dead NFS server must not hang a step.
			err := unix.Statx(unix.AT_FDCWD, filepath.Join(dir, "fd", each.Name()), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &stat)
			if err != nil || !is(&stat) {
				continue // closed meanwhile, or on a file system that does not answer, which is no disk
			}
			if writers {
				writes, err := mayWrite(filepath.Join(dir, "fdinfo", each.Name()))
				if err != nil {
					return nil, err
				}
				if !writes {
					continue
				}
			}
			name, err := os.ReadFile(filepath.Join(dir, "comm"))
			if err != nil && !notReadable(err) {
				return nil, err
			}
			return &Opener{pid, strings.TrimSpace(string(name))}, nil
		}
	}
	return nil, nil
}

// DescribeOpener says who has the target of an open descriptor, or a path, open besides that
// descriptor, as the end of a message: ": process 7 (qemu) has it open", or "" where that
// cannot be found out.
func DescribeOpener(proc string, stat *unix.Stat_t, ours int) string {
	is := func(now *unix.Statx_t) bool {
		if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
			return now.Mode&unix.S_IFMT == unix.S_IFBLK && unix.Mkdev(now.Rdev_major, now.Rdev_minor) == uint64(stat.Rdev)
		}
		return now.Ino == stat.Ino && unix.Mkdev(now.Dev_major, now.Dev_minor) == uint64(stat.Dev)
	}
	found, err := FindOpener(proc, ours, false, is)
	if err != nil || found == nil {
		return "" // the refusal itself does not depend on it
	}
	return fmt.Sprintf(": %s has it open", found)
}

// notReadable: a process or descriptor ended after it was listed, or belongs to another user
// and cannot be inspected.
func notReadable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission)
}

// mayWrite: fdinfo says that the descriptor was opened for writing.
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
