package block

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// loopRefusals is what happens to loop devices. The bytes that must stay are those of
// the file behind.
var loopRefusals = map[string]refusal{
	"mounted": {
		happens: mountsIt,
		open:    device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, kept: true,
	},
	"partition_mounted": {
		size: 16 * mib,
		happens: func(t *testing.T, f *fixture) []string {
			needs(t, "mkfs.ext4", "mount")
			part := partition(t, f)
			run(t, "mkfs.ext4", "-q", "-F", part)
			mount1(t, part, "ro,noload")
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, kept: true,
	},
	"used_as_swap": {
		happens: swapsIt,
		open:    device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, kept: true,
	},
	"claimed_by_another": {
		happens: claimsIt,
		open:    device.CodeTargetBusy, first: device.CodeTargetBusy, kept: true,
	},
	"held_open_for_writing": {
		happens: func(t *testing.T, f *fixture) []string {
			holdOpen(t, f.loop, os.O_RDWR)
			return []string{f.image}
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "held open for writing by process",
	},
	"partition_held_open_for_writing": {
		size: 16 * mib,
		on: func(t *testing.T, dir string, size int64) *fixture {
			f := enrollLoop(t, dir, size)
			require.NoError(t, os.Symlink(partition(t, f), filepath.Join(dir, "part")))
			return f
		},
		happens: func(t *testing.T, f *fixture) []string {
			holdOpen(t, filepath.Join(f.dir, "part"), os.O_RDWR)
			return []string{f.image}
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "held open for writing by process",
	},
	"file_behind_held_open_for_writing": {
		happens: func(t *testing.T, f *fixture) []string {
			return holdOpen(t, f.image, os.O_RDWR)
		},
		open: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "held open for writing by process",
	},
	"second_loop_over_the_file": {
		happens: func(t *testing.T, f *fixture) []string {
			attach(t, f.image, "--read-only")
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "is behind the loop device loop",
	},
	"behind_another_loop": {
		happens: func(t *testing.T, f *fixture) []string {
			attach(t, f.loop, "--read-only")
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "is behind the loop device loop",
	},
	"file_behind_mounted_as_a_file": {
		happens: func(t *testing.T, f *fixture) []string {
			point := filepath.Join(f.dir, "a point")
			require.NoError(t, os.WriteFile(point, nil, 0o600))
			mayRun(t, "mount", "--bind", f.image, point)
			t.Cleanup(func() { run(t, "umount", point) })
			return []string{f.image}
		},
		open: device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "a point",
	},
	"detached": {
		happens: func(t *testing.T, f *fixture) []string {
			f.detach()
			return []string{f.image}
		},
		open: device.CodeTargetMissing, known: device.CodeTargetMissing, first: device.CodeTargetMissing, kept: true,
	},
	"attached_to_another_file": {
		happens: func(t *testing.T, f *fixture) []string {
			stamped(t, f.image+".2", f.who.Size)
			run(t, "losetup", "--detach", f.loop)
			run(t, "losetup", f.loop, f.image+".2")
			return []string{f.image, f.image + ".2"}
		},
		open: device.CodeReplaced, known: device.CodeReplaced, kept: true,
	},
	"attached_with_an_offset": {
		happens: reattached("--offset", "4096"),
		open:    device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting, kept: true,
	},
	"attached_with_a_size_limit": {
		happens: reattached("--sizelimit", "4096"),
		open:    device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting, kept: true,
	},
	"attached_read_only": {
		happens: reattached("--read-only"),
		open:    device.CodeNotAllowed, known: device.CodeNotAllowed, first: device.CodeNotAllowed, kept: true,
	},
	"file_behind_shrunk": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Truncate(f.image, f.who.Size-512))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting, check: device.CodeIdentityChanged,
		says: "(size)", zero: true,
	},
	"file_behind_grown": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Truncate(f.image, f.who.Size+4096))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting, check: device.CodeIdentityChanged,
		says: "(size)", zero: true,
	},
	"grown":  {happens: resized(4096), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, says: "(size)", zero: true},
	"shrunk": {happens: resized(-512), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, says: "(size)", zero: true},
	"file_behind_hard_linked": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Link(f.image, f.image+".2"))
			return []string{f.image}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared, check: device.CodeTargetShared,
		says: "2 names", zero: true,
	},
	"file_behind_reflinked": {
		dir: func(t *testing.T) string {
			return mounted(t, workDir(t), []string{"mkfs.xfs", "-q", "-m", "reflink=1"}, "")
		},
		happens: func(t *testing.T, f *fixture) []string {
			run(t, "cp", "--reflink=always", f.image, f.image+".2")
			return []string{f.image, f.image + ".2"}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared, check: device.CodeTargetShared,
		says: "shares extents",
	},
	"file_behind_removed": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.image, f.image+".2"))
			stamped(t, f.image, f.who.Size)
			require.NoError(t, os.Remove(f.image+".2"))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		says: "was removed", zero: true,
	},
	"node_renamed": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			return []string{f.image}
		},
		open: device.CodeTargetMissing, known: device.CodeTargetMissing, first: device.CodeTargetMissing, check: device.CodeIdentityChanged,
		says: "leads nowhere now",
	},
	"node_of_another_device": {
		happens: func(t *testing.T, f *fixture) []string {
			other := &fixture{driver: f.driver, image: f.image + ".2"}
			stamped(t, other.image, f.who.Size)
			other.loop = attach(t, other.image)
			require.NoError(t, os.Remove(f.path))
			other.node(t, filepath.Base(f.path))
			return []string{f.image, other.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting, check: device.CodeIdentityChanged,
		says: "names something else now",
	},
	"node_replaced_by_a_file": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Remove(f.path))
			stamped(t, f.path, f.who.Size)
			return []string{f.image, f.path}
		},
		open: device.CodeReplaced, known: device.CodeReplaced, check: device.CodeIdentityChanged,
		says: "names something else now",
	},
	"symlink_at_path": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			require.NoError(t, os.Symlink(f.path+".2", f.path))
			return []string{f.image}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting, check: device.CodeIdentityChanged,
		says: "leads to",
	},
	"given_name_leads_elsewhere": {
		happens: func(t *testing.T, f *fixture) []string {
			byID := filepath.Join(f.dir, "by-id")
			stamped(t, f.image+".2", f.who.Size)
			require.NoError(t, os.Remove(byID))
			require.NoError(t, os.Symlink(f.image+".2", byID))
			return []string{f.image, f.image + ".2"}
		},
		open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		says: "leads to",
	},
}

