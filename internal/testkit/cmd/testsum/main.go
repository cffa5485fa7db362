// Command testsum reads `go test -json` and prints a summary in one line:
// `N passed, N failed, N skipped`. Before it prints the output of failures, one line for
// each package, the slowest tests, and the reason of each skip.
//
// Missing output is a failure too: a test that did not end, a package that did not build,
// a go test that died, a run without any test. Every test and subtest counts, as in
// `go test -v`.
//
// With -again, each of up to three tests that failed runs once more by itself; see again.
//
// usage: go test -json ./... | testsum [-o FILE] [-no-skips] [-again COMMAND [-once REGEXP]]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns the exit code: 1 if a test failed (or was skipped, with -no-skips), 2 for a
// wrong flag.
func run(args []string, in io.Reader, out, problems io.Writer) int {
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(problems)
	file := flags.String("o", "", "write the summary line to this `file` too")
	noSkips := flags.Bool("no-skips", false, "a skip is a failure")
	again := flags.String("again", "", "run tests that failed once more by this `command`, a go test -json")
	var once *regexp.Regexp
	flags.Func("once", "never run those again whose names match this `regexp`", func(text string) (err error) {
		once, err = regexp.Compile(text)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ok, err := summarize(in, out, *file, *noSkips, func(s *summary) {
		if command := strings.Fields(*again); len(command) > 0 {
			s.again(command, once)
		}
	})
	if err != nil {
		_, _ = fmt.Fprintf(problems, "testsum: %v\n", err) // there is no better place
		return 1
	}
	if !ok {
		return 1
	}
	return 0
}

func summarize(in io.Reader, out io.Writer, file string, noSkips bool, again func(*summary)) (bool, error) {
	s := newSummary(out)
	readErr := s.read(in)
	s.end()
	if readErr == nil {
		again(s)
	}
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
