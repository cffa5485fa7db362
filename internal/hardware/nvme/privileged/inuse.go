package privileged

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
)

// checkUnused refuses a disk if the kernel's tables show that it or one of its partitions is
// mounted, held by another device, or swap (F12). A refused claim proves only that someone
// has the disk; this proves that none of these is true.
func checkUnused(proc string, disk Disk) error {
	dirs, err := filepath.Glob(filepath.Join(disk.Dir, "*", "partition"))
	if err != nil {
		return err
	}
	numbers := map[string]bool{}
	for _, dir := range append(dirs, filepath.Join(disk.Dir, "disk")) {
		dir = filepath.Dir(dir)
		number, err := os.ReadFile(filepath.Join(dir, "dev"))
		if err != nil {
			return hardware.Missing("cannot read the device number of %s: %v", disk.Name, err)
		}
		numbers[strings.TrimSpace(string(number))] = true
		holders, err := os.ReadDir(filepath.Join(dir, "holders"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list the holders of %s: %w", disk.Name, err)
		}
		if len(holders) > 0 {
			return hardware.Busy("%s is held by %s", disk.Name, holders[0].Name())
		}
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		const number, point = 2, 4
		if fields := strings.Fields(line); len(fields) > point && numbers[fields[number]] {
			return hardware.Busy("%s is mounted at %s", disk.Name, fields[point])
		}
	}
	swaps, err := os.ReadFile(filepath.Join(proc, "swaps"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the swaps: %w", err)
	}
	for line := range strings.Lines(string(swaps)) {
		var stat unix.Stat_t
		if fields := strings.Fields(line); len(fields) > 0 && unix.Stat(fields[0], &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFBLK && numbers[deviceNumber(stat)] {
			return hardware.Busy("%s is used as swap", disk.Name)
		}
	}
	return nil
}

// deviceNumber is the device number in stat, in the form of sysfs.
func deviceNumber(stat unix.Stat_t) string {
	return fmt.Sprintf("%d:%d", unix.Major(uint64(stat.Rdev)), unix.Minor(uint64(stat.Rdev)))
}
