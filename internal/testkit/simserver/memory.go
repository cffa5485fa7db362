package simserver

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// StartInMemory serves the simulator until the test ends, at the url, which dial leads to. No connection
// leaves the process: where the test has a clock of its own (testing/synctest), nothing waits for another
// one.
func (c *Core[C, S]) StartInMemory(t testing.TB) (url, ca string, dial Dial) {
	t.Helper()
	pair, ca := Identity(t)
	l := &memoryListener{incoming: make(chan net.Conn), closed: make(chan struct{})}
	t.Cleanup(c.Serve(c, l, pair))
	return "https://" + l.Addr().String(), ca, l.dial
}

// Dial makes a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// memoryListener is a port without a network.
type memoryListener struct {
	incoming chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddress }

var memoryAddress = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}

func (l *memoryListener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != memoryAddress.String() { // a client that is led elsewhere gets there
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	there, here := newStream(), newStream()
	select {
	case l.incoming <- &memoryConn{in: there, out: here}:
		return &memoryConn{in: here, out: there}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memoryBuffer is what one direction of a connection holds, as the buffers of a network do.
const memoryBuffer = 64 << 10

// stream is one direction of a connection.
type stream struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	// ended: no more is written. gone: nobody reads any more.
	ended, gone bool
	// Each side may wait until then only; zero: without end.
	read, write time.Time
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// do changes the stream, and wakes who waits for it.
func (s *stream) do(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.changed.Broadcast()
}

func isOver(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// memoryConn is one end of a connection.
type memoryConn struct{ in, out *stream }

func (c *memoryConn) Read(p []byte) (n int, err error) {
	s := c.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.gone:
			return 0, net.ErrClosed
		case isOver(s.read):
			return 0, os.ErrDeadlineExceeded
		case len(s.data) > 0:
			n = copy(p, s.data)
			s.data = s.data[n:]
			s.changed.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (c *memoryConn) Write(p []byte) (n int, err error) {
	s := c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		switch space := memoryBuffer - len(s.data); {
		case s.ended:
			return n, net.ErrClosed
		case s.gone:
			return n, io.ErrClosedPipe
		case isOver(s.write):
			return n, os.ErrDeadlineExceeded
		case space > 0:
			some := p[:min(space, len(p))]
			s.data, p, n = append(s.data, some...), p[len(some):], n+len(some)
			s.changed.Broadcast()
		default:
			s.changed.Wait()
		}
	}
	return n, nil
}

func (c *memoryConn) Close() error {
	c.in.do(func() { c.in.gone = true })
	c.out.do(func() { c.out.ended = true })
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return memoryAddress }
func (c *memoryConn) RemoteAddr() net.Addr { return memoryAddress }

func (c *memoryConn) SetDeadline(at time.Time) error {
	_ = c.SetReadDeadline(at)
	return c.SetWriteDeadline(at)
}

func (c *memoryConn) SetReadDeadline(at time.Time) error {
	c.in.until(at, func() { c.in.read = at })
	return nil
}

func (c *memoryConn) SetWriteDeadline(at time.Time) error {
	c.out.until(at, func() { c.out.write = at })
	return nil
}

// until sets a deadline, and wakes who waits when it has come.
func (s *stream) until(at time.Time, set func()) {
	s.do(set)
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		time.AfterFunc(wait, func() { s.do(func() {}) })
	}
}
