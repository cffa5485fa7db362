package nvme

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme/privileged"
)

// handle is one opened drive with every disk that the kernel makes of it.
type handle struct {
	c        *controller
	enrolled device.Identity
	writable bool
	parts    []part
	closed   bool
	// usedWriteZeroes: the drive's own Write Zeroes was used.
	usedWriteZeroes bool
}

// part is one claimed namespace and where its bytes begin among the handle's.
type part struct {
	nsid uint32
	node string
	disk *block.Disk
	at   int64
	// readOnly: the kernel did not let it be opened for writing.
	readOnly bool
}

// interface checks: what a drive can.
var (
	_ hardware.Handle           = (*handle)(nil)
	_ hardware.Sanitizer        = (*handle)(nil)
	_ hardware.NamespaceManager = (*handle)(nil)
	_ hardware.HealthReporter   = (*handle)(nil)
	_ hardware.SecurityCleaner  = (*handle)(nil)
	_ hardware.Resetter         = (*handle)(nil)
	_ hardware.ZeroWriter       = (*handle)(nil)
)

// claim opens every disk of the drive exclusively and keeps it: admin commands alone
// would pass by a mount (SAFETY F12, measured). A second call opens those that came since.
func (h *handle) claim(ctx context.Context) error {
	disks, err := h.c.Disks()
	if err != nil {
		return err
	}
	at := h.Size()
	for _, s := range disks {
		if h.holds(s.Node) {
			continue
		}
		readOnly := false
		disk, err := h.c.host.Kernel.Claim(ctx, s.Node, h.writable)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeNotAllowed && h.writable {
			// A write-protected namespace cannot be opened for writing; Secure ends that, and
			// where it cannot, Complete and the drive refuse the erase.
			readOnly = true
			disk, err = h.c.host.Kernel.Claim(ctx, s.Node, false)
		}
		if err != nil {
			return errors.Join(err, h.release())
		}
		h.parts = append(h.parts, part{nsid: s.NSID, node: s.Node, disk: disk, at: at, readOnly: readOnly})
		at += disk.Size()
	}
	return nil
}

func (h *handle) holds(node string) bool {
	return slices.ContainsFunc(h.parts, func(p part) bool { return p.node == node })
}

// release gives up the disks.
func (h *handle) release() (err error) {
	for _, p := range h.parts {
		err = errors.Join(err, p.disk.Close())
	}
	h.parts = nil
	return err
}

// Size is the bytes of all claimed namespaces; 0 where there is none.
func (h *handle) Size() int64 {
	var size int64
	for _, p := range h.parts {
		size += p.disk.Size()
	}
	return size
}

// Method says how zeroes were written: by the drive's Write Zeroes, or "o_direct".
func (h *handle) Method() string {
	if h.usedWriteZeroes {
		return block.MethodWriteZeroes
	}
	if len(h.parts) > 0 {
		return h.parts[0].disk.Method()
	}
	return "none"
}

// ZeroAt writes zeroes by ordinary writes; see hardware.Handle.
func (h *handle) ZeroAt(ctx context.Context, offset, n int64) error {
	return h.eachPart(offset, n, func(p part, at, n int64) error { return p.disk.ZeroAt(ctx, at, n) })
}

// WriteZeroesAt has the drive write the zeroes; see hardware.ZeroWriter. Only a drive
// that says it can (ONCS bit 3) is asked, and its error is final (SAFETY F16, S2.27).
func (h *handle) WriteZeroesAt(ctx context.Context, offset, n int64) error {
	if !h.c.id.Capabilities().WriteZeroes {
		return hardware.Refused(device.CodeCommandRefused, "clean it by another operation: in error a new look may choose one", "the drive at %s has no Write Zeroes (ONCS bit 3)", h.c.Address)
	}
	h.usedWriteZeroes = true
	return h.eachPart(offset, n, func(p part, at, n int64) error { return p.disk.WriteZeroes(ctx, at, n) })
}

