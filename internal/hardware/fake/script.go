package fake

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"burnish/internal/hardware"
)

// faultKind is what happens when a fault is injected.
type faultKind string

const (
	fail      faultKind = "fail"      // a permanent fault step_failed
	transient faultKind = "transient" // a transient fault io_error
	hang      faultKind = "hang"      // no progress until the context ends
	crash     faultKind = "crash"     // the worker dies, as by kill -9
)

// injected is one fault of the setting: it happens once percent of the device is done in
// this step, and at most times times.
type injected struct {
	kind    faultKind
	step    string
	percent int
	times   int
}

// String writes the fault in full. A device counts its faults under this text.
func (f injected) String() string {
	return fmt.Sprintf("%s:%s@%d%%x%d", f.kind, f.step, f.percent, f.times)
}

// point is the offset at which the fault happens on a device of this size: a block
// boundary, or the very end.
func (f injected) point(size int64) int64 {
	if f.percent == 100 {
		return size
	}
	share := int64(f.percent)
	at := size/100*share + size%100*share/100
	return at / hardware.Align * hardware.Align
}

var stepForm = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// parseScript reads faults separated by semicolons, each in the form kind:step@40%x2. The
// percentage defaults to 0 and the number of times to 1.
func parseScript(script string) ([]injected, error) {
	var faults []injected
	seen := map[string]bool{}
	for i, part := range strings.Split(script, ";") {
		part = strings.TrimSpace(part)
		f, err := parseFault(part)
		if err == nil && seen[f.String()] {
			err = fmt.Errorf("is a duplicate: to repeat a fault, put a larger number after the x")
		}
		if err != nil {
			return nil, hardware.Invalid("fault: the %s fault, %q, %v", ordinal(i), part, err)
		}
		seen[f.String()] = true
		faults = append(faults, f)
	}
	return faults, nil
}

// parseFault reads one fault. Its errors continue a sentence that starts "the first fault".
func parseFault(part string) (injected, error) {
	kind, rest, found := strings.Cut(part, ":")
	switch {
	case part == "":
		return injected{}, fmt.Errorf("is empty: want a form such as fail:zero@40%%x1")
	case !found:
		return injected{}, fmt.Errorf("has no colon between kind and step: want a form such as fail:zero@40%%x1")
	}
	f := injected{kind: faultKind(kind), times: 1}
	switch f.kind {
	case fail, transient, hang, crash:
	default:
		return injected{}, fmt.Errorf("begins with %q: must be one of fail, transient, hang, crash", kind)
	}
	var times, share string
	// A step's name may contain an x. Only digits after an x are a number of times.
	if at := strings.LastIndexByte(rest, 'x'); at >= 0 && isNumber(rest[at+1:]) {
		rest, times = rest[:at], rest[at+1:]
	}
	f.step, share, found = strings.Cut(rest, "@")
	if !stepForm.MatchString(f.step) {
		return injected{}, fmt.Errorf("has %q after the colon: want the name of a step", f.step)
	}
	if found {
		number, ended := strings.CutSuffix(share, "%")
		n, err := strconv.Atoi(number)
		if !ended || err != nil || !isNumber(number) || n > 100 {
			return injected{},
				fmt.Errorf("has %q after the @: want a percentage from 0%% to 100%%, optionally followed by x and a number", share)
		}
		f.percent = n
	}
	if times != "" {
		n, err := strconv.Atoi(times)
		if err != nil || n == 0 {
			return injected{}, fmt.Errorf("has %q after the x: want a number of times, 1 or more", times)
		}
		f.times = n
	}
	return f, nil
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// ordinal writes a position as a word.
func ordinal(i int) string {
	words := []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"}
	if i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("%dth", i+1)
}
