package block

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/loops"
)

// refusal is a change to an enrolled target after which nothing may be written.
type refusal struct {
	name string
	// of are the kinds of targets: file, loop, disk.
	of string
	// change makes the change and returns the files whose bytes must not change; nil is the target's own.
	change func(t *testing.T, f *fixture) []string
	// code is the fault of Open, of Discover while the target is offered, of any other with the enrolled identity
	// (known), of a first Discover, and of Check on an open handle, except where another is given: none is no fault, or,
	// for the first, not asked.
	code, known, first, check device.Code
	// message is part of Check's fault.
	message string
	// dir is the directory of the file; workDir if nil.
	dir func(t *testing.T) string
	// size is that of the file; about one MiB if 0.
	size int64
	// partitioned: the target has a partition, with a link to it in the directory.
	partitioned bool
	// zero: ZeroAt of an open handle fails even without a Check.
	zero bool
	// claimed: it cannot happen to an open device.
	claimed bool
	// onlyWritable: opening for reading, and a look at what is offered, is still allowed.
	onlyWritable bool
	// swap: the kernel itself may write to the first swapArea bytes.
	swap bool
}

const none device.Code = "none"

const (
	busy      = device.CodeTargetBusy
	changed   = device.CodeIdentityChanged
	shared    = device.CodeTargetShared
	missing   = device.CodeTargetMissing
	forbidden = device.CodeNotAllowed
	invalid   = device.CodeInvalidSetting
	otherUnit = device.CodeSerialMismatch
)

