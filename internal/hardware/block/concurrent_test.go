package block

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// wideSize is several writes that are under way at once.
const wideSize = 12 * mib

// direct is an enrolled file of wideSize, open with O_DIRECT, whose first write is done.
func direct(t *testing.T) (*fixture, *handle) {
	t.Helper()
	f := enroll(t, workDir(t), wideSize)
	h := f.open(t, true)
	if h.Method() != methodDirect {
		t.Skip("this file system refuses O_DIRECT")
	}
	require.NoError(t, h.ZeroAt(t.Context(), 0, hardware.Align))
	return f, h
}

// underWay counts calls of the kernel that are under way.
type underWay struct {
	mu              sync.Mutex
	calls           int
	now, most       int
	bytes, mostSize int
}

func (u *underWay) enter(n int) (call int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	u.now, u.bytes = u.now+1, u.bytes+n
	u.most, u.mostSize = max(u.most, u.now), max(u.mostSize, u.bytes)
	return u.calls
}

func (u *underWay) leave(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now, u.bytes = u.now-1, u.bytes-n
}

// writes has fail decide about each write, by its number and offset, before it is executed: up
// to n bytes, or an error.
func (u *underWay) writes(h *handle, fail func(call int, offset int64) (n int, err error)) {
	write := h.sys.pwrite
	h.sys.pwrite = func(fd int, p []byte, offset int64) (int, error) {
		call := u.enter(len(p))
		defer u.leave(len(p))
		time.Sleep(time.Millisecond) //nolint:forbidigo // so that others are under way too
		if n, err := fail(call, offset); err != nil || n < len(p) {
			if err != nil {
				return -1, err
			}
			return write(fd, p[:n], offset)
		}
		return write(fd, p, offset)
	}
}

// What is under way without another question is at most hardware.MaxWrite, and each write is
// asked about.
//
// F32
func TestWritesThatAreUnderWayTogetherAreBounded(t *testing.T) {
	f, h := direct(t)
	var u underWay
	u.writes(h, func(int, int64) (int, error) { return writeSize, nil })
	asked := 0
	ctx := hardware.WithLease(t.Context(), func(context.Context) error {
		u.mu.Lock()
		defer u.mu.Unlock()
		asked++ // the lease is for one goroutine: the race detector sees another
		return nil
	})
	require.NoError(t, h.ZeroAt(ctx, 0, wideSize))
	require.Equal(t, wideSize/writeSize, u.calls)
	require.Equal(t, u.calls, asked)
	require.Equal(t, writesAtOnce, u.most)
	require.Equal(t, hardware.MaxWrite, u.mostSize)
	require.NoError(t, h.Flush(t.Context()))
	hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, 0, wideSize/512, 0)
}

// Whichever write fails or is short: after an error nothing is under way any more, nothing was begun behind those that
// were, and another call writes all. A short write leaves no hole.
//
// F14
func TestAnyOfTheWritesMayFailOrBeShort(t *testing.T) {
	f, h := direct(t)
	real := h.sys.pwrite
	for _, tt := range []struct {
		n   int
		err error
	}{{0, unix.EIO}, {0, nil}, {512, nil}, {hardware.Align, nil}, {writeSize - 512, nil}} {
		for which := 1; which <= wideSize/writeSize; which++ {
			h.sys.pwrite = real
			require.NoError(t, hardwaretest.Stamp(hardwaretest.File(f.path), wideSize, nonce))
			var u underWay
			u.writes(h, func(call int, _ int64) (int, error) {
				if call == which {
					return tt.n, tt.err
				}
				return writeSize, nil
			})
			err := h.ZeroAt(t.Context(), 0, wideSize)
			require.Zero(t, u.now, "a write is under way after ZeroAt has returned")
			if tt.err != nil {
				hardwaretest.RequireFault(t, err, device.CodeIO)
				require.LessOrEqual(t, u.calls, which+writesAtOnce, "it wrote on after an error")
				err = h.ZeroAt(t.Context(), 0, wideSize)
			}
			require.NoError(t, err)
			require.NoError(t, h.Flush(t.Context()))
			hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, 0, wideSize/512, 0)
		}
	}
}

