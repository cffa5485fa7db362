package steps

import (
	"context"
	"iter"
	"sync"

	"burnish/internal/hardware"
)

// block is an extent that was read, as far as it could be: got and err are ReadAt's.
type block struct {
	extent
	data []byte
	got  int
	err  error
	free chan<- *[]byte
	own  *[]byte
}

// done gives the block's buffer back to the reader.
func (b block) done() { b.free <- b.own }

// buffers keeps what verifies read into: of many at once each has two.
var buffers = sync.Pool{New: func() any {
	p := hardware.AlignedBuffer(readSize)
	return &p
}}

// readAhead reads extents in their order, one ahead of whoever takes the blocks; the
// first that is not whole is the last. stop ends it, and no I/O is under way when it
// returns: until then the Handle is the reader's alone.
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
