package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stream is a run with one of everything: go test -json of two packages, one
// of which does not build.
const stream = `go: downloading something
{"Action":"start","Package":"p/a"}
{"Action":"run","Package":"p/a","Test":"TestGood"}
{"Action":"output","Package":"p/a","Test":"TestGood","Output":"said by a test that passed\n"}
{"Action":"pass","Package":"p/a","Test":"TestGood","Elapsed":0.1}
{"Action":"run","Package":"p/a","Test":"TestBad"}
{"Action":"run","Package":"p/a","Test":"TestBad/sub"}
{"Action":"output","Package":"p/a","Test":"TestBad/sub","Output":"    a_test.go:7: want 1, got 2\n"}
{"Action":"fail","Package":"p/a","Test":"TestBad/sub","Elapsed":0}
{"Action":"fail","Package":"p/a","Test":"TestBad","Elapsed":0}
{"Action":"run","Package":"p/a","Test":"TestRoot"}
{"Action":"output","Package":"p/a","Test":"TestRoot","Output":"=== RUN   TestRoot\n"}
{"Action":"output","Package":"p/a","Test":"TestRoot","Output":"    a_test.go:9: needs root\n"}
{"Action":"output","Package":"p/a","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"p/a","Test":"TestRoot","Elapsed":0}
{"Action":"fail","Package":"p/a","Elapsed":0.2}
{"ImportPath":"p/b [p/b.test]","Action":"build-output","Output":"b/b.go:3:1: syntax error\n"}
{"ImportPath":"p/b [p/b.test]","Action":"build-fail"}
{"Action":"start","Package":"p/b"}
{"Action":"output","Package":"p/b","Output":"FAIL\tp/b [build failed]\n"}
{"Action":"fail","Package":"p/b","Elapsed":0,"FailedBuild":"p/b [p/b.test]"}
{"Action":"start","Package":"p/c"}
{"Action":"output","Package":"p/c","Output":"?   \tp/c\t[no test files]\n"}
{"Action":"skip","Package":"p/c","Elapsed":0}
`

func sum(t *testing.T, in string, args ...string) (string, int) {
	t.Helper()
	var out, problems bytes.Buffer
	code := run(args, strings.NewReader(in), &out, &problems)
	if problems.Len() > 0 {
		t.Fatalf("problems: %s", &problems)
	}
	return out.String(), code
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary")
	out, code := sum(t, stream, "-o", file)
	if code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	const want = "1 passed, 3 failed, 1 skipped"
	if got := lastLine(out); got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
	for _, part := range []string{
		"go: downloading something", "want 1, got 2", "--- FAIL p/a TestBad/sub", "b/b.go:3:1: syntax error", "[build failed]",
		"p/a TestRoot: a_test.go:9: needs root",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("missing %q in:\n%s", part, out)
		}
	}
	if strings.Contains(out, "said by a test that passed") {
		t.Error("the output of a test that passed is noise")
	}
	written, err := os.ReadFile(file)
	if err != nil || string(written) != want+"\n" {
		t.Errorf("file holds %q, %v", written, err)
	}
}

