package nvmecli

import (
	"cmp"
	"math"
	"regexp"
	"strconv"
	"time"
)

// SanitizeStatus is the status of the most recent sanitize: SSTAT bits 2:0.
type SanitizeStatus uint8

// The statuses (NVM Express Base Specification, Sanitize Status log page).
const (
	NeverSanitized        SanitizeStatus = 0
	SanitizeDone          SanitizeStatus = 1
	SanitizeInProgress    SanitizeStatus = 2
	SanitizeFailed        SanitizeStatus = 3
	SanitizeDoneNoDealloc SanitizeStatus = 4 // done, but blocks were deallocated against the request
)

// NoEstimate: the controller gives no estimate.
const NoEstimate time.Duration = -1

// SanitizeLog is the Sanitize Status log page (81h).
type SanitizeLog struct {
	// Progress is SPROG, in 65,536ths. It is 65,535 if no sanitize ever ran, and after one
	// is done or has failed, so it never proves success by itself.
	Progress uint16
	// Status is SSTAT bits 2:0. Done does not prove whose sanitize it was (F18).
	Status SanitizeStatus
	// GlobalErased is SSTAT bit 8: nothing was written since the last completed sanitize,
	// or since the device was made.
	GlobalErased bool
	// Passes is SSTAT bits 7:3, the completed passes of an overwrite.
	Passes uint8
	// CDW10 is SCDW10, command dword 10 of the sanitize that the status describes.
	CDW10 uint32
	// The controller's estimate of each operation's duration, or NoEstimate.
	Overwrite, BlockErase, CryptoErase                            time.Duration
	OverwriteNoDealloc, BlockEraseNoDealloc, CryptoEraseNoDealloc time.Duration
	// State is SANS, the sanitize state, or -1 if nvme-cli does not print it, as in most
	// versions. 5 is media verification, which must be left before anything else.
	State int
}

// Done: a sanitize was completed, whichever it was.
func (l SanitizeLog) Done() bool {
	return l.Status == SanitizeDone || l.Status == SanitizeDoneNoDealloc
}

// Running: a sanitize is in progress.
func (l SanitizeLog) Running() bool { return l.Status == SanitizeInProgress }

// codedText is a code with its meaning, as in "(2) Sanitize in Progress."
var codedText = regexp.MustCompile(`^\((\d{1,3})\) `)

// ParseSanitizeLog reads the output of `nvme sanitize-log -o json`, and of `nvme log
// sanitize` of version 3.0. A status that the specification does not define is a fault.
// Faults: tool_output_invalid.
func ParseSanitizeLog(output []byte) (SanitizeLog, error) {
	r := read("sanitize-log", output).device("sstat")
	l := SanitizeLog{Progress: uint16(r.uint("sprog", 16)), State: -1}
	switch sstat := r.required("sstat").(type) {
	case map[string]any:
		l.parseStatus(r, sstat)
	default:
		if r.fault == nil {
			raw := r.number("sstat", sstat, 16)
			l.Status = SanitizeStatus(raw & 7)
			l.Passes = uint8(raw >> 3 & 0x1f)
			l.GlobalErased = raw&(1<<8) != 0
		}
	}
	if l.Status > SanitizeDoneNoDealloc {
		r.fail("status %d is not defined", l.Status)
	}
	if _, ok := r.fields["cdw10info"]; ok {
		l.CDW10 = uint32(r.uint("cdw10info", 32))
	} else {
		l.CDW10 = uint32(r.uint("cdw10_info", 32))
	}
	l.Overwrite, l.OverwriteNoDealloc = r.estimate("time_over_write"), r.estimate("time_over_write_no_dealloc")
	l.BlockErase, l.BlockEraseNoDealloc = r.estimate("time_block_erase"), r.estimate("time_block_erase_no_dealloc")
	l.CryptoErase, l.CryptoEraseNoDealloc = r.estimate("time_crypto_erase"), r.estimate("time_crypto_erase_no_dealloc")
	if info, ok := r.fields["sanitize_state_information"].(map[string]any); ok {
		if text, ok := info["sanitize_state"].(string); ok {
			if found := codedText.FindStringSubmatch(text); found != nil {
				l.State, _ = strconv.Atoi(found[1]) // at most three digits
			}
		}
	}
	if err := r.err(); err != nil {
		return SanitizeLog{}, err
	}
	return l, nil
}

// parseStatus reads SSTAT from an object. The code is in a text: under the key "status", or,
// in 2.7 and 2.8, in the key.
func (l *SanitizeLog) parseStatus(r *reader, sstat map[string]any) {
	found := false
	for _, v := range sstat {
		text, ok := v.(string)
		if !ok {
			continue
		}
		match := codedText.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		code, _ := strconv.ParseUint(match[1], 10, 16) // at most three digits
		status := SanitizeStatus(code & 7)
		if found && status != l.Status {
			r.fail("sstat has two statuses")
		}
		l.Status, found = status, true
	}
	if raw, ok := sstat["status"]; !found && ok {
		if _, isText := raw.(string); !isText {
			l.Status, found = SanitizeStatus(r.number("status", raw, 16)&7), true
		}
	}
	if !found {
		r.fail("sstat has no status")
	}
	inner := &reader{command: r.command, fields: sstat}
	l.GlobalErased = inner.uint("global_erased", 16) != 0
	l.Passes = uint8(inner.optionalUint("no_cmplted_passes", 8) & 0x1f)
	r.fault = cmp.Or(r.fault, inner.fault)
}

// estimate reads a time in seconds. All bits set, or missing, is NoEstimate.
func (r *reader) estimate(key string) time.Duration {
	if v, ok := r.fields[key]; !ok || v == nil {
		return NoEstimate
	}
	seconds := r.uint(key, 32)
	if seconds == math.MaxUint32 {
		return NoEstimate
	}
	return time.Duration(seconds) * time.Second
}

// ParseSanitizeState reads SANS, the sanitize state, from the raw log page 81h. Faults:
// tool_output_invalid.
func ParseSanitizeState(page []byte) (int, error) {
	const at = 36
	if len(page) <= at {
		r := &reader{command: "get-log"}
		r.fail("%d bytes are not a Sanitize Status log", len(page))
		return 0, r.err()
	}
	return int(page[at] & 7), nil
}
