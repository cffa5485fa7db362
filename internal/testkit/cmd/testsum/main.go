// Command testsum reads `go test -json` and says in one line what happened:
// `N passed, N failed, N skipped`. It passes the output of failures through,
// one line for each package, and the reason of each skip.
//
// It trusts no silence: a test that began and never ended, a package that did
// not build, a go test that died without a word and a run without any test are
// failures. Every test and subtest
// counts, as `go test -v` reports them.
//
// usage: go test -json ./... | testsum [-o FILE] [-no-skips]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for the process: it returns the exit code, 1
// where a test failed (or was skipped, with -no-skips), 2 for a wrong flag.
func run(args []string, in io.Reader, out, problems io.Writer) int {
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(problems)
	file := flags.String("o", "", "write the summary line to this `file` too")
	noSkips := flags.Bool("no-skips", false, "a skip is a failure")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ok, err := summarise(in, out, *file, *noSkips)
	if err != nil {
		_, _ = fmt.Fprintf(problems, "testsum: %v\n", err) // nowhere else to say it
		return 1
	}
	if !ok {
		return 1
	}
	return 0
}

func summarise(in io.Reader, out io.Writer, file string, noSkips bool) (bool, error) {
	s := newSummary(out)
	readErr := s.read(in)
	s.finish(noSkips)
	if file != "" {
		if err := os.WriteFile(file, []byte(s.line()+"\n"), 0o644); err != nil {
			return false, errors.Join(readErr, err)
		}
	}
	_, err := fmt.Fprintln(out, s.line())
	ok := s.failed == 0 && (s.skipped() == 0 || !noSkips)
	return ok, errors.Join(readErr, s.writeErr, err)
}
