package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
)

const installPage = "../../../docs/install.md"

// writePackages makes the Debian packages of what `make build` built, in the machine's folder /srv. Two
// versions have the same programs.
func (m *machine) writePackages(t *testing.T, version string) {
	t.Helper()
	program := filepath.Join(m.dir, "packages")
	if _, err := os.Stat(program); err != nil {
		require.NoError(t, proc.Compile(filepath.Join(root, "deploy/packages"), ".", program))
	}
	cmd := exec.Command(program, "-root", root, "-out", filepath.Join(m.dir, "srv"), "-only", "deb", "-version", version)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// thisVersion is that of the packages, as the page shows it.
func thisVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// newVersion is one to which packages can be upgraded.
func newVersion(t *testing.T) string { return thisVersion(t) + ".1" }

const units = "burnish-devserver burnish-control burnish-host"

// pids are the processes of the machine's services.
func (m *machine) pids(t *testing.T) []string {
	t.Helper()
	return strings.Fields(m.run(t, "systemctl show --property MainPID --value "+units))
}

// On a clean Debian machine every command of the page runs as it stands there: from packages to a
// drive that was cleaned, used and cleaned again. An upgrade in mid-clean restarts all services, and
// the clean goes on. A removal stops them and leaves the settings; a purge leaves only the records.
func TestInstalledFromPackages(t *testing.T) {
	t.Parallel()
	m, loop := newMachine(t)
	m.writePackages(t, thisVersion(t))
	m.powerOn(t, loop)
	m.followPage(t, loop)

	m.writePackages(t, newVersion(t))
	m.run(t, `sed -i 's/^allow:/allow:\n  fake: true/' /etc/burnish/host.yaml
		burnish enroll slow --host h1 --driver fake --set size=512MiB,delay=20s --provide
		until [ "$(burnish show slow -o json | grep -c '"step": "zero"')" -gt 0 ]; do sleep 0.2; done`)
	before := m.pids(t)
	m.run(t, "apt-get install -y ./*_"+newVersion(t)+"_amd64.deb")
	require.Contains(t, m.run(t, "cat /etc/burnish/host.yaml"), "fake: true\n", "what was changed is kept")
	Await(t, time.Minute, "all services to be restarted", func() (bool, string) {
		now := m.pids(t)
		for i := range now {
			if now[i] == "0" || now[i] == before[i] {
				return false, strings.Join(now, " ")
			}
		}
		return true, ""
	})
	m.run(t, "while systemctl is-active "+units+" | grep -qv ^active; do sleep 0.2; done")
	m.run(t, "burnish watch slow --timeout 60s")
	require.Equal(t, 1, strings.Count(m.run(t, "burnish history slow"), "\nclean "), "the clean went on")

	removed := m.run(t, "apt-get remove -y burnish burnish-worker burnish-devserver")
	require.NotContains(t, removed, "stays")
	require.Equal(t, "0 0 0", strings.Join(m.pids(t), " "))
	require.Empty(t, m.run(t, "find /usr /run -name '*burnish*'"))
	m.run(t, "test -e /etc/burnish/host.env && test -e /etc/udev/rules.d/59-burnish-nvme.rules")

	purged := m.run(t, "apt-get purge -y burnish burnish-worker burnish-devserver")
	require.Contains(t, purged, "/var/lib/burnish stays")
	require.Empty(t, m.run(t, "find /etc -name '*burnish*'"))
	m.run(t, "test -e /var/lib/burnish/journal/slow.json && test -e /var/lib/private/burnish-devserver/temporal.db")
}

// followPage runs the commands of the page and compares the answers. Its loop device becomes the test's own.
func (m *machine) followPage(t *testing.T, loop string) {
	t.Helper()
	text, err := os.ReadFile(installPage)
	require.NoError(t, err)
	commands := docCommands(string(text))
	require.Greater(t, len(commands), 10)
	srv := filepath.Join(m.dir, "srv")
	answers := shellBy(t, m.command("bash", "-c", "cd /srv && exec bash script"), srv, commands,
		strings.NewReplacer("/dev/loop0", loop))
	for i := range answers {
		answers[i] = regexp.MustCompile(`(?m)^WARN  processes: .*\n`).ReplaceAllString(
			strings.ReplaceAll(answers[i], loop, "/dev/loop0"), "")
	}
	compare(t, installPage, string(text), commands, answers, func(line string) string { return line })
}

// A machine at work: its host worker reaches files of other users and sees who has them open, and has no
// privilege more; control has none. After a power failure in mid-clean the services start by themselves and
// the clean goes on. Removed and installed again, nothing is lost.
func TestPackagesAtWork(t *testing.T) {
	t.Parallel()
	m, loop := newMachine(t)
	m.writePackages(t, thisVersion(t))
	m.powerOn(t, loop)
	m.run(t, `apt-get install -y ./*.deb
		printf 'allow:\n  paths: ["/srv/*.img"]\n  fake: true\n' > /etc/burnish/host.yaml
		systemctl enable --now `+units)

	capabilities := func(service string) string {
		pid := "$(systemctl show --property MainPID --value " + service + ")"
		return strings.Fields(m.run(t, "grep CapBnd /proc/"+pid+"/status"))[1]
	}
	require.Equal(t, "0000000000000000", capabilities("burnish-control"))
	require.Equal(t, "00000000102800e2", capabilities("burnish-host"))

	m.run(t, `head -c 64M /dev/urandom > other.img
		chown nobody other.img
		chmod 600 other.img
		burnish enroll other --host h1 --driver block --set path=/srv/other.img --one-time-use
		burnish provide other --wait
		burnish bind other --instance 0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41`)
	shown := m.run(t, `setpriv --reuid nobody --clear-groups sleep 1000 3<> other.img > /dev/null 2>&1 & holder=$!
		until [ "$(readlink /proc/$holder/fd/3)" = /srv/other.img ]; do sleep 0.1; done
		burnish unbind other --instance 0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41
		burnish watch other --timeout 100s || burnish show other
		kill $holder
		echo "the holder was process $holder"
		burnish clean other --wait`)
	require.Contains(t, shown, "target_busy")
	holder := regexp.MustCompile(`the holder was (process \d+)`).FindStringSubmatch(shown)
	require.NotNil(t, holder, shown)
	require.Contains(t, strings.ReplaceAll(shown, holder[0], ""), holder[1], "who has it open is named")

	m.run(t, `burnish enroll slow --host h1 --driver fake --set size=512MiB,delay=20s --provide
		until burnish show slow -o json | grep -q '"step": "zero"'; do sleep 0.2; done`)
	m.powerOff(t)
	m.powerOn(t, loop)
	m.run(t, "burnish watch slow --timeout 60s")

	m.run(t, `apt-get remove -y burnish-worker burnish-devserver
		apt-get install -y ./*.deb
		systemctl enable --now `+units+`
		for device in other slow; do burnish bind $device --instance 0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41; done`)
}
