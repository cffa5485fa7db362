// Command requirements writes the tests into docs/requirements.md: the page lists each
// requirement by number and sentence, the tests are found by the numbers that they cite
// in their comments.
//
// It refuses a page on which a requirement has neither a test nor a note that says why
// (a row whose last cell begins with "planned" or with a link to the documentation that
// satisfies it), and a comment that cites a number which no page lists.
//
// usage: requirements ROOT
package main

//go:generate go run . ../../../..

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: requirements ROOT")
		os.Exit(2)
	}
	if err := update(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
}

func update(root string) error {
	path := filepath.Join(root, "docs", "requirements.md")
	fresh, err := rewritten(root, path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(fresh), 0o644)
}

// rewritten is the page with the tests that the project has now.
func rewritten(root, path string) (string, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	safety, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	if err != nil {
		return "", err
	}
	cited, err := citations(root)
	if err != nil {
		return "", err
	}
	return rewrite(string(page), string(safety), cited)
}
