package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/testkit/oneviewsim"
)

func TestTheAppliancesFileIsReadAndNotShown(t *testing.T) {
	sim := oneviewsim.Start(t)
	for name, tt := range map[string]struct {
		text  string
		mode  os.FileMode
		level Level
		says  string
	}{
		"sound":          {"appliances: {rack1: {url: \"" + sim.URL + "\", insecure: true, username: u, password: hunter2}}", 0o600, OK, "rack1 answers, API version 6200"},
		"no answer":      {"appliances: {rack1: {url: \"https://127.0.0.1:1\", username: u, password: hunter2}}", 0o600, Fail, "rack1: no answer"},
		"not trusted":    {"appliances: {rack1: {url: \"" + sim.URL + "\", username: u, password: hunter2}}", 0o600, Fail, "certificate"},
		"no appliance":   {"appliances:", 0o600, Warn, "names no appliance"},
		"others read it": {"appliances: {rack1: {url: https://one, username: u, password: hunter2}}", 0o640, Fail, "may be read by others"},
		"a mistake":      {"appliances: {rack1: {url: https://one, username: u, pasword: hunter2}}", 0o600, Fail, "line 1: unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worker(t, config.RoleControl)
			w.OneView = filepath.Join(filepath.Dir(w.StateDir), "oneview.yaml")
			require.NoError(t, os.Chmod(filepath.Dir(w.OneView), 0o700))
			require.NoError(t, os.WriteFile(w.OneView, []byte(tt.text), 0o600))
			require.NoError(t, os.Chmod(w.OneView, tt.mode))
			var f Findings
			machine{Findings: &f, settings: w, system: sound()}.oneview()
			require.Len(t, f, 1)
			require.Equal(t, tt.level, f[0].Level, "%+v", f)
			require.Contains(t, f[0].Message, tt.says)
			require.NotContains(t, f[0].Message+f[0].Remedy, "hunter2")
			w.OneView = ""
			f = nil
			machine{Findings: &f, settings: w, system: sound()}.all()
			for _, one := range f {
				require.NotEqual(t, "oneview", one.Check)
			}
		})
	}
	require.Equal(t, oneviewsim.Counts{Requests: 1}, sim.Counts()) // no login
}
