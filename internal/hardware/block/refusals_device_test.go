package block

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/loops"
)

// loopRefusals are changes to loop devices. The bytes of the file behind must not change.
var loopRefusals = map[string]refusal{
	"mounted": {
		change: mountIt,
		open:   device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, preventedByClaim: true,
	},
	"partition_mounted": {
		size: 16 * mib,
		change: func(t *testing.T, f *fixture) []string {
			requireTools(t, "mkfs.ext4", "mount")
			part := partition(t, f)
			run(t, "mkfs.ext4", "-q", "-F", part)
			mountDevice(t, part, "ro,noload")
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, preventedByClaim: true,
	},
	"used_as_swap": {
		change: swapOnIt,
		open:   device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy,
		preventedByClaim: true, swap: true,
	},
	"claimed_by_another": {
		change: claimIt,
		open:   device.CodeTargetBusy, first: device.CodeTargetBusy, preventedByClaim: true,
	},
	"held_open_for_writing": {
		change: func(t *testing.T, f *fixture) []string {
			holdOpen(t, f.loop, os.O_RDWR)
			return []string{f.image}
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "held open for writing by process",
	},
	"partition_held_open_for_writing": {
		size: 16 * mib,
		enrollWith: func(t *testing.T, dir string, size int64) *fixture {
			f := enrollLoop(t, dir, size)
			require.NoError(t, os.Symlink(partition(t, f), filepath.Join(dir, "part")))
			return f
		},
		change: func(t *testing.T, f *fixture) []string {
			holdOpen(t, filepath.Join(f.dir, "part"), os.O_RDWR)
			return []string{f.image}
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "held open for writing by process",
	},
	"file_behind_held_open_for_writing": {
		change: func(t *testing.T, f *fixture) []string {
			return holdOpen(t, f.image, os.O_RDWR)
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "held open for writing by process",
	},
	"mapped_for_writing": {
		change: func(t *testing.T, f *fixture) []string {
			holdMapped(t, f.loop)
			return []string{f.image}
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "mapped for writing by process",
	},
	"mapped_by_another_node": {
		change: func(t *testing.T, f *fixture) []string {
			var stat unix.Stat_t
			require.NoError(t, unix.Stat(f.loop, &stat))
			node := filepath.Join(f.dir, "node of another namespace")
			require.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(stat.Rdev)))
			holdMapped(t, node)
			require.NoError(t, os.Remove(node))
			return []string{f.image}
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "mapped for writing by process",
	},
	"partition_mapped_for_writing": {
		size: 16 * mib,
		enrollWith: func(t *testing.T, dir string, size int64) *fixture {
			f := enrollLoop(t, dir, size)
			require.NoError(t, os.Symlink(partition(t, f), filepath.Join(dir, "part")))
			return f
		},
		change: func(t *testing.T, f *fixture) []string {
			holdMapped(t, filepath.Join(f.dir, "part"))
			return []string{f.image}
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "mapped for writing by process",
	},
	"file_behind_mapped_for_writing": {
		change: func(t *testing.T, f *fixture) []string {
			return holdMapped(t, f.image)
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "mapped for writing by process",
	},
	"second_loop_over_the_file": {
		change: func(t *testing.T, f *fixture) []string {
			attach(t, f.image, "--read-only")
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "is behind the loop device loop",
	},
	"behind_another_loop": {
		change: func(t *testing.T, f *fixture) []string {
			attach(t, f.loop, "--read-only")
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "is behind the loop device loop",
	},
	"file_behind_mounted_as_a_file": {
		change: func(t *testing.T, f *fixture) []string {
			point := filepath.Join(f.dir, "a point")
			require.NoError(t, os.WriteFile(point, nil, 0o600))
			runOrSkip(t, "mount", "--bind", f.image, point)
			t.Cleanup(func() { unmount(t, point) })
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		message: "a point",
	},
	"detached": {
		change: func(t *testing.T, f *fixture) []string {
			f.detach()
			return []string{f.image}
		},
		open: device.CodeTargetMissing, known: device.CodeTargetMissing, first: device.CodeTargetMissing,
		preventedByClaim: true,
	},
	"attached_to_another_file": {
		change: func(t *testing.T, f *fixture) []string {
			stamped(t, f.image+".2", f.identity.Size)
			require.NoError(t, loops.Reattach(f.loop, f.image+".2"))
			return []string{f.image, f.image + ".2"}
		},
		open: device.CodeSerialMismatch, known: device.CodeSerialMismatch, preventedByClaim: true,
	},
	"attached_with_an_offset": {
		change: reattached("--offset", "4096"),
		open:   device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting,
		preventedByClaim: true,
	},
	"attached_with_a_size_limit": {
		change: reattached("--sizelimit", "4096"),
		open:   device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting,
		preventedByClaim: true,
	},
	"attached_read_only": {
		change: reattached("--read-only"),
		open:   device.CodeNotAllowed, known: device.CodeNotAllowed, first: device.CodeNotAllowed, preventedByClaim: true,
	},
	"file_behind_shrunk": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Truncate(f.image, f.identity.Size-512))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting,
		check:   device.CodeIdentityChanged,
		message: "(size)", zero: true,
	},
	"file_behind_grown": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Truncate(f.image, f.identity.Size+4096))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting,
		check:   device.CodeIdentityChanged,
		message: "(size)", zero: true,
	},
	"grown":  {change: resized(4096), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, message: "(size)", zero: true},
	"shrunk": {change: resized(-512), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, message: "(size)", zero: true},
	"file_behind_hard_linked": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Link(f.image, f.image+".2"))
			return []string{f.image}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared,
		check:   device.CodeTargetShared,
		message: "2 names", zero: true,
	},
	"file_behind_reflinked": {
		dir: func(t *testing.T) string {
			return mounted(t, workDir(t), []string{"mkfs.xfs", "-q", "-m", "reflink=1"}, "")
		},
		change: func(t *testing.T, f *fixture) []string {
			run(t, "cp", "--reflink=always", f.image, f.image+".2")
			return []string{f.image, f.image + ".2"}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared,
		check:   device.CodeTargetShared,
		message: "shares extents",
	},
	"file_behind_removed": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.image, f.image+".2"))
			stamped(t, f.image, f.identity.Size)
			require.NoError(t, os.Remove(f.image+".2"))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeIdentityChanged,
		check:   device.CodeIdentityChanged,
		message: "was removed", zero: true,
	},
	"node_renamed": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			return []string{f.image}
		},
		open: device.CodeTargetMissing, known: device.CodeTargetMissing, first: device.CodeTargetMissing,
		check:   device.CodeIdentityChanged,
		message: "cannot be resolved now",
	},
	"node_of_another_device": {
		change: func(t *testing.T, f *fixture) []string {
			other := &fixture{driver: f.driver, image: f.image + ".2"}
			stamped(t, other.image, f.identity.Size)
			other.loop = attach(t, other.image)
			require.NoError(t, os.Remove(f.path))
			other.node(t, filepath.Base(f.path))
			return []string{f.image, other.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting,
		check:   device.CodeIdentityChanged,
		message: "names something else now",
	},
	"node_replaced_by_a_file": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Remove(f.path))
			stamped(t, f.path, f.identity.Size)
			return []string{f.image, f.path}
		},
		open: device.CodeSerialMismatch, known: device.CodeSerialMismatch, check: device.CodeIdentityChanged,
		message: "names something else now",
	},
	"symlink_at_path": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			require.NoError(t, os.Symlink(f.path+".2", f.path))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting,
		check:   device.CodeIdentityChanged,
		message: "leads to",
	},
	"given_name_leads_elsewhere": {
		change: func(t *testing.T, f *fixture) []string {
			byID := filepath.Join(f.dir, "by-id")
			stamped(t, f.image+".2", f.identity.Size)
			require.NoError(t, os.Remove(byID))
			require.NoError(t, os.Symlink(f.image+".2", byID))
			return []string{f.image, f.image + ".2"}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		message: "leads to",
	},
}