var refusals = []refusal{
	// What a name leads to.
	{name: "renamed", of: "file loop", code: missing, check: changed, message: "cannot be resolved now",
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			return []string{cmp.Or(f.image, f.path+".2")}
		}},
	{name: "replaced by a file", of: "file loop", code: otherUnit, first: none, check: changed,
		message: "names something else now",
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.path, f.path+".2"))
			stamped(t, f.path, f.identity.Size)
			return []string{cmp.Or(f.image, f.path+".2"), f.path}
		}},
	{name: "removed and recreated", of: "file", code: otherUnit, first: none, check: changed,
		message: "was removed", zero: true,
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Remove(f.path))
			stamped(t, f.path, f.identity.Size)
			return nil
		}},
	{name: "file behind removed", of: "loop", code: changed, message: "was removed", zero: true,
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Rename(f.image, f.image+".2"))
			stamped(t, f.image, f.identity.Size)
			require.NoError(t, os.Remove(f.image+".2"))
			return nil
		}},
	{name: "symlink at path", of: "file", code: changed, first: none, message: "leads to", change: linkAtPath},
	{name: "symlink at path", of: "loop", code: changed, first: invalid, message: "leads to", change: linkAtPath},
	{name: "symlinked parent", of: "file", code: changed, first: none, message: "leads to",
		change: func(t *testing.T, f *fixture) []string {
			parent := filepath.Dir(f.path)
			require.NoError(t, os.Rename(parent, parent+".2"))
			require.NoError(t, os.Symlink(parent+".2", parent))
			return nil
		}},
	{name: "given name leads elsewhere", of: "file loop", code: changed, first: none, message: "leads to",
		change: func(t *testing.T, f *fixture) []string {
			byID, other := filepath.Join(f.dir, "by-id"), f.backing()+".2"
			stamped(t, other, f.identity.Size)
			require.NoError(t, os.Remove(byID))
			require.NoError(t, os.Symlink(other, byID))
			return []string{f.backing(), other}
		}},
	{name: "node of another device", of: "loop", code: changed, first: invalid, message: "names something else now",
		change: func(t *testing.T, f *fixture) []string {
			return []string{f.image, otherNode(t, f).image}
		}},
	{name: "renumbered", of: "disk", code: none, check: changed, message: "names something else now",
		change: func(t *testing.T, f *fixture) []string {
			// Another device has the name now. Before it is opened, it is still the enrolled one by its
			// serial: kernel numbers depend on the order of discovery (measured: a partition table on
			// one drive renumbered the next).
			other := otherNode(t, f)
			links := filepath.Join(f.driver.sys.sys, "dev/block")
			require.NoError(t, os.Symlink("../../devices/sda", filepath.Join(links, formatNumber(other.number(t)))))
			return []string{f.image, other.image}
		}},
	{name: "pulled", of: "disk", code: missing, message: "does not exist",
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Remove(filepath.Join(f.driver.sys.sys, "dev/block", formatNumber(f.number(t)))))
			return nil
		}},

	// Whose bytes they are.
	{name: "hard linked", of: "file loop", code: shared, message: "2 names", zero: true,
		change: func(t *testing.T, f *fixture) []string {
			require.NoError(t, os.Link(f.backing(), f.backing()+".2"))
			return nil
		}},
	{name: "reflinked", of: "file loop", dir: reflinking, code: shared, message: "shares extents",
		change: func(t *testing.T, f *fixture) []string {
			run(t, "cp", "--reflink=always", f.backing(), f.backing()+".2")
			return []string{f.backing(), f.backing() + ".2"}
		}},
	{name: "file system below its loop was reflinked", of: "file", code: shared, message: "is on a loop device",
		dir: func(t *testing.T) string {
			outer := reflinking(t)
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
			return nil
		}},
	{name: "replaced", of: "disk", code: otherUnit, first: none, message: "(serial)", change: sets("device/wwid", "naa.5000c500ffffffff\n")},
	{name: "another model", of: "disk", code: changed, first: none, message: "(model)", change: sets("device/model", "DISK 2\n")},
	{name: "has no serial any more", of: "disk", code: changed, first: invalid, message: "neither a wwid nor a serial", change: sets("device/wwid", "\n")},
	{name: "second path to it", of: "disk", code: shared, message: "have the same serial",
		change: func(t *testing.T, f *fixture) []string {
			f.disk(t, "sdb", "8:16", "scsi", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4\n"})
			return nil
		}},
	{name: "the system lies on it", of: "disk", code: forbidden, message: "the disk below /",
		change: func(t *testing.T, f *fixture) []string {
			// The root file system is on a volume, on a partition of the disk.
			var root unix.Stat_t
			require.NoError(t, unix.Stat("/", &root))
			f.set(t, "sda", map[string]string{"sda2/partition": "2\n", "sda2/dev": "8:2\n"})
			f.disk(t, "dm-7", formatNumber(root.Dev), "none", nil)
			slaves := filepath.Join(f.driver.sys.sys, "devices/dm-7/slaves")
			require.NoError(t, os.Mkdir(slaves, 0o700))
			require.NoError(t, os.Symlink("../../sda/sda2", filepath.Join(slaves, "sda2")))
			return nil
		}},
	{name: "attached to another file", of: "loop", code: otherUnit, first: none, claimed: true,
		change: func(t *testing.T, f *fixture) []string {
			stamped(t, f.image+".2", f.identity.Size)
			require.NoError(t, loops.Reattach(f.loop, f.image+".2"))
			return []string{f.image, f.image + ".2"}
		}},
	{name: "detached", of: "loop", code: missing, claimed: true, change: func(_ *testing.T, f *fixture) []string { f.detach(); return nil }},

	// How large it is.
	{name: "shrunk", of: "file", code: changed, first: none, message: "(size)", zero: true, change: truncated(-512)},
	{name: "grown", of: "file", code: changed, first: none, message: "(size)", zero: true, change: truncated(1)},
	{name: "file behind shrunk", of: "loop", code: changed, first: invalid, message: "(size)", zero: true, change: truncated(-512)},
	{name: "file behind grown", of: "loop", code: changed, first: invalid, message: "(size)", zero: true, change: truncated(4096)},
	{name: "shrunk", of: "loop disk", code: changed, first: none, message: "(size)", zero: true, change: resized(-512)},
	{name: "grown", of: "loop disk", code: changed, first: none, message: "(size)", zero: true, change: resized(4096)},
	{name: "attached with an offset", of: "loop", code: changed, first: invalid, claimed: true, change: reattached("--offset", "4096")},
	{name: "attached with a size limit", of: "loop", code: changed, first: invalid, claimed: true, change: reattached("--sizelimit", "4096")},

	// Who uses it.
	{name: "attached read-only", of: "loop", code: forbidden, claimed: true, change: reattached("--read-only")},
	{name: "read-only", of: "disk", code: forbidden, message: "read-only", change: sets("ro", "1\n")},
	{name: "mounted", of: "loop disk", code: busy, claimed: true, change: mountIt},
	{name: "partition mounted", of: "loop", code: busy, claimed: true, partitioned: true,
		change: func(t *testing.T, f *fixture) []string {
			part := filepath.Join(f.dir, "part")
			run(t, "mkfs.ext4", "-q", "-F", part)
			mountDevice(t, part, "ro,noload")
			return nil
		}},
	{name: "mounted through a loop device", of: "file", code: busy, message: "is behind the loop device loop",
		change: func(t *testing.T, f *fixture) []string {
			requireTools(t, "mkfs.ext4", "losetup", "mount")
			run(t, "mkfs.ext4", "-q", "-F", f.path)
			// Read-only and without its journal, so that mounting writes nothing.
			mountDevice(t, attach(t, f.path, "--read-only"), "ro,noload")
			return nil
		}},
	{name: "mounted as a file", of: "file loop", code: busy, message: "a point",
		change: func(t *testing.T, f *fixture) []string {
			point := filepath.Join(f.dir, "a point")
			require.NoError(t, os.WriteFile(point, nil, 0o600))
			runOrSkip(t, "mount", "--bind", f.backing(), point)
			t.Cleanup(func() { unmount(t, point) })
			return nil
		}},
	{name: "used as swap", of: "file", size: 8 * mib, code: busy, message: "used as swap", swap: true,
		change: func(t *testing.T, f *fixture) []string {
			swapOn(t, f.path)
			return nil
		}},
	{name: "used as swap", of: "loop disk", code: busy, claimed: true, swap: true, change: swapOnIt},
	{name: "claimed by another", of: "loop disk", code: busy, known: none, claimed: true, change: claimIt},
	{name: "held", of: "disk", code: busy, message: "sda is held by dm-0", change: sets("holders/dm-0", "")},
	{name: "partition held", of: "disk", code: busy, message: "sda1 is held by md127", change: sets("sda1/partition", "1\n", "sda1/dev", "8:1\n", "sda1/holders/md127", "")},
	{name: "behind a loop device", of: "file loop", code: busy, message: "is behind the loop device loop",
		change: func(t *testing.T, f *fixture) []string {
			attach(t, f.backing(), "--read-only")
			return nil
		}},
	{name: "behind another loop", of: "loop", code: busy, message: "is behind the loop device loop",
		change: func(t *testing.T, f *fixture) []string {
			attach(t, f.loop, "--read-only")
			return nil
		}},
	{name: "held open for writing", of: "loop disk", code: busy, known: none, message: "held open for writing by process",
		change: func(t *testing.T, f *fixture) []string {
			holdOpen(t, f.loop, os.O_RDWR)
			return nil
		}},
	{name: "partition held open for writing", of: "loop", partitioned: true, code: busy, known: none,
		message: "held open for writing by process",
		change: func(t *testing.T, f *fixture) []string {
			holdOpen(t, filepath.Join(f.dir, "part"), os.O_RDWR)
			return nil
		}},
	{name: "bytes held open for writing", of: "file loop", code: busy, known: none, message: "held open",
		change: func(t *testing.T, f *fixture) []string {
			holdOpen(t, f.backing(), os.O_RDWR)
			return nil
		}},
	{name: "held open for reading", of: "file", code: busy, known: none, first: none,
		message: "held open", onlyWritable: true,
		change: func(t *testing.T, f *fixture) []string {
			holdOpen(t, f.path, os.O_RDONLY)
			return nil
		}},
	{name: "mapped for writing", of: "loop disk", code: busy, known: none, message: "mapped for writing by process",
		change: func(t *testing.T, f *fixture) []string {
			holdMapped(t, f.loop)
			return nil
		}},
	{name: "mapped by another node", of: "loop", code: busy, known: none, message: "mapped for writing by process",
		change: func(t *testing.T, f *fixture) []string {
			node := filepath.Join(f.dir, "node of another namespace")
			require.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(f.number(t))))
			holdMapped(t, node)
			require.NoError(t, os.Remove(node))
			return nil
		}},
	{name: "partition mapped for writing", of: "loop", partitioned: true, code: busy, known: none,
		message: "mapped for writing by process",
		change: func(t *testing.T, f *fixture) []string {
			holdMapped(t, filepath.Join(f.dir, "part"))
			return nil
		}},
	// Of a file the kernel's lease covers it.
	{name: "bytes mapped for writing", of: "file loop", code: busy, known: none, message: "mapped",
		change: func(t *testing.T, f *fixture) []string {
			holdMapped(t, f.backing())
			return nil
		}},
}

