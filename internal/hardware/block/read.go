package block

import (
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
)

// readsAtOnce is how many direct reads keep a device busy while its reader waits for a
// processor.
const readsAtOnce = 2

// bounceLen is the largest buffer of an unaligned read.
const bounceLen = 1 << 20

// ReadsAtOnce says how many calls of ReadAt may run at once; see hardware.ConcurrentReader. A
// cache that is dropped needs reads in their order.
func (h *handle) ReadsAtOnce() int {
	if !h.direct || h.target.cacheFD() >= 0 {
		return 1
	}
	return readsAtOnce
}

// ReadAt bypasses the page cache; see hardware.Handle. It fills an aligned buffer at an
// aligned offset without a copy.
func (h *handle) ReadAt(p []byte, offset int64) (int, error) {
	if err := h.checkOpen(); err != nil {
		return 0, err
	}
	if offset < 0 {
		return 0, hardware.CallerError("%d is before the start of %q", offset, h.path)
	}
	if h.ReadsAtOnce() == 1 {
		h.reading.Lock()
		defer h.reading.Unlock()
		if err := h.dropCaches(offset, int64(len(p))); err != nil {
			return 0, err
		}
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

// dropCaches makes the next read of the range come from the device, not from a cache: its
// own if reads are buffered, or that of the file behind a loop device, which O_DIRECT on the
// loop does not bypass. It drops everything before the first read, and before a range is
// read again. What the kernel reads ahead meanwhile comes from the device too.
func (h *handle) dropCaches(offset, n int64) error {
	caches := make([]int, 0, 2)
	if !h.direct {
		caches = append(caches, h.fd)
	}
	if below := h.target.cacheFD(); below >= 0 {
		caches = append(caches, below)
	}
	if h.cacheDropped && offset >= h.readUpTo {
		h.readUpTo = offset + n
		return nil
	}
	if h.dirty {
		if err := h.sync(); err != nil {
			return err
		}
	}
	for _, fd := range caches {
		// Not a range: the kernel drops only whole folios, which may be larger.
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			return hardware.IOFault("drop the cache of", h.path, err)
		}
	}
	h.cacheDropped, h.readUpTo = true, offset+n
	return nil
}

// readSome reads at least one byte into p. p is not empty and starts before the end.
func (h *handle) readSome(p []byte, offset int64) (int, error) {
	skip := int(offset % hardware.Align)
	whole := len(p) / hardware.Align * hardware.Align
	if whole > 0 && skip == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(p)))%hardware.Align == 0 {
		return h.read(p[:whole], offset)
	}
	wanted := (skip + len(p) + hardware.Align - 1) / hardware.Align * hardware.Align
	aligned := hardware.AlignedBuffer(min(wanted, bounceLen))
	got, err := h.read(aligned, offset-int64(skip))
	if err != nil {
		return 0, err
	}
	if got <= skip {
		// A partial block before the end: the rest would not be aligned.
		return 0, hardware.IOFault(fmt.Sprintf("read at %d of", offset), h.path, io.ErrUnexpectedEOF)
	}
	return copy(p, aligned[skip:got]), nil
}

// read is one aligned pread. It is short at the end of the target.
func (h *handle) read(p []byte, offset int64) (int, error) {
	got, err := h.sys.readAt(h.fd, p, offset)
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
	return hardware.Changed("size", fmt.Sprintf("%q ends at %d, enrolled were %d bytes", h.path, offset, h.size))
}
