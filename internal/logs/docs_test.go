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

var update = flag.Bool("update", false, "write the tables of messages and keys into their page")

const page = "../../docs/logs.md"

// The page lists every message of the trail with its level and keys, and what each key means.
func TestTheMessagesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	fresh := string(text)
	for name, table := range map[string]string{"trail": trailTable(), "keys": keyTable()} {
		begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
		before, rest, found := strings.Cut(fresh, begin)
		require.True(t, found, begin)
		_, after, found := strings.Cut(rest, end)
		require.True(t, found, end)
		fresh = before + begin + "\n" + table + "\n" + end + after
	}
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

func keyTable() string {
	var b strings.Builder
	b.WriteString("| key | meaning |\n|---|---|\n")
	for _, k := range Keys() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Name, k.Means)
	}
	return b.String()
}
