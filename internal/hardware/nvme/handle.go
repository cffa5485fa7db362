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

// handle is one opened drive with every disk that the kernel shows for it.
type handle struct {
	c        *controller
	enrolled device.Identity
	writable bool
	parts    []part
	closed   bool
	// usedWriteZeroes: the drive's own Write Zeroes command was used.
	usedWriteZeroes bool
}

// part is one claimed namespace. Its bytes start at offset at of the handle.
type part struct {
	nsid uint32
	node string
	disk *block.Disk
	at   int64
	// readOnly: the kernel refused to open it for writing.
	readOnly bool
}

// The optional interfaces of an NVMe drive.
var (
	_ hardware.Handle           = (*handle)(nil)
	_ hardware.Sanitizer        = (*handle)(nil)
	_ hardware.NamespaceManager = (*handle)(nil)
	_ hardware.HealthReporter   = (*handle)(nil)
	_ hardware.SecurityCleaner  = (*handle)(nil)
	_ hardware.Resetter         = (*handle)(nil)
	_ hardware.ZeroWriter       = (*handle)(nil)
	_ hardware.EvidenceWriter   = (*handle)(nil)
	_ hardware.ConcurrentReader = (*handle)(nil)
	_ hardware.UserSearcher     = (*handle)(nil)
	_ hardware.StepRunner       = (*handle)(nil)
)

// take locks the open controller and claims its disks. After an error nothing is open.
func (h *handle) take(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			// A disk that stays claimed would be in use by this worker until it restarts.
			err = errors.Join(err, h.release())
			h.c.closeAndJoin(&err)
		}
	}()
	if err := h.c.checkExclusive(ctx); err != nil {
		return err
	}
	if err := h.c.drive.Lock(ctx); err != nil {
		return err
	}
	if err := h.claim(ctx); err != nil {
		return err
	}
	// Check everything once more, now that all is locked and claimed.
	return h.Check(ctx)
}

// claim opens every disk of the drive exclusively and keeps it open: admin commands alone
// ignore mounts (F12, measured). A second call opens the disks that appeared since.
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
			// A write-protected namespace cannot be opened for writing. Secure ends the
			// protection; where it cannot, CheckComplete and the drive refuse the erase.
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

// release closes the disks.
func (h *handle) release() (err error) {
	for _, p := range h.parts {
		err = errors.Join(err, p.disk.Close())
	}
	h.parts = nil
	return err
}

// Size is the sum of all claimed namespaces.
func (h *handle) Size() int64 {
	var size int64
	for _, p := range h.parts {
		size += p.disk.Size()
	}
	return size
}

// Method names how zeroes were written: by Write Zeroes, or "o_direct".
func (h *handle) Method() string {
	if h.usedWriteZeroes {
		return block.MethodWriteZeroes
	}
	if len(h.parts) > 0 {
		return h.parts[0].disk.Method()
	}
	return "none"
}

// ZeroAt writes zeroes with ordinary writes; see hardware.Handle.
func (h *handle) ZeroAt(ctx context.Context, offset, n int64) error {
	return h.eachPart(offset, n, func(p part, at, n int64) error { return p.disk.ZeroAt(ctx, at, n) })
}

// WriteZeroesAt has the drive write the zeroes; see hardware.ZeroWriter. It refuses a drive
// that does not report Write Zeroes (ONCS bit 3). An error is final (F16, S2.27).
func (h *handle) WriteZeroesAt(ctx context.Context, offset, n int64) error {
	if !h.c.id.Capabilities().WriteZeroes {
		return hardware.Refused(device.CodeCommandRefused, "clean it by another operation: in state error, a refresh may "+
			"choose one", "the drive at %s does not support Write Zeroes (ONCS bit 3)", h.c.Address)
	}
	h.usedWriteZeroes = true
	return h.eachPart(offset, n, func(p part, at, n int64) error { return p.disk.WriteZeroes(ctx, at, n) })
}

