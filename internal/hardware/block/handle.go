package block

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The ways in which a handle writes, for the record.
const (
	methodDirect   = "o_direct"
	methodBuffered = "buffered"
)

// bounceLen is the size of the aligned buffer for reads that are not aligned.
const bounceLen = 1 << 20

// openTarget is the kind of thing that a handle has open.
type openTarget interface {
	// check asks identity and every interlock again.
	check(ctx context.Context, fd int) error
	// checkUnchanged is asked before every write and must cost next to nothing.
	checkUnchanged(fd int) error
	// cacheFD is the descriptor of what has a cache of its own under the target, as the
	// file behind a loop device; -1 where there is none.
	cacheFD() int
	// close gives up what the subject holds besides the handle's descriptor.
	close() error
}

// handle is one opened target: the one descriptor that was checked, that holds the
// lock, and through which all is read and written.
type handle struct {
	sys    system
	target openTarget
	fd     int // -1 when closed
	path   string
	size   int64
	// unit is what O_DIRECT takes: hardware.Align on files, a device's own block.
	unit     int64
	writable bool

	zeroes []byte
	bounce []byte
	// direct: past the page cache. It ends for good if the first write is refused.
	direct bool
	// directWorks: a direct write has succeeded, so that a later refusal is an error of
	// the device and not a matter of alignment.
	directWorks bool
	// dirty: written since the last fsync.
	dirty bool
	// cacheDropped: no cache holds what was there before the last write. What lies from
	// fresh on was not read since.
	cacheDropped bool
	readUpTo     int64
	// syncErr is the first error of an fsync. The kernel tells each error once and
	// drops the pages: the next fsync would return nil for bytes that are lost.
	syncErr error
}

// newHandle takes over fd and of if it returns no error. unit is the least that
// O_DIRECT takes there.
func newHandle(sys system, of openTarget, fd int, enrolled device.Identity, unit int64, writable bool) (hardware.Handle, error) {
	path := enrolled.Path
	zeroes, err := hardware.Zeroes()
	if err != nil {
		return nil, err
	}
	h := &handle{sys: sys, target: of, fd: fd, path: path, size: enrolled.Size, unit: unit, writable: writable, zeroes: zeroes}
	// On the descriptor that is open already: with a second one O_EXCL, locks and
	// checks would speak of something else than the writes (F1).
	err = sys.direct(fd, true)
	switch {
	case err == nil:
		h.direct = true
	case !errors.Is(err, unix.EINVAL):
		return nil, hardware.IOFault("set O_DIRECT on", path, err)
	}
	return h, nil
}

// Size is the number of bytes of the target.
func (h *handle) Size() int64 { return h.size }

// Method is "o_direct", or "buffered" where the file system refuses direct writes.
func (h *handle) Method() string {
	if h.direct {
		return methodDirect
	}
	return methodBuffered
}

// ZeroAt writes zeroes to [offset, offset+n) and never past the end; see
// hardware.Handle. Before each write of at most 4 MiB it looks at ctx and at the
// file. What was written when it returns an error is written.
func (h *handle) ZeroAt(ctx context.Context, offset, n int64) error {
	if err := h.checkOpen(); err != nil {
		return err
	}
	if !h.writable {
		return hardware.CallerError("%q was opened for reading only", h.path)
	}
	if offset < 0 || n < 0 || offset > h.size || n > h.size-offset {
		return hardware.CallerError("%d bytes at %d lie outside %q, which has %d", n, offset, h.path, h.size)
	}
	if offset%hardware.Align != 0 || n%hardware.Align != 0 && offset+n != h.size {
		return hardware.CallerError("%d bytes at %d of %q are no whole blocks of %d", n, offset, h.path, hardware.Align)
	}
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("zero %q, stopped at %d: %w", h.path, offset, err)
		}
		if err := h.target.checkUnchanged(h.fd); err != nil {
			return err
		}
		done, err := h.writeOnce(offset, min(n, int64(len(h.zeroes))))
		if err != nil {
			return err
		}
		offset, n = offset+done, n-done
	}
	return nil
}

