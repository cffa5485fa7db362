package systemd

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheServiceManagerIsNotified(t *testing.T) {
	for name, address := range map[string]string{
		"a socket in the file system": filepath.Join(t.TempDir(), "notify"),
		"an abstract socket":          "@burnish-notify-test-" + filepath.Base(t.TempDir()) + filepath.Base(filepath.Dir(t.TempDir())),
	} {
		t.Run(name, func(t *testing.T) {
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, manager.Close()) })
			t.Setenv(socketVariable, address)
			n, err := FromEnvironment()
			require.NoError(t, err)
			_, set := os.LookupEnv(socketVariable)
			require.False(t, set, "a child would be taken for the service")
			receive := func() string {
				require.NoError(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
				text := make([]byte, 1000)
				length, err := manager.Read(text)
				require.NoError(t, err)
				return string(text[:length])
			}
			require.NoError(t, n.Status("waits for\nREADY=1 the server"))
			require.Equal(t, "STATUS=waits for READY=1 the server", receive())
			require.NoError(t, n.Ready())
			require.Equal(t, "READY=1\nSTATUS=polling", receive())
			require.NoError(t, n.Stopping())
			require.Equal(t, "STOPPING=1\nSTATUS=stopping", receive())
		})
	}
	t.Run("no service manager", func(t *testing.T) {
		t.Setenv(socketVariable, "")
		n, err := FromEnvironment()
		require.NoError(t, err)
		require.NoError(t, n.Ready())
	})
	t.Run("not a socket", func(t *testing.T) {
		t.Setenv(socketVariable, "vsock:2:1234")
		_, err := FromEnvironment()
		require.ErrorContains(t, err, "is not a unix socket")
	})
	t.Run("a manager that is gone", func(t *testing.T) {
		t.Setenv(socketVariable, filepath.Join(t.TempDir(), "gone"))
		n, err := FromEnvironment()
		require.NoError(t, err)
		require.ErrorContains(t, n.Ready(), "notify the service manager")
	})
}
