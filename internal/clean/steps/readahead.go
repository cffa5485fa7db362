package steps

import (
	"context"
	"iter"
	"sync"

	"burnish/internal/hardware"
)

// block is an extent that was read; got and err are what ReadAt returned.
type block struct {
	extent
	data []byte
	got  int
	err  error
	free chan<- *[]byte
	own  *[]byte
}

// done returns the block's buffer to the reader.
func (b block) done() { b.free <- b.own }

// buffers pools the buffers of verifies; each has two at a time.
var buffers = sync.Pool{New: func() any {
	p := hardware.AlignedBuffer(readSize)
	return &p
}}

// readAhead reads extents in their order, one ahead of the receiver of the blocks. The
// first block that is not complete is the last. stop ends it; when stop returns, no I/O is
// under way. Until then only readAhead may use the Handle.
func readAhead(ctx context.Context, from hardware.Handle, list iter.Seq[extent]) (blocks <-chan block, stop func()) {
	const deep = 2
	filled, free, quit := make(chan block), make(chan *[]byte, deep), make(chan struct{})
	var all []*[]byte
	for range deep {
		p := buffers.Get().(*[]byte)
		all = append(all, p)
		free <- p
	}
	go func() {
		defer close(filled)
		for x := range list {
			b := block{extent: x, free: free}
			select {
			case b.own = <-free:
			case <-quit:
				return
			}
			b.data = *b.own
			if b.err = context.Cause(ctx); b.err == nil {
				b.got, b.err = from.ReadAt(b.data[:x.n], x.at)
			}
			select {
			case filled <- b:
			case <-quit:
				return
			}
			if int64(b.got) < x.n {
				return
			}
		}
	}()
	return filled, func() {
		close(quit)
		for range filled { // until the reader has ended
		}
		for _, p := range all {
			buffers.Put(p)
		}
	}
}
