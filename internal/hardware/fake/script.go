package fake

import (
	"cmp"
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

var faultForm = regexp.MustCompile(
	`^(fail|transient|hang|crash):([a-z]+(?:_[a-z]+)*)(?:@([0-9]{1,3})%)?(?:x([0-9]{1,9}))?$`)

// parseScript reads faults separated by semicolons, each in the form kind:step@40%x2. The
// percentage defaults to 0 and the number of times to 1.
func parseScript(script string) ([]injected, error) {
	var faults []injected
	seen := map[string]bool{}
	for part := range strings.SplitSeq(script, ";") {
		part = strings.TrimSpace(part)
		form := faultForm.FindStringSubmatch(part)
		if form == nil {
			return nil, notAFault(part)
		}
		percent, _ := strconv.Atoi(cmp.Or(form[3], "0")) // they are digits
		times, _ := strconv.Atoi(cmp.Or(form[4], "1"))
		f := injected{kind: faultKind(form[1]), step: form[2], percent: percent, times: times}
		if percent > 100 || times == 0 {
			return nil, notAFault(part)
		}
		if seen[f.String()] {
			return nil, hardware.Invalid("fault: %q is a duplicate: to repeat a fault, put a larger number after the x", part)
		}
		seen[f.String()] = true
		faults = append(faults, f)
	}
	return faults, nil
}

func notAFault(part string) error {
	return hardware.Invalid("fault: %q is none: want a form such as fail:zero@40%%x1: one of fail, transient, hang and "+
		"crash; a step; from which percentage on, from 0%% to 100%%; how often, 1 or more", part)
}
