package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// number is a requirement, a safety rule or a decision as comments cite it.
var number = regexp.MustCompile(`\b(?:S[0-4]\.[1-9][0-9]*|[FD][1-9][0-9]?)\b`)

// several are numbers that are not all written out: only the first would be read.
var several = regexp.MustCompile(number.String() +
	`(?: ?[-–—/] ?[0-9]| ?[-–—] ?[SFD][0-9]| (?:to|through) [SFD][0-9])`)

// citation is one place that cites a number.
type citation struct {
	// Place is the file with its line, for messages.
	Place string
	// Test is the test that the comment belongs to, with its package; "" outside tests.
	Test string
}

// citations finds every number that a comment of a Go file below root cites. A comment
// belongs to the test that it documents or stands in, otherwise to its file.
// A table of cases, testdata/requirements.txt, stands for itself.
func citations(root string) (map[string][]citation, error) {
	cited := map[string][]citation{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(name, ".go"):
			return inGo(path, name, cited)
		case strings.HasSuffix(name, "testdata/requirements.txt"):
			return inTable(path, name, cited)
		}
		return nil
	})
	return cited, err
}

func inGo(path, name string, cited map[string][]citation) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	isTest := strings.HasSuffix(name, "_test.go")
	for _, group := range file.Comments {
		var test string
		if isTest {
			test = label(name, enclosing(file, group))
		}
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:") {
				continue
			}
			place := name + ":" + files.Position(comment.Pos()).String()[len(path)+1:]
			if found := several.FindString(comment.Text); isTest && found != "" {
				return fmt.Errorf("%s: %q…: cite each number", place, found)
			}
			for _, n := range number.FindAllString(comment.Text, -1) {
				cited[n] = append(cited[n], citation{Place: place, Test: test})
			}
		}
	}
	return nil
}

// enclosing names the function that the comment documents or stands in, "" where it is
// none.
func enclosing(file *ast.File, group *ast.CommentGroup) string {
	for _, declared := range file.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		if from <= group.Pos() && group.End() <= f.End() {
			return f.Name.Name
		}
	}
	return ""
}

// label names a test with its package. What is not a test itself is named by its file.
func label(name, function string) string {
	dir := filepath.ToSlash(filepath.Dir(name))
	if strings.HasPrefix(function, "Test") || strings.HasPrefix(function, "Fuzz") {
		return dir + "." + function
	}
	return filepath.ToSlash(name)
}

// inTable reads the first column of a table of cases: one or more numbers.
func inTable(path, name string, cited map[string][]citation) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		first, _, isCase := strings.Cut(lines.Text(), "|")
		if !isCase || strings.HasPrefix(first, "#") {
			continue
		}
		if found := several.FindString(first); found != "" {
			return fmt.Errorf("%s: %q…: cite each number", name, found)
		}
		for _, n := range number.FindAllString(first, -1) {
			cited[n] = append(cited[n], citation{Place: name, Test: filepath.ToSlash(name)})
		}
	}
	return nil
}

// tests gives the tests that cite a number, each once: the lowest first, which are not those of
// whole programs.
func tests(all []citation) []string {
	var names []string
	for _, c := range all {
		if c.Test != "" && !slices.Contains(names, c.Test) {
			names = append(names, c.Test)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		whole := func(test string) int { return strings.Count(test, "internal/testkit/") }
		return cmp.Or(cmp.Compare(whole(a), whole(b)), cmp.Compare(a, b))
	})
	return names
}
