package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
)

// The API on a unix socket is for the worker's own user: the file is not open to others, and
// where an operator opens it, another user is refused all the same. The command line uses it.
func TestTheUnixSocketIsForItsUserOnly(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	s := newSite(t)
	dir, err := os.MkdirTemp("", "burnish-socket-") // which others may enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	socket, burnish := filepath.Join(dir, "api.sock"), filepath.Join(dir, "burnish")
	command(t, "cp", programs.Burnish, burnish)
	s.Run(t, "host")
	w := s.Run(t, "control", "BURNISH_API_ADDRESS=unix:"+socket)
	s.EnrollAll(t, map[string]string{"d1": "set: {size: 1MiB}"})

	mode := func() os.FileMode {
		info, err := os.Stat(socket)
		require.NoError(t, err)
		require.Equal(t, os.ModeSocket, info.Mode().Type())
		return info.Mode().Perm()
	}
	require.Equal(t, os.FileMode(0o600), mode())

	as := func(user []string, args ...string) proc.Result {
		cmd := exec.Command("/usr/bin/setpriv", append(append(user, burnish), args...)...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "TZ=UTC"} // without the server's address
		r, err := proc.Run(cmd)
		require.NoError(t, err)
		return r
	}
	root := []string{"--reuid=0"}
	other := []string{"--reuid=65534", "--regid=65534", "--clear-groups"}
	unix := overUnix(t, socket)
	unix.AwaitReady(t)
	Await(t, 20*time.Second, "the same list as without the API", func() (bool, string) {
		r := as(root, "--api", "unix:"+socket, "list", "-o", "json")
		require.Zero(t, r.Code, r)
		return strings.Contains(r.Stdout, `"d1"`) && r.Stdout == s.Must(t, "list", "-o", "json"), r.Stdout
	})
	r := as(root, "--api", "unix:"+socket, "maintain", "d1", "--reason", "by its socket")
	require.Zero(t, r.Code, r)
	require.Contains(t, s.Must(t, "history", "d1"), "by its socket")

	before := s.events(t, "d1")
	for _, open := range []bool{false, true} {
		if open {
			require.NoError(t, os.Chmod(socket, 0o666))
		}
		for _, args := range [][]string{{"list"}, {"maintain", "d1", "--off"}, {"clean", "d1"}} {
			r := as(other, append([]string{"--api", "unix:" + socket}, args...)...)
			require.Contains(t, []int{1, 5}, r.Code, r)
			require.NotContains(t, r.Stdout, "d1", r)
		}
	}
	require.Equal(t, before, s.events(t, "d1"))

	// A page of another site is refused here, too.
	unix.Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil)
	require.Equal(t, http.StatusForbidden, unix.Ask(t, http.MethodGet, "/v2/devices", "", "Origin: http://evil.example").
		Status)

	// A socket that a killed worker left is no reason not to start, and is closed again.
	w.Kill(t)
	w.Start(t)
	require.Equal(t, os.FileMode(0o600), mode())
	require.Zero(t, as(root, "--api", "unix:"+socket, "list").Code)
}