// F14
func TestRefusedAndNothingIsWritten(t *testing.T) {
	for _, r := range refusals {
		for _, kind := range strings.Fields(r.of) {
			t.Run(kind+"/"+r.name, func(t *testing.T) { r.run(t, kind) })
		}
	}
}

func (r refusal) run(t *testing.T, kind string) {
	r.known, r.first, r.check = cmp.Or(r.known, r.code), cmp.Or(r.first, r.code), cmp.Or(r.check, r.code)
	t.Run("before_it_is_opened", func(t *testing.T) {
		f := r.enroll(t, kind)
		files := r.make(t, f)
		before := r.sums(t, files)

		_, err := f.driver.Discover(t.Context(), f.target, f.identity)
		requireCode(t, err, r.known)
		offered, busyFor := f.target, r.code
		if offered.Offered = true; r.onlyWritable {
			busyFor = none
		}
		_, err = f.driver.Discover(t.Context(), offered, f.identity)
		requireCode(t, err, busyFor)
		if r.first != none {
			_, err = f.driver.Discover(t.Context(), f.target, device.Identity{})
			requireCode(t, err, r.first)
		}
		for _, writable := range []bool{true, false} {
			h, err := f.driver.Open(t.Context(), f.target, f.identity, writable)
			if err == nil { // a handle that must not be would keep its loop device
				t.Cleanup(func() { _ = h.Close() })
			}
			if !writable && r.onlyWritable || r.code == none {
				require.NoError(t, err)
				require.NoError(t, h.Close())
				continue
			}
			requireCode(t, err, r.code)
			require.Nil(t, h)
		}
		require.Equal(t, before, r.sums(t, files))
		for _, path := range files {
			require.LessOrEqual(t, len(descriptorsOf(t, path)), 1, "no refusal leaves a descriptor open")
		}
	})
	if r.claimed {
		return
	}
	t.Run("while_it_is_open", func(t *testing.T) {
		f := r.enroll(t, kind)
		h := f.open(t, true)
		require.NoError(t, h.Check(t.Context()))
		files := r.make(t, f)
		before := r.sums(t, files)
		err := h.Check(t.Context())
		requireCode(t, err, r.check)
		require.Contains(t, err.Error(), r.message)
		if r.zero {
			requireCode(t, h.ZeroAt(t.Context(), 0, f.identity.Size), r.check)
		}
		require.NoError(t, h.Close())
		require.Equal(t, before, r.sums(t, files))
	})
}

