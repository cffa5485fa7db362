package access

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// Certificate is the server's certificate with its key, which are read for each connection. As long
// as the new ones are not valid, or do not belong together yet, the old ones are used.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	said string
}

// OpenCertificate reads the files.
func OpenCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	return c, c.read()
}

func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := c.read(); err != nil && err.Error() != c.said {
				c.said = err.Error()
				c.log.Error("the changed certificate of the API cannot be used: the one before is", "error", err)
			}
			return c.pair, nil
		},
	}
}

func (c *Certificate) read() error {
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
	c.pair, c.said = &pair, ""
	return nil
}
