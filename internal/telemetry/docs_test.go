package telemetry

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test . -count=1 -run TestTheFiguresAreDocumented -update

var update = flag.Bool("update", false, "write the table of figures into its page")

const page = "../../docs/metrics.md"

// The page lists every figure with its kind, labels and meaning.
func TestTheFiguresAreDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	const begin, end = "<!-- figures:begin -->\n", "<!-- figures:end -->"
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	fresh := before + begin + "\n" + table() + "\n" + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, fresh, string(text), "make docs writes it")
}

// Each figure that the page names is there.
func TestTheAlertsNameFigures(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range ownFigures {
		names[f.exported()] = true
		if f.kind == histogram {
			names[f.exported()+"_bucket"] = true
		}
	}
	for _, name := range regexp.MustCompile(`\bburnish_\w+`).FindAllString(string(text), -1) {
		require.True(t, names[name], name)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| figure | kind | labels | workers | what it says |\n|---|---|---|---|---|\n")
	for _, f := range ownFigures {
		var labels []string
		for _, l := range f.labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.exported(), f.kind, strings.Join(labels, ", "), f.roles, f.help)
	}
	return b.String()
}
