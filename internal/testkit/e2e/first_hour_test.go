package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/testkit/proc"
)

var updatePage = flag.Bool("update-page", false, "write the output in the pages of docs again")

const firstHour = "../../../docs/first-hour.md"

// docCommand is one command of a page, with the output that the page shows.
type docCommand struct {
	command string
	answer  []string
}

// docCommands reads the commands of a page's console blocks.
func docCommands(page string) []docCommand {
	var all []docCommand
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		switch command, is := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case inside && is:
			all = append(all, docCommand{command: command})
		case inside:
			all[len(all)-1].answer = append(all[len(all)-1].answer, line)
		}
	}
	return all
}

// TestFirstHour runs every command of docs/first-hour.md as it stands there, in one
// shell, and compares every answer. The page's directories and ports become the
// test's own.
func TestFirstHour(t *testing.T) {
	onlyOnDevserver(t, "the page starts burnish-devserver itself")
	t.Parallel()
	text, err := os.ReadFile(firstHour)
	require.NoError(t, err)
	commands := docCommands(string(text))
	require.Greater(t, len(commands), 30)

	dir := onDisk(t)
	ports, err := proc.FreePorts(0, 0)
	require.NoError(t, err)
	ours := []string{
		"/var/lib/burnish", filepath.Join(dir, "lib"), "/var/log/burnish", filepath.Join(dir, "log"),
		"/etc/burnish", filepath.Join(dir, "etc"), "/srv/pool", inPlaceDir(t, filepath.Join(dir, "pool")),
		"7233", strconv.Itoa(ports[0]), "8233", strconv.Itoa(ports[1]),
	}
	theirs := slices.Clone(ours)
	slices.Reverse(theirs)
	answers := shell(t, dir, commands, strings.NewReplacer(ours...))
	back := strings.NewReplacer(theirs...)
	for i := range commands {
		answers[i] = back.Replace(answers[i])
		// A machine may have processes that not even root may look into, as in a container.
		answers[i] = regexp.MustCompile(`(?m)^WARN  processes: .*\n`).ReplaceAllString(answers[i], "")
	}
	compare(t, firstHour, string(text), commands, answers, func(line string) string { return line })
}

// compare requires the page's answers, each line as same gives it; or it writes the page again.
func compare(t *testing.T, page, text string, commands []docCommand, answers []string, same func(line string) string) {
	t.Helper()
	if *updatePage {
		require.NoError(t, os.WriteFile(page, []byte(rewrite(text, answers)), 0o600))
		return
	}
	for i, c := range commands {
		want, got := linesOf(same(strings.Join(c.answer, "\n"))), linesOf(same(answers[i]))
		require.True(t, sameAnswer(want, got), "$ %s\n%s\nbut the page says\n%s", c.command, answers[i],
			strings.Join(c.answer, "\n"))
	}
}

func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// listed is a function of the script that repeats a command until its table is as wanted but for
// the last column: the listing may be a moment older than what was watched.
const listed = `listed() {
	local want=$1 out; shift
	for _ in {1..400}; do
		out=$("$@" 2>&1)
		[[ $(awk '{$NF = ""; print}' <<<"$out") != "$want" ]] || break
		sleep 0.25
	done
	echo "$out"
}
`

// withoutAge is a table as awk prints it without its last column, in which only the age stands.
func withoutAge(table []string) string {
	var lines []string
	for _, line := range table {
		fields := strings.Fields(line)
		fields[len(fields)-1] = ""
		lines = append(lines, strings.Join(fields, " "))
	}
	return strings.Join(lines, "\n")
}

// shell runs the commands one after the other in one shell, and gives what each wrote.
func shell(t *testing.T, dir string, commands []docCommand, ours *strings.Replacer) []string {
	t.Helper()
	cmd := exec.Command("bash", filepath.Join(dir, "script"))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + filepath.Dir(programs.Burnish) + ":" + filepath.Dir(programs.Server) + ":" +
		os.Getenv("PATH"), "HOME=" + dir, "TZ=UTC"}
	return shellBy(t, cmd, dir, commands, ours)
}

