package access

import (
	"context"
	"crypto/tls"
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
	largestHead  = 16 << 10
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
		Handler:                      handler,
		Protocols:                    only1, // whose requests are counted by connections
		DisableGeneralOptionsHandler: true,  // OPTIONS * too is the handler's to refuse
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               largestHead,
		ConnContext:                  connContext,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// counted accepts a bounded number of connections; it closes those beyond at once.
type counted struct {
	net.Listener
	open *running
}

func count(l net.Listener) *counted { return &counted{l, newRunning(connections, connectionsEach)} }

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
		if leave, err := l.open.enter(address); err == nil {
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
