package pci

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
)

// regions are the sizes of a function's regions, its BARs, by the names of their files.
func regions(f *pcifunction.Function) map[string]int64 {
	sizes := map[string]int64{}
	all, _ := filepath.Glob(f.Path("resource[0-5]")) // the pattern is valid
	for _, path := range all {
		if is, err := os.Stat(path); err == nil { // else it was removed meanwhile
			sizes[filepath.Base(path)] = is.Size()
		}
	}
	return sizes
}

// checkMemory refuses a policy whose memory is not wholly in the region, or whose program there is not.
func (c *card) checkMemory() error {
	m, f := c.model.Memory, c.functions[0]
	if m.Script != "" {
		return c.host.Programs.Allowed(m.Script)
	}
	if size := regions(f)[fmt.Sprint("resource", m.BAR)]; size < m.Size {
		return hardware.Refused(device.CodePolicyUnsatisfied,
			`if that is its size, correct models in the policy; else erase it by a program: memory: "script NAME"`,
			"BAR %d of %s has %d bytes, and the policy says that its memory has %d: the rest would not be erased", m.BAR,
			f.Address, size, m.Size)
	}
	return nil
}

// openMemory maps the memory. The functions are unbound from their drivers: nothing in the kernel writes to
// it, and no guest can have it.
func (h *handle) openMemory(ctx context.Context) error {
	if err := h.detach(ctx); err != nil {
		return err
	}
	f, m := h.functions[0], h.model.Memory
	if err := h.set(ctx, f.Path("enable"), "1"); err != nil {
		return err
	}
	path := f.Path(fmt.Sprintf("resource%d", m.BAR))
	if _, err := os.Stat(path + "_wc"); err == nil { // the kernel has it where that is safe
		path += "_wc"
	}
	flags, protection := os.O_RDONLY, unix.PROT_READ
	if h.writable {
		flags, protection = os.O_RDWR, unix.PROT_READ|unix.PROT_WRITE
	}
	file, err := os.OpenFile(path, flags|unix.O_SYNC, 0)
	if err == nil {
		h.memory, err = unix.Mmap(int(file.Fd()), 0, int(m.Size), protection, unix.MAP_SHARED)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return hardware.IOFault("map the memory", path, err)
	}
	return nil
}

// closeMemory gives up the memory. The functions stay unbound until a step binds them.
func (h *handle) closeMemory() error {
	if h.memory == nil {
		return nil
	}
	err := unix.Munmap(h.memory)
	h.memory = nil
	// As often as it was enabled: only then does the kernel end the device's bus mastering.
	off := h.write(h.functions[0].Path("enable"), "0")
	if errors.Is(off, os.ErrNotExist) || errors.Is(off, unix.ENODEV) {
		off = nil // it left the bus
	}
	return errors.Join(err, off)
}

// use calls do with the memory, in a step that has it open. A device that leaves its bus meanwhile is a fault, and
// not the end of this process.
func (h *handle) use(doing string, do func(memory []byte)) (err error) {
	if err := h.each((*pcifunction.Function).CheckUnchanged); err != nil {
		return err
	}
	if h.memory == nil {
		return hardware.CallerError("the memory of %q is not open", h.target.Name)
	}
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			err = hardware.IOFault(doing, h.functions[0].Address, fmt.Errorf("the memory went away: %v", p))
		}
	}()
	do(h.memory)
	return nil
}

// ZeroAt writes zeroes to the device's memory; see hardware.Handle. Marks prove of each part, before it is
// zeroed, that it is memory: a region that drops what is written to it proves nothing by reading zero.
func (h *handle) ZeroAt(ctx context.Context, offset, n int64) error {
	if err := hardware.CheckWrite(h.target.Name, h.writable, h.Size(), hardware.Align, offset, n); err != nil {
		return err
	}
	zeroes, err := hardware.Zeroes()
	if err != nil {
		return err
	}
	for end := offset + n; offset < end; offset += hardware.MaxWrite {
		if err := hardware.MayWrite(ctx); err != nil {
			return err
		}
		kept := true
		err := h.use("write", func(memory []byte) {
			part := memory[offset:min(end, offset+hardware.MaxWrite)]
			kept = keepsMarks(part)
			copy(part, zeroes)
		})
		if err != nil {
			return err
		}
		if !kept {
			return hardware.Refused(device.CodeOverwriteUnsupported,
				`have a program erase it (memory: "script NAME" in models of the policy), or check the device`,
				"BAR %d of %s is no plain memory: from byte %d on it does not read as it was written", h.model.Memory.BAR,
				h.functions[0].Address, offset)
		}
	}
	return nil
}

// keepsMarks writes random marks to the begin, the middle and the end of a part, and reads them back when all are
// written.
func keepsMarks(part []byte) bool {
	const size = 64
	places := []int{0, len(part) / 2 &^ (size - 1), len(part) - size}
	marks := make([]byte, len(places)*size)
	_, _ = rand.Read(marks) // it never fails
	for i, place := range places {
		copy(part[place:], marks[i*size:][:size])
	}
	for i, place := range places {
		if !bytes.Equal(part[place:][:size], marks[i*size:][:size]) {
			return false
		}
	}
	return true
}

// ReadAt reads the device's memory, which no cache is before.
func (h *handle) ReadAt(p []byte, offset int64) (n int, err error) {
	failed := h.use("read", func(memory []byte) { n, err = bytes.NewReader(memory).ReadAt(p, offset) })
	return n, cmp.Or(failed, err)
}

// Flush returns once everything written has arrived: a read of the device waits for the writes before it.
func (h *handle) Flush(context.Context) error {
	return h.use("flush", func(memory []byte) { sink.Store(uint32(memory[0])) })
}

// sink keeps the compiler from leaving a read out.
var sink atomic.Uint32
