package block

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The methods of writing.
const (
	methodDirect   = "o_direct"
	methodBuffered = "buffered"
)

// Of a device that takes direct writes, writesAtOnce are under way at a time, each of
// writeSize: together no more than may be issued without asking again (F32). With one after
// the other the device has nothing to do between two of them.
const (
	writesAtOnce = 2
	writeSize    = hardware.MaxWrite / writesAtOnce
)

// openTarget is what a handle has open.
type openTarget interface {
	// identify proves that the descriptor is of the enrolled target, and gives its identity and the
	// smallest size for O_DIRECT.
	identify(fd int) (enrolled device.Identity, unit int64, err error)
	// check repeats the checks of identity and interlocks.
	check(ctx context.Context, fd int) error
	// checkUnchanged runs before every write, so it must be cheap.
	checkUnchanged(fd int) error
	// cacheFD is the descriptor of a file below the target that has its own cache, such as
	// the file behind a loop device, or -1.
	cacheFD() int
	// mark is the change mark; see hardware.ChangeMarker.
	mark(ctx context.Context, fd int) (string, error)
	// unseen is what the last check could not look into.
	unseen() string
	// close closes what is open besides the handle's descriptor.
	close() error
}

// handle is one opened target. Its one descriptor was checked, holds the lock, and serves
// all reads and writes.
type handle struct {
	sys    system
	target openTarget
	fd     int // -1 when closed
	path   string
	size   int64
	// unit is the smallest direct write: hardware.Align for files, a device's own block.
	unit     int64
	writable bool

	zeroes []byte
	// direct: O_DIRECT is set.
	direct bool
	// dirty: written since the last fsync.
	dirty bool
	// reading is locked for each read through a cache.
	reading sync.Mutex
	// cacheDropped: no cache holds data from before the last write. Nothing from readUpTo on
	// was read since.
	cacheDropped bool
	readUpTo     int64
	// syncErr is the first error of fsync. The kernel reports each error once and drops the
	// pages, so the next fsync would return nil although bytes are lost.
	syncErr error
}

// access is how a target is opened.
func access(writable bool) uint64 {
	if writable {
		return unix.O_RDWR
	}
	return unix.O_RDONLY
}

// take locks the open target, and takes over fd and of; after an error both are closed. It returns a
// handle only after every check has passed on that one descriptor.
func take(ctx context.Context, sys system, of openTarget, fd int, writable bool) (_ *handle, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, of.close(), unix.Close(fd))
		}
	}()
	// Identity first: the fault of another target must not be that it is busy.
	enrolled, unit, err := of.identify(fd)
	if err != nil {
		return nil, err
	}
	path := enrolled.Path
	if err := hardware.Lock(ctx, fd, path); err != nil {
		return nil, err
	}
	if below := of.cacheFD(); below >= 0 {
		// A worker that enrolled the file itself locks the file.
		if err := hardware.Lock(ctx, below, path); err != nil {
			return nil, err
		}
	}
	if err := of.check(ctx, fd); err != nil {
		return nil, err
	}
	zeroes, err := hardware.Zeroes()
	if err != nil {
		return nil, err
	}
	h := &handle{sys: sys, target: of, fd: fd, path: path, size: enrolled.Size, unit: unit, writable: writable,
		zeroes: zeroes}
	// Set on the open descriptor: O_EXCL, locks and checks would not cover the writes of a
	// second one (F1).
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

// Unseen says which users of the target were not looked for; see hardware.UserSearcher.
func (h *handle) Unseen() string { return h.target.unseen() }

// Method is "o_direct", or "buffered" where the file system refuses direct writes.
func (h *handle) Method() string {
	if h.direct {
		return methodDirect
	}
	return methodBuffered
}

// ZeroAt writes zeroes to [offset, offset+n) and never past the end; see hardware.Handle. It
// checks ctx, the right to write and the target before each write of at most writeSize. After
// an error, earlier writes have been done. When it returns, no write is under way.
func (h *handle) ZeroAt(ctx context.Context, offset, n int64) error {
	if err := h.checkOpen(); err != nil {
		return err
	}
	if err := hardware.CheckWrite(h.path, h.writable, h.size, hardware.Align, offset, n); err != nil {
		return err
	}
	for n > 0 {
		if h.direct && n >= hardware.MaxWrite {
			done, err := h.writeBesideEachOther(ctx, offset)
			if err != nil {
				return err
			}
			if offset, n = offset+done, n-done; done > 0 {
				continue
			}
		}
		if err := h.mayWrite(ctx, offset); err != nil {
			return err
		}
		done, err := h.writeOnce(offset, min(n, writeSize))
		if err != nil {
			return err
		}
		offset, n = offset+done, n-done
	}
	return nil
}

