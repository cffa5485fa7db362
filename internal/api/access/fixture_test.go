package access

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// journal collects the log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func newJournal() (*slog.Logger, *journal) {
	j := &journal{}
	return slog.New(slog.NewTextHandler(j, nil)), j
}

// privateDir is a directory for this user alone.
func privateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	return dir
}

func writeTokens(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(privateDir(t), "tokens.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

const twoTokens = `tokens:
- {user: alice, roles: [admin], project: ops, token: alice-token}
- {user: viewer, roles: reader, token: viewer-token}
`

func newGate(t *testing.T, s Settings) *Gate {
	t.Helper()
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Rate == 0 {
		s.Rate, s.Concurrency = 1000, 1000
	}
	return NewGate(s)
}

func fileGate(t *testing.T, text string) *Gate {
	t.Helper()
	tokens, err := OpenTokens(writeTokens(t, text), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return newGate(t, Settings{Tokens: tokens})
}

// answering is a handler behind the gate: it answers with the principal's ID and roles, or
// with the fault's code.
func answering(g *Gate) http.Handler {
	return g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := g.Check(r)
		var who Principal
		if err == nil {
			who, err = g.Authenticate(r)
		}
		var leave func()
		if err == nil {
			leave, err = g.Enter(who, r.Method == http.MethodPost)
		}
		if f, ok := device.AsFault(err); ok {
			w.WriteHeader(http.StatusForbidden)
			write(w, string(f.Code))
			return
		}
		defer leave()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		write(w, who.ID+" "+strings.Join(who.Roles, ","))
	}))
}

func write(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil {
		return // the client has gone
	}
}

// serve serves handler at an address, and gives the address.
func serve(t *testing.T, handler http.Handler, address string, certificate *Certificate) string {
	t.Helper()
	l, err := Listen(t.Context(), address, certificate)
	require.NoError(t, err)
	server := NewServer(handler, slog.New(slog.DiscardHandler))
	// Its own limits are tested by themselves; a busy machine is slow with all else.
	server.ReadHeaderTimeout, server.ReadTimeout = time.Minute, time.Minute
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, server.Shutdown(ctx))
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return l.Addr().String()
}

// get sends a request with headers "Name: value"; it gives the status and the answer's text.
func get(t *testing.T, client *http.Client, method, url string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	answer, err := client.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(text)
}

// newClient keeps no connection after the test.
func newClient(t *testing.T, socket string) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}
