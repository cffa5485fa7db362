package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// F25, S0.39
func TestAStateDirectoryBelongsToOneServer(t *testing.T) {
	dir := filepath.Join(testDir(t), "state")
	_, found, err := RecordedServer(dir)
	require.NoError(t, err)
	require.False(t, found)

	first := Server{Cluster: "c1", Namespace: "n1"}
	require.NoError(t, UseServer(dir, first, ""))
	require.NoError(t, UseServer(dir, first, ""))
	for _, other := range []Server{{"c2", "n1"}, {"c1", "n2"}} {
		for _, accepted := range []string{"", first.String(), "yes", other.Cluster, other.Namespace} {
			err := UseServer(dir, other, accepted)
			var refused *OtherServerError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, first, refused.Recorded)
			require.Equal(t, other, refused.Here)
			for _, text := range []string{dir, "cluster c1, namespace n1", "cluster " + other.Cluster + ", namespace " +
				other.Namespace, "BURNISH_ACCEPT_SERVER=" + other.String()} {
				require.Contains(t, err.Error(), text)
			}
			require.NotContains(t, err.Error(), "\n")
		}
		recorded, found, err := RecordedServer(dir)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, first, recorded)
	}

	second := Server{Cluster: "c2", Namespace: "n1"}
	require.NoError(t, UseServer(dir, second, second.String()))
	require.NoError(t, UseServer(dir, second, second.String()), "the setting may stay")
	require.NoError(t, UseServer(dir, second, ""))
	require.Error(t, UseServer(dir, first, second.String()), "what was accepted once accepts no third server")
	require.Error(t, UseServer(dir, Server{Namespace: "n1"}, ""))
}

// A record that cannot be read is no permission.
//
// F25
func TestACorruptRecordOfTheServerIsRefused(t *testing.T) {
	dir := filepath.Join(testDir(t), "state")
	server := Server{Cluster: "c1", Namespace: "n1"}
	require.NoError(t, UseServer(dir, server, ""))
	path := filepath.Join(dir, serverName+extension)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(content), "c1", "c2", 1)), 0o600))
	for _, here := range []Server{server, {"c2", "n1"}} {
		require.ErrorAs(t, UseServer(dir, here, ""), new(*CorruptError))
		require.ErrorAs(t, UseServer(dir, here, here.String()), new(*CorruptError))
	}
	_, _, err = RecordedServer(dir)
	require.Error(t, err)
}