// diskRefusals is what happens to whole disks, besides what loops have in common with
// them.
var diskRefusals = map[string]refusal{
	"mounted": {
		happens: mountsIt,
		open:    device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, kept: true,
	},
	"used_as_swap": {
		happens: swapsIt,
		open:    device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, kept: true,
	},
	"claimed_by_another": {happens: claimsIt, open: device.CodeTargetBusy, first: device.CodeTargetBusy, kept: true},
	"held": {
		happens: changes(map[string]string{"holders/dm-0": ""}),
		open:    device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "sda is held by dm-0",
	},
	"partition_held": {
		happens: changes(map[string]string{"sda1/partition": "1\n", "sda1/dev": "8:1\n", "sda1/holders/md127": ""}),
		open:    device.CodeTargetBusy, known: device.CodeTargetBusy, first: device.CodeTargetBusy, check: device.CodeTargetBusy,
		says: "sda1 is held by md127",
	},
	"the_system_lies_on_it": {
		happens: func(t *testing.T, f *fixture) []string {
			// The root's file system on a volume, on a partition of the disk.
			var root unix.Stat_t
			require.NoError(t, unix.Stat("/", &root))
			f.set(t, "sda", map[string]string{"sda2/partition": "2\n", "sda2/dev": "8:2\n"})
			f.disk(t, "dm-7", numberOf(root.Dev), "none", nil)
			slaves := filepath.Join(f.driver.sys.sys, "devices/dm-7/slaves")
			require.NoError(t, os.Mkdir(slaves, 0o700))
			require.NoError(t, os.Symlink("../../sda/sda2", filepath.Join(slaves, "sda2")))
			return []string{f.image}
		},
		open: device.CodeNotAllowed, known: device.CodeNotAllowed, first: device.CodeNotAllowed, check: device.CodeNotAllowed,
		says: "the disk under /",
	},
	"replaced": {
		happens: changes(map[string]string{"device/wwid": "naa.5000c500ffffffff\n"}),
		open:    device.CodeReplaced, known: device.CodeReplaced, check: device.CodeReplaced,
		says: "(serial)",
	},
	"another_model": {
		happens: changes(map[string]string{"device/model": "DISK 2\n"}),
		open:    device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged,
		says: "(model)",
	},
	"tells_no_serial_any_more": {
		happens: changes(map[string]string{"device/wwid": "\n"}),
		open:    device.CodeIdentityChanged, known: device.CodeIdentityChanged, first: device.CodeInvalidSetting, check: device.CodeIdentityChanged,
		says: "neither a wwid nor a serial",
	},
	"second_path_to_it": {
		happens: func(t *testing.T, f *fixture) []string {
			f.disk(t, "sdb", "8:16", "scsi", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4\n"})
			return []string{f.image}
		},
		open: device.CodeTargetShared, known: device.CodeTargetShared, first: device.CodeTargetShared, check: device.CodeTargetShared,
		says: "have the same serial",
	},
	"read_only": {
		happens: changes(map[string]string{"ro": "1\n"}),
		open:    device.CodeNotAllowed, known: device.CodeNotAllowed, first: device.CodeNotAllowed, check: device.CodeNotAllowed,
		says: "read-only",
	},
	"pulled": {
		happens: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Remove(filepath.Join(f.driver.sys.sys, "dev/block", numberOf(f.number(t)))))
			return []string{f.image}
		},
		open: device.CodeTargetMissing, known: device.CodeTargetMissing, first: device.CodeTargetMissing, check: device.CodeTargetMissing,
		says: "is not there",
	},
	"grown":  {happens: resized(4096), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, says: "(size)", zero: true},
	"shrunk": {happens: resized(-512), open: device.CodeIdentityChanged, known: device.CodeIdentityChanged, check: device.CodeIdentityChanged, says: "(size)", zero: true},
	"renumbered": {
		happens: func(t *testing.T, f *fixture) []string {
			// Another device has the name now.
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			other := &fixture{driver: f.driver, image: f.image + ".2"}
			stamped(t, other.image, f.who.Size)
			other.loop = attach(t, other.image)
			other.node(t, "sda")
			links := filepath.Join(f.driver.sys.sys, "dev/block")
			require.NoError(t, os.Symlink("../../devices/sda", filepath.Join(links, numberOf(other.number(t)))))
			return []string{f.image, other.image}
		},
		// Before it is opened it is the enrolled one, by its serial: the kernel gives numbers
		// as it finds disks (measured: a partition table on one drive renumbered the next).
		check: device.CodeIdentityChanged, says: "names something else now",
	},
}

