package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/testkit/testlog"
)

func away() error {
	return &device.Fault{Class: device.Transient, Code: device.CodeUnreachable,
		Message: "Temporal at t1:7233 does not answer: refused", Remedy: "start it"}
}

// A worker that starts before its server waits for it, with one line a minute. A server that
// answers and refuses it ends the wait, and so does a signal.
func TestAWorkerWaitsForItsServer(t *testing.T) {
	here := &config.Connection{Address: "t1:7233"}
	start := func(answer func(tries int) (*config.Connection, error)) (c connection, log *testlog.Log, status *[]string) {
		tries := 0
		log, status = &testlog.Log{}, &[]string{}
		return connection{
			dial:   func(context.Context) (*config.Connection, error) { tries++; return answer(tries) },
			log:    slog.New(slog.NewTextHandler(log, nil)),
			status: func(text string) { *status = append(*status, text) },
		}, log, status
	}
	lines := func(log *testlog.Log, of string) int { return strings.Count(log.String(), of) }

	t.Run("that comes after five minutes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c, log, status := start(func(int) (*config.Connection, error) {
				if time.Since(began) < 5*time.Minute {
					return nil, away()
				}
				return here, nil
			})
			found, err := c.await(t.Context())
			require.NoError(t, err)
			require.Equal(t, here, found)
			require.Less(t, time.Since(began), 5*time.Minute+2*dialAgainAfter)
			require.Equal(t, 5, lines(log, "waiting for the server"), log.String())
			require.Equal(t, 5, lines(log, `error="Temporal at t1:7233 does not answer: refused" remedy="start it"`))
			require.Equal(t, 1, lines(log, "the server answers"))
			require.Len(t, *status, 5)
			require.Equal(t, "waits for the server: Temporal at t1:7233 does not answer: refused", (*status)[0])
		})
	})
	t.Run("that is there", func(t *testing.T) {
		c, log, status := start(func(int) (*config.Connection, error) { return here, nil })
		found, err := c.await(t.Context())
		require.NoError(t, err)
		require.Equal(t, here, found)
		require.Empty(t, log.String())
		require.Empty(t, *status)
	})
	t.Run("that refuses it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			refusal := &device.Fault{Class: device.Permanent, Code: device.CodeUnreachable,
				Message: `Temporal at t1:7233 has no namespace "x"`}
			c, _, _ := start(func(tries int) (*config.Connection, error) {
				if tries < 3 {
					return nil, away()
				}
				return nil, refusal
			})
			_, err := c.await(t.Context())
			require.ErrorIs(t, err, refusal)
		})
	})
	t.Run("until a signal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			c, _, _ := start(func(int) (*config.Connection, error) { return nil, away() })
			time.AfterFunc(time.Hour+time.Second/2, stop)
			began := time.Now()
			_, err := c.await(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, time.Hour+time.Second/2, time.Since(began), "at once")
		})
	})
	t.Run("until a signal, while the server does not answer", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c, _, _ := start(func(int) (*config.Connection, error) { stop(); return nil, errors.New("canceled") })
		_, err := c.await(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// manager is a service manager's socket, and what it received.
type manager struct {
	conn *net.UnixConn
	mu   sync.Mutex
	got  []string
}

// serviceManager has this process notify a manager of its own.
func serviceManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	m := &manager{conn: conn}
	var reading sync.WaitGroup
	reading.Go(func() {
		text := make([]byte, 4096)
		for {
			n, err := conn.Read(text)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.got = append(m.got, string(text[:n]))
			m.mu.Unlock()
		}
	})
	t.Cleanup(func() { require.NoError(t, conn.Close()); reading.Wait() })
	t.Setenv("NOTIFY_SOCKET", socket)
	return m
}

func (m *manager) received() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.got, "|")
}

// Every role waits, says so to the service manager, and ends with success at a signal.
func TestEveryRoleWaitsForItsServer(t *testing.T) {
	for _, role := range []string{"control", "host", "all"} {
		t.Run(role, func(t *testing.T) {
			m := serviceManager(t)
			t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
			t.Setenv("BURNISH_STATE_DIR", t.TempDir())
			t.Setenv("BURNISH_ROLE", role)
			ended := make(chan error, 1)
			go func() { ended <- run(nil) }()
			await(t, "the wait", func() (bool, string) {
				return strings.Contains(m.received(), "STATUS=waits for the server: Temporal at 127.0.0.1:1 "), m.received()
			})
			require.NotContains(t, m.received(), "READY=1")
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
			select {
			case err := <-ended:
				require.NoError(t, err)
			case <-time.After(4 * time.Minute):
				require.Fail(t, "it did not end")
			}
			// What was sent is read by another goroutine.
			await(t, "the notice of the end", func() (bool, string) {
				return strings.Contains(m.received(), "STOPPING=1"), m.received()
			})
		})
	}
}
