// Command docs writes the generated parts of two pages. Into docs/states.md it writes the tables of
// internal/device, so that the page always shows what the code decides: the picture and the first
// table replace what stands between the lines
//
//	<!-- states:begin -->
//	<!-- states:end -->
//
// and the second table what stands between those of observations. Into docs/requirements.md it writes
// the tests: the page lists each requirement by number and sentence, the tests are found by the
// numbers that they cite in their comments. It refuses a page on which a requirement has neither a
// test nor a note that says why (a row whose last cell begins with "planned" or with a link to the
// documentation that satisfies it), and a comment that cites a number which no page lists.
//
// usage: docs ROOT
package main

//go:generate go run . ../../../..

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docs ROOT")
		os.Exit(2)
	}
	root := os.Args[1]
	if err := errors.Join(
		update(filepath.Join(root, "docs", "states.md"), statesPage),
		update(filepath.Join(root, "docs", "requirements.md"), func(page string) (string, error) {
			return requirementsPage(root, page)
		})); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func update(path string, rewrite func(page string) (string, error)) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fresh, err := rewrite(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(fresh), 0o644)
}

// statesPage gives the page with each table between its markers, of which there must be one pair.
func statesPage(page string) (string, error) {
	page, err := between(page, "states", "```mermaid\n"+device.Mermaid()+"```\n\n"+device.Markdown())
	if err != nil {
		return "", err
	}
	if page, err = between(page, "observations", device.ObservationMarkdown()); err != nil {
		return "", err
	}
	return between(page, "due", lifecycle.Markdown())
}

// between puts the content between two markers.
func between(text, name, content string) (string, error) {
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	if strings.Count(text, begin) != 1 || strings.Count(text, end) != 1 {
		return "", fmt.Errorf("want one line <!-- %s:begin --> and one line <!-- %s:end -->", name, name)
	}
	before, rest, _ := strings.Cut(text, begin)
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("<!-- %s:end --> stands before <!-- %s:begin -->", name, name)
	}
	return before + begin + "\n" + content + "\n" + end + after, nil
}
