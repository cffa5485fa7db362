package steps_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	// blockSize is the unit of memory's content; the last block may be shorter.
	blockSize = int64(hardware.Align)
)

// content is what one block of a memory holds.
type content byte

const (
	tenants content = iota // as the tenant left it
	cached                 // zeroes that are lost when the power goes
	zeroed                 // zeroes on stable storage
)

var errInjected = errors.New("injected")

// memory is a device without data: it keeps the kind of content of each block, and single
// bytes that are not zero in a zeroed block. It records every call, and can fail at one.
type memory struct {
	size   int64
	blocks []content
	stray  map[int64]byte
	// ends is where reads end, if before the device's size.
	ends     int64
	readOnly bool
	mu       sync.Mutex // reads run ahead in another goroutine
	calls    []string
	// failAt is the call that fails, from 1; 0: none. half says whether a write that fails
	// has written everything or nothing.
	failAt int
	half   bool
	err    error
	// failOn is the text of a call that fails, the one with this number of them: where calls
	// overlap, their order does not say which one it is.
	failOn     string
	failNumber int
}

func newMemory(size int64, filled content) *memory {
	m := &memory{size: size, ends: size, blocks: make([]content, (size+blockSize-1)/blockSize), stray: map[int64]byte{},
		err: errInjected}
	for i := range m.blocks {
		m.blocks[i] = filled
	}
	return m
}

// call records a call, and returns its error.
func (m *memory) call(format string, args ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, fmt.Sprintf(format, args...))
	if len(m.calls) == m.failAt || m.failOn != "" && m.calls[len(m.calls)-1] == m.failOn &&
		count(m.calls, m.failOn) == m.failNumber {
		return m.err
	}
	return nil
}

func count(calls []string, call string) (n int) {
	for _, one := range calls {
		if one == call {
			n++
		}
	}
	return n
}

// crash loses the unflushed data, and clears the calls so far.
func (m *memory) crash() {
	for i, c := range m.blocks {
		if c == cached {
			m.blocks[i] = tenants
		}
	}
	m.calls, m.failAt, m.failOn = nil, 0, ""
}

// left gives the first block that may hold a tenant's data, or -1.
func (m *memory) left() int {
	for i, c := range m.blocks {
		if c != zeroed {
			return i
		}
	}
	return -1
}

func (m *memory) Size() int64    { return m.size }
func (m *memory) Method() string { return "memory" }
func (m *memory) Close() error   { return m.call("close") }

func (m *memory) ZeroAt(_ context.Context, offset, n int64) error {
	err := m.call("zero %d+%d", offset, n)
	if m.readOnly {
		return errors.New("this handle is not writable")
	}
	if offset < 0 || n <= 0 || offset+n > m.size || offset%blockSize != 0 || n%blockSize != 0 && offset+n != m.size ||
		n > steps.Chunk {
		return fmt.Errorf("zero %d+%d is not allowed on %d bytes", offset, n, m.size)
	}
	if err != nil && !m.half {
		return err
	}
	for b := offset / blockSize; b*blockSize < offset+n; b++ {
		m.blocks[b] = cached
	}
	return err
}

func (m *memory) ReadAt(p []byte, offset int64) (int, error) {
	if err := m.call("read %d+%d", offset, len(p)); err != nil {
		return 0, err
	}
	if offset < 0 || offset >= m.ends {
		return 0, io.EOF
	}
	n := min(int64(len(p)), m.ends-offset)
	clear(p[:n])
	for at := offset; at < offset+n; at = (at/blockSize + 1) * blockSize {
		if m.blocks[at/blockSize] == tenants {
			for i := at; i < min((at/blockSize+1)*blockSize, offset+n); i++ {
				p[i-offset] = 0xa5
			}
		}
	}
	for at, b := range m.stray {
		if at >= offset && at < offset+n {
			p[at-offset] = b
		}
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (m *memory) Flush(context.Context) error {
	err := m.call("flush")
	if err != nil && !m.half {
		return err
	}
	for i, c := range m.blocks {
		if c == cached {
			m.blocks[i] = zeroed
		}
	}
	return err
}

func (m *memory) Check(context.Context) error { return m.call("check") }

// journal records checkpoints: it keeps the last offset, and adds to the calls of its device.
type journal struct {
	*memory
	offset int64
}

func (j *journal) checkpoint(offset int64) error {
	if err := j.call("checkpoint %d", offset); err != nil {
		return err
	}
	j.offset = offset
	return nil
}

func (j *journal) work() *steps.Work {
	return &steps.Work{Device: j.memory, Operation: device.Shred, Resume: j.offset, Record: j.checkpoint}
}