// diskRefusals are changes to whole disks, in addition to those of loop devices.
var diskRefusals = map[string]refusal{
	"mounted": {
		change: mountIt,
		open:   device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, preventedByClaim: true,
	},
	"used_as_swap": {
		change: swapOnIt,
		open:   device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy,
		preventedByClaim: true, swap: true,
	},
	"claimed_by_another": {change: claimIt, open: device.CodeTargetBusy, first: device.CodeTargetBusy, preventedByClaim: true},
	"held": {
		change: setAttributes(map[string]string{"holders/dm-0": ""}),
		open:   device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy,
		check:   device.CodeTargetBusy,
		message: "sda is held by dm-0",
	},
	"partition_held": {
		change: setAttributes(map[string]string{"sda1/partition": "1\n", "sda1/dev": "8:1\n", "sda1/holders/md127": ""}),
		open:   device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy,
		check:   device.CodeTargetBusy,
		message: "sda1 is held by md127",
	},
	"the_system_lies_on_it": {
		change: func(t *testing.T, f *fixture) []string {
			// The root file system is on a volume, on a partition of the disk.
			var root unix.Stat_t
			require.NoError(t, unix.Stat("/", &root))
			f.set(t, "sda", map[string]string{"sda2/partition": "2\n", "sda2/dev": "8:2\n"})
			f.disk(t, "dm-7", formatNumber(root.Dev), "none", nil)
			slaves := filepath.Join(f.driver.sys.sys, "devices/dm-7/slaves")
			require.NoError(t, os.Mkdir(slaves, 0o700))
			require.NoError(t, os.Symlink("../../sda/sda2", filepath.Join(slaves, "sda2")))
			return []string{f.image}
		},
		open: device.CodeNotAllowed, known: device.CodeNotAllowed, first: device.CodeNotAllowed, check: device.CodeNotAllowed,
		message: "the disk below /",
	},
	"replaced": {
		change: setAttributes(map[string]string{"device/wwid": "naa.5000c500ffffffff\n"}),
		open:   device.CodeSerialMismatch, known: device.CodeSerialMismatch, check: device.CodeSerialMismatch,
		message: "(serial)",
	},
	"another_model": {
		change: setAttributes(map[string]string{"device/model": "DISK 2\n"}),
		open:   device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		message: "(model)",
	},
	"tells_no_serial_any_more": {
		change: setAttributes(map[string]string{"device/wwid": "\n"}),
		open:   device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting,
		check:   device.CodeIdentityChanged,
		message: "neither a wwid nor a serial",
	},
	"second_path_to_it": {
		change: func(t *testing.T, f *fixture) []string {
			f.disk(t, "sdb", "8:16", "scsi", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4\n"})
			return []string{f.image}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared,
		check:   device.CodeTargetShared,
		message: "have the same serial",
	},
	"read_only": {
		change: setAttributes(map[string]string{"ro": "1\n"}),
		open:   device.CodeNotAllowed, known: device.CodeNotAllowed, first: device.CodeNotAllowed,
		check:   device.CodeNotAllowed,
		message: "read-only",
	},
	"pulled": {
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Remove(filepath.Join(f.driver.sys.sys, "dev/block", formatNumber(f.number(t)))))
			return []string{f.image}
		},
		open: device.CodeTargetMissing, known: device.CodeTargetMissing, first: device.CodeTargetMissing,
		check:   device.CodeTargetMissing,
		message: "does not exist",
	},
	"grown":  {change: resized(4096), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, message: "(size)", zero: true},
	"shrunk": {change: resized(-512), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, message: "(size)", zero: true},
	"renumbered": {
		change: func(t *testing.T, f *fixture) []string {
			// Another device has the name now.
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			other := &fixture{driver: f.driver, image: f.image + ".2"}
			stamped(t, other.image, f.identity.Size)
			other.loop = attach(t, other.image)
			other.node(t, "sda")
			links := filepath.Join(f.driver.sys.sys, "dev/block")
			require.NoError(t, os.Symlink("../../devices/sda", filepath.Join(links, formatNumber(other.number(t)))))
			return []string{f.image, other.image}
		},
		// Before it is opened, it is still the enrolled one by its serial: kernel numbers
		// depend on the order of discovery (measured: a partition table on one drive
		// renumbered the next).
		check: device.CodeIdentityChanged, message: "names something else now",
	},
}

