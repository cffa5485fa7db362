package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/host"
)

// F25
func TestTheServerOfAStateDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	here := host.Server{Cluster: "c1", Namespace: "n1"}
	finding := func(server host.Server) Finding {
		f := &Findings{}
		machine{Findings: f, settings: config.Worker{StateDir: dir}, server: server}.serverOf(dir)
		require.Len(t, *f, 1)
		return (*f)[0]
	}
	require.Equal(t, OK, finding(here).Level)
	require.Contains(t, finding(here).Message, "no Temporal server yet")
	require.NoError(t, host.UseServer(dir, here, ""))
	for _, server := range []host.Server{here, {}} {
		require.Equal(t, OK, finding(server).Level)
		require.Contains(t, finding(server).Message, "cluster c1, namespace n1")
	}
	wrong := finding(host.Server{Cluster: "c2", Namespace: "n1"})
	require.Equal(t, Fail, wrong.Level)
	require.Contains(t, wrong.Message, "cluster c1, namespace n1")
	require.Contains(t, wrong.Message, "cluster c2, namespace n1")
	require.Contains(t, wrong.Remedy, "BURNISH_ACCEPT_SERVER=c2/n1")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.json"), []byte("{"), 0o600))
	require.Equal(t, Fail, finding(here).Level)
}
