package pci

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// region is one line of the kernel's table of a function's regions: the BARs 0 to 5, and the expansion ROM
// as 6.
type region struct{ size, flags uint64 }

func (c *card) regions(f *function) (all []region, err error) {
	text, err := c.attribute(f, "resource")
	for one := range strings.Lines(text) {
		var start, end, flags, size uint64
		if _, err := fmt.Sscanf(one, "0x%x 0x%x 0x%x", &start, &end, &flags); err != nil {
			return nil, fmt.Errorf("read the regions of %s: %w", f.Address, err)
		}
		if end > start {
			size = end - start + 1
		}
		all = append(all, region{size, flags})
	}
	return all, err
}

// checkMemory refuses a policy whose memory is not wholly in the region, or whose program there is not.
func (c *card) checkMemory() error {
	m := c.model.Memory
	if m.Script != "" {
		return c.host.Programs.Allowed(m.Script)
	}
	if m.Size == 0 {
		return nil
	}
	f := &c.functions[0]
	all, err := c.regions(f)
	if err != nil {
		return err
	}
	size := append(all, make([]region, 6)...)[m.BAR].size // a table that is too short has none
	if size < uint64(m.Size) {
		return hardware.Refused(device.CodePolicyUnsatisfied,
			`if that is its size, correct models in the policy; else erase it by a program: memory: "script NAME"`,
			"BAR %d of %s has %d bytes, and the policy says that its memory has %d: the rest would not be erased", m.BAR,
			f.Address, size, m.Size)
	}
	return nil
}

// describeMemory names the memory in the note of a discovery.
func (c *card) describeMemory() string {
	switch m := c.model.Memory; {
	case m.Script != "":
		return "memory by the program " + m.Script
	case m.Size > 0:
		return fmt.Sprintf("memory %s in BAR %d", hardware.FormatSize(m.Size), m.BAR)
	}
	return "no memory by the policy"
}

// openMemory maps the memory. The functions are unbound from their drivers: nothing in the kernel writes to
// it, and no guest can have it.
func (h *handle) openMemory(ctx context.Context) error {
	if err := h.checkMemory(); err != nil {
		return err
	}
	if err := h.detach(ctx); err != nil {
		return err
	}
	f, m := &h.functions[0], h.model.Memory
	if err := h.set(ctx, f, "enable", "1"); err != nil {
		return err
	}
	path := h.path(f, fmt.Sprintf("resource%d", m.BAR))
	if _, err := os.Stat(path + "_wc"); err == nil { // the kernel has it where that is safe
		path += "_wc"
	}
	flags, protection := os.O_RDONLY, unix.PROT_READ
	if h.writable {
		flags, protection = os.O_RDWR, unix.PROT_READ|unix.PROT_WRITE
	}
	file, err := os.OpenFile(path, flags|unix.O_SYNC, 0)
	if err != nil {
		return hardware.IOFault("open the memory", path, err)
	}
	h.memory, err = unix.Mmap(int(file.Fd()), 0, int(m.Size), protection, unix.MAP_SHARED)
	if err = errors.Join(err, file.Close()); err != nil {
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
	off := h.write(h.path(&h.functions[0], "enable"), "0")
	if errors.Is(off, os.ErrNotExist) || errors.Is(off, unix.ENODEV) {
		off = nil // it left the bus
	}
	return errors.Join(err, off)
}

// touch calls do. A device that leaves its bus meanwhile is a fault, and not the end of this process.
func (h *handle) touch(doing string, do func()) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			err = hardware.IOFault(doing, h.functions[0].Address, fmt.Errorf("the memory went away: %v", p))
		}
	}()
	do()
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
	for n > 0 {
		if err := hardware.MayWrite(ctx); err != nil {
			return err
		}
		if err := h.checkMapped(); err != nil {
			return err
		}
		part := h.memory[offset:][:min(n, hardware.MaxWrite)]
		kept := true
		if err := h.touch("write", func() {
			kept = keepsMarks(part)
			copy(part, zeroes)
		}); err != nil {
			return err
		}
		if !kept {
			return hardware.Refused(device.CodeOverwriteUnsupported,
				`have a program erase it (memory: "script NAME" in models of the policy), or check the device`,
				"BAR %d of %s is no plain memory: from byte %d on it does not read as it was written", h.model.Memory.BAR,
				h.functions[0].Address, offset)
		}
		offset, n = offset+int64(len(part)), n-int64(len(part))
	}
	return nil
}

// markSize is that of the marks, which are at the begin, in the middle and at the end of a part.
const markSize = 64

// keepsMarks writes a random mark to each of three places, and reads them back when all are written.
func keepsMarks(part []byte) bool {
	places := []int{0, len(part) / 2 &^ (markSize - 1), len(part) - markSize}
	var marks [][]byte
	for _, place := range places {
		mark := make([]byte, 0, markSize)
		for len(mark) < markSize {
			mark = binary.LittleEndian.AppendUint64(mark, rand.Uint64())
		}
		marks = append(marks, mark)
		copy(part[place:], mark)
	}
	for i, place := range places {
		if !bytes.Equal(part[place:][:markSize], marks[i]) {
			return false
		}
	}
	return true
}

// ReadAt reads the device's memory, which no cache is before.
func (h *handle) ReadAt(p []byte, offset int64) (n int, err error) {
	if err := h.checkMapped(); err != nil {
		return 0, err
	}
	if offset < 0 {
		return 0, hardware.CallerError("%d is not a place in the memory of %q", offset, h.target.Name)
	}
	if offset >= h.Size() {
		return 0, io.EOF
	}
	if err := h.touch("read", func() { n = copy(p, h.memory[offset:]) }); err != nil {
		return 0, err
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Flush returns once everything written has arrived: a read of the device waits for the writes before it.
func (h *handle) Flush(context.Context) error {
	if err := h.checkMapped(); err != nil {
		return err
	}
	return h.touch("flush", func() { sink.Store(uint32(h.memory[0])) })
}

// sink keeps the compiler from leaving a read out.
var sink atomic.Uint32

// checkMapped refuses a use of the memory in a step that did not open it, and one of another device.
func (h *handle) checkMapped() error {
	if err := h.checkUnchanged(); err != nil {
		return err
	}
	if h.memory == nil {
		return hardware.CallerError("the memory of %q is not open", h.target.Name)
	}
	return nil
}
