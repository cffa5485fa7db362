package block

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
)

// tables writes the kernel's tables into a directory, so that tests need not mount anything.
func tables(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return root
}

// F14
func TestSwapIsFoundByInodeBehindAnyName(t *testing.T) {
	f := enroll(t, workDir(t), mib)
	odd := filepath.Join(f.dir, "a swap\twith\\odd name")
	require.NoError(t, os.Symlink(f.path, odd))
	before := checksums(t, []string{f.path})
	swaps := "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/gone\\040(deleted)   file 8188 0 -2\n" +
		f.dir + "/a\\040swap\\011with\\134odd\\040name   file 8188 0 -3\n"
	f.driver.sys.proc = tables(t, map[string]string{"swaps": swaps})
	// Everything else is read from the real tables.
	require.NoError(t, os.Symlink("/proc/self", filepath.Join(f.driver.sys.proc, "self")))
	require.NoError(t, os.Symlink("/proc/fs", filepath.Join(f.driver.sys.proc, "fs")))
	for _, known := range []device.Identity{{}, f.identity} {
		_, err := f.driver.Discover(t.Context(), f.target, known)
		require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeTargetBusy).Message, "swap")
	}
	h, err := f.driver.Open(t.Context(), f.target, f.identity, true)
	hardwaretest.RequireFault(t, err, device.CodeTargetBusy)
	require.Nil(t, h)
	require.Equal(t, before, checksums(t, []string{f.path}))

	require.NoError(t, os.WriteFile(filepath.Join(f.driver.sys.proc, "swaps"), []byte("Filename\n"), 0o600))
	f.open(t, true)
}

// F14
func TestLoopIsFoundBySysfsWhereItsNodeCannotBeOpened(t *testing.T) {
	f := enroll(t, workDir(t), mib)
	other := stamped(t, f.path+".2", mib)
	const entry = "block/loop7/loop/backing_file"
	for name, tc := range map[string]struct {
		text string
		code device.Code
	}{
		"this file":    {f.path + "\n", device.CodeTargetBusy},
		"another file": {string(other) + "\n", ""},
		"out of sight": {"/in/another/mount/namespace\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sys := realSystem()
			sys.dev = t.TempDir()
			sys.sys = tables(t, map[string]string{entry: tc.text})
			requireCode(t,
				sys.checkNotLoop("", func(b backing) (string, bool) {
					return "it", b.file == inode{f.identity.Device, f.identity.Inode}
				}),
				tc.code)
		})
	}
}

// Another loop device that is detached between open and read does not matter.
//
// F14
func TestLoopDetachedDuringTheCheckIsIgnored(t *testing.T) {
	image := filepath.Join(workDir(t), "image")
	stamped(t, image, mib)
	node, detach := attached(t, image)
	attribute, err := os.Open(filepath.Join("/sys/block", filepath.Base(node), "loop/backing_file"))
	require.NoError(t, err)
	defer attribute.Close()
	detach()
	_, err = attribute.Read(make([]byte, 4096))
	require.Error(t, err)
	require.True(t, loopDetached(err), "%v", err)
	require.False(t, loopDetached(unix.EIO))
}

// F14
func TestDataJournalIsReadFromTheTables(t *testing.T) {
	f := enroll(t, workDir(t), mib)
	number := fmt.Sprintf("%d:%d", unix.Major(f.identity.Device), unix.Minor(f.identity.Device))
	line := func(kind, options string) string {
		return "1 0 0:99 / / rw - btrfs /dev/sdz rw,data=journal\n" +
			"36 35 " + number + " / /mnt rw,noatime shared:1 master:2 - " + kind + " /dev/sda rw," + options + "\n"
	}
	for name, tc := range map[string]struct {
		mountinfo, options string
		code               device.Code
	}{
		"ordered":                      {line("ext4", "errors=remount-ro"), "rw\ndata=ordered\n", ""},
		"by option":                    {line("ext4", "data=journal"), "rw\ndata=journal\n", device.CodeOverwriteUnsupported},
		"by superblock":                {line("ext3", "relatime"), "rw\ndata=journal\n", device.CodeOverwriteUnsupported},
		"unknown options":              {line("ext4", "relatime"), "", device.CodeOverwriteUnsupported},
		"ext2 has neither":             {line("ext2", "relatime"), "", ""},
		"not in this mount namespace":  {"1 0 0:99 / / rw - btrfs /dev/sdz rw\n", "rw\n", device.CodeOverwriteUnsupported},
		"second mount of the same one": {line("ext4", "relatime") + line("ext4", "data=journal"), "rw\n", device.CodeOverwriteUnsupported},
		"another form of line":         {"36 35 " + number + " / /mnt\n", "rw\n", device.CodeIO},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"self/mountinfo": tc.mountinfo}
			if tc.options != "" {
				files["fs/ext4/sda/options"] = tc.options
			}
			sys := realSystem()
			sys.proc = tables(t, files)
			sys.sys = tables(t, map[string]string{"devices/sda/size": ""})
			require.NoError(t, os.MkdirAll(filepath.Join(sys.sys, "dev/block"), 0o700))
			require.NoError(t, os.Symlink("../../devices/sda", filepath.Join(sys.sys, "dev/block", number)))
			fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			requireCode(t, sys.checkNoDataJournal(fd, f.path, f.identity.Device), tc.code)
		})
	}
}

// F14
func TestStackedLoopsAreLimited(t *testing.T) {
	f := enroll(t, workDir(t), mib)
	err := realSystem().checkBacking(f.path, f.identity.Device, 8)
	hardwaretest.RequireFault(t, err, device.CodeOverwriteUnsupported)
}

func TestTablesThatCannotBeReadAreFaults(t *testing.T) {
	f := enroll(t, workDir(t), mib)
	target := inode{f.identity.Device, f.identity.Inode}
	sys := realSystem()
	sys.proc = tables(t, map[string]string{"swaps/is/a": "directory", "self/mountinfo/is/a": "directory"})
	hardwaretest.RequireFault(t, sys.checkFileUnused(f.path, target, ""), device.CodeIO)
	hardwaretest.RequireFault(t, sys.checkNotMounted(f.path, target), device.CodeIO)
	sys.proc = t.TempDir()
	require.NoError(t, sys.checkNotSwap(nil), "a kernel without swap has no such table")
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		"/plain": "/plain", `/a\040b`: "/a b", `/tab\011`: "/tab\t", `/nl\012x`: "/nl\nx", `/back\134slash`: `/back\slash`,
		`/not\9`: `/not\9`, `/end\`: `/end\`, `/end\04`: `/end\04`,
	} {
		require.Equal(t, want, unescape(text))
	}
}

// onWait is a context that calls a function when a caller starts to wait.
type onWait struct {
	context.Context
	wait func()
}

// Done is called by a caller that starts to wait.
func (c onWait) Done() <-chan struct{} {
	c.wait()
	return c.Context.Done()
}

// F14
func TestFileOfAnotherUserThatCannotBeProvedUnusedIsRefused(t *testing.T) {
	fault := leaseFault("/f", "", unix.EACCES)
	hardwaretest.RequireFault(t, fault, device.CodeNotAllowed)
	hardwaretest.RequireFault(t, leaseFault("/f", "", unix.EAGAIN), device.CodeTargetBusy)
	hardwaretest.RequireFault(t, leaseFault("/f", "", unix.EINVAL), device.CodeNotAllowed)
	require.ErrorIs(t, leaseFault("/f", "", context.Canceled), context.Canceled)
	require.NoError(t, leaseFault("/f", "", nil))
}