// writeOnce writes some of [offset, offset+n), in whole blocks but for the tail, and
// says how much.
func (h *handle) writeOnce(offset, n int64) (int64, error) {
	if tail := n % h.unit; h.direct && tail != 0 {
		// O_DIRECT would refuse the tail, and a write padded to a whole block would
		// make the file grow (measured). So it goes through the cache, alone.
		if n != tail {
			return h.write(offset, n-tail)
		}
		return h.writeTail(offset, tail)
	}
	return h.write(offset, n)
}

// writeTail writes the last bytes buffered, on the same descriptor, and waits for
// them.
func (h *handle) writeTail(offset, n int64) (done int64, err error) {
	if err := h.sys.direct(h.fd, false); err != nil {
		return 0, hardware.IOFault("clear O_DIRECT on", h.path, err)
	}
	defer func() {
		if back := h.sys.direct(h.fd, true); back != nil {
			err = errors.Join(err, hardware.IOFault("set O_DIRECT on", h.path, back))
		}
	}()
	for done < n {
		got, err := h.write(offset+done, n-done)
		if err != nil {
			return done, err
		}
		done += got
	}
	return done, h.sync()
}

// write is one pwrite of zeroes. A short one counts in whole blocks, so that the
// next one is aligned again; to write a zero twice does no harm.
func (h *handle) write(offset, n int64) (int64, error) {
	var got int
	h.dirty, h.cacheDropped = true, false
	err := retryEINTR(func() (err error) {
		got, err = h.sys.pwrite(h.fd, h.zeroes[:n], offset)
		return err
	})
	aligned := n%h.unit == 0
	if errors.Is(err, unix.EINVAL) && h.direct && aligned && !h.directWorks {
		// Some file systems take the flag and refuse the write, or want more than
		// the unit.
		if err := h.sys.direct(h.fd, false); err != nil {
			return 0, hardware.IOFault("clear O_DIRECT on", h.path, err)
		}
		h.direct = false
		return 0, nil // the caller comes again
	}
	if err != nil {
		return 0, hardware.IOFault(fmt.Sprintf("write %d zeroes at %d of", n, offset), h.path, err)
	}
	done := int64(got)
	if done < n {
		done -= done % h.unit
		if !aligned {
			done = int64(got) // the tail itself, buffered: any byte will do
		}
	}
	if done == 0 {
		return 0, hardware.IOFault(fmt.Sprintf("write %d zeroes at %d of", n, offset), h.path, io.ErrShortWrite)
	}
	h.directWorks = h.directWorks || h.direct && aligned
	return done, nil
}

// ReadAt reads past the page cache; see hardware.Handle. Aligned buffers at aligned
// offsets are filled without a copy.
func (h *handle) ReadAt(p []byte, offset int64) (int, error) {
	if err := h.checkOpen(); err != nil {
		return 0, err
	}
	if offset < 0 {
		return 0, hardware.CallerError("%d is before the start of %q", offset, h.path)
	}
	if err := h.dropCaches(offset, int64(len(p))); err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) && offset+int64(done) < h.size {
		got, err := h.readSome(p[done:], offset+int64(done))
		done += got
		if err != nil {
			return done, err
		}
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// dropCaches sees to it that the next read of the range comes from the device and from
// no cache: neither its own, where reads go through it, nor that of what lies below,
// which O_DIRECT above does not pass (a loop reads its file's cache). All is dropped
// before the first read, and before one of what was read already; what the kernel
// reads ahead meanwhile comes from the device as well, and stays.
func (h *handle) dropCaches(offset, n int64) error {
	caches := make([]int, 0, 2)
	if !h.direct {
		caches = append(caches, h.fd)
	}
	if below := h.target.cacheFD(); below >= 0 {
		caches = append(caches, below)
	}
	if len(caches) == 0 || h.cacheDropped && offset >= h.readUpTo {
		h.readUpTo = offset + n
		return nil
	}
	if h.dirty {
		if err := h.sync(); err != nil {
			return err
		}
	}
	for _, fd := range caches {
		// Not a range: only whole folios are dropped, and one may be larger.
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			return hardware.IOFault("drop the cache of", h.path, err)
		}
	}
	h.cacheDropped, h.readUpTo = true, offset+n
	return nil
}

