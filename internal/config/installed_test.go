package config

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caarlos0/env/v11"
	"github.com/stretchr/testify/require"
)

//go:generate go test . -count=1 -run TestTheInstalledSettingsAreThoseOfTheCode -update

var update = flag.Bool("update", false, "write the settings that packages install, and the page that lists them, again")

// Which worker reads a setting: those that are in neither list are read by the control worker alone.
var (
	ofHost = []string{"HOST", "HOST_FILE", "HOST_KEY", "DRIVERS", "MAX_CLEANS_PER_HOST", "NVME_HELPER"}
	ofBoth = []string{"ROLE", "STATE_DIR", "STOP_TIMEOUT", "SWEEP_INTERVAL", "ACCEPT_SERVER", "CODEC_KEYS",
		"METRICS_ADDRESS", "LOG_FORMAT", "LOG_LEVEL", "DEBUG"}
)

// installed are the settings of the two files that the package's units need; the others are comments.
var installed = map[string]map[string]string{
	"control": {"ROLE": "control", "STATE_DIR": "/var/lib/burnish-control"},
	"host":    {"ROLE": "host", "STATE_DIR": "/var/lib/burnish", "HOST_FILE": "/etc/burnish/host.yaml"},
}

// The files in /etc/burnish have every setting of their worker with its default, and so has the page.
func TestTheInstalledSettingsAreThoseOfTheCode(t *testing.T) {
	settings, err := env.GetFieldParamsWithOptions(&Worker{}, env.Options{})
	require.NoError(t, err)
	for _, name := range append(slices.Clone(ofHost), ofBoth...) {
		require.True(t, slices.ContainsFunc(settings, func(s env.FieldParams) bool { return s.Key == name }), name)
	}
	for worker := range installed {
		golden(t, "../../deploy/packages/etc/"+worker+".env", environmentFile(worker, settings))
	}
	golden(t, "../../docs/settings.md", settingsPage(settings))
}

func golden(t *testing.T, file, fresh string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(fresh), 0o644))
		return
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, fresh, string(text), "make docs writes it")
}

func readBy(name string) string {
	switch {
	case slices.Contains(ofBoth, name):
		return "both"
	case slices.Contains(ofHost, name):
		return "host"
	}
	return "control"
}

func environmentFile(worker string, settings []env.FieldParams) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Settings of the %s worker, for burnish-%s.service: one NAME=VALUE a line. A line that begins\n"+
		"# with # shows a default. After a change: systemctl restart burnish-%s\n\n", worker, worker, worker)
	needed := installed[worker]
	for _, s := range settings {
		if value, is := needed[s.Key]; is {
			fmt.Fprintf(&b, "%s%s=%s\n", prefix, s.Key, value)
		}
	}
	b.WriteString("\n# The Temporal server, as for the command temporal.\n" +
		"#TEMPORAL_ADDRESS=localhost:7233\n#TEMPORAL_NAMESPACE=default\n")
	for _, name := range []string{varAPIKey, varAuthority, varServerName, varCert, varKey} {
		fmt.Fprintf(&b, "#%s=\n", name)
	}
	if worker == "control" {
		b.WriteString("\n# OpenStack, with BURNISH_INVENTORY=placement: the variables that openstack takes.\n#OS_CLOUD=\n")
	}
	help := helpTexts()
	for _, s := range settings {
		_, is := needed[s.Key]
		if by := readBy(s.Key); is || by != worker && by != "both" {
			continue
		}
		fmt.Fprintf(&b, "\n# %s\n#%s%s=%s\n", help[prefix+s.Key], prefix, s.Key, s.DefaultValue)
	}
	return b.String()
}

const pageHead = "# Settings of the workers\n\n" +
	"`make docs` writes this page from the code. A variable that is set and empty counts as not set. Packages install\n" +
	"all of them as comments in `/etc/burnish/control.env` and `host.env` ([Install](install.md)); `burnish-worker\n" +
	"--help` lists them, too. Temporal is found by `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY` and\n" +
	"`TEMPORAL_TLS_…`, as by the command `temporal`, OpenStack by the variables that `openstack` takes.\n\n" +
	"| variable | default | worker | meaning |\n|---|---|---|---|\n"

func settingsPage(settings []env.FieldParams) string {
	var b strings.Builder
	b.WriteString(pageHead)
	help := helpTexts()
	for _, s := range settings {
		value := "-"
		if s.HasDefaultValue {
			value = "`" + s.DefaultValue + "`"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", prefix, s.Key, value, readBy(s.Key),
			strings.ReplaceAll(help[prefix+s.Key], "|", `\|`))
	}
	return b.String()
}
