package block

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
)

// A file that was always on such a file system cannot be enrolled, and cannot be opened with an
// identity from elsewhere.
//
// F14
func TestOverwriteUnsupported(t *testing.T) {
	ext4 := []string{"mkfs.ext4", "-q"}
	for name, tc := range map[string]struct {
		dir  func(t *testing.T) string
		size int64
		says string
	}{
		"btrfs": {
			dir:  func(t *testing.T) string { return mounted(t, workDir(t), []string{"mkfs.btrfs", "-q"}, "") },
			says: "magic 0x9123683e",
		},
		"overlay": {
			dir: func(t *testing.T) string {
				requireTools(t, "mount")
				dir := workDir(t)
				for _, sub := range []string{"lower", "upper", "work"} {
					require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
				}
				return mountDevice(t, "overlay", "lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work",
					"-t", "overlay")
			},
			says: "magic 0x794c7630",
		},
		"data_journal_by_mount_option": {
			dir:  func(t *testing.T) string { return mounted(t, workDir(t), ext4, "data=journal") },
			says: "mounted with data=journal",
		},
		"data_journal_by_superblock": {
			dir: func(t *testing.T) string {
				requireTools(t, "mkfs.ext4", "tune2fs")
				file := image(t, workDir(t), 100*mib)
				run(t, "mkfs.ext4", "-q", file)
				run(t, "tune2fs", "-o", "journal_data", file)
				return mountDevice(t, attach(t, file), "")
			},
			says: "default is data=journal",
		},
		"data_journal_by_flag": {
			// Set as chattr +j does. Files inherit it from their directory.
			dir: func(t *testing.T) string {
				requireTools(t, "mkfs.ext4", "debugfs")
				file := image(t, workDir(t), 100*mib)
				run(t, "mkfs.ext4", "-q", file)
				run(t, "debugfs", "-w", "-R", "set_inode_field <2> flags 0x84000", file)
				return mountDevice(t, attach(t, file), "")
			},
			says: "chattr +j",
		},
		"inline_data": {
			dir: func(t *testing.T) string {
				return mounted(t, workDir(t), []string{"mkfs.ext4", "-q", "-I", "1024", "-O", "inline_data"}, "")
			},
			size: 100,
			says: "inside its file system's own records",
		},
		"ext4_on_a_loop_on_btrfs": {
			dir: func(t *testing.T) string {
				outer := mounted(t, workDir(t), []string{"mkfs.btrfs", "-q"}, "")
				return mounted(t, outer, ext4, "")
			},
			says: "is on a loop device",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.size == 0 {
				tc.size = mib
			}
			path := filepath.Join(tc.dir(t), "target")
			before := hardwaretest.Sum(t, stamped(t, path, tc.size))
			d := newDriver(t)
			_, err := d.Discover(t.Context(), targetAt(path), device.Identity{})
			require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeOverwriteUnsupported).Message, tc.says)

			who := identityAnyway(t, path)
			for _, writable := range []bool{true, false} {
				h, err := d.Open(t.Context(), targetAt(path), who, writable)
				hardwaretest.RequireFault(t, err, device.CodeOverwriteUnsupported)
				require.Nil(t, h)
			}
			require.Equal(t, before, hardwaretest.Sum(t, hardwaretest.File(path)))
			if tc.size < mib {
				return // no device is that small
			}

			// A loop device over it does not help, because O_DIRECT ends at the file.
			loop := attach(t, path)
			_, err = d.Discover(t.Context(), targetAt(loop), device.Identity{})
			require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeOverwriteUnsupported).Message, "behind")
			who.Path, who.Model = loop, modelLoop
			for _, writable := range []bool{true, false} {
				h, err := d.Open(t.Context(), targetAt(loop), who, writable)
				hardwaretest.RequireFault(t, err, device.CodeOverwriteUnsupported)
				require.Nil(t, h)
			}
			require.Equal(t, before, hardwaretest.Sum(t, hardwaretest.File(path)))
		})
	}
}

// identityAnyway is the identity of a file as if its file system were in the allow-list.
func identityAnyway(t *testing.T, path string) device.Identity {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	sys := realSystem()
	sys.statfs = func(fd int, stat *unix.Statfs_t) error {
		err := unix.Fstatfs(fd, stat)
		if !overwritesInPlace(t, filepath.Dir(path)) {
			stat.Type = unix.EXT4_SUPER_MAGIC
		}
		return err
	}
	who, _, err := sys.identify(fd, path, path)
	if err != nil {
		// There is no generation, which alone would refuse it later.
		var stat unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &stat))
		who = device.Identity{Serial: "none", Model: modelFile, Size: stat.Size, Given: path, Path: path, Device: stat.Dev,
			Inode: stat.Ino}
	}
	return who
}

