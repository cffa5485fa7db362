package docs

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The first hour shows this version, and the Go that its build requires.
func TestTheFirstHourShowsThisVersion(t *testing.T) {
	goVersion := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "../go.mod"))
	require.Len(t, goVersion, 2)
	require.Contains(t, read(t, "first-hour.md"),
		"\n$ burnish version\nburnish "+strings.TrimSpace(read(t, "../VERSION"))+" (go"+goVersion[1]+")\n")
}

// upgraded are packages that Debian upgrades within a release; what is written of them is what
// was tried last.
var upgraded = map[string]bool{"chromium-headless-shell": true, "linux-image-cloud-amd64": true}

// What the page says it was tried with is what the tests use: each module in the version of
// go.mod, each package one that the set-up installs, in the version that it installed.
func TestWhatItWasTriedWith(t *testing.T) {
	_, section, found := strings.Cut(read(t, "operating.md"), "\n## What it was tried with\n")
	require.True(t, found)
	modules, setup := read(t, "../go.mod")+read(t, "../deploy/devserver/go.mod"), read(t, "../deploy/setup-test.sh")
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| ([0-9.]+) \\|").FindAllStringSubmatch(section, -1)
	require.GreaterOrEqual(t, len(rows), 19)
	for _, row := range rows {
		name, version := row[1], row[2]
		if strings.Contains(name, "/") {
			require.Contains(t, modules, "\t"+name+" v"+version+"\n")
			continue
		}
		require.Contains(t, setup, "\n\t"+name+":", "the tests do not install %s", name)
		installed, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
		if errors.As(err, new(*exec.ExitError)) || errors.Is(err, exec.ErrNotFound) {
			t.Logf("%s is not installed: %v", name, err)
			continue
		}
		require.NoError(t, err)
		if !upgraded[name] {
			require.True(t, upstream(string(installed)) == version ||
				strings.HasPrefix(upstream(string(installed)), version+"."),
				"the page says %s %s, installed is %s", name, version, installed)
		}
	}
	for _, not := range []string{"hardware NVMe drives", "real BMCs", "a real OneView appliance", "Temporal Cloud",
		"Nova's services", "GPUs"} {
		require.Contains(t, section, not)
	}
}

// upstream is the version of a Debian package without what Debian adds.
func upstream(version string) string {
	if _, rest, found := strings.Cut(version, ":"); found {
		version = rest
	}
	if i := strings.LastIndex(version, "-"); i >= 0 {
		version = version[:i]
	}
	if _, really, found := strings.Cut(version, "really"); found {
		version = really
	}
	version, _, _ = strings.Cut(version, "+")
	return version
}

// The settings of a cluster's servers are those that the tests have.
func TestTheSettingsOfAClusterAreThoseOfTheTests(t *testing.T) {
	page, settings := read(t, "cluster.md"), read(t, "../internal/testkit/cluster/settings.yaml")
	require.Contains(t, page, "```yaml\n"+settings+"```\n")
	for name, kind := range contract.Attributes() {
		require.Contains(t, page, "--name "+name+" --type "+kind.String())
	}
}
