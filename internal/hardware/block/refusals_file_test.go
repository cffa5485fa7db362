package block

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
)

// refusal is a change to an enrolled target after which nothing may be written.
type refusal struct {
	// dir is the directory of the file; workDir if nil.
	dir func(t *testing.T) string
	// enrollWith makes and enrolls the target; enroll if nil.
	enrollWith func(t *testing.T, dir string, size int64) *fixture
	// size is that of the file; oddSize if 0.
	size int64
	// change makes the change and returns the files whose bytes must not change.
	change func(t *testing.T, f *fixture) []string
	// The expected faults of Open and of Discover with the enrolled identity, of a first
	// Discover, and of Check on an open handle; "" means none.
	open, known, first, check device.Code
	// message is part of Check's fault.
	message string
	// zero: ZeroAt of an open handle fails even without a Check.
	zero bool
	// preventedByClaim: it cannot happen to an open device.
	preventedByClaim bool
	// onlyWritable: opening for reading is still allowed.
	onlyWritable bool
	// swap: the kernel itself may write to the first swapArea bytes.
	swap bool
}

// swapArea is the size of the smallest area that mkswap makes, in bytes.
const swapArea = 10 * 4096

// swapOn uses the start of a file or device as swap.
func swapOn(t *testing.T, path string) {
	t.Helper()
	requireTools(t, "mkswap", "swapon")
	run(t, "mkswap", path, strconv.Itoa(swapArea/1024))
	runOrSkip(t, "swapon", path)
	t.Cleanup(func() { run(t, "swapoff", path) })
}

var refusals = map[string]refusal{
	"hard_linked": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Link(f.path, f.path+".2"))
			return []string{f.path}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared,
		check:   device.CodeTargetShared,
		message: "2 names", zero: true,
	},
	"renamed": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			return []string{f.path + ".2"}
		},
		open: device.CodeTargetMissing, known: device.CodeTargetMissing, first: device.CodeTargetMissing,
		check:   device.CodeIdentityChanged,
		message: "cannot be resolved now",
	},
	"replaced": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			stamped(t, f.path, f.identity.Size)
			return []string{f.path, f.path + ".2"}
		},
		open: device.CodeSerialMismatch, known: device.CodeSerialMismatch, check: device.CodeIdentityChanged,
		message: "names something else now",
	},
	"removed_and_recreated": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Remove(f.path))
			stamped(t, f.path, f.identity.Size)
			return []string{f.path}
		},
		open: device.CodeSerialMismatch, known: device.CodeSerialMismatch, check: device.CodeIdentityChanged,
		message: "was removed", zero: true,
	},
	"symlink_at_path": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			require.NoError(t, os.Symlink(f.path+".2", f.path))
			return []string{f.path + ".2"}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		message: "leads to",
	},
	"symlinked_parent": {
		change: func(t *testing.T, f *fixture) []string {
			parent := filepath.Dir(f.path)
			require.NoError(t, os.Rename(parent, parent+".2"))
			require.NoError(t, os.Symlink(parent+".2", parent))
			return []string{f.path}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		message: "leads to",
	},
	"given_name_leads_elsewhere": {
		change: func(t *testing.T, f *fixture) []string {
			byID := filepath.Join(f.dir, "by-id")
			stamped(t, f.path+".2", f.identity.Size)
			require.NoError(t, os.Remove(byID))
			require.NoError(t, os.Symlink(f.path+".2", byID))
			return []string{f.path, f.path + ".2"}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		message: "leads to",
	},
	"shrunk": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Truncate(f.path, f.identity.Size-hardwaretest.Block))
			return []string{f.path}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		message: "(size)", zero: true,
	},
	"grown": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Truncate(f.path, f.identity.Size+1))
			return []string{f.path}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		message: "(size)", zero: true,
	},
	"used_as_swap": {
		size: 8 * mib,
		change: func(t *testing.T, f *fixture) []string {
			swapOn(t, f.path)
			return []string{f.path}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "used as swap", swap: true,
	},
	"behind_a_loop_device": {
		change: func(t *testing.T, f *fixture) []string {
			attach(t, f.path)
			return []string{f.path}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "is behind the loop device loop",
	},
	"mounted_through_a_loop_device": {
		change: func(t *testing.T, f *fixture) []string {
			requireTools(t, "mkfs.ext4", "losetup", "mount")
			run(t, "mkfs.ext4", "-q", "-F", f.path)
			// Read-only and without its journal, so that mounting writes nothing.
			mountDevice(t, attach(t, f.path, "--read-only"), "ro,noload")
			return []string{f.path}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "is behind the loop device loop",
	},
	"mounted_as_a_file": {
		change: func(t *testing.T, f *fixture) []string {
			requireTools(t, "mount")
			point := filepath.Join(f.dir, "a point")
			require.NoError(t, os.WriteFile(point, nil, 0o600))
			runOrSkip(t, "mount", "--bind", f.path, point)
			t.Cleanup(func() { unmount(t, point) })
			return []string{f.path}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "a point",
	},
	"held_open_for_writing": {
		change: func(t *testing.T, f *fixture) []string {
			return holdOpen(t, f.path, os.O_RDWR)
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "held open",
	},
	"mapped_for_writing": { // the kernel's lease covers it
		change: func(t *testing.T, f *fixture) []string {
			return holdMapped(t, f.path)
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "it is mapped by process",
	},
	"held_open_for_reading": {
		change: func(t *testing.T, f *fixture) []string {
			return holdOpen(t, f.path, os.O_RDONLY)
		},
		open: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "held open", onlyWritable: true,
	},
	"reflinked": {
		dir: func(t *testing.T) string {
			return mounted(t, workDir(t), []string{"mkfs.xfs", "-q", "-m", "reflink=1"}, "")
		},
		change: func(t *testing.T, f *fixture) []string {
			run(t, "cp", "--reflink=always", f.path, f.path+".2")
			return []string{f.path, f.path + ".2"}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared,
		check:   device.CodeTargetShared,
		message: "shares extents",
	},
	"file_system_below_its_loop_was_reflinked": {
		dir: func(t *testing.T) string {
			outer := mounted(t, workDir(t), []string{"mkfs.xfs", "-q", "-m", "reflink=1"}, "")
			inner := filepath.Join(outer, "inner")
			require.NoError(t, os.WriteFile(inner, nil, 0o600))
			require.NoError(t, os.Truncate(inner, 100*mib))
			run(t, "mkfs.ext4", "-q", "-F", inner)
			point := mountDevice(t, attach(t, inner), "")
			require.NoError(t, os.Symlink(outer, filepath.Join(point, "outer")))
			return point
		},
		change: func(t *testing.T, f *fixture) []string {
			outer := filepath.Join(f.dir, "outer")
			run(t, "sync")
			run(t, "cp", "--reflink=always", filepath.Join(outer, "inner"), filepath.Join(outer, "snapshot"))
			return []string{f.path}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared,
		check:   device.CodeTargetShared,
		message: "is on a loop device",
	},
}

// holdOpen keeps a file open until the test ends, like a guest.
func holdOpen(t *testing.T, path string, flags int) []string {
	t.Helper()
	file, err := os.OpenFile(path, flags, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return []string{path}
}

// holdMapped maps a target until the test ends. No descriptor of it stays open.
func holdMapped(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	memory, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	return []string{path}
}
