package e2e

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy stands between a worker and the server. During a partition no byte passes and
// connections stay open, as when a cable is pulled: neither side notices.
type Proxy struct {
	Address string

	target   string
	listener net.Listener
	mu       sync.Mutex
	open     *sync.Cond
	cut      bool
	closed   bool
	conns    []net.Conn
	running  sync.WaitGroup
}

// NewProxy listens on a free port of the loopback for the length of the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxyAt(t, "127.0.0.1:0", target)
}

// newProxyAt is NewProxy at an address that is known before.
func newProxyAt(t testing.TB, address, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	p := &Proxy{Address: listener.Addr().String(), target: target, listener: listener}
	p.open = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Partition stops every byte in both directions; Heal lets them go on.
func (p *Proxy) Partition() { p.set(true) }

// Heal ends a partition.
func (p *Proxy) Heal() { p.set(false) }

func (p *Proxy) set(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
	p.open.Broadcast()
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	conns := p.conns
	p.mu.Unlock()
	p.open.Broadcast()
	_ = p.listener.Close() // accept ends by it
	for _, c := range conns {
		_ = c.Close()
	}
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		p.mu.Unlock()
		p.running.Go(func() { p.copy(far, near) })
		p.running.Go(func() { p.copy(near, far) })
	}
}

// copy moves bytes, and the end of a connection, while there is no partition.
func (p *Proxy) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.passable() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = to.(*net.TCPConn).CloseWrite()
			}
			break
		}
	}
	_ = from.Close()
	_ = to.Close()
}

// passable waits for the end of a partition; false means that the proxy is closed.
func (p *Proxy) passable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut && !p.closed {
		p.open.Wait()
	}
	return !p.closed
}