// F14
func TestFileSystemsThatAreNotListedAreRefusedByMagic(t *testing.T) {
	for name, magic := range map[string]int64{
		"zfs": 0x2fc12fc1, "f2fs": 0xf2f52010, "bcachefs": 0xca451a4e, "nfs": 0x6969, "fuse": 0x65735546, "cifs": 0xff534d42,
		"smb2": 0xfe534d42, "overlay": 0x794c7630, "btrfs": 0x9123683e, "vfat": 0x4d44, "ecryptfs": 0xf15f,
		"unknown": 0x12345678, "none": 0,
	} {
		t.Run(name, func(t *testing.T) {
			f := enroll(t, workDir(t), 64*kib)
			before := checksums(t, []string{f.path})
			f.driver.sys.statfs = func(fd int, stat *unix.Statfs_t) error {
				err := unix.Fstatfs(fd, stat)
				stat.Type = magic
				return err
			}
			for _, known := range []device.Identity{{}, f.identity} {
				_, err := f.driver.Discover(t.Context(), f.target, known)
				hardwaretest.RequireFault(t, err, device.CodeOverwriteUnsupported)
			}
			h, err := f.driver.Open(t.Context(), f.target, f.identity, true)
			hardwaretest.RequireFault(t, err, device.CodeOverwriteUnsupported)
			require.Nil(t, h)
			require.Equal(t, before, checksums(t, []string{f.path}))
		})
	}
	f := enroll(t, workDir(t), 64*kib)
	f.driver.sys.statfs = func(int, *unix.Statfs_t) error { return unix.EIO }
	_, err := f.driver.Discover(t.Context(), f.target, f.identity)
	hardwaretest.RequireFault(t, err, device.CodeIO)
}

// F14
func TestExtentFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		flags uint32
		code  device.Code
	}{
		"plain":              {0, ""},
		"last":               {extentLast, ""},
		"unwritten":          {0x800, ""},
		"merged":             {0x1000, ""},
		"shared":             {extentShared | extentLast, device.CodeTargetShared},
		"shared and encoded": {extentShared | extentEncoded, device.CodeTargetShared},
		"encoded":            {extentEncoded, device.CodeOverwriteUnsupported},
		"encrypted":          {extentDataEncrypted | extentEncoded, device.CodeOverwriteUnsupported},
		"inline":             {extentDataInline | extentNotAligned, device.CodeOverwriteUnsupported},
		"tail packed":        {extentDataTail | extentNotAligned, device.CodeOverwriteUnsupported},
		"not aligned":        {extentNotAligned, device.CodeOverwriteUnsupported},
		"unknown place":      {extentUnknown, device.CodeOverwriteUnsupported},
		"not yet placed":     {extentDelalloc | extentUnknown, device.CodeTargetBusy},
	} {
		t.Run(name, func(t *testing.T) {
			requireCode(t, extentFault("/f", tc.flags), tc.code)
		})
	}
}

// F14
func TestEveryExtentIsLookedAt(t *testing.T) {
	// More extents than one call returns, and only the last one is shared.
	requireTools(t, "xfs_io")
	dir := mounted(t, workDir(t), []string{"mkfs.xfs", "-q", "-m", "reflink=1"}, "")
	f := enroll(t, dir, 64*kib)
	const extents = 600
	require.NoError(t, os.Remove(f.path))
	file, err := os.Create(f.path)
	require.NoError(t, err)
	for i := range int64(extents) {
		_, err := file.WriteAt(make([]byte, 4*kib), i*64*kib)
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	count := func() (n int) {
		fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		require.NoError(t, eachExtent(fd, f.path, func(uint32) error { n++; return nil }))
		return n
	}
	require.Greater(t, count(), len(fiemap{}.extents), "the file has to need more than one call")
	_, err = f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)

	reflink := fmt.Sprintf("reflink %s %d 0 4096", f.path, (extents-1)*64*kib)
	require.Contains(t, run(t, "xfs_io", "-f", "-c", reflink, f.path+".2"), "linked 4096/4096")
	_, err = f.driver.Discover(t.Context(), f.target, device.Identity{})
	hardwaretest.RequireFault(t, err, device.CodeTargetShared)
}

// F14
func TestAttributesAreReadAsTheKernelWritesThem(t *testing.T) {
	requireTools(t, "xfs_io")
	f := enroll(t, mounted(t, workDir(t), []string{"mkfs.xfs", "-q"}, ""), mib)
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	before, err := attributes(fd)
	require.NoError(t, err)
	run(t, "xfs_io", "-c", "chattr +d", f.path) // no dump
	after, err := attributes(fd)
	require.NoError(t, err)
	require.EqualValues(t, 0x80, after&^before)

	require.NoError(t, attributeFault(f.path, after))
	requireCode(t, attributeFault(f.path, after|xflagRealtime), device.CodeOverwriteUnsupported)
}