// writeBesideEachOther makes writesAtOnce direct writes of writeSize at once, and returns how much is written from
// offset on. A write that is short its caller repeats. The error is that of the device before that of ctx. When it
// returns, no write is under way.
func (h *handle) writeBesideEachOther(ctx context.Context, offset int64) (done int64, err error) {
	h.dirty, h.cacheDropped = true, false
	var writing sync.WaitGroup
	var got [writesAtOnce]int
	var failed [writesAtOnce]error
	begun := 0
	for i := range writesAtOnce {
		at := offset + int64(i)*writeSize
		if err = h.mayWrite(ctx, at); err != nil {
			break
		}
		begun++
		writing.Go(func() { got[i], failed[i] = h.sys.writeAt(h.fd, h.zeroes[:writeSize], at) })
	}
	writing.Wait()
	for i := range begun {
		if failed[i] != nil {
			return done, hardware.IOFault(fmt.Sprintf("write %d zeroes at %d of", writeSize, offset+done), h.path, failed[i])
		}
		done += int64(got[i]) / h.unit * h.unit
		if got[i] < writeSize {
			return done, nil
		}
	}
	return done, err
}

// mayWrite checks what must hold directly before each write: ctx, the right to write (F32)
// and the target.
func (h *handle) mayWrite(ctx context.Context, offset int64) error {
	if err := hardware.MayWrite(ctx); err != nil {
		return fmt.Errorf("write to %q, stopped at %d: %w", h.path, offset, err)
	}
	return h.target.checkUnchanged(h.fd)
}

// writeOnce writes the start of [offset, offset+n), in whole blocks except for the tail, and
// returns how much it wrote.
func (h *handle) writeOnce(offset, n int64) (int64, error) {
	if tail := n % h.unit; h.direct && tail != 0 {
		// O_DIRECT would refuse the tail, and padding it to a block would make the file
		// grow (measured). So the tail alone is written through the cache.
		if n != tail {
			return h.write(offset, n-tail)
		}
		return h.writeTail(offset, tail)
	}
	return h.write(offset, n)
}

// writeTail writes the last bytes through the cache, on the same descriptor, and flushes
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

// write is one pwrite of zeroes. A short write counts in whole blocks, so that the next one
// is aligned. Writing a zero twice does no harm.
func (h *handle) write(offset, n int64) (int64, error) {
	h.dirty, h.cacheDropped = true, false
	got, err := h.sys.writeAt(h.fd, h.zeroes[:n], offset)
	if err != nil {
		return 0, hardware.IOFault(fmt.Sprintf("write %d zeroes at %d of", n, offset), h.path, err)
	}
	done := int64(got)
	if done < n && n%h.unit == 0 { // the tail needs no alignment
		done -= done % h.unit
	}
	if done == 0 {
		return 0, hardware.IOFault(fmt.Sprintf("write %d zeroes at %d of", n, offset), h.path, io.ErrShortWrite)
	}
	return done, nil
}

// Flush returns once everything written is on stable storage. After a failure it always
// fails: only writing again through a new handle helps.
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

// Check proves again that this is the enrolled target and that nothing else uses it.
func (h *handle) Check(ctx context.Context) error {
	if err := h.checkOpen(); err != nil {
		return err
	}
	return h.target.check(ctx, h.fd)
}

// ChangeMark is that of the file, or of the file behind a loop device; see
// hardware.ChangeMarker.
func (h *handle) ChangeMark(ctx context.Context) (string, error) {
	if err := h.checkOpen(); err != nil {
		return "", err
	}
	return h.target.mark(ctx, h.fd)
}

// Close closes the descriptor, which releases the lock.
func (h *handle) Close() error {
	if err := h.checkOpen(); err != nil {
		return err
	}
	// Close it only once: the number may be another file's by then.
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
