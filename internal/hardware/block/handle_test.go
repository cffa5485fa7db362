package block

import (
	"cmp"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// call is one pwrite.
type call struct {
	offset, n int64
	direct    bool
}

// record records every pwrite of h and executes it. The calls are in the order of their
// offsets: some are under way at once.
func record(t *testing.T, h *handle) *[]call {
	t.Helper()
	var calls []call
	var mu sync.Mutex
	write := h.sys.pwrite
	h.sys.pwrite = func(fd int, p []byte, offset int64) (int, error) {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		assert.NoError(t, err)
		mu.Lock()
		calls = append(calls, call{offset, int64(len(p)), flags&unix.O_DIRECT != 0})
		slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.offset, b.offset) })
		mu.Unlock()
		return write(fd, p, offset)
	}
	return &calls
}

// wholeWrites are those of [0, n), which is whole writes.
func wholeWrites(n int64) (all []call) {
	for at := int64(0); at < n; at += writeSize {
		all = append(all, call{at, writeSize, true})
	}
	return all
}

// F14
func TestTailIsWrittenBufferedAndNeverPastTheEnd(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, true)
	if h.Method() != methodDirect {
		t.Skip("this file system refuses O_DIRECT")
	}
	calls := record(t, h)
	flushes := 0
	fsync := h.sys.fsync
	h.sys.fsync = func(fd int) error { flushes++; return fsync(fd) }

	require.NoError(t, h.ZeroAt(t.Context(), 0, oddSize))
	const tail = oddSize % hardware.Align
	require.Equal(t, append(wholeWrites(4*mib), call{4 * mib, oddSize - 4*mib - tail, true},
		call{oddSize - tail, tail, false}), *calls)
	require.Equal(t, 1, flushes, "the tail is on stable storage without waiting for Flush")
	require.NoError(t, h.Flush(t.Context()))
	hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, 0, oddSize/512+1, 0)

	*calls = nil
	require.NoError(t, h.ZeroAt(t.Context(), 0, hardware.Align))
	require.Equal(t, []call{{0, hardware.Align, true}}, *calls, "after the tail, writes are direct again")
	require.Equal(t, methodDirect, h.Method())
}

func TestShortWritesAreContinued(t *testing.T) {
	for name, direct := range map[string]func(int, bool) error{"direct": setDirect, "buffered": noDirect} {
		t.Run(name, func(t *testing.T) {
			f := enroll(t, workDir(t), oddSize)
			f.driver.sys.direct = direct
			h := f.open(t, true)
			var mu sync.Mutex
			write, n := h.sys.pwrite, 0
			h.sys.pwrite = func(fd int, p []byte, offset int64) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				n++
				short := []int{3 * hardware.Align, hardware.Align + 512, 100 * kib, len(p)}[n%4]
				if n%7 == 0 {
					return 0, unix.EINTR
				}
				if len(p) < hardware.Align && len(p) > 1 {
					short = len(p) / 2 // within the tail
				}
				return write(fd, p[:min(short, len(p))], offset)
			}
			// The kernel requires aligned direct writes, so a short one counts only in
			// whole blocks.
			require.NoError(t, h.ZeroAt(t.Context(), hardware.Align, oddSize-hardware.Align))
			require.NoError(t, h.Flush(t.Context()))
			require.Greater(t, n, 6)
			hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, 8, oddSize/512+1-8, 0)
		})
	}
}

// What the device refuses is a fault, and no reason for another method.
func TestErrorsOfTheDevice(t *testing.T) {
	for name, tc := range map[string]struct {
		n     int
		err   error
		class device.Class
	}{
		"EIO":         {-1, unix.EIO, device.Permanent},
		"EINVAL":      {-1, unix.EINVAL, device.Permanent},
		"ENOSPC":      {-1, unix.ENOSPC, device.Transient},
		"EDQUOT":      {-1, unix.EDQUOT, device.Transient},
		"no progress": {0, nil, device.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			f := enroll(t, workDir(t), oddSize)
			h := f.open(t, true)
			require.NoError(t, h.ZeroAt(t.Context(), 0, hardware.Align))
			method := h.Method()
			h.sys.pwrite = func(int, []byte, int64) (int, error) { return tc.n, tc.err }
			require.Equal(t, tc.class, hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 0, oddSize), device.CodeIO).Class)
			require.Equal(t, method, h.Method())
			if tc.err != nil {
				h.sys.pread = func(int, []byte, int64) (int, error) { return -1, tc.err }
				_, err := h.ReadAt(make([]byte, 10), 0)
				hardwaretest.RequireFault(t, err, device.CodeIO)
			}
		})
	}
}

func TestHoleOnAFullFileSystemIsTransient(t *testing.T) {
	dir := mountDevice(t, "none", "size=4m", "-t", "tmpfs")
	f := enroll(t, dir, 64*kib)
	require.NoError(t, os.Truncate(f.path, 8*mib))
	found, err := f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)
	f.identity = found.Identity
	h := f.open(t, true)
	require.Equal(t, device.Transient, hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 0, 8*mib), device.CodeIO).Class)
	run(t, "mount", "-o", "remount,size=16m", dir)
	require.NoError(t, h.ZeroAt(t.Context(), 0, 8*mib), "with room again it works")
}

