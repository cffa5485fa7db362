package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every number of the project's pages has a test or a reason, and every number that a
// comment cites is on a page.
func TestEveryRequirementHasATest(t *testing.T) {
	const root = "../../../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "requirements.md"))
	require.NoError(t, err)
	_, err = requirementsPage(root, string(page))
	require.NoError(t, err)
}

const (
	somePage = `| S0.1 | first |  |
| S0.2 | second | planned: later |
<!-- safety:begin -->
<!-- safety:end -->
`
	someRules = "| F1 (M) | **One rule.** Because. |\n| D2 | **Another.** *Planned.* Because. |\n"
	someTest  = "package p\n\n// It holds.\n//\n// S0.1, F1\nfunc TestIt(t *testing.T) {}\n"
)

// project writes rules and one test file into a folder of its own.
func project(t *testing.T, rules, test string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "docs"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "p"), 0o755))
	for name, text := range map[string]string{"docs/safety.md": rules, "p/p_test.go": test} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func TestThePageNamesTheTests(t *testing.T) {
	root := project(t, someRules, someTest)
	page, err := requirementsPage(root, somePage)
	require.NoError(t, err)
	require.Contains(t, page, "| S0.1 | first | `p.TestIt` |\n| S0.2 | second | planned: later |\n")
	require.Contains(t, page, "| F1 | [One rule](safety.md) | `p.TestIt` |\n| D2 | [Another](safety.md) | "+
		"planned |\n")
	again, err := requirementsPage(root, page)
	require.NoError(t, err)
	require.Equal(t, page, again, "a second run changes nothing")
}

// A row names tests of whole programs last.
func TestTheLowestTestsComeFirst(t *testing.T) {
	whole, one := citation{Test: "internal/testkit/e2e.TestAll"}, citation{Test: "workflows.TestOne"}
	require.Equal(t, []string{one.Test, whole.Test}, tests([]citation{whole, one, whole}))
}

func TestMistakesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ page, rules, test, want string }{
		"no test":          {somePage, someRules, strings.Replace(someTest, "S0.1, ", "", 1), "S0.1 has no test: first"},
		"a rule, no test":  {somePage, someRules, strings.Replace(someTest, ", F1", "", 1), "F1 has no test: One rule"},
		"an unknown one":   {somePage, someRules, strings.Replace(someTest, "S0.1", "S0.1, S0.9", 1), "p/p_test.go:5:1 cites S0.9"},
		"a range":          {somePage, someRules, strings.Replace(someTest, "S0.1", "S0.1–2", 1), `p/p_test.go:5:1: "S0.1–2"…: cite each number`},
		"from one to one":  {somePage, someRules, strings.Replace(someTest, "S0.1", "S0.1 to S0.2", 1), "cite each number"},
		"listed twice":     {"| S0.1 | first |  |\n" + somePage, someRules, someTest, "S0.1 is listed twice"},
		"no place for all": {"| S0.1 | first |  |\n", someRules, someTest, "want one line"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := requirementsPage(project(t, c.rules, c.test), c.page)
			require.ErrorContains(t, err, c.want)
		})
	}
}
