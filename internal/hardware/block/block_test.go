package block

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

func TestSuite(t *testing.T) {
	for name, tc := range map[string]struct {
		dir      func(t *testing.T) string
		buffered bool
		sizes    []int64
	}{
		"here":  {dir: workDir, sizes: []int64{hardware.Align, 2*hardware.ZeroesLen + hardware.Align + 777, 511}},
		"tmpfs": {dir: func(t *testing.T) string { return mountDevice(t, "none", "size=200m", "-t", "tmpfs") }},
		"xfs":   {dir: func(t *testing.T) string { return mounted(t, workDir(t), []string{"mkfs.xfs", "-q"}, "") }},
		"ext4":  {dir: func(t *testing.T) string { return mounted(t, workDir(t), []string{"mkfs.ext4", "-q"}, "") }},
		"ext2":  {dir: func(t *testing.T) string { return mounted(t, workDir(t), []string{"mkfs.ext2", "-q"}, "") }},
		"ext4 on sectors of 4096": {dir: func(t *testing.T) string {
			return mounted(t, workDir(t), []string{"mkfs.ext4", "-q", "-b", "4096"}, "", "--sector-size", "4096")
		}},
		"buffered": {dir: workDir, buffered: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, made := tc.dir(t), 0
			if tc.sizes == nil { // what the file systems differ in is the tail
				tc.sizes = []int64{3*hardware.Align + 777}
			}
			driver := newDriver(t)
			if tc.buffered {
				driver.sys.direct = noDirect
			}
			hardwaretest.Run(t, hardwaretest.Fixture{
				Driver: driver,
				Write:  writeSize,
				Sizes:  tc.sizes,
				New: func(t *testing.T, size int64) hardwaretest.Device {
					made++
					path := filepath.Join(dir, fmt.Sprintf("file%d", made))
					require.NoError(t, os.WriteFile(path, nil, 0o600))
					require.NoError(t, os.Truncate(path, size))
					t.Cleanup(func() { require.NoError(t, os.Remove(path)) })
					return hardwaretest.Device{Target: targetAt(path), Backdoor: hardwaretest.File(path)}
				},
			})
		})
	}
}

// noDirect is a file system without O_DIRECT.
func noDirect(_ int, on bool) error {
	if on {
		return unix.EINVAL
	}
	return nil
}

// F14
func TestIdentityIsTheInode(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(f.path, &stat))
	require.Equal(t, device.Identity{
		Serial: f.identity.Serial, Model: "file", Size: oddSize,
		Given: f.path, Path: f.path, Device: stat.Dev, Inode: stat.Ino,
	}, f.identity)
	require.Contains(t, f.identity.Serial, fmt.Sprintf("ino-%x-%d-", stat.Dev, stat.Ino))
	found, err := f.driver.Discover(t.Context(), f.target, f.identity)
	require.NoError(t, err)
	require.Equal(t, device.Shred, found.Operation)
	require.NotEmpty(t, found.Note)
}

// F14
func TestNextFileWithTheSameInodeNumberIsAnother(t *testing.T) {
	dir := workDir(t)
	for range 64 {
		f := enroll(t, dir, 64*kib)
		require.NoError(t, os.Remove(f.path))
		next := enroll(t, dir, 64*kib)
		require.NoError(t, os.Remove(f.path))
		require.NotEqual(t, f.identity.Serial, next.identity.Serial)
		if f.identity.Inode == next.identity.Inode {
			return
		}
	}
	t.Log("this file system gives no inode number again: nothing more was tested")
}

// F14
func TestLinkIsResolvedOnceAndBothNamesAreKept(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	byID := filepath.Join(f.dir, "by-id")
	require.NoError(t, os.Symlink(f.path, byID))
	f.target = targetAt(byID)
	found, err := f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)
	require.Equal(t, byID, found.Identity.Given)
	require.Equal(t, f.path, found.Identity.Path)
	require.Empty(t, f.identity.Differs(found.Identity), "it is the same device under each name")

	f.identity = found.Identity
	h := f.open(t, true)
	require.NoError(t, h.Check(t.Context()))
	require.Equal(t, methodDirect, h.Method())
}