// mountsIt mounts the device.
func mountsIt(t *testing.T, f *fixture) []string {
	needs(t, "mkfs.ext4", "mount")
	run(t, "mkfs.ext4", "-q", "-F", f.loop)
	mount1(t, f.loop, "ro,noload")
	return []string{f.image}
}

// swapsIt uses the device as swap.
func swapsIt(t *testing.T, f *fixture) []string {
	needs(t, "mkswap", "swapon")
	run(t, "mkswap", f.loop)
	mayRun(t, "swapon", f.loop)
	t.Cleanup(func() { run(t, "swapoff", f.loop) })
	return []string{f.image}
}

// claimsIt claims the device, as md, dm or another worker does.
func claimsIt(t *testing.T, f *fixture) []string {
	holdOpen(t, f.loop, os.O_RDONLY|os.O_EXCL)
	return []string{f.image}
}

// partition makes the device's one partition and gives its node.
func partition(t *testing.T, f *fixture) string {
	t.Helper()
	// Told to the kernel, not written: it may know no kind of table.
	needs(t, "addpart")
	run(t, "addpart", f.loop, "1", "2048", "20480")
	part := f.loop + "p1"
	if _, err := os.Stat(part); err != nil {
		t.Skipf("this environment makes no nodes of partitions: %v", err)
	}
	return part
}

// reattached attaches the same file again, in another way.
func reattached(args ...string) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		run(t, "losetup", "--detach", f.loop)
		run(t, "losetup", append(args, f.loop, f.image)...)
		return []string{f.image}
	}
}

// resized makes the file longer by so many bytes and lets the device follow.
func resized(by int64) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		require.NoError(t, os.Truncate(f.image, f.who.Size+by))
		run(t, "losetup", "--set-capacity", f.loop)
		return []string{f.image}
	}
}

// changes writes other attributes of the disk.
func changes(attributes map[string]string) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		f.set(t, "sda", attributes)
		return []string{f.image}
	}
}
