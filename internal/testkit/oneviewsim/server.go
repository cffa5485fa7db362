package oneviewsim

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"burnish/internal/testkit/simserver"
)

// authorityName is in the certificate that clients trust.
const authorityName = "Simulated OneView CA"

// Server is an appliance that is served on loopback, by TLS.
type Server struct {
	*Appliance
	URL                        string // https://127.0.0.1:PORT
	CA                         string // PEM
	Username, Password, Domain string
}

// Start serves a new appliance until the test ends.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	a := New(options...)
	certificate, authority, _, err := simserver.Certificate(authorityName)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(Serve(a, a, listener, certificate))
	c := a.Config()
	return &Server{
		Appliance: a, URL: "https://" + listener.Addr().String(), CA: string(authority),
		Username: c.Users[0].Name, Password: c.Users[0].Password, Domain: c.Domain,
	}
}

// Serve serves an appliance by its handler on listener until stop is called.
func Serve(a *Appliance, handler http.Handler, listener net.Listener, certificate tls.Certificate) (stop func()) {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // it logs each connection that ends
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // a cut ends one request only
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(listener, "", "") // it ends with the listener
	}()
	return func() {
		a.Close()
		_ = server.Close()
		<-served
	}
}
