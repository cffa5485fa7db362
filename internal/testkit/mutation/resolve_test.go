package mutation

import (
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

// numbersLine is a line of a comment that holds numbers alone, such as "F1, S2.84".
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

// pattern turns what a mutation's run names into a value of -test.run.
func (tests testsOf) pattern(run string) (string, error) {
	if number, cites := strings.CutPrefix(run, "cites "); cites {
		var names []string
		for name, cited := range tests {
			if slices.Contains(cited, number) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return "", fmt.Errorf("no test cites %s", number)
		}
		slices.Sort(names)
		return "^(" + strings.Join(names, "|") + ")$", nil
	}
	names := strings.Fields(run)
	if len(names) == 0 {
		return "", fmt.Errorf("no test is named")
	}
	for i, name := range names {
		name, sub, _ := strings.Cut(name, "/")
		if _, ok := tests[name]; !ok {
			return "", fmt.Errorf("there is no %s", name)
		}
		if sub == "" {
			continue
		}
		if len(names) > 1 {
			return "", fmt.Errorf("%s: a subtest can only be named alone", names[i])
		}
		return "^" + name + "$/" + sub, nil
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
}

func TestPattern(t *testing.T) {
	tests := testsOf{"TestA": {"F1", "S2.84"}, "TestB": {"F1"}, "TestC": nil}
	for run, want := range map[string]string{
		"cites F1":    "^(TestA|TestB)$",
		"cites S2.84": "^(TestA)$",
		"TestC TestA": "^(TestC|TestA)$",
		"TestA/x/y.*": "^TestA$/x/y.*",
	} {
		pattern, err := tests.pattern(run)
		require.NoError(t, err)
		require.Equal(t, want, pattern)
	}
	for _, run := range []string{"", "cites F9", "TestD", "TestA TestD", "TestA/x TestB"} {
		_, err := tests.pattern(run)
		require.Error(t, err, run)
	}
}
