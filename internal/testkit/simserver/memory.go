package simserver

import (
	"context"
	"net"
	"sync"
	"testing"
)

// StartInMemory serves the simulator until the test ends, at the url, which dial leads to. No connection
// leaves the process: where the test has a clock of its own (testing/synctest), nothing waits for another
// one.
func (c *Core[C, S]) StartInMemory(t testing.TB) (url, ca string, dial Dial) {
	t.Helper()
	pair, ca := Identity(t)
	l := &memoryListener{incoming: make(chan net.Conn), closed: make(chan struct{})}
	t.Cleanup(c.Serve(l, pair))
	return "https://" + memoryAddress.String(), ca, l.dial
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
	here, there := net.Pipe()
	select {
	case l.incoming <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
