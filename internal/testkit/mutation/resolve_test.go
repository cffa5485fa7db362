package mutation

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testsOf holds a package's tests by name, each with the numbers that its comment cites.
type testsOf map[string][]string

// numbersLine is a line of a comment that holds numbers alone.
var numbersLine = regexp.MustCompile(`^[A-Z]\d+(\.\d+)?(, [A-Z]\d+(\.\d+)?)*$`)

func parseTests(dir string) (testsOf, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	tests := testsOf{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
				continue
			}
			var cited []string
			for line := range strings.Lines(f.Doc.Text()) {
				if line = strings.TrimSpace(line); numbersLine.MatchString(line) {
					cited = append(cited, strings.Split(line, ", ")...)
				}
			}
			tests[f.Name.Name] = cited
		}
	}
	return tests, nil
}

// resolve finds the tests that a mutation's run names, and the pattern of their subtests.
func (tests testsOf) resolve(run string) (names []string, sub string, err error) {
	if number, cites := strings.CutPrefix(run, "cites "); cites {
		for name, cited := range tests {
			if slices.Contains(cited, number) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return nil, "", fmt.Errorf("no test cites %s", number)
		}
		slices.Sort(names)
		return names, "", nil
	}
	fields := strings.Fields(run)
	if len(fields) == 0 {
		return nil, "", errors.New("no test is named")
	}
	for _, field := range fields {
		var name string
		name, sub, _ = strings.Cut(field, "/")
		if _, ok := tests[name]; !ok {
			return nil, "", fmt.Errorf("there is no %s", name)
		}
		if sub != "" && len(fields) > 1 {
			return nil, "", fmt.Errorf("%s: a subtest can only be named alone", field)
		}
		names = append(names, name)
	}
	return names, sub, nil
}

// pattern is the value of -test.run for these tests.
func pattern(names []string, sub string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	all := "^(" + strings.Join(names, "|") + ")$"
	if sub != "" {
		all += "/" + sub
	}
	return all
}

func TestResolve(t *testing.T) {
	tests := testsOf{"TestA": {"F1", "S2.84"}, "TestB": {"F1"}, "TestC": nil}
	for run, want := range map[string]string{
		"cites F1":    "^(TestA|TestB)$",
		"cites S2.84": "^(TestA)$",
		"TestC TestA": "^(TestA|TestC)$",
		"TestA/x/y.*": "^(TestA)$/x/y.*",
	} {
		names, sub, err := tests.resolve(run)
		require.NoError(t, err)
		require.Equal(t, want, pattern(names, sub))
	}
	for _, run := range []string{"", "cites F9", "TestD", "TestA TestD", "TestA/x TestB", "TestA TestB/x"} {
		_, _, err := tests.resolve(run)
		require.Error(t, err, run)
	}
}
