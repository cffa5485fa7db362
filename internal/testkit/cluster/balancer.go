package cluster

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// answers reports whether a frontend answers.
func answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c, err := sdkclient.DialContext(ctx, sdkclient.Options{HostPort: address,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return false
	}
	c.Close()
	return true // it was asked for what it can do
}

// How a load balancer finds out that a frontend does not answer.
const (
	checkEvery  = 500 * time.Millisecond
	checkWithin = 2 * time.Second
)

// balancer hands each connection to one of the frontends that answer, in turn. It breaks the connections
// of one that no longer answers: their clients then come again.
type balancer struct {
	listener net.Listener
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu        sync.Mutex
	next      int
	frontends []*frontend
}

type frontend struct {
	address string
	answers bool
	conns   map[net.Conn]bool
}

// balance listens for frontends that answer now.
func balance(at string, addresses ...string) (*balancer, error) {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &balancer{listener: listener, stop: stop}
	for _, address := range addresses {
		f := &frontend{address: address, answers: true, conns: map[net.Conn]bool{}}
		b.frontends = append(b.frontends, f)
		b.running.Go(func() { b.watch(ctx, f) })
	}
	b.running.Go(b.accept)
	return b, nil
}

func (b *balancer) close() {
	b.stop()
	_ = b.listener.Close() // accept ends by it
	b.running.Wait()
	for _, f := range b.frontends {
		b.set(f, false)
	}
}

func (b *balancer) watch(ctx context.Context, f *frontend) {
	every := time.NewTicker(checkEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			b.set(f, answers(ctx, f.address))
		}
	}
}

func (b *balancer) set(f *frontend, answers bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.answers = answers
	if !answers {
		for c := range f.conns {
			_ = c.Close()
		}
		clear(f.conns)
	}
}

func (b *balancer) accept() {
	for {
		near, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.serve(near)
	}
}

// pick is the next frontend that answers, nil where none does.
func (b *balancer) pick() *frontend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.frontends {
		b.next = (b.next + 1) % len(b.frontends)
		if f := b.frontends[b.next]; f.answers {
			return f
		}
	}
	return nil
}

// serve copies a connection's bytes until either side ends it, or the frontend no longer answers.
func (b *balancer) serve(near net.Conn) {
	defer near.Close()
	f := b.pick()
	if f == nil {
		return
	}
	far, err := net.DialTimeout("tcp", f.address, checkWithin)
	if err != nil {
		return
	}
	defer far.Close()
	if !b.keep(f, far) {
		return
	}
	defer b.forget(f, far)
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// keep notes a connection, unless its frontend no longer answers.
func (b *balancer) keep(f *frontend, c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.answers {
		f.conns[c] = true
	}
	return f.answers
}

func (b *balancer) forget(f *frontend, c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(f.conns, c)
}
