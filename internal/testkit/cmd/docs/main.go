// Command docs writes the machine of internal/device into a page: its picture and
// its table replace what stands between the lines
//
//	<!-- machine:begin -->
//	<!-- machine:end -->
//
// so that no page tells another story than the code. With -check it changes
// nothing, and ends with 1 and one line where the page is stale.
//
// usage: docs [-check] PAGE
package main

//go:generate go run . ../../../../README.md

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"burnish/internal/device"
)

const (
	begin = "<!-- machine:begin -->\n"
	end   = "<!-- machine:end -->"
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
		return fmt.Errorf("%s: the machine's picture and table are stale: run `make docs`", page)
	}
	return os.WriteFile(page, []byte(fresh), info.Mode().Perm())
}

// rewrite gives the text with the machine between its markers, of which there must
// be one pair.
func rewrite(text string) (string, error) {
	if strings.Count(text, begin) != 1 || strings.Count(text, end) != 1 {
		return "", errors.New("want one line <!-- machine:begin --> and one line <!-- machine:end -->")
	}
	before, rest, _ := strings.Cut(text, begin)
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", errors.New("<!-- machine:end --> stands before <!-- machine:begin -->")
	}
	return before + begin + "\n```mermaid\n" + device.Mermaid() + "```\n\n" + device.Markdown() + "\n" + end + after, nil
}
