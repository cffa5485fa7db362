package device

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A theorem may count on an event only if something sends it: the lifecycle, or the table of
// observations.
func TestEveryEventHasASender(t *testing.T) {
	declared, err := os.ReadFile("event.go")
	require.NoError(t, err)
	names := map[EventKind]string{}
	for _, found := range regexp.MustCompile(`(?m)^\t([A-Z]\w+) +EventKind = "(\w+)"`).
		FindAllStringSubmatch(string(declared), -1) {
		names[EventKind(found[2])] = found[1]
	}
	for _, r := range table {
		require.Contains(t, names, r.On)
	}
	var senders []string
	comment := regexp.MustCompile(`//.*`)
	for _, root := range []string{"../lifecycle", "."} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				root == "." && !strings.HasSuffix(name, "observations.go") {
				return err
			}
			text, err := os.ReadFile(path)
			senders = append(senders, comment.ReplaceAllString(string(text), ""))
			return err
		}))
	}
	var unsent []EventKind
	for kind, name := range names {
		sends := regexp.MustCompile(`\b` + name + `\b`)
		if !slices.ContainsFunc(senders, sends.MatchString) {
			unsent = append(unsent, kind)
		}
	}
	require.Empty(t, unsent)
}