// Where the lease ends, those before are written and nothing behind them; a device's error
// counts more than that of the lease.
//
// F32
func TestALeaseThatEndsAmongWrites(t *testing.T) {
	f, h := direct(t)
	ended := errors.New("the lease has ended")
	real := h.sys.pwrite
	for allowed := range wideSize / writeSize {
		h.sys.pwrite = real
		require.NoError(t, hardwaretest.Stamp(hardwaretest.File(f.path), wideSize, nonce))
		var u underWay
		u.writes(h, func(int, int64) (int, error) { return writeSize, nil })
		asked := 0
		ctx := hardware.WithLease(t.Context(), func(context.Context) error {
			if asked++; asked > allowed {
				return ended
			}
			return nil
		})
		require.ErrorIs(t, h.ZeroAt(ctx, 0, wideSize), ended)
		require.NoError(t, h.Flush(t.Context()))
		require.Equal(t, allowed, u.calls)
		hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, (wideSize-allowed*writeSize)/512,
			allowed*writeSize/512, 0)
	}
	var u underWay
	u.writes(h, func(int, int64) (int, error) { return 0, unix.EIO })
	asked := 0
	err := h.ZeroAt(hardware.WithLease(t.Context(), func(context.Context) error {
		if asked++; asked > 1 {
			return ended
		}
		return nil
	}), 0, wideSize)
	hardwaretest.RequireFault(t, err, device.CodeIO)
}

// Reads beside each other give what each would give alone, also while one of them is short or ends
// within a block.
//
// F19
func TestReadsBesideEachOther(t *testing.T) {
	const size = 8*mib + 777
	for name, refuse := range map[string]func(call int, p []byte) (n int, err error){
		"all direct":                  func(_ int, p []byte) (int, error) { return len(p), nil },
		"every other one interrupted": func(call int, p []byte) (int, error) { return len(p), errIf(call%2 == 0, unix.EINTR) },
		"short":                       func(call int, p []byte) (int, error) { return min(len(p), call%3*hardware.Align+512), nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := enroll(t, workDir(t), size)
			want, err := f.bytes(size)
			require.NoError(t, err)
			h := f.open(t, false)
			if h.Method() != methodDirect {
				t.Skip("this file system refuses O_DIRECT")
			}
			require.Equal(t, readsAtOnce, h.ReadsAtOnce())
			read := h.sys.pread
			var u underWay
			h.sys.pread = func(fd int, p []byte, offset int64) (int, error) {
				call := u.enter(len(p))
				defer u.leave(len(p))
				flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				if err != nil {
					return -1, err
				}
				n, err := refuse(call, p)
				if err != nil && (flags&unix.O_DIRECT != 0 || errors.Is(err, unix.EINTR)) {
					return -1, err
				}
				got, err := read(fd, p, offset)
				return min(got, max(n, hardware.Align)), err
			}
			var all sync.WaitGroup
			failed := make([]error, 4)
			for reader := range failed {
				all.Go(func() {
					p := hardware.AlignedBuffer(mib)
					for at := int64(reader) * mib / 2; at < size; at += 2 * mib {
						n := min(mib, size-at)
						if got, err := h.ReadAt(p[:n], at); int64(got) != n || err != nil || !bytes.Equal(p[:n], want[at:at+n]) {
							failed[reader] = errors.Join(failed[reader], fmt.Errorf("%d bytes at %d of %d: %w", got, at, n, err))
						}
					}
				})
			}
			all.Wait()
			require.NoError(t, errors.Join(failed...))
		})
	}
}

func errIf(is bool, err error) error {
	if !is {
		return nil
	}
	return err
}

// bytes are those of the target.
func (f *fixture) bytes(size int64) ([]byte, error) {
	all := make([]byte, size)
	_, err := hardwaretest.File(f.path).ReadAt(all, 0)
	return all, err
}

// Caches are dropped for reads in their order: they are not made at once.
func TestReadsThroughACacheAreMadeInOrder(t *testing.T) {
	f := enroll(t, workDir(t), mib)
	f.driver.sys.direct = noDirect
	require.Equal(t, 1, f.open(t, false).ReadsAtOnce())
	f = enrollKind(t, "loop", mib)
	require.Equal(t, 1, f.open(t, false).ReadsAtOnce())
}
