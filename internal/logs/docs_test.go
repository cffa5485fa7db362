package logs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test . -count=1 -run TestTheMessagesAreDocumented -update

var update = flag.Bool("update", false, "write the table of messages into its page")

const page = "../../docs/logs.md"

// The page lists every message of the trail with its level and keys.
func TestTheMessagesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	const begin, end = "<!-- trail:begin -->\n", "<!-- trail:end -->"
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, begin)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, end)
	fresh := before + begin + "\n" + trailTable() + "\n" + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, fresh, string(text), "make docs writes it")
}

func trailTable() string {
	var b strings.Builder
	b.WriteString("| message | level | worker | keys | what it says |\n|---|---|---|---|---|\n")
	for _, m := range Trail() {
		keys := "`" + strings.Join(m.Keys, "` `") + "`"
		if len(m.More) > 0 {
			keys += ", perhaps `" + strings.Join(m.More, "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Text, m.Level, m.Worker, keys, m.Means)
	}
	return b.String()
}

// documentedKeys are the keys that the page says the meaning of.
func documentedKeys(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| key | meaning |\n|---|---|\n")
	require.True(t, found)
	known := map[string]bool{}
	for line := range strings.Lines(table) {
		row := strings.Split(line, "|")
		if len(row) < 4 {
			break
		}
		key := strings.Trim(row[1], " `")
		require.False(t, known[key], "%s is listed twice", key)
		require.NotEmpty(t, strings.TrimSpace(row[2]), key)
		known[key] = true
	}
	return known
}
