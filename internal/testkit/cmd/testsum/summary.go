package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// commandFailed is an event that the Makefile adds where go test exited with an error. A
// module that cannot be loaded writes no event at all.
const commandFailed = "command-failed"

// event is one line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build's events
	Test       string
	Elapsed    float64
	Output     string
}

// id names a test; with an empty test, its package.
type id struct{ pkg, test string }

func (i id) String() string { return strings.TrimSpace(i.pkg + " " + i.test) }

// skip is a test that did not run, and why.
type skip struct {
	test   id
	reason string
}

// failed is one failure, and what the test printed.
type failed struct {
	test   id
	output string
}

// summary counts the events of a stream.
type summary struct {
	out      io.Writer
	writeErr error // the first

	passed, failed int
	failedBefore   int // at the end of the last command that failed
	skips          []skip
	passes         map[id]bool
	fails          []failed
	unsteady       []id // tests that failed, and passed when they ran again

	running map[id]bool             // tests and packages that have not ended
	output  map[id]*strings.Builder // of what has not ended
	counts  map[string]*tally       // by package
	seconds map[id]float64          // that each test took
}

// tally is the results of one package.
type tally struct{ passed, failed int }

func newSummary(out io.Writer) *summary {
	return &summary{
		out: out, running: map[id]bool{}, output: map[id]*strings.Builder{}, counts: map[string]*tally{}, seconds: map[id]float64{},
		passes: map[id]bool{},
	}
}

func (s *summary) skipped() int { return len(s.skips) }

func (s *summary) line() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", s.passed, s.failed, s.skipped())
}

// read reads the stream to its end. Lines that are no events are printed.
func (s *summary) read(in io.Reader) error {
	lines := bufio.NewReader(in) // a line of test output may be of any length
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &e) == nil && e.Action != "" {
				s.add(e)
			} else {
				s.print("%s\n", bytes.TrimRight(line, "\n"))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test events: %w", err)
		}
	}
}

func (s *summary) add(e event) {
	test := id{e.Package, e.Test}
	switch e.Action {
	case "start", "run":
		s.running[test] = true
	case "output":
		s.keep(test, e.Output)
	case "build-output":
		s.print("%s", e.Output)
	case commandFailed:
		// Without a failed test, the command itself failed.
		if s.failed == s.failedBefore {
			s.fail(test)
		}
		s.failedBefore = s.failed
	case "pass", "fail", "skip":
		delete(s.running, test)
		if e.Test == "" {
			s.endPackage(e)
		} else {
			s.seconds[test] = e.Elapsed
			s.endTest(test, e.Action)
		}
		delete(s.output, test)
	}
}

func (s *summary) endTest(test id, action string) {
	switch action {
	case "pass":
		s.passed++
		s.passes[test] = true
		s.tally(test.pkg).passed++
	case "fail":
		s.fail(test)
	case "skip":
		s.skips = append(s.skips, skip{test, reason(s.kept(test))})
	}
}

// endPackage counts a failure of the package itself.
func (s *summary) endPackage(e event) {
	pkg := id{pkg: e.Package}
	s.failUnfinished(e.Package)
	if e.Action == "fail" {
		if s.tally(e.Package).failed == 0 { // a build, TestMain, a leak, an exit
			s.fail(pkg)
		} else {
			s.print("%s", s.kept(pkg))
		}
	}
	if t := s.tally(e.Package); t.passed+t.failed > 0 {
		word := map[bool]string{false: "ok", true: "FAIL"}[e.Action == "fail"]
		s.print("%-4s %-48s %6.1fs %5d passed\n", word, e.Package, e.Elapsed, t.passed)
	}
}

// failUnfinished fails what has not ended; "" means all packages.
func (s *summary) failUnfinished(pkg string) {
	unfinished := slices.SortedFunc(maps.Keys(s.running), func(a, b id) int { return strings.Compare(a.String(), b.String()) })
	for _, test := range unfinished {
		if pkg == "" || test.pkg == pkg {
			s.keep(test, "did not end\n")
			s.fail(test)
			delete(s.running, test)
			delete(s.output, test)
		}
	}
}

const (
	// slowest is how many of the slowest tests are listed, slow what each of them takes at
	// least, in seconds.
	slowest = 20
	slow    = 10
)

// listSlow lists the slowest tests, and subtests that took longer than the test above, which
// does not count parallel ones.
func (s *summary) listSlow() {
	var found []id
	for test, took := range s.seconds {
		above := test
		if at := strings.LastIndex(test.test, "/"); at >= 0 {
			above.test = test.test[:at]
		}
		if took >= slow && (above == test || took > s.seconds[above]) {
			found = append(found, test)
		}
	}
	slices.SortFunc(found, func(a, b id) int {
		return cmp.Or(cmp.Compare(s.seconds[b], s.seconds[a]), strings.Compare(a.String(), b.String()))
	})
	if len(found) > 0 {
		s.print("\nslowest:\n")
	}
	for _, test := range found[:min(len(found), slowest)] {
		s.print("  %6.1fs %s\n", s.seconds[test], test)
	}
}

// end fails what has not ended.
func (s *summary) end() {
	s.failUnfinished("")
	if s.passed+s.failed+s.skipped() == 0 {
		s.fail(id{pkg: "no test ran"})
	}
}

// finish lists the slowest tests, those that are unsteady, and the skips.
func (s *summary) finish(skipsFail bool) {
	s.listSlow()
	if len(s.unsteady) > 0 {
		s.print("\nunsteady, failed and then passed when run again; mend them:\n")
	}
	for _, test := range s.unsteady {
		s.print("  %s\n", test)
	}
	if s.skipped() == 0 {
		return
	}
	heading := "skipped:"
	if skipsFail {
		heading = "skipped, where every test must run:"
	}
	s.print("\n%s\n", heading)
	for _, one := range s.skips {
		s.print("  %s: %s\n", one.test, one.reason)
	}
	s.print("\n")
}

// fail counts one failure and prints its output.
func (s *summary) fail(test id) {
	s.failed++
	s.fails = append(s.fails, failed{test, s.kept(test)})
	s.tally(test.pkg).failed++
	s.print("--- FAIL %s\n%s", test, s.kept(test))
}

func (s *summary) tally(pkg string) *tally {
	if s.counts[pkg] == nil {
		s.counts[pkg] = &tally{}
	}
	return s.counts[pkg]
}

func (s *summary) keep(test id, output string) {
	if s.output[test] == nil {
		s.output[test] = &strings.Builder{}
	}
	s.output[test].WriteString(output)
}

func (s *summary) kept(test id) string {
	if s.output[test] == nil {
		return ""
	}
	return s.output[test].String()
}

func (s *summary) print(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.writeErr == nil {
		s.writeErr = fmt.Errorf("write the report: %w", err)
	}
}

// reason is the output of a skipped test in one line.
func reason(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "no reason given"
	}
	return strings.Join(lines, " ")
}
