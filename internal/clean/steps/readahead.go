package steps

import (
	"context"
	"iter"
	"sync"

	"burnish/internal/hardware"
)

// readBuffers is how many blocks a verify has at a time: the one that is read, the one that is
// compared, and one more for when the comparison has to wait for a processor.
const readBuffers = 3

// block is an extent that was read; got and err are what ReadAt returned.
type block struct {
	extent
	buffer []byte
	got    int
	err    error
}

// data are the extent's bytes.
func (b block) data() []byte { return b.buffer[:b.n] }

// readAhead reads extents while the receiver compares those before. blocks gives them in the order
// of the list; a block is the receiver's until it asks for the next one. Behind a block that is not
// complete none is read. When stop returns, no I/O is under way. Until then only readAhead may use
// the Handle.
func readAhead(ctx context.Context, from hardware.Handle, list iter.Seq[extent]) (blocks iter.Seq[block], stop func()) {
	free, read, quit := make(chan []byte, readBuffers), make(chan block, readBuffers), make(chan struct{})
	for range readBuffers {
		free <- hardware.AlignedBuffer(readSize)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(read)
		for x := range list {
			b := block{extent: x}
			select {
			case b.buffer = <-free:
			case <-quit:
				return
			}
			if b.err = context.Cause(ctx); b.err == nil {
				b.got, b.err = from.ReadAt(b.data(), b.at)
			}
			read <- b // never full: each block has a buffer of its own
			if int64(b.got) < b.n {
				return
			}
		}
	})
	blocks = func(yield func(block) bool) {
		for b := range read {
			if !yield(b) {
				return
			}
			free <- b.buffer
		}
	}
	return blocks, func() {
		close(quit)
		reader.Wait()
	}
}
