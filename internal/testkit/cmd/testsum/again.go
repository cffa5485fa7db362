package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// mostAgain is how many tests are run again at most. More failures are no accident.
const mostAgain = 3

// failure is a test without its subtests' names, of which something failed.
type failure struct {
	test   id   // the whole test
	leaves []id // the failed tests and subtests that have no failed subtest
	all    []id
	final  bool // it counts, whatever a second run says
}

// lasting says of a test's output that its failure is not due to the machine's load.
var lasting = regexp.MustCompile(`WARNING: DATA RACE|(?m)^panic: |^fatal error: `)

// failures gives the failed tests by name.
func (s *summary) failures() []failure {
	byTest := map[id]*failure{}
	for _, one := range s.fails {
		name, _, _ := strings.Cut(one.test.test, "/")
		whole := id{one.test.pkg, name}
		f := byTest[whole]
		if f == nil {
			f = &failure{test: whole}
			byTest[whole] = f
		}
		f.all = append(f.all, one.test)
		f.final = f.final || name == "" || lasting.MatchString(one.output)
	}
	var found []failure
	for _, f := range byTest {
		for _, one := range f.all {
			if !slices.ContainsFunc(f.all, func(o id) bool { return strings.HasPrefix(o.test, one.test+"/") }) {
				f.leaves = append(f.leaves, one)
			}
		}
		found = append(found, *f)
	}
	slices.SortFunc(found, func(a, b failure) int { return cmp.Compare(a.test.String(), b.test.String()) })
	return found
}

// again runs the tests that failed once more by command, each by itself, and counts those
// that pass as passed. They are named in the report: such a test, or what it tests, has a
// defect that only a loaded machine shows. once are the tests whose first failure counts,
// because they look for what happens seldom.
func (s *summary) again(command []string, once *regexp.Regexp) {
	failed := s.failures()
	if len(failed) == 0 || len(failed) > mostAgain {
		return
	}
	for _, f := range failed {
		if f.final || once != nil && once.MatchString(f.test.test) {
			s.print("not run again: %s\n", f.test)
			continue
		}
		pattern := f.test.test
		if len(f.leaves) == 1 {
			pattern = f.leaves[0].test
		}
		second, err := runAgain(s.out, command, f.test.pkg, pattern)
		if err != nil {
			s.print("run again: %s: %v\n", f.test, err)
		}
		if err == nil && !slices.ContainsFunc(f.all, func(test id) bool { return !second.passes[test] }) {
			s.failed -= len(f.all)
			s.passed += len(f.all)
			s.unsteady = append(s.unsteady, f.test)
		}
	}
}

// runAgain runs one test by command, which is `go test -json` with its flags. out is where
// the failures of this run are printed.
func runAgain(out io.Writer, command []string, pkg, test string) (*summary, error) {
	elements := strings.Split(test, "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(element) + "$"
	}
	args := append(slices.Clone(command[1:]), "-run", strings.Join(elements, "/"), pkg)
	cmd := exec.Command(command[0], args...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	second := newSummary(out)
	second.print("\nrun again: %s %s\n", pkg, test)
	readErr := second.read(events)
	if err := cmd.Wait(); err != nil {
		return second, fmt.Errorf("it failed again: %w", err)
	}
	return second, readErr
}