// The rules get the resolved path, and of a loop device also that of the file behind it.
//
// F13
func TestRulesAreAskedAtDiscoverAndBeforeEachWritableOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		enroll  func(*testing.T, string, int64) *fixture
		refused func(f *fixture) string
	}{
		"a file":            {enroll, func(f *fixture) string { return f.path }},
		"a loop":            {enrollLoop, func(f *fixture) string { return f.path }},
		"what is behind it": {enrollLoop, func(f *fixture) string { return f.image }},
	} {
		t.Run(name, func(t *testing.T) {
			f := tc.enroll(t, workDir(t), mib)
			refused, before := tc.refused(f), checksums(t, []string{f.backing()})
			d := New(rulesFunc(func(path string) error {
				if path == refused {
					return hardware.Refused(device.CodeNotAllowed, "allow it", "no line allows %s", path)
				}
				return nil
			}))
			d.sys.dev = f.driver.sys.dev
			byID := filepath.Join(f.dir, "by-id")
			require.NoError(t, os.Symlink(f.path, byID))
			_, err := d.Discover(t.Context(), targetAt(byID), device.Identity{})
			require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeNotAllowed).Message, refused)
			h, err := d.Open(t.Context(), f.target, f.identity, true)
			require.Equal(t, device.NeedsOperator, hardwaretest.RequireFault(t, err, device.CodeNotAllowed).Class)
			require.Nil(t, h)
			require.Equal(t, before, checksums(t, []string{f.backing()}))
			h, err = d.Open(t.Context(), f.target, f.identity, false)
			require.NoError(t, err, "reading erases nothing")
			require.NoError(t, h.Close())
		})
	}
}

type rulesFunc func(string) error

func (f rulesFunc) AllowPath(path string) error { return f(path) }

func TestOnlyRegularFilesAreAccepted(t *testing.T) {
	dir := workDir(t)
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	for name, tc := range map[string]struct {
		path, says string
		code       device.Code
	}{
		"none":         {"", "needs the setting path", device.CodeInvalidSetting},
		"relative":     {"some/file", "not absolute", device.CodeInvalidSetting},
		"directory":    {dir, "neither a regular file", device.CodeInvalidSetting},
		"fifo":         {fifo, "neither a regular file", device.CodeInvalidSetting},
		"char device":  {"/dev/null", "neither a regular file", device.CodeInvalidSetting},
		"empty file":   {empty, "is empty", device.CodeInvalidSetting},
		"missing":      {filepath.Join(dir, "nothing"), "does not exist", device.CodeTargetMissing},
		"below a file": {filepath.Join(plain, "x"), "does not exist", device.CodeTargetMissing},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newDriver(t).Discover(t.Context(), targetAt(tc.path), device.Identity{})
			require.Contains(t, hardwaretest.RequireFault(t, err, tc.code).Message, tc.says)
			if tc.path != "" && filepath.IsAbs(tc.path) {
				h, err := newDriver(t).Open(t.Context(), targetAt(tc.path), device.Identity{Path: tc.path}, true)
				hardwaretest.RequireFault(t, err, tc.code)
				require.Nil(t, h)
			}
		})
	}
}

// F1
func TestLockIsReleasedByClosingEveryCopy(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, true)
	copied, err := unix.Dup(h.fd) // as a child inherits it
	require.NoError(t, err)
	require.NoError(t, h.Close())
	_, err = f.driver.Open(t.Context(), f.target, f.identity, true)
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeTargetBusy).Message, "locked")
	require.NoError(t, unix.Close(copied))
	f.open(t, true)
}

// F1
func TestOneDescriptorFromTheLockToTheLastWrite(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, true)
	var seen []int
	write := h.sys.pwrite
	h.sys.pwrite = func(fd int, p []byte, offset int64) (int, error) {
		seen = append(seen, fd)
		require.Equal(t, []int{h.fd}, descriptorsOf(t, f.path), "the target is open once")
		return write(fd, p, offset)
	}
	require.NoError(t, h.ZeroAt(t.Context(), 0, oddSize))
	require.NoError(t, h.Flush(t.Context()))
	require.NotEmpty(t, seen)
	for _, fd := range seen {
		require.Equal(t, h.fd, fd)
	}
	_, err := h.ReadAt(make([]byte, 5000), 100)
	require.NoError(t, err)
	require.Equal(t, []int{h.fd}, descriptorsOf(t, f.path))
}

// descriptorsOf lists this process's descriptors of a file.
func descriptorsOf(t *testing.T, path string) []int {
	t.Helper()
	wanted, err := inodeAt(path)
	require.NoError(t, err)
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var found []int
	for _, entry := range entries {
		var fd int
		_, err := fmt.Sscan(entry.Name(), &fd)
		require.NoError(t, err)
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) == nil && inodeOf(&stat) == wanted {
			found = append(found, fd)
		}
	}
	return found
}

// F14
func TestWritesFollowTheDescriptorAndNotThePath(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, true)
	away := filepath.Join(f.dir, "away")
	require.NoError(t, os.Rename(f.path, away))
	stranger := stamped(t, f.path, oddSize)
	before := hardwaretest.Sum(t, stranger)

	// Without a Check in between, which is the worst case.
	require.NoError(t, h.ZeroAt(t.Context(), 0, oddSize))
	require.NoError(t, h.Flush(t.Context()))
	_, err := h.ReadAt(make([]byte, 10), 0)
	require.NoError(t, err)
	require.Equal(t, before, hardwaretest.Sum(t, stranger))
	hardwaretest.RequireCount(t, hardwaretest.File(away), nonce, 0, oddSize/512+1, 0)
	hardwaretest.RequireFault(t, h.Check(t.Context()), device.CodeIdentityChanged)
}
