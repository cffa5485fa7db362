package mutation

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutation takes a safety rule out of the product: old, which occurs in file exactly once,
// becomes new, and the test must fail.
type mutation struct {
	rule string // its number in docs/safety.md
	name string // what holds no longer

	file, old, new string

	pkg, test string // "TestA" or "TestA/sub", where sub may be a pattern
}

// root is the repository's root, relative to this package.
const root = "../../.."

func TestEveryMutationHasItsPlace(t *testing.T) { havePlaces(t, mutations) }

func havePlaces(t *testing.T, all []mutation) {
	seen := map[string]bool{}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			require.False(t, seen[m.name], "two mutations have this name")
			seen[m.name] = true
			require.NotEqual(t, m.old, m.new)
			text, err := os.ReadFile(filepath.Join(root, m.file))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), m.old), "occurrences in %s of\n%s", m.file, m.old)
			require.True(t, isDeclared(t, m), "there is no %s in %s", m.test, m.pkg)
		})
	}
}

func isDeclared(t *testing.T, m mutation) bool {
	name, _, _ := strings.Cut(m.test, "/")
	paths, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(paths, func(path string) bool {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.Contains(string(text), "\nfunc "+name+"(")
	})
}

// TestEveryMarkedRuleHasAMutation reads the rules that docs/safety.md marks with (M). Each has one
// or two: they show that its tests can fail. What else a rule says is held by tests alone.
func TestEveryMarkedRuleHasAMutation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	marked := map[string]bool{}
	for _, rule := range regexp.MustCompile(`(?m)^\| (\w+) \(M\) \|`).FindAllStringSubmatch(string(text), -1) {
		marked[rule[1]] = true
	}
	have := map[string]int{}
	for _, m := range mutations {
		have[m.rule]++
		require.LessOrEqual(t, have[m.rule], 2, "mutations of rule %s", m.rule)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(marked)), slices.Collect(maps.Keys(have)))
}