// readSome reads at least one byte into p, which is not empty and begins before
// the end.
func (h *handle) readSome(p []byte, offset int64) (int, error) {
	skip := int(offset % hardware.Align)
	whole := len(p) / hardware.Align * hardware.Align
	if skip == 0 && whole > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(p)))%hardware.Align == 0 {
		return h.read(p[:whole], offset)
	}
	if h.bounce == nil {
		h.bounce = hardware.AlignedBuffer(bounceLen)
	}
	wanted := (skip + len(p) + hardware.Align - 1) / hardware.Align * hardware.Align
	got, err := h.read(h.bounce[:min(wanted, bounceLen)], offset-int64(skip))
	if err != nil {
		return 0, err
	}
	if got <= skip {
		// Less than a block, but not the end: what follows would not be aligned.
		return 0, hardware.IOFault(fmt.Sprintf("read at %d of", offset), h.path, io.ErrUnexpectedEOF)
	}
	return copy(p, h.bounce[skip:got]), nil
}

// read is one aligned pread. It gives less at the end of the file.
func (h *handle) read(p []byte, offset int64) (int, error) {
	var got int
	err := retryEINTR(func() (err error) {
		got, err = h.sys.pread(h.fd, p, offset)
		return err
	})
	if errors.Is(err, unix.EINVAL) && h.direct {
		// As in write: more than hardware.Align is wanted here.
		if err := h.sys.direct(h.fd, false); err != nil {
			return 0, hardware.IOFault("clear O_DIRECT on", h.path, err)
		}
		h.direct, h.cacheDropped = false, false
		if err := h.dropCaches(offset, int64(len(p))); err != nil {
			return 0, err
		}
		return h.read(p, offset)
	}
	if err != nil {
		return 0, hardware.IOFault(fmt.Sprintf("read %d bytes at %d of", len(p), offset), h.path, err)
	}
	if got == 0 {
		return 0, h.endedEarly(offset)
	}
	return got, nil
}

// endedEarly is the fault of a target that ends before its enrolled size.
func (h *handle) endedEarly(offset int64) error {
	return hardware.Changed("size", fmt.Sprintf("%q ends at %d and was enrolled with %d bytes", h.path, offset, h.size))
}

// Flush returns once everything written is on stable storage. After one failure it
// never returns nil again: only a new handle, and writing again, can make up for it.
func (h *handle) Flush(ctx context.Context) error {
	if err := h.checkOpen(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("flush %q: %w", h.path, err)
	}
	return h.sync()
}

func (h *handle) sync() error {
	if h.syncErr != nil {
		return h.syncErr
	}
	if err := retryEINTR(func() error { return h.sys.fsync(h.fd) }); err != nil {
		h.syncErr = hardware.IOFault("flush", h.path, err)
		return h.syncErr
	}
	h.dirty = false
	return nil
}

// Check proves again that this is the enrolled target and that nobody uses it.
func (h *handle) Check(ctx context.Context) error {
	if err := h.checkOpen(); err != nil {
		return err
	}
	return h.target.check(ctx, h.fd)
}

// Close gives up the descriptor and with it the lock.
func (h *handle) Close() error {
	if err := h.checkOpen(); err != nil {
		return err
	}
	// Never twice: the number may be another file's by then.
	fd := h.fd
	h.fd = -1
	err := h.target.close()
	if closeErr := unix.Close(fd); closeErr != nil && !errors.Is(closeErr, unix.EINTR) {
		err = errors.Join(err, hardware.IOFault("close", h.path, closeErr))
	}
	return err
}

func (h *handle) checkOpen() error {
	if h.fd < 0 {
		return fmt.Errorf("%q: %w", h.path, os.ErrClosed)
	}
	return nil
}
