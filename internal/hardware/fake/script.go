package fake

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"burnish/internal/hardware"
)

// faultKind is what happens when a fault is due.
type faultKind string

const (
	fail      faultKind = "fail"      // a permanent fault step_failed
	transient faultKind = "transient" // a transient fault io_error
	hang      faultKind = "hang"      // nothing, until the context ends
	crash     faultKind = "crash"     // the worker ends as by kill -9
)

// injected is one fault of a script: once share hundredths of the device have been
// passed in this step, and then so many times.
type injected struct {
	kind    faultKind
	step    string
	percent int
	times   int
}

// String writes the fault in full; a device counts its faults under this name.
func (f injected) String() string {
	return fmt.Sprintf("%s:%s@%d%%x%d", f.kind, f.step, f.percent, f.times)
}

// point is the offset before which the fault comes, on a device of this size: a
// block boundary, or the very end.
func (f injected) point(size int64) int64 {
	if f.percent == 100 {
		return size
	}
	share := int64(f.percent)
	at := size/100*share + size%100*share/100
	return at / hardware.Align * hardware.Align
}

var stepForm = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// parseScript reads faults with semicolons between them, each as kind:step@40%x2;
// the share is 0 and the number 1 where they are left out. An error says in words
// where it stands.
func parseScript(script string) ([]injected, error) {
	var faults []injected
	seen := map[string]bool{}
	for i, part := range strings.Split(script, ";") {
		part = strings.TrimSpace(part)
		f, err := parseFault(part)
		if err == nil && seen[f.String()] {
			err = fmt.Errorf("says the same as one before it: use a larger number behind an x")
		}
		if err != nil {
			return nil, invalid("fault: the %s fault, %q, %v", ordinal(i), part, err)
		}
		seen[f.String()] = true
		faults = append(faults, f)
	}
	return faults, nil
}

// parseFault reads one fault; its errors go on from "the first fault".
func parseFault(part string) (injected, error) {
	kind, rest, found := strings.Cut(part, ":")
	switch {
	case part == "":
		return injected{}, fmt.Errorf("is empty: want one as fail:zero@40%%x1")
	case !found:
		return injected{}, fmt.Errorf("has no colon between kind and step: want one as fail:zero@40%%x1")
	}
	f := injected{kind: faultKind(kind), times: 1}
	switch f.kind {
	case fail, transient, hang, crash:
	default:
		return injected{}, fmt.Errorf("begins with %q: want fail, transient, hang or crash before the colon", kind)
	}
	var times, share string
	// Names of steps may have an x; only digits behind it make it a number of times.
	if at := strings.LastIndexByte(rest, 'x'); at >= 0 && isNumber(rest[at+1:]) {
		rest, times = rest[:at], rest[at+1:]
	}
	f.step, share, found = strings.Cut(rest, "@")
	if !stepForm.MatchString(f.step) {
		return injected{}, fmt.Errorf("has %q behind the colon: want the name of a step", f.step)
	}
	if found {
		number, ended := strings.CutSuffix(share, "%")
		n, err := strconv.Atoi(number)
		if !ended || err != nil || !isNumber(number) || n > 100 {
			return injected{}, fmt.Errorf("has %q behind the @: want a share from 0%% to 100%%, then maybe x and a number", share)
		}
		f.percent = n
	}
	if times != "" {
		n, err := strconv.Atoi(times)
		if err != nil || n == 0 {
			return injected{}, fmt.Errorf("has %q behind the x: want how often it happens, 1 or more", times)
		}
		f.times = n
	}
	return f, nil
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// ordinal says a position in words.
func ordinal(i int) string {
	words := []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"}
	if i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("%dth", i+1)
}