// enroll enrolls the target by a link, as operators do with /dev/disk/by-id.
func (r refusal) enroll(t *testing.T, kind string) *fixture {
	t.Helper()
	dir, size := workDir, cmp.Or(r.size, mib+512)
	if r.dir != nil {
		dir = r.dir
	}
	if kind == "file" {
		size = cmp.Or(r.size, mib+777)
	}
	if r.partitioned {
		size = 16 * mib
	}
	f := map[string]func(*testing.T, string, int64) *fixture{"file": enroll, "loop": enrollLoop, "disk": enrollDisk}[kind](
		t, dir(t), size)
	if r.partitioned {
		require.NoError(t, os.Symlink(partition(t, f), filepath.Join(f.dir, "part")))
	}
	byID := filepath.Join(f.dir, "by-id")
	require.NoError(t, os.Symlink(f.path, byID))
	f.target = targetAt(byID)
	found, err := f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)
	f.identity = found.Identity
	return f
}

// make makes the change.
func (r refusal) make(t *testing.T, f *fixture) []string {
	t.Helper()
	if files := r.change(t, f); files != nil {
		return files
	}
	return []string{f.backing()}
}

// sums are the checksums of files whose bytes must not change.
func (r refusal) sums(t *testing.T, files []string) map[string]string {
	t.Helper()
	if !r.swap {
		return checksums(t, files)
	}
	all := map[string]string{}
	for _, path := range files {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		all[path] = string(content[swapArea:])
	}
	return all
}