// NamespaceSizes gives the size of each namespace; see hardware.EvidenceWriter.
func (h *handle) NamespaceSizes() []int64 {
	sizes := make([]int64, len(h.parts))
	for i, p := range h.parts {
		sizes[i] = p.disk.Size()
	}
	return sizes
}

// WriteEvidence writes known data; see hardware.EvidenceWriter.
func (h *handle) WriteEvidence(ctx context.Context, data []byte, offset int64) error {
	return h.eachPart(offset, int64(len(data)), func(p part, at, n int64) error {
		if p.readOnly {
			return hardware.Refused(device.CodeWriteProtected, protectionRemedy, "the kernel does not open %s for writing",
				p.node)
		}
		some := data[:n]
		data = data[n:]
		return p.disk.WriteData(ctx, some, at)
	})
}

// eachPart calls do with the part of [offset, offset+n) that is on each disk.
func (h *handle) eachPart(offset, n int64, do func(p part, at, n int64) error) error {
	if h.closed {
		return fmt.Errorf("the drive at %s: %w", h.c.Address, os.ErrClosed)
	}
	if offset < 0 || n < 0 || offset > h.Size() || n > h.Size()-offset {
		return hardware.CallerError("%d bytes at %d are outside the %d bytes of the drive at %s", n, offset, h.Size(),
			h.c.Address)
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

// ReadAt reads from the drive and bypasses every cache; see hardware.Handle.
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

// ReadsAtOnce is the same of all disks of one drive; see hardware.ConcurrentReader.
func (h *handle) ReadsAtOnce() int {
	if len(h.parts) == 0 {
		return 1
	}
	return h.parts[0].disk.ReadsAtOnce()
}

// Unseen says which users of the drive were not looked for; see hardware.UserSearcher.
func (h *handle) Unseen() string {
	if len(h.parts) == 0 {
		return ""
	}
	return h.parts[0].disk.Unseen()
}

// Flush returns once everything written is on stable storage.
func (h *handle) Flush(ctx context.Context) error {
	for _, p := range h.parts {
		if err := p.disk.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Check reads the drive's identity again, and proves that it is allowed, exclusive, and
// that none of its disks is in use or new (F11, F12, F13).
func (h *handle) Check(ctx context.Context) error {
	if h.closed {
		return fmt.Errorf("the drive at %s: %w", h.c.Address, os.ErrClosed)
	}
	if h.writable {
		if err := h.c.host.Allow(h.c.pci); err != nil {
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
			return hardware.Busy("the new disk %s appeared on the drive at %s", s.Name, h.c.Address)
		}
	}
	for _, p := range h.parts {
		if err := p.disk.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// change runs a command that changes the drive. It checks identity, interlocks and the right
// to write (F32) before the command, and identity after it. The command's process holds all locks too (F11, F12).
func (h *handle) change(ctx context.Context, mayGoOn func() error, r privileged.Request) error {
	return asFault(h.send(ctx, mayGoOn, r, nil))
}

// send is change with the image of a download. The error of a failed command is a
// *privileged.Failure.
func (h *handle) send(ctx context.Context, mayGoOn func() error, r privileged.Request, image *os.File) error {
	if err := mayGoOn(); err != nil {
		return err
	}
	if err := h.Check(ctx); err != nil {
		return err
	}
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	held := h.heldFiles()
	held.Image = image
	if err := h.c.drive.Change(ctx, r, h.enrolled.Serial, held); err != nil {
		return err
	}
	return h.c.verifyIdentity(ctx, h.enrolled)
}

// heldFiles are the descriptors that a command's process inherits. If the worker dies, they
// stay open until that process ends (F1, F12).
func (h *handle) heldFiles() privileged.HeldFiles {
	held := privileged.HeldFiles{Fence: h.c.fence}
	for _, p := range h.parts {
		held.Disks = append(held.Disks, p.disk.FD())
	}
	return held
}

// Close closes the disks and the controller.
func (h *handle) Close() error {
	if h.closed {
		return fmt.Errorf("the drive at %s: %w", h.c.Address, os.ErrClosed)
	}
	h.closed = true
	return errors.Join(h.release(), h.c.drive.Close())
}
