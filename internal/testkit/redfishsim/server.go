package redfishsim

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"burnish/internal/testkit/simserver"
)

// authorityName is in the certificate that clients trust.
const authorityName = "Simulated BMC CA"

// Server is a machine that is served on loopback, by TLS.
type Server struct {
	*Machine
	URL                string // https://127.0.0.1:PORT
	SystemURL          string // of the system, as an operator enrolls it
	CA                 string // PEM
	Username, Password string
}

// identity is a certificate, and the authority that clients trust.
type identity struct {
	pair      tls.Certificate
	authority string // PEM
}

// shared is the identity of all machines that tests start: to make one costs more than many a
// test's requests.
var shared = sync.OnceValues(func() (identity, error) {
	pair, authority, _, err := simserver.Certificate(authorityName)
	return identity{pair, string(authority)}, err
})

// Identity gives the certificate of the machines that Start serves, and its authority in PEM.
func Identity(t testing.TB) (pair tls.Certificate, authority string) {
	t.Helper()
	one, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return one.pair, one.authority
}

// Start serves a new machine until the test ends.
func Start(t testing.TB, p Personality, options ...Option) *Server {
	t.Helper()
	machine := New(p, options...)
	certificate, authority := Identity(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := Serve(machine, machine, listener, certificate)
	t.Cleanup(stop)
	config := machine.Config()
	url := "https://" + listener.Addr().String()
	return &Server{
		Machine: machine, URL: url, SystemURL: url + machine.uri(config.systemPath()), CA: authority,
		Username: config.Username, Password: config.Password,
	}
}

// Serve serves machine by its handler on listener until stop is called. While the BMC
// restarts, it ends each connection as it comes.
func Serve(machine *Machine, handler http.Handler, listener net.Listener, certificate tls.Certificate) (stop func()) {
	gate := &gate{Listener: listener, machine: machine, open: map[net.Conn]bool{}}
	machine.mu.Lock()
	machine.onDown = gate.cutAll
	machine.mu.Unlock()
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // it logs each connection that ends
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // BMCs speak HTTP/1.1
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(gate, "", "") // it ends with the listener
	}()
	return func() {
		_ = server.Close()
		<-served
		machine.Close()
	}
}

// gate lets connections in while the BMC is up.
type gate struct {
	net.Listener
	machine *Machine
	mu      sync.Mutex
	open    map[net.Conn]bool
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		connection, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.machine.isDown() {
			refuse(connection)
			continue
		}
		g.mu.Lock()
		g.open[connection] = true
		g.mu.Unlock()
		return &gated{Conn: connection, gate: g}, nil
	}
}

// cutAll ends all connections, in whatever they are.
func (g *gate) cutAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for connection := range g.open {
		refuse(connection)
	}
	g.open = map[net.Conn]bool{}
}

// refuse resets a connection.
func refuse(connection net.Conn) {
	if tcp, is := connection.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// gated is a connection that the gate knows.
type gated struct {
	net.Conn
	gate *gate
}

func (g *gated) Close() error {
	g.gate.mu.Lock()
	delete(g.gate.open, g.Conn)
	g.gate.mu.Unlock()
	return g.Conn.Close()
}
