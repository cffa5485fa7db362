// Command docs writes the two tables of internal/device into a page. The picture and the
// first table replace what stands between the lines
//
//	<!-- states:begin -->
//	<!-- states:end -->
//
// and the second table what stands between
//
//	<!-- observations:begin -->
//	<!-- observations:end -->
//
// so that the page always shows what the code decides. With -check it changes nothing,
// and ends with 1 and one line where the page is stale.
//
// usage: docs [-check] PAGE
package main

//go:generate go run . ../../../../docs/states.md

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"burnish/internal/device"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run is the whole program but for the process: it returns the exit code, 1 where
// the page is stale or cannot be written, 2 for wrong usage.
func run(args []string, problems io.Writer) int {
	flags := flag.NewFlagSet("docs", flag.ContinueOnError)
	flags.SetOutput(problems)
	check := flags.Bool("check", false, "change nothing; fail if the page is stale")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(problems, "usage: docs [-check] PAGE")
		return 2
	}
	if err := update(flags.Arg(0), *check); err != nil {
		fmt.Fprintf(problems, "docs: %v\n", err)
		return 1
	}
	return 0
}

func update(page string, check bool) error {
	info, err := os.Stat(page)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	fresh, err := rewrite(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", page, err)
	case fresh == string(text):
		return nil
	case check:
		return fmt.Errorf("%s: the tables are stale: run `make docs`", page)
	}
	return os.WriteFile(page, []byte(fresh), info.Mode().Perm())
}

// rewrite gives the text with each table between its markers, of which there must be one
// pair.
func rewrite(text string) (string, error) {
	text, err := between(text, "states", "```mermaid\n"+device.Mermaid()+"```\n\n"+device.Markdown())
	if err != nil {
		return "", err
	}
	return between(text, "observations", device.ObservationMarkdown())
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
