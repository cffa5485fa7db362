package e2e

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
)

// A worker that is started before its server waits for it, and is ready when it polls: the
// service manager learns both. A signal ends the wait with success.
func TestAWorkerStartsBeforeItsServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	socket := filepath.Join(s.Dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, manager.Close()) })
	ports, err := proc.FreePorts(0)
	require.NoError(t, err)
	w := s.Worker(t, "all", "NOTIFY_SOCKET="+socket)
	w.Address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	waits := func() {
		require.NoError(t, w.Launch())
		Await(t, time.Minute, "the worker to say that it waits", func() (bool, string) {
			return strings.Contains(w.Log(), "waiting for the server"), w.Log()
		})
	}
	received := func() string {
		require.NoError(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
		text := make([]byte, 4096)
		n, err := manager.Read(text)
		require.NoError(t, err)
		return string(text[:n])
	}
	waits()
	require.Contains(t, received(), "STATUS=waits for the server: Temporal at "+w.Address)
	require.Zero(t, w.Stop(t, time.Minute), w.Log())
	require.Equal(t, "STOPPING=1\nSTATUS=stopping", received())

	waits()
	require.Contains(t, received(), "STATUS=waits for the server")
	newProxyAt(t, w.Address, s.Server.Address)
	require.Equal(t, "READY=1\nSTATUS=polling", received())
	s.Must(t, "enroll", "d1", "--host", s.Host, "--driver", "fake", "--set", "size=1MiB", "--provide")
	s.AwaitState(t, "d1", time.Minute, device.Available)
	require.Equal(t, 1, strings.Count(w.Log(), "the server answers"), w.Log())
	require.Zero(t, w.Stop(t, time.Minute), w.Log())
	require.Equal(t, "STOPPING=1\nSTATUS=stopping", received())
}
