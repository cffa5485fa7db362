// Command testsum counts the results in gotestsum's --jsonfile, and prints them in one line:
// `N passed, N failed, N skipped`. Of a test that ran twice the last result counts. A package that
// failed without a failed test is one failure, and so is a run that failed, or had no test.
//
// usage: testsum [-o FILE] [-no-skips] [-status N] EVENTS
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	file := flag.String("o", "", "write the line to this `file` too")
	noSkips := flag.Bool("no-skips", false, "a skip is a failure")
	status := flag.Int("status", 0, "gotestsum's exit code")
	flag.Parse()
	line, ok, err := summarize(flag.Arg(0), *status, *noSkips)
	if err == nil && *file != "" {
		err = os.WriteFile(*file, []byte(line+"\n"), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	_, _ = fmt.Fprintln(os.Stdout, line)
	if !ok {
		os.Exit(1)
	}
}

func summarize(path string, status int, noSkips bool) (line string, ok bool, err error) {
	events, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer events.Close()
	type id struct{ Package, Test string }
	last := map[id]string{}
	failedIn := map[string]bool{} // packages, of which a test failed
	for decoder := json.NewDecoder(events); ; {
		var e struct {
			id
			Action string
		}
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", false, fmt.Errorf("%s: %w", path, err)
		}
		switch e.Action {
		case "pass", "fail", "skip":
			failedIn[e.Package] = failedIn[e.Package] || e.Test != "" && e.Action == "fail"
			if e.Test != "" || e.Action == "fail" {
				last[e.id] = e.Action
			}
		}
	}
	count := map[string]int{}
	for test, action := range last {
		if test.Test != "" || !failedIn[test.Package] {
			count[action]++
		}
	}
	if count["fail"] == 0 && (status != 0 || len(last) == 0) {
		count["fail"] = 1
	}
	line = fmt.Sprintf("%d passed, %d failed, %d skipped", count["pass"], count["fail"], count["skip"])
	return line, count["fail"] == 0 && (count["skip"] == 0 || !noSkips), nil
}
