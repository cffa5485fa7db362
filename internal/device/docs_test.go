package device_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// codes are those in fault.go, in their order.
func codes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	require.NoError(t, err)
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		all = append(all, code)
		return true
	})
	require.Greater(t, len(all), 40)
	return all
}

// Every code has its section in docs/faults.md, in the order of fault.go, every
// section a code, and each says what happened, what Burnish did and what to do.
func TestEveryFaultIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/faults.md")
	require.NoError(t, err)
	sections := strings.Split(string(text), "\n## ")[1:]
	var explained []string
	form := regexp.MustCompile(
		`(?s)^(\w+)\n\n- \*\*What happened\*\*: \S.*\n- \*\*What Burnish did\*\*: \S.*\n- \*\*What to do\*\*: \S.*$`)
	for _, section := range sections {
		found := form.FindStringSubmatch(strings.TrimSpace(section))
		require.NotNil(t, found, section)
		explained = append(explained, found[1])
	}
	want := codes(t)
	for _, code := range want {
		require.True(t, slices.Contains(explained, code), "%s has no section in docs/faults.md", code)
	}
	require.Equal(t, want, explained)
}