// mountIt mounts the device.
func mountIt(t *testing.T, f *fixture) []string {
	requireTools(t, "mkfs.ext4", "mount")
	run(t, "mkfs.ext4", "-q", "-F", f.loop)
	mountDevice(t, f.loop, "ro,noload")
	return []string{f.image}
}

// swapOnIt uses the device as swap.
func swapOnIt(t *testing.T, f *fixture) []string {
	swapOn(t, f.loop)
	return []string{f.image}
}

// claimIt claims the device, like md, dm or another worker.
func claimIt(t *testing.T, f *fixture) []string {
	holdOpen(t, f.loop, os.O_RDONLY|os.O_EXCL)
	return []string{f.image}
}

// partition creates a partition of the device and returns its node.
func partition(t *testing.T, f *fixture) string {
	t.Helper()
	// Added in the kernel, not written, because the kernel may not support any table format.
	requireTools(t, "addpart")
	run(t, "addpart", f.loop, "1", "2048", "20480")
	part := f.loop + "p1"
	if _, err := os.Stat(part); err != nil {
		t.Skipf("this environment makes no nodes of partitions: %v", err)
	}
	return part
}

// reattached attaches the same file with other options.
func reattached(args ...string) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		require.NoError(t, loops.Reattach(f.loop, f.image, args...))
		return []string{f.image}
	}
}

// resized changes the size of the file and of the device.
func resized(by int64) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		require.NoError(t, os.Truncate(f.image, f.identity.Size+by))
		run(t, "losetup", "--set-capacity", f.loop)
		return []string{f.image}
	}
}

// setAttributes changes attributes of the disk.
func setAttributes(attributes map[string]string) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		f.set(t, "sda", attributes)
		return []string{f.image}
	}
}
