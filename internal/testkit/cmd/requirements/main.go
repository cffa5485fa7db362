// Command requirements writes the tests into docs/requirements.md: the page lists each
// requirement by number and sentence, the tests are found by the numbers that they cite
// in their comments. With -check it changes nothing and ends with 1 where the page is
// stale.
//
// It refuses a page on which a requirement has neither a test nor a note that says why
// (a row whose last cell begins with "planned" or with a link to the documentation that
// satisfies it), and a comment that cites a number which no page lists.
//
// usage: requirements [-check] ROOT
package main

//go:generate go run . ../../../..

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run is the whole program but for the process: it returns the exit code, 1 where the
// page is stale, incomplete or cannot be written, 2 for wrong usage.
func run(args []string, problems io.Writer) int {
	flags := flag.NewFlagSet("requirements", flag.ContinueOnError)
	flags.SetOutput(problems)
	check := flags.Bool("check", false, "change nothing; fail if the page is stale")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(problems, "usage: requirements [-check] ROOT")
		return 2
	}
	if err := update(flags.Arg(0), *check); err != nil {
		fmt.Fprintf(problems, "requirements: %v\n", err)
		return 1
	}
	return 0
}

func update(root string, check bool) error {
	path := filepath.Join(root, "docs", "requirements.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	safety, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	if err != nil {
		return err
	}
	cited, err := citations(root)
	if err != nil {
		return err
	}
	fresh, err := rewrite(string(page), string(safety), cited)
	switch {
	case err != nil:
		return err
	case fresh == string(page):
		return nil
	case check:
		return fmt.Errorf("%s is stale: run `make docs`", path)
	}
	return os.WriteFile(path, []byte(fresh), 0o644)
}
