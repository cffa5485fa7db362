package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// maxWrite is the size of the largest single write.
const maxWrite = 1 << 20

// handle is one opened device.
type handle struct {
	driver   *Driver
	dir      deviceDir
	file     *os.File
	wanted   settings
	enrolled device.Identity
	writable bool
	zeroes   []byte

	// faults are those of the current step. state counts how often each has happened.
	faults []injected
	state  state
	// passed is the highest offset that this handle has reached.
	passed int64
	// opened is the context of Open. ReadAt has none of its own, and a hang in it must end
	// with the step.
	opened context.Context
}

// Size is the number of bytes of the device.
func (h *handle) Size() int64 { return h.enrolled.Size }

// Method is "fake".
func (h *handle) Method() string { return "fake" }

// ZeroAt writes zeroes, slowed down by the setting delay; see hardware.Handle. A fault is
// injected before the first byte after its percentage.
func (h *handle) ZeroAt(ctx context.Context, offset, n int64) error {
	if err := hardware.CheckWrite(h.dir.contents(), h.writable, h.Size(), hardware.Align, offset, n); err != nil {
		return err
	}
	for n > 0 {
		if err := hardware.MayWrite(ctx); err != nil {
			return fmt.Errorf("zero, stopped at %d: %w", offset, err)
		}
		if err := h.injectDue(ctx, offset); err != nil {
			return err
		}
		length := h.limitToFault(offset, min(n, maxWrite))
		if _, err := h.file.WriteAt(h.zeroes[:length], offset); err != nil {
			return hardware.IOFault(fmt.Sprintf("write %d zeroes at %d of", length, offset), h.dir.contents(), err)
		}
		offset, n = offset+length, n-length
		share := float64(length) / float64(h.Size())
		if err := wait(ctx, time.Duration(share*float64(h.wanted.delay))); err != nil {
			return fmt.Errorf("zero, stopped at %d: %w", offset, err)
		}
	}
	return h.injectDue(ctx, offset)
}

// ReadAt follows io.ReaderAt. A fault is injected before the first byte after its
// percentage.
func (h *handle) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, hardware.CallerError("%d is before the start of the device", offset)
	}
	done := 0
	for {
		at := offset + int64(done)
		if at >= h.Size() || done == len(p) {
			break
		}
		if err := h.injectDue(h.opened, at); err != nil {
			return done, err
		}
		got, err := h.file.ReadAt(p[done:done+int(h.limitToFault(at, min(int64(len(p)-done), h.Size()-at)))], at)
		done += got
		if err != nil && !errors.Is(err, io.EOF) {
			return done, hardware.IOFault(fmt.Sprintf("read at %d of", at), h.dir.contents(), err)
		}
		if got == 0 {
			return done, io.ErrUnexpectedEOF
		}
	}
	if end := offset + int64(done); end == h.Size() {
		if err := h.injectDue(h.opened, end); err != nil {
			return done, err
		}
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// Flush returns once everything written is on stable storage.
func (h *handle) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := h.file.Sync(); err != nil {
		return hardware.IOFault("flush", h.dir.contents(), err)
	}
	return nil
}

// Check proves again that the contents are the enrolled ones. It also injects the faults
// that are due, for steps that only check.
func (h *handle) Check(ctx context.Context) error {
	if err := h.verifyIdentity(); err != nil {
		return err
	}
	return h.injectDue(ctx, h.passed)
}

// Close gives up the contents and with them the lock.
func (h *handle) Close() error {
	if err := h.file.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// verifyIdentity proves that the open file is the enrolled device and still has its name.
func (h *handle) verifyIdentity() error {
	open, err := h.file.Stat()
	if err != nil {
		return hardware.IOFault("stat", h.dir.contents(), err)
	}
	now, err := h.dir.load()
	if err != nil {
		return err
	}
	if err := verifyIdentity(h.enrolled, h.wanted.identity(open.Size(), now), h.wanted, h.dir); err != nil {
		return err
	}
	named, err := os.Lstat(h.dir.contents())
	if err != nil {
		return missing(h.dir, err)
	}
	if !os.SameFile(open, named) {
		return hardware.Refused(device.CodeIdentityChanged, "put the enrolled device back, or replace the device",
			"not the enrolled device (path): %q names another file now", h.dir.contents())
	}
	return nil
}

// limitToFault shortens n so that [offset, offset+n) does not pass the next fault.
func (h *handle) limitToFault(offset, n int64) int64 {
	for _, f := range h.faults {
		if point := f.point(h.Size()); point > offset && point < offset+n && h.state.Faults[f.String()] < f.times {
			n = point - offset
		}
	}
	return n
}

// injectDue records that the step has reached offset, and injects the first fault that is
// due there. The fault is counted on stable storage first, because it may kill the worker.
func (h *handle) injectDue(ctx context.Context, offset int64) error {
	h.passed = max(h.passed, offset)
	for _, f := range h.faults {
		name := f.String()
		if offset < f.point(h.Size()) || h.state.Faults[name] >= f.times {
			continue
		}
		h.state.Faults[name]++
		if err := h.dir.store(h.state); err != nil {
			return err
		}
		return h.inject(ctx, f)
	}
	return nil
}

// inject makes one fault happen.
func (h *handle) inject(ctx context.Context, f injected) error {
	message := fmt.Sprintf("injected fault %s, occurrence %d", f, h.state.Faults[f.String()])
	switch f.kind {
	case hang:
		<-ctx.Done()
		return fmt.Errorf("%s: %w", message, ctx.Err())
	case crash:
		if err := h.driver.kill(); err != nil {
			return fmt.Errorf("%s: %w", message, err)
		}
		// The signal may take a moment to reach this thread. Nothing may happen until then.
		<-ctx.Done()
		return fmt.Errorf("%s: %w", message, ctx.Err())
	case transient:
		return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: message}
	default:
		return &device.Fault{Class: device.Permanent, Code: device.CodeStepFailed, Message: message}
	}
}

// wait sleeps for d unless ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