// shellBy is shell with the command that runs the file script in the folder dir.
func shellBy(t *testing.T, cmd *exec.Cmd, dir string, commands []docCommand, ours *strings.Replacer) []string {
	t.Helper()
	var script strings.Builder
	// Whatever becomes of the script, it ends what it started.
	script.WriteString(listed)
	script.WriteString("set -m\ntrap 'kill $(jobs -p) 2> /dev/null; wait' EXIT\ntrap 'exit 1' TERM\nmark() { echo " +
		"\"=====\"; }\n")
	for _, c := range commands {
		command := ours.Replace(c.command)
		if strings.HasPrefix(command, "burnish list") && !*updatePage {
			command = fmt.Sprintf("listed '%s' %s", withoutAge(c.answer), command)
		}
		fmt.Fprintf(&script, "mark\n%s\n", command)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "script"), []byte(script.String()), 0o600))
	p, err := proc.Start("the page's shell", filepath.Join(dir, "output"), cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	code, err := p.Wait(patience * 3 * time.Minute)
	require.NoError(t, err, p.Log())
	require.Zero(t, code, p.Log())
	answers := strings.Split(p.Log(), "=====\n")[1:]
	require.Len(t, answers, len(commands), p.Log())
	return answers
}

// rewrite gives the page with these answers.
func rewrite(page string, answers []string) string {
	var b strings.Builder
	inside, n := false, 0
	for line := range strings.Lines(page) {
		isCommand := strings.HasPrefix(line, "$ ")
		if strings.HasPrefix(line, "```") {
			inside = line == "```console\n"
		} else if inside && !isCommand {
			continue
		}
		b.WriteString(line)
		if inside && isCommand {
			b.WriteString(answers[n])
			n++
		}
	}
	return b.String()
}

func TestSameAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page, got string
		same      bool
	}{
		"the same":                       {"a\nb", "a\nb", true},
		"nothing":                        {"", "", true},
		"other spaces and times":         {"d1  2026-11-21 21:48:23 UTC, ran 1m2s", "d1 2026-11-22 00:00:00 UTC, ran 31ms", true},
		"left out":                       {"a\n…\nd", "a\nb\nc\nd", true},
		"nothing left out":               {"a\n…\nd", "a\nd", true},
		"left out to the end":            {"a\n…", "a\nb", true},
		"another word":                   {"a\nb", "a\nc", false},
		"another after what is left out": {"…\nd", "a\nb", false},
		"less":                           {"a\nb", "a", false},
		"more":                           {"a", "a\nb", false},
		"an answer to nothing":           {"", "a", false},
		"no answer":                      {"a", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.same, sameAnswer(linesOf(tt.page), linesOf(tt.got)))
		})
	}
}

// volatile is what differs from one run to the next.
var volatile = []struct{ pattern, name string }{
	{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`, "TIME"},
	{`\d+ MiB free`, "N MiB free"},
	{`(\d+m)?\d+(\.\d+)?(ms|µs|s)\b|\b\d+m\b`, "SECONDS"},
	{`\d+\.\d [KMG]iB/s`, "RATE"},
	{`^burnish \S+ \(go[0-9.]+\)$`, "VERSION"},
	{`pid \d+|uid \d+`, "ID"},
	{`root@\S+`, "root@HOST"},
	{`pending_cleaning`, "cleaning"}, // it may have begun
	{`regular file on \w+`, "regular file"},
	{` +`, " "},
}

// sameAnswer compares answers line by line; … stands for any number of lines.
func sameAnswer(page, got []string) bool {
	if len(page) == 0 || len(got) == 0 {
		return len(got) == 0 && (len(page) == 0 || page[0] == "…" && len(page) == 1)
	}
	if page[0] == "…" {
		return sameAnswer(page[1:], got) || sameAnswer(page, got[1:])
	}
	return normalize(page[0]) == normalize(got[0]) && sameAnswer(page[1:], got[1:])
}

func normalize(line string) string {
	for _, v := range volatile {
		line = regexp.MustCompile(v.pattern).ReplaceAllString(line, v.name)
	}
	return strings.TrimSpace(line)
}

// onDisk gives a folder that is not in memory, which doctor would call wrong.
func onDisk(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	var on unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &on))
	if on.Type != unix.TMPFS_MAGIC {
		return dir
	}
	dir, err = os.MkdirTemp("/var/tmp", "burnish-e2e-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, unix.Statfs(dir, &on))
	if on.Type == unix.TMPFS_MAGIC {
		t.Skip("every folder for temporary files is in memory")
	}
	return dir
}
