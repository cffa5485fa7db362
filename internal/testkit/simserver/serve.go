package simserver

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// identity is a certificate, and what clients trust.
type identity struct {
	pair tls.Certificate
	ca   string // PEM
}

// shared is the identity of all that tests start: to make one costs more than many a test's
// requests.
var shared = sync.OnceValues(func() (identity, error) {
	pair, ca, _, err := Certificate("Simulated server CA")
	return identity{pair, string(ca)}, err
})

// Identity gives the certificate of what Start serves, and what clients trust, in PEM.
func Identity(t testing.TB) (pair tls.Certificate, ca string) {
	t.Helper()
	one, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return one.pair, one.ca
}

// Start serves the simulator until the test ends, at https://127.0.0.1:PORT.
func (c *Core[C, S]) Start(t testing.TB) (url, ca string) {
	t.Helper()
	pair, ca := Identity(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Serve(listener, pair))
	return "https://" + listener.Addr().String(), ca
}

// Serve serves the simulator on listener until stop is called. While it is down, each connection
// ends as it comes.
func (c *Core[C, S]) Serve(listener net.Listener, certificate tls.Certificate) (stop func()) {
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	server := &http.Server{
		Handler:           c,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // it logs each connection that ends
		TLSConfig:         &tls.Config{GetCertificate: c.certificates(certificate), MinVersion: tls.VersionTLS12},
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // a cut ends one request only
		ConnState: func(connection net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			switch state {
			case http.StateNew:
				open[connection] = true
			case http.StateClosed, http.StateHijacked:
				delete(open, connection)
			}
		},
	}
	c.Mu.Lock()
	c.cutAll = func() {
		mu.Lock()
		defer mu.Unlock()
		for connection := range open {
			if secure, is := connection.(*tls.Conn); is {
				connection = secure.NetConn()
			}
			reset(connection)
		}
	}
	c.Mu.Unlock()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(gate{listener, c.isDown}, "", "") // it ends with the listener
	}()
	return func() {
		c.stop()
		_ = server.Close()
		<-served
		c.Close()
	}
}

// certificates gives the certificate that is shown to each new connection.
func (c *Core[C, S]) certificates(begun tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	renewed := sync.OnceValues(func() (tls.Certificate, error) { return renewal(begun) })
	foreign := sync.OnceValues(func() (tls.Certificate, error) {
		pair, _, _, err := Certificate("Another CA")
		return pair, err
	})
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		shown := Begun
		if c.Shown != nil {
			c.Mu.Lock()
			shown = c.Shown()
			c.Mu.Unlock()
		}
		pair, err := begun, error(nil)
		switch shown {
		case Renewed:
			pair, err = renewed()
		case Foreign:
			pair, err = foreign()
		}
		return &pair, err
	}
}

// gate lets connections in while the simulator is up.
type gate struct {
	net.Listener
	down func() bool
}

func (g gate) Accept() (net.Conn, error) {
	for {
		connection, err := g.Listener.Accept()
		if err != nil || !g.down() {
			return connection, err
		}
		reset(connection)
	}
}

// reset ends a connection, in whatever it is.
func reset(connection net.Conn) {
	if tcp, is := connection.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// ServeHTTP is the service that is simulated.
func (c *Core[C, S]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.cutsUpload(r) {
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		cut(w)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		cut(w) // the client went away in the middle
		return
	}
	c.Mu.Lock()
	now := time.Now()
	c.Advance(now)
	if now.Before(c.DownUntil) {
		c.Mu.Unlock()
		cut(w)
		return
	}
	entry := &Request{Number: len(c.requests) + 1, At: now, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Body: string(body), IfMatch: r.Header.Get("If-Match")}
	c.Sign(r, entry)
	c.requests = append(c.requests, entry)
	faults, ends := c.strike(entry, r)
	var held []<-chan struct{}
	for _, f := range faults {
		entry.Faults, entry.Fault = append(entry.Faults, f.Kind), faults[0].Kind
		switch f.Kind {
		case SlowBefore:
			c.Mu.Unlock()
			c.wait(r, after(f.For))
			c.Mu.Lock()
			now = time.Now()
			c.Advance(now)
		case SlowAfter:
			held = append(held, after(f.For))
		case HoldAfter:
			held = append(held, c.cleared)
		}
	}
	for _, f := range faults {
		c.Spoil(f, r, nil)
	}
	var a Answer
	if ends == nil || !ends.before() {
		call := &Call{Request: r, At: now, Raw: body, Entry: entry}
		if a = malformed; len(body) == 0 || !isJSON(r) || json.Unmarshal(body, &call.JSON) == nil {
			a = c.Answer(call)
		}
	}
	for _, f := range faults {
		c.Spoil(f, r, &a)
	}
	if entry.Status = a.Status; ends != nil {
		entry.Status = ends.Status
	}
	err = c.save(entry)
	exit := c.exit
	c.Mu.Unlock()

	for _, f := range faults {
		if f.Then != nil {
			f.Then()
		}
	}
	for _, until := range held {
		c.wait(r, until)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case ends == nil:
		c.Write(w, r, a)
	default:
		c.goWrong(w, r, ends, a, exit)
	}
}

// malformed is the answer to a body that is no JSON.
var malformed = Answer{Status: 400, Body: map[string]any{"message": "The request body is not valid JSON."}}

func isJSON(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}

// wait is until something happens; it ends early where the client goes away, or the simulator.
func (c *Core[C, S]) wait(r *http.Request, until <-chan struct{}) {
	select {
	case <-until:
	case <-r.Context().Done():
	case <-c.Closing.Done():
	}
}

func after(d time.Duration) <-chan struct{} {
	passed := make(chan struct{})
	time.AfterFunc(d, func() { close(passed) })
	return passed
}

func (c *Core[C, S]) goWrong(w http.ResponseWriter, r *http.Request, f *Fault, a Answer, exit func()) {
	switch f.Kind {
	case Respond, RespondAfter:
		Send(w, r, Answer{Status: f.Status, Header: f.Header}, []byte(f.Body))
		return
	case Garbled, CutWithin:
		raw := Encode(a.Body)
		if f.Kind == CutWithin { // without the rest net/http ends the connection
			header := map[string]string{"Content-Length": strconv.Itoa(len(raw))}
			maps.Copy(header, a.Header)
			a.Header = header
		}
		Send(w, r, a, raw[:len(raw)/2])
		return
	case HangBefore, HangAfter:
		c.wait(r, nil)
	case ExitBefore, ExitAfter:
		if exit != nil {
			exit()
		}
	}
	cut(w)
}

// Send sends an answer whose body is this; nil: none.
func Send(w http.ResponseWriter, r *http.Request, a Answer, body []byte) {
	if body != nil {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// Encode is a document as JSON. What documents are made of can be encoded.
func Encode(doc any) []byte {
	raw, err := json.Marshal(doc)
	if err != nil {
		return []byte(strconv.Quote(err.Error()))
	}
	return raw
}
