package block

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// wideSize is several writes.
const wideSize = 32 * mib

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

// writes has decide say how much of each write, by its number, is executed, or why none is. It
// counts the writes.
func writes(h *handle, decide func(call int) (n int, err error)) *int {
	calls, write := 0, h.sys.pwrite
	h.sys.pwrite = func(fd int, p []byte, offset int64) (int, error) {
		calls++
		n, err := decide(calls)
		if err != nil {
			return -1, err
		}
		return write(fd, p[:min(n, len(p))], offset)
	}
	return &calls
}

// Each write covers at most hardware.MaxWrite bytes and is asked about. Where the lease ends,
// what was written before is written, and nothing behind it.
//
// F32
func TestEachWriteIsAskedAbout(t *testing.T) {
	f, h := direct(t)
	ended := errors.New("the lease has ended")
	real := h.sys.pwrite
	for allowed := range wideSize/hardware.MaxWrite + 1 {
		h.sys.pwrite = real
		require.NoError(t, hardwaretest.Stamp(hardwaretest.File(f.path), wideSize, nonce))
		calls := writes(h, func(int) (int, error) { return wideSize, nil })
		asked := 0
		err := h.ZeroAt(hardware.WithLease(t.Context(), func(context.Context) error {
			if asked++; asked > allowed {
				return ended
			}
			return nil
		}), 0, wideSize)
		if written := allowed * hardware.MaxWrite; written < wideSize {
			require.ErrorIs(t, err, ended)
		} else {
			require.NoError(t, err)
			require.Equal(t, allowed, asked)
		}
		require.NoError(t, h.Flush(t.Context()))
		require.Equal(t, allowed, *calls)
		written := allowed * hardware.MaxWrite
		hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, (wideSize-written)/512, written/512, 0)
	}
}

// Whichever write fails or is short: ZeroAt says so or leaves no hole, and another call writes all.
//
// F14
func TestAnyWriteMayFailOrBeShort(t *testing.T) {
	f, h := direct(t)
	real := h.sys.pwrite
	for _, n := range []int{-1, hardware.Align, writeSize - 512} {
		for at := 1; at <= wideSize/writeSize; at++ {
			h.sys.pwrite = real
			require.NoError(t, hardwaretest.Stamp(hardwaretest.File(f.path), wideSize, nonce))
			calls := writes(h, func(call int) (int, error) {
				switch {
				case call != at:
					return wideSize, nil
				case n < 0:
					return 0, unix.EIO
				}
				return n, nil
			})
			err := h.ZeroAt(t.Context(), 0, wideSize)
			if n < 0 {
				hardwaretest.RequireFault(t, err, device.CodeIO)
				require.Equal(t, at, *calls, "it wrote on after an error")
				err = h.ZeroAt(t.Context(), 0, wideSize)
			}
			require.NoError(t, err)
			require.NoError(t, h.Flush(t.Context()))
			hardwaretest.RequireCount(t, hardwaretest.File(f.path), nonce, 0, wideSize/512, 0)
		}
	}
}
