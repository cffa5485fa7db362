package block

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// loopOver makes a loop device over a new file of this size in dir.
func loopOver(t *testing.T, dir string, size int64, args ...string) (loop, file string) {
	t.Helper()
	file = image(t, dir, size)
	loop = attach(t, file, args...)
	return loop, file
}

// TestLoopSuite runs the suite on loop devices. The back door is the file behind the loop,
// because the loop's cache may differ.
func TestLoopSuite(t *testing.T) {
	for name, tc := range map[string]struct {
		dir   func(t *testing.T) string
		args  []string
		sizes []int64
	}{
		"here": {dir: workDir, sizes: []int64{hardware.Align + 1536, 512}},
		"direct_io_below, blocks_of_4096_bytes": {
			dir: workDir, args: []string{"--direct-io=on", "--sector-size", "4096"}, sizes: []int64{3 * hardware.Align},
		},
		"tmpfs": {
			dir:   func(t *testing.T) string { return mountDevice(t, "none", "size=200m", "-t", "tmpfs") },
			sizes: []int64{hardware.Align + 512},
		},
		"xfs": {
			dir:   func(t *testing.T) string { return mounted(t, workDir(t), []string{"mkfs.xfs", "-q"}, "") },
			sizes: []int64{hardware.Align + 512},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tc.dir(t)
			hardwaretest.Run(t, hardwaretest.Fixture{
				Driver: newDriver(t),
				Write:  writeSize,
				Sizes:  tc.sizes,
				New: func(t *testing.T, size int64) hardwaretest.Device {
					loop, file := loopOver(t, dir, size, tc.args...)
					t.Cleanup(func() { require.NoError(t, os.Remove(file)) })
					return hardwaretest.Device{Target: targetAt(loop), Backdoor: hardwaretest.File(file)}
				},
			})
		})
	}
}

// F14
func TestIdentityOfALoopIsTheInodeBehind(t *testing.T) {
	f := enrollLoop(t, workDir(t), evenSize)
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(f.image, &stat))
	require.Equal(t, device.Identity{
		Serial: f.identity.Serial, Model: "loop", Size: evenSize, Given: f.path, Path: f.path, Device: stat.Dev,
		Inode: stat.Ino,
	}, f.identity)

	// The file has another name now, and is still the same file.
	require.NoError(t, os.Rename(f.image, f.image+".2"))
	found, err := f.driver.Discover(t.Context(), f.target, f.identity)
	require.NoError(t, err)
	require.Empty(t, f.identity.Differs(found.Identity))
	require.Contains(t, found.Note, f.image+".2")
	h := f.open(t, true)
	require.NoError(t, h.ZeroAt(t.Context(), 0, evenSize))
	require.NoError(t, h.Close())
	hardwaretest.RequireCount(t, hardwaretest.File(f.image+".2"), nonce, 0, evenSize/512, 0)

	// The file without its loop has the same serial, so that they share the fence and cannot
	// be enrolled as two devices.
	f.detach()
	found, err = f.driver.Discover(t.Context(), targetAt(f.image+".2"), device.Identity{})
	require.NoError(t, err)
	require.Equal(t, f.identity.Serial, found.Identity.Serial)
}

// Part of a file that the loop does not show would keep its bytes.
//
// F14
func TestLoopThatCannotBeErasedIsNotEnrolled(t *testing.T) {
	for name, tc := range map[string]struct {
		size int64
		args []string
		code device.Code
		says string
	}{
		"offset":              {mib, []string{"--offset", "512"}, device.CodeInvalidSetting, "shows 1048064 bytes from offset 512"},
		"size limit":          {mib, []string{"--sizelimit", "512"}, device.CodeInvalidSetting, "shows 512 bytes from offset 0"},
		"part of a sector":    {mib + 100, nil, device.CodeInvalidSetting, "of its file, which has 1048676"},
		"part of a block":     {mib + 512, []string{"--sector-size", "4096"}, device.CodeInvalidSetting, ""},
		"read-only":           {mib, []string{"--read-only"}, device.CodeNotAllowed, "is read-only"},
		"limit of the whole":  {mib, []string{"--sizelimit", "1048576"}, "", ""},
		"blocks of 4096":      {mib, []string{"--sector-size", "4096"}, "", ""},
		"whole, odd as 4096s": {mib + 512, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := loopFixture(t, workDir(t), tc.size, tc.args...)
			f.path = f.node(t, filepath.Base(f.loop))
			before := checksums(t, []string{f.image})
			_, err := f.driver.Discover(t.Context(), targetAt(f.path), device.Identity{})
			requireCode(t, err, tc.code)
			if tc.code != "" {
				require.ErrorContains(t, err, tc.says)
			}
			require.Equal(t, before, checksums(t, []string{f.image}))
		})
	}
	t.Run("over another device", func(t *testing.T) {
		f := loopFixture(t, workDir(t), mib)
		upper := attach(t, f.loop)
		_, err := newDriver(t).Discover(t.Context(), targetAt(upper), device.Identity{})
		require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeInvalidSetting).Message,
			"is attached to another device")
	})
	t.Run("detached during discovery", func(t *testing.T) {
		f := loopFixture(t, workDir(t), mib)
		d := newDriver(t)
		d.sys.loopStatus = func(int) (*unix.LoopInfo64, error) { return nil, unix.ENXIO }
		_, err := d.Discover(t.Context(), targetAt(f.loop), device.Identity{})
		require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeTargetMissing).Message, "no file behind it")
	})
	t.Run("without a file", func(t *testing.T) {
		f := loopFixture(t, workDir(t), mib)
		f.path = f.node(t, filepath.Base(f.loop))
		f.detach()
		_, err := f.driver.Discover(t.Context(), targetAt(f.path), device.Identity{})
		require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeTargetMissing).Message, "no file behind it")
	})
}

// O_DIRECT bypasses the loop's cache, but the loop reads its file through another one.
//
// F19
func TestReadsOfALoopComeFromBelowItsFilesCache(t *testing.T) {
	requireTools(t, "mkfs.ext4", "losetup", "mount")
	outer := image(t, workDir(t), 100*mib)
	run(t, "mkfs.ext4", "-q", outer)
	dir := mountDevice(t, attach(t, outer), "")
	f := enrollLoop(t, dir, 4*mib)

	// The file is cached as zeroes, and on the disk a tenant's byte appears.
	h := f.open(t, true)
	require.NoError(t, h.ZeroAt(t.Context(), 0, 4*mib))
	require.NoError(t, h.Flush(t.Context()))
	hardwaretest.RequireCount(t, hardwaretest.File(f.image), nonce, 0, 4*mib/512, 0)
	fd, err := unix.Open(f.image, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	physical := firstPhysical(t, fd)
	require.NoError(t, unix.Close(fd))
	_, err = hardwaretest.File(outer).WriteAt([]byte{0xa5}, physical+2*mib+5)
	require.NoError(t, err)
	hardwaretest.RequireCount(t, hardwaretest.File(f.image), nonce, 0, 4*mib/512, 0)

	p := hardware.AlignedBuffer(4 * mib)
	_, err = h.ReadAt(p, 0)
	require.NoError(t, err)
	require.EqualValues(t, 0xa5, p[2*mib+5])
}