// F19
func TestAfterAFailedFlushNoFlushSucceeds(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, true)
	require.NoError(t, h.ZeroAt(t.Context(), 0, hardware.Align))
	fsync := h.sys.fsync
	h.sys.fsync = func(int) error { return unix.EIO }
	require.Equal(t, device.Permanent, hardwaretest.RequireFault(t, h.Flush(t.Context()), device.CodeIO).Class)
	h.sys.fsync = fsync
	hardwaretest.RequireFault(t, h.Flush(t.Context()), device.CodeIO)
}

// F19
func TestFailedFlushOfTheTailFailsTheWrite(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, true)
	if h.Method() != methodDirect {
		t.Skip("this file system refuses O_DIRECT")
	}
	h.sys.fsync = func(int) error { return unix.EIO }
	hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 0, oddSize), device.CodeIO)
}

// F14
func TestFileThatShrinksBetweenTwoWritesDoesNotGrowAgain(t *testing.T) {
	const size = 3*mib + 777 // written one after the other
	f := enroll(t, workDir(t), size)
	h := f.open(t, true)
	calls := record(t, h)
	write := h.sys.pwrite
	h.sys.pwrite = func(fd int, p []byte, offset int64) (int, error) {
		n, err := write(fd, p, offset)
		require.NoError(t, os.Truncate(f.path, hardware.Align))
		return n, err
	}
	hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 0, size), device.CodeIdentityChanged)
	require.Len(t, *calls, 1)
	left, err := hardwaretest.File(f.path).Size()
	require.NoError(t, err)
	require.EqualValues(t, hardware.Align, left)
	_, err = h.ReadAt(make([]byte, 10), hardware.Align)
	hardwaretest.RequireFault(t, err, device.CodeIdentityChanged)
}

func TestHolesAreReallyWritten(t *testing.T) {
	f := enroll(t, workDir(t), 64*kib)
	require.NoError(t, os.Truncate(f.path, 0))
	require.NoError(t, os.Truncate(f.path, 8*mib))
	found, err := f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)
	f.identity = found.Identity
	h := f.open(t, true)
	require.NoError(t, h.ZeroAt(t.Context(), 0, 8*mib))
	require.NoError(t, h.Flush(t.Context()))
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(f.path, &stat))
	require.GreaterOrEqual(t, stat.Blocks*512, int64(8*mib))
}

// F19
func TestReadsComeFromTheDeviceAndNotFromTheCache(t *testing.T) {
	dir := workDir(t)
	requireTools(t, "mkfs.ext4", "losetup", "mount")
	disk := image(t, dir, 100*mib)
	run(t, "mkfs.ext4", "-q", disk)
	f := enroll(t, mountDevice(t, attach(t, disk), ""), mib)

	// The file is cached, and its bytes on the disk change.
	hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, mib/512, 0, 0)
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	physical := firstPhysical(t, fd)
	require.NoError(t, unix.Close(fd))
	_, err = hardwaretest.File(disk).WriteAt(make([]byte, 8*kib), physical)
	require.NoError(t, err)
	hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, mib/512, 0, 0)

	for name, direct := range map[string]func(int, bool) error{"direct": setDirect, "buffered": noDirect} {
		t.Run(name, func(t *testing.T) {
			f.driver.sys.direct = direct
			h := f.open(t, false)
			_, zero, _, err := hardwaretest.Count(h, mib, nonce)
			require.NoError(t, err)
			require.Equal(t, 16, zero)
			require.NoError(t, h.Close())
		})
	}
}

// firstPhysical is the offset of a file's first byte on its disk.
func firstPhysical(t *testing.T, fd int) int64 {
	t.Helper()
	var m fiemap
	m.length, m.flags, m.count = ^uint64(0), fiemapSync, 1
	require.NoError(t, ioctl(fd, iocFiemap, unsafe.Pointer(&m)))
	require.EqualValues(t, 1, m.mapped)
	return int64(m.extents[0].physical)
}

func TestShortReadsAreContinued(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, false)
	read, n := h.sys.pread, 0
	h.sys.pread = func(fd int, p []byte, offset int64) (int, error) {
		if n++; n%3 == 0 {
			return -1, unix.EINTR
		}
		got, err := read(fd, p, offset)
		return min(got, hardware.Align+512), err
	}
	stamped, _, _, err := hardwaretest.Count(h, oddSize, nonce)
	require.NoError(t, err)
	require.Equal(t, oddSize/512+1, stamped)
	got, err := h.ReadAt(make([]byte, 10), oddSize-3)
	require.Equal(t, 3, got)
	require.ErrorIs(t, err, io.EOF)
}

func TestCloseHappensOnce(t *testing.T) {
	f := enroll(t, workDir(t), oddSize)
	h := f.open(t, true)
	require.NoError(t, h.Close())
	// The descriptor's number may be reused now.
	other, err := os.Open(f.path)
	require.NoError(t, err)
	require.ErrorIs(t, h.Close(), os.ErrClosed)
	require.NoError(t, other.Close())
}
