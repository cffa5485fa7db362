package access

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTheSocketIsForItsOwnerAlone(t *testing.T) {
	old := unix.Umask(0) // a careless umask changes nothing
	defer unix.Umask(old)
	socket := filepath.Join(privateDir(t), "api.sock")
	g := newGate(t, Settings{})
	t.Run("serving", func(t *testing.T) {
		serve(t, answering(g), UnixPrefix+socket, nil)
		info, err := os.Lstat(socket)
		require.NoError(t, err)
		require.Equal(t, "Srw-------", info.Mode().String())
		client := newClient(t, socket)
		_, answer := get(t, client, http.MethodPost, "http://localhost/")
		require.Equal(t, fmt.Sprintf("unix:%d admin", os.Geteuid()), answer)
		_, answer = get(t, client, http.MethodPost, "http://localhost/", "X-Auth-Token: nonsense")
		require.Equal(t, "not_authenticated", answer, "a wrong token is not as good as none")
		for _, header := range []string{"X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "Via: 1.1 proxy",
			"X-Real-IP: 192.0.2.1"} {
			_, answer = get(t, client, http.MethodPost, "http://localhost/", header)
			require.Equal(t, "not_authenticated", answer, "a proxy's own user is not its client")
		}
		_, answer = get(t, client, http.MethodPost, "http://evil.example.org/")
		require.Equal(t, "forbidden", answer)
	})
	_, err := os.Lstat(socket)
	require.ErrorIs(t, err, os.ErrNotExist, "it is removed at the end")
}

func TestOnlyRootAndTheOwnerOfTheSocketAreAdmins(t *testing.T) {
	for uid, roles := range map[uint32][]string{0: {"admin"}, 1000: {"admin"}, 1001: nil, 65534: nil} {
		who := peer{uid: uid, owner: 1000}.principal()
		require.Equal(t, fmt.Sprintf("unix:%d", uid), who.ID)
		require.Equal(t, roles, who.Roles, uid)
	}
	require.Equal(t, "root", peer{}.principal().Name)
	require.Equal(t, "unix:4000000000", peer{uid: 4_000_000_000}.principal().Name, "a user without a name")
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	socket := filepath.Join(privateDir(t), "api.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)

	_, err = Listen(t.Context(), UnixPrefix+socket, nil)
	require.ErrorContains(t, err, "another process listens on "+socket)
	require.FileExists(t, socket)

	require.NoError(t, l.Close()) // as after kill -9
	again, err := Listen(t.Context(), UnixPrefix+socket, nil)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestAnUnsafePlaceForTheSocketIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, socket string)
		says  string
	}{
		"a file": {func(t *testing.T, socket string) { writeFile(t, socket, "mine") }, "is no socket"},
		"a link to a file": {func(t *testing.T, socket string) {
			writeFile(t, socket+".real", "mine")
			require.NoError(t, os.Symlink(socket+".real", socket))
		}, "is no socket"},
		"a directory for everyone": {func(t *testing.T, socket string) { require.NoError(t, os.Chmod(filepath.Dir(socket), 0o777)) }, "may be written by others"},
		"a sticky directory": {func(t *testing.T, socket string) {
			require.NoError(t, os.Chmod(filepath.Dir(socket), 0o777|os.ModeSticky))
		}, "may be written by others"},
		"a directory for the group": {func(t *testing.T, socket string) { require.NoError(t, os.Chmod(filepath.Dir(socket), 0o770)) }, "may be written by others"},
		"below a directory for everyone": {func(t *testing.T, socket string) {
			require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(socket)), 0o777))
		}, "may be written by others"},
		"no directory": {func(t *testing.T, socket string) { require.NoError(t, os.Remove(filepath.Dir(socket))) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(privateDir(t), "d", "api.sock")
			require.NoError(t, os.Mkdir(filepath.Dir(socket), 0o700))
			tt.spoil(t, socket)
			_, err := Listen(t.Context(), UnixPrefix+socket, nil)
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := Listen(t.Context(), UnixPrefix+"/"+strings.Repeat("x", 200), nil)
	require.ErrorContains(t, err, "longer than 107 bytes")
}
