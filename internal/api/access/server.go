package access

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// The limits of a connection: what is slower, or larger, is cut off.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	// writeTimeout is longer than the longest request to Temporal.
	writeTimeout = time.Minute
	idleTimeout  = time.Minute
	// largestHead is what a request line, or the headers together, may have. More is read than
	// that, so that most of what is refused has been read when its connection is closed: else the
	// kernel resets it, and the caller may lose the answer.
	largestHead = 16 << 10
	readHead    = 96 << 10
	// connections are how many there are at most, connectionsEach from one address.
	connections, connectionsEach = 2048, 512
)

// UnixPrefix begins the address of a unix socket.
const UnixPrefix = "unix:"

// Listen listens on unix:/path, or on host:port, there with the certificate unless it is nil.
func Listen(ctx context.Context, address string, certificate *Certificate) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, UnixPrefix); ok {
		l, err := listenUnix(ctx, path)
		if err != nil {
			return nil, err
		}
		return count(l), nil
	}
	var how net.ListenConfig
	l, err := how.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l = count(l)
	if certificate != nil {
		l = tls.NewListener(l, certificate.config())
	}
	return l, nil
}

// NewServer serves handler within the limits of a connection.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	only1 := new(http.Protocols)
	only1.SetHTTP1(true)
	return &http.Server{
		Handler:                      limitHead(handler),
		Protocols:                    only1, // whose requests are counted by connections
		DisableGeneralOptionsHandler: true,  // OPTIONS * too is the handler's to refuse
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               readHead,
		ConnContext:                  connContext,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// limitHead refuses a request whose line or headers are too large, in Go's own words and form.
func limitHead(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := 0
		for name, values := range r.Header {
			for _, value := range values {
				size += len(name) + len(value) + len(": \r\n")
			}
		}
		status := 0
		switch {
		case len(r.RequestURI) > largestHead:
			status = http.StatusRequestURITooLong
		case size > largestHead || len(r.Host) > largestHead:
			status = http.StatusRequestHeaderFieldsTooLarge
		default:
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		http.Error(w, fmt.Sprintf("%d %s", status, http.StatusText(status)), status)
	})
}

// counted accepts a bounded number of connections; it closes those beyond at once.
type counted struct {
	net.Listener
	open *Running
}

func count(l net.Listener) *counted { return &counted{l, NewRunning(connections, connectionsEach)} }

// Accept gives the next connection that is within the limits.
func (l *counted) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := ""
		if host, _, err := net.SplitHostPort(c.RemoteAddr().String()); err == nil {
			address = networkOf(host)
		}
		if leave, err := l.open.Enter(address); err == nil {
			return &countedConn{Conn: c, leave: leave}, nil
		}
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
}

type countedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection, which is then no longer counted.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