// eachPart calls do with the piece of [offset, offset+n) on each disk.
func (h *handle) eachPart(offset, n int64, do func(p part, at, n int64) error) error {
	if h.closed {
		return fmt.Errorf("the drive at %s: %w", h.c.Address, os.ErrClosed)
	}
	if offset < 0 || n < 0 || offset > h.Size() || n > h.Size()-offset {
		return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: fmt.Sprintf("%d bytes at %d lie outside the %d of the drive at %s", n, offset, h.Size(), h.c.Address)}
	}
	for _, p := range h.parts {
		if n == 0 {
			break
		}
		if offset >= p.at+p.disk.Size() {
			continue
		}
		some := min(n, p.at+p.disk.Size()-offset)
		if err := do(p, offset-p.at, some); err != nil {
			return err
		}
		offset, n = offset+some, n-some
	}
	return nil
}

// ReadAt reads from the drive, past every cache; see hardware.Handle.
func (h *handle) ReadAt(p []byte, offset int64) (int, error) {
	if h.closed {
		return 0, fmt.Errorf("the drive at %s: %w", h.c.Address, os.ErrClosed)
	}
	if offset < 0 || offset >= h.Size() {
		return 0, io.EOF
	}
	done, wanted := 0, min(int64(len(p)), h.Size()-offset)
	err := h.eachPart(offset, wanted, func(part part, at, n int64) error {
		got, err := part.disk.ReadAt(p[done:done+int(n)], at)
		done += got
		if errors.Is(err, io.EOF) && int64(got) == n {
			return nil
		}
		return err
	})
	if err == nil && done < len(p) {
		err = io.EOF
	}
	return done, err
}

// Flush returns once everything written is on the drive's stable storage.
func (h *handle) Flush(ctx context.Context) error {
	for _, p := range h.parts {
		if err := p.disk.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Check reads again who the drive is, that it is allowed, alone, and that no disk of it
// is in use or was made since (SAFETY F11, F12, F13).
func (h *handle) Check(ctx context.Context) error {
	if h.closed {
		return fmt.Errorf("the drive at %s: %w", h.c.Address, os.ErrClosed)
	}
	if h.writable {
		if err := h.c.checkAllowed(h.c.pci); err != nil {
			return err
		}
	}
	if err := h.c.verifyIdentity(ctx, h.enrolled); err != nil {
		return err
	}
	if err := h.c.checkExclusive(ctx); err != nil {
		return err
	}
	disks, err := h.c.Disks()
	if err != nil {
		return err
	}
	for _, s := range disks {
		if !h.holds(s.Node) {
			return hardware.Busy("%s came to the drive at %s meanwhile", s.Name, h.c.Address)
		}
	}
	for _, p := range h.parts {
		if err := p.disk.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// change sends a command that changes the drive: identity and interlocks before it,
// identity after it, with everything held meanwhile, by the child too (SAFETY F11, F12).
func (h *handle) change(ctx context.Context, mayGoOn func() error, r privileged.Request) error {
	if err := mayGoOn(); err != nil {
		return err
	}
	if err := h.Check(ctx); err != nil {
		return err
	}
	if err := h.c.drive.Change(ctx, r, h.enrolled.Serial, h.heldFiles()); err != nil {
		return asFault(err)
	}
	return h.c.verifyIdentity(ctx, h.enrolled)
}

// heldFiles are the descriptors that a child keeps which changes the drive: should the
// worker die, they die with the child (SAFETY F1, F12).
func (h *handle) heldFiles() privileged.HeldFiles {
	held := privileged.HeldFiles{Fence: h.c.fence}
	for _, p := range h.parts {
		held.Disks = append(held.Disks, p.disk.FD())
	}
	return held
}

// Close gives everything up.
func (h *handle) Close() error {
	if h.closed {
		return fmt.Errorf("the drive at %s: %w", h.c.Address, os.ErrClosed)
	}
	h.closed = true
	return errors.Join(h.release(), h.c.drive.Close())
}
