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
// so that the page always shows what the code decides.
//
// usage: docs PAGE
package main

//go:generate go run . ../../../../docs/states.md

import (
	"fmt"
	"os"
	"strings"

	"burnish/internal/device"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docs PAGE")
		os.Exit(2)
	}
	if err := update(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "docs: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func update(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	fresh, err := rewrite(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(fresh), 0o644)
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
