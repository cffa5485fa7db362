package access

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificate is the server's certificate with its key, which are read again when they have
// changed. As long as the new ones are not valid, or do not belong together yet, the old ones
// are used.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	seen [2]fileState
	read time.Time
	said string
}

// OpenCertificate reads the files.
func OpenCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	return c, c.refresh()
}

func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := c.refresh(); err != nil && err.Error() != c.said {
				c.said = err.Error()
				c.log.Error("the changed certificate of the API cannot be used: the one before is", "error", err)
			}
			return c.pair, nil
		},
	}
}

// refresh reads the files if one of them has changed.
func (c *Certificate) refresh() error {
	var state [2]fileState
	settledAll := true
	for i, file := range []string{c.cert, c.key} {
		var err error
		if state[i], err = stateOf(file); err != nil {
			return err
		}
		settledAll = settledAll && c.read.Sub(time.Unix(state[i].status.Unix())) > settled
	}
	if c.pair != nil && state == c.seen && settledAll {
		return nil
	}
	now := time.Now()
	info, err := os.Stat(c.key)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf("the key %s may be read by everyone (mode %04o); chmod 0600 it", c.key, mode)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	c.pair, c.seen, c.read, c.said = &pair, state, now, ""
	return nil
}
