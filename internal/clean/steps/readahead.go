package steps

import (
	"context"
	"iter"
	"sync"

	"burnish/internal/hardware"
)

// readBuffers is how many blocks a verify has at a time: those that are being read, the one
// that is compared, and one more for when the comparison has to wait for a processor.
const readBuffers = 4

// block is an extent that is read; got and err are what ReadAt returned.
type block struct {
	extent
	buffer *[]byte
	got    int
	err    error
	read   chan struct{} // closed once it was read
}

// data are the extent's bytes.
func (b *block) data() []byte { return (*b.buffer)[:b.n] }

// buffers pools the buffers of verifies.
var buffers = sync.Pool{New: func() any {
	p := hardware.AlignedBuffer(readSize)
	return &p
}}

// readAhead reads extents while the receiver compares those before, as many at once as the
// Handle allows. blocks gives them in the order of the list, which ascends, whichever was read
// first; a block is the receiver's until it asks for the next one. Behind a block that is not
// complete no read begins. When stop returns, no I/O is under way. Until then only readAhead
// may use the Handle.
func readAhead(ctx context.Context, from hardware.Handle,
	list iter.Seq[extent]) (blocks iter.Seq[*block], stop func()) {
	atOnce := 1
	if several, ok := from.(hardware.ConcurrentReader); ok {
		atOnce = min(max(several.ReadsAtOnce(), 1), readBuffers-1)
	}
	free, ordered := make(chan *[]byte, readBuffers), make(chan *block, readBuffers)
	begin, quit := make(chan *block), make(chan struct{})
	all := make([]*[]byte, readBuffers)
	for i := range all {
		all[i] = buffers.Get().(*[]byte)
		free <- all[i]
	}
	var readers sync.WaitGroup
	var incomplete lowest
	for range atOnce {
		readers.Go(func() {
			for b := range begin {
				if b.err = context.Cause(ctx); b.err == nil && !incomplete.isBelow(b.at) {
					b.got, b.err = from.ReadAt(b.data(), b.at)
				}
				if int64(b.got) < b.n {
					incomplete.add(b.at)
				}
				close(b.read)
			}
		})
	}
	readers.Go(func() {
		defer close(begin)
		defer close(ordered)
		for x := range list {
			b := &block{extent: x, read: make(chan struct{})}
			select {
			case b.buffer = <-free:
			case <-quit:
				return
			}
			if incomplete.isBelow(x.at) {
				return
			}
			select {
			case begin <- b:
				ordered <- b // never full: each block has a buffer of its own
			case <-quit:
				return
			}
		}
	})
	blocks = func(yield func(*block) bool) {
		for b := range ordered {
			<-b.read
			if !yield(b) {
				return
			}
			free <- b.buffer
		}
	}
	return blocks, func() {
		close(quit)
		readers.Wait()
		for _, p := range all {
			buffers.Put(p)
		}
	}
}

// lowest is the lowest of the offsets that were added.
type lowest struct {
	mu     sync.Mutex
	some   bool
	offset int64
}

func (l *lowest) add(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.some || offset < l.offset {
		l.some, l.offset = true, offset
	}
}

// isBelow: one that was added is below offset.
func (l *lowest) isBelow(offset int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.some && l.offset < offset
}