// backing is the file with the target's bytes.
func (f *fixture) backing() string { return cmp.Or(f.image, f.path) }

// reflinking is a directory whose file system makes reflinks.
func reflinking(t *testing.T) string {
	return mounted(t, workDir(t), []string{"mkfs.xfs", "-q", "-m", "reflink=1"}, "")
}

func linkAtPath(t *testing.T, f *fixture) []string {
	require.NoError(t, os.Rename(f.path, f.path+".2"))
	require.NoError(t, os.Symlink(f.path+".2", f.path))
	return []string{cmp.Or(f.image, f.path+".2")}
}

// otherNode puts a node of another loop device in the place of the target's.
func otherNode(t *testing.T, f *fixture) *fixture {
	other := &fixture{driver: f.driver, image: f.image + ".2"}
	stamped(t, other.image, f.identity.Size)
	other.loop = attach(t, other.image)
	require.NoError(t, os.Rename(f.path, f.path+".2"))
	other.node(t, filepath.Base(f.path))
	return other
}

// truncated changes the size of the file alone.
func truncated(by int64) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		require.NoError(t, os.Truncate(f.backing(), f.identity.Size+by))
		return nil
	}
}

// resized changes the size of the file and of the device.
func resized(by int64) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		truncated(by)(t, f)
		run(t, "losetup", "--set-capacity", f.loop)
		return nil
	}
}

// reattached attaches the same file with other options.
func reattached(args ...string) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		require.NoError(t, loops.Reattach(f.loop, f.image, args...))
		return nil
	}
}

// sets changes attributes of the disk: names and values.
func sets(attributes ...string) func(t *testing.T, f *fixture) []string {
	return func(t *testing.T, f *fixture) []string {
		for i := 0; i < len(attributes); i += 2 {
			f.set(t, "sda", map[string]string{attributes[i]: attributes[i+1]})
		}
		return nil
	}
}

// mountIt mounts the device.
func mountIt(t *testing.T, f *fixture) []string {
	requireTools(t, "mkfs.ext4", "mount")
	run(t, "mkfs.ext4", "-q", "-F", f.loop)
	mountDevice(t, f.loop, "ro,noload")
	return nil
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

// swapOnIt uses the device as swap.
func swapOnIt(t *testing.T, f *fixture) []string {
	swapOn(t, f.loop)
	return nil
}

// claimIt claims the device, like md, dm or another worker.
func claimIt(t *testing.T, f *fixture) []string {
	holdOpen(t, f.loop, os.O_RDONLY|os.O_EXCL)
	return nil
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

// holdOpen keeps a file open until the test ends, like a guest.
func holdOpen(t *testing.T, path string, flags int) {
	t.Helper()
	file, err := os.OpenFile(path, flags, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
}

// holdMapped maps a target until the test ends. No descriptor of it stays open.
func holdMapped(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	memory, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
}
