package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
)

// F13
func TestTheSecretsFileIsReadAndNotShown(t *testing.T) {
	for name, tt := range map[string]struct {
		secrets string
		mode    os.FileMode
		level   Level
		says    string
	}{
		"sound":          {"rack1: {username: u, password: hunter2, hosts: [b1]}\n", 0o600, OK, "the secrets file has rack1"},
		"none":           {"", 0o600, Warn, "names no secrets file with a secret"},
		"others read it": {"rack1: {username: u, password: hunter2}\n", 0o644, Fail, "may be read by others"},
		"a mistake":      {"rack1: {username: u, pasword: hunter2}\n", 0o600, Fail, "line 1"},
		"for anybody":    {"rack1: {username: u, password: hunter2}\n", 0o600, Warn, "rack1 have neither hosts nor a ca"},
		"no CA":          {"rack1: {username: u, password: hunter2, ca: /nowhere/ca.pem}\n", 0o600, Fail, "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := worker(t, config.RoleHost), sound()
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, 0o700))
			s.root = dir
			file := filepath.Join(dir, "secrets.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tt.secrets), 0o600))
			require.NoError(t, os.Chmod(file, tt.mode))
			w.HostFile = filepath.Join(dir, "host.yaml")
			require.NoError(t, os.WriteFile(w.HostFile, []byte("allow: {nodes: [A1, B2]}\nsecrets: "+file+"\n"), 0o600))
			s.drivers = func(_ []string, h drivers.Host) (map[string]hardware.Driver, error) {
				return drivers.New([]string{"redfish"}, h)
			}
			var f Findings
			machine{Findings: &f, settings: w, system: s}.all()
			require.Equal(t, tt.level == Fail, f.Failures() > 0, "%+v", f)
			last := f[len(f)-1]
			require.Equal(t, "redfish", last.Check)
			require.Equal(t, tt.level, last.Level)
			require.Contains(t, last.Message, tt.says)
			require.Contains(t, fmt.Sprint(f), "may be destroyed: 2 servers")
			for _, one := range f {
				require.NotContains(t, one.Message+one.Remedy, "hunter2")
			}
		})
	}
}

// What doctor starts inherits nothing of the worker's environment, which it is run with.
func TestLVMInheritsNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("TEMPORAL_API_KEY", "hunter2")
	root := t.TempDir()
	files(t, root, map[string]string{"usr/sbin/lvm": "#!/bin/sh\ncat /proc/$$/environ >" + root + "/environ\n"})
	_, installed := readLVM(root)
	require.True(t, installed)
	environment, err := os.ReadFile(filepath.Join(root, "environ"))
	require.NoError(t, err)
	require.Contains(t, string(environment), "LVM_SYSTEM_DIR="+root)
	require.NotContains(t, string(environment), "hunter2")
}