func TestVerdicts(t *testing.T) {
	const (
		good    = `{"Action":"start","Package":"p"}` + "\n" + `{"Action":"run","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
		skipped = `{"Action":"run","Package":"p","Test":"TestB"}` + "\n" + `{"Action":"skip","Package":"p","Test":"TestB"}` + "\n"
		begun   = `{"Action":"run","Package":"p","Test":"TestC"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestC","Output":"panic: boom\n"}` + "\n"
		passed  = `{"Action":"pass","Package":"p"}` + "\n"
		failed  = `{"Action":"fail","Package":"p"}` + "\n"
	)
	for name, c := range map[string]struct {
		in   string
		args []string
		want string
		code int
		says string
	}{
		"all good":                    {good + passed, nil, "1 passed, 0 failed, 0 skipped", 0, "ok   p"},
		"a skip is allowed":           {good + skipped + passed, nil, "1 passed, 0 failed, 1 skipped", 0, "p TestB: no reason given"},
		"a skip is a failure":         {good + skipped + passed, []string{"-no-skips"}, "1 passed, 0 failed, 1 skipped", 1, "every test must run"},
		"go test died silently":       {good + passed + `{"Action":"command-failed","Package":"go test in x"}`, nil, "1 passed, 1 failed, 0 skipped", 1, "--- FAIL go test in x"},
		"go test reports its failure": {good + failed + `{"Action":"command-failed","Package":"go test in x"}`, nil, "1 passed, 1 failed, 0 skipped", 1, "--- FAIL p"},
		"nothing ran":                 {"", nil, "0 passed, 1 failed, 0 skipped", 1, "no test ran"},
		"a test panicked":             {good + begun + failed, nil, "1 passed, 1 failed, 0 skipped", 1, "panic: boom"},
		"the stream was cut":          {good, nil, "1 passed, 1 failed, 0 skipped", 1, "did not end"},
		"the package alone failed":    {good + failed, nil, "1 passed, 1 failed, 0 skipped", 1, "--- FAIL p"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := sum(t, c.in, c.args...)
			if got := lastLine(out); got != c.want || code != c.code {
				t.Errorf("%q and exit %d, want %q and %d", got, code, c.want, c.code)
			}
			if !strings.Contains(out, c.says) {
				t.Errorf("missing %q in:\n%s", c.says, out)
			}
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("pipe broke") }

func TestBrokenInputFails(t *testing.T) {
	var out, problems bytes.Buffer
	if code := run(nil, brokenReader{}, &out, &problems); code != 1 || !strings.Contains(problems.String(), "pipe broke") {
		t.Errorf("exit %d, problems %q", code, &problems)
	}
	if code := run([]string{"-bogus"}, strings.NewReader(""), &out, &problems); code != 2 {
		t.Errorf("a wrong flag exits %d, want 2", code)
	}
}

// A test that waits for its parallel subtests is not slow itself.
func TestTheSlowestAreListed(t *testing.T) {
	stream := `{"Action":"pass","Package":"p","Test":"TestA/one","Elapsed":20}
{"Action":"pass","Package":"p","Test":"TestA/two","Elapsed":30.04}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Test":"TestB/part","Elapsed":24}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":25}
{"Action":"pass","Package":"p","Test":"TestC","Elapsed":9.9}
`
	out, _ := sum(t, stream)
	want := "\nslowest:\n    30.0s p TestA/two\n    25.0s p TestB\n    20.0s p TestA/one\n6 passed"
	if !strings.Contains(out, want) {
		t.Errorf("missing %q in:\n%s", want, out)
	}
}

// A command that stands in for go test: TestBad passes the second time, TestWorse fails
// again, and anything else is an error.
const secondRun = `#!/bin/sh
echo "$@" >>"$(dirname "$0")/ran"
case "$*" in
*'-run ^TestBad$/^sub$ p'*)
	echo '{"Action":"pass","Package":"p","Test":"TestBad/sub"}'
	echo '{"Action":"pass","Package":"p","Test":"TestBad"}'
	echo '{"Action":"pass","Package":"p"}';;
*'-run ^TestWorse$ p'*)
	echo '{"Action":"output","Package":"p","Test":"TestWorse","Output":"bad again\\n"}'
	echo '{"Action":"fail","Package":"p","Test":"TestWorse"}'
	exit 1;;
*) exit 2;;
esac
`

func TestWhatFailsRunsAgain(t *testing.T) {
	const (
		bad = `{"Action":"fail","Package":"p","Test":"TestBad/sub"}
{"Action":"fail","Package":"p","Test":"TestBad"}
`
		worse = `{"Action":"fail","Package":"p","Test":"TestWorse"}
`
		race = `{"Action":"output","Package":"p","Test":"TestBad/sub","Output":"WARNING: DATA RACE\n"}
`
		failed = `{"Action":"fail","Package":"p"}
{"Action":"command-failed","Package":"go test in x"}
`
	)
	for name, c := range map[string]struct {
		in   string
		args []string
		want string
		says string
		ran  int
	}{
		"it passes":              {bad + failed, nil, "2 passed, 0 failed, 0 skipped", "mend them:\n  p TestBad\n", 1},
		"one of two passes":      {bad + worse + failed, nil, "2 passed, 1 failed, 0 skipped", "bad again", 2},
		"it must never fail":     {bad + failed, []string{"-once", "^TestB"}, "0 passed, 2 failed, 0 skipped", "not run again: p TestBad", 0},
		"a race":                 {race + bad + failed, nil, "0 passed, 2 failed, 0 skipped", "not run again: p TestBad", 0},
		"the package failed":     {failed, nil, "0 passed, 1 failed, 0 skipped", "not run again: p", 0},
		"it is unknown by name":  {strings.ReplaceAll(worse, "Worse", "Other") + failed, nil, "0 passed, 1 failed, 0 skipped", "exit status 2", 1},
		"too many for accidents": {bad + worse + strings.ReplaceAll(worse, "Worse", "C") + strings.ReplaceAll(worse, "Worse", "D") + failed, nil, "0 passed, 5 failed, 0 skipped", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			command := filepath.Join(dir, "gotest")
			if err := os.WriteFile(command, []byte(secondRun), 0o700); err != nil {
				t.Fatal(err)
			}
			out, code := sum(t, c.in, append(c.args, "-again", command+" -json")...)
			if got := lastLine(out); got != c.want || (code == 0) != strings.Contains(c.want, " 0 failed") {
				t.Errorf("%q and exit %d, want %q, in:\n%s", got, code, c.want, out)
			}
			if !strings.Contains(out, c.says) {
				t.Errorf("missing %q in:\n%s", c.says, out)
			}
			ran, err := os.ReadFile(filepath.Join(dir, "ran"))
			if err != nil && !errors.Is(err, os.ErrNotExist) || strings.Count(string(ran), "\n") != c.ran {
				t.Errorf("ran %q (%v), want %d", ran, err, c.ran)
			}
		})
	}
}
