// Package nvmecli parses the output of nvme-cli: the JSON of its commands, its version, and
// the status in its error text. It runs nothing and does not touch the host, so that a
// client can parse a file that an operator saved.
//
// Each version of nvme-cli prints its own form: a number can be a string, a float or
// negative, a register can be an object, and a warning can precede the JSON. All forms
// give the same result. What cannot be parsed is the fault tool_output_invalid and never a
// zero: a missing register does not mean that the drive lacks the capability.
package nvmecli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"burnish/internal/device"
)

// MaxOutput is the largest output, in bytes, that is parsed. nvme-cli prints only a few KiB
// about one device.
const MaxOutput = 1 << 20

// maxStarts limits how many lines that could start JSON are tried.
const maxStarts = 16

// reader reads the fields of one object. It keeps the first error; everything read after it
// is zero.
type reader struct {
	command string
	fields  map[string]any
	fault   *device.Fault
}

// read finds the JSON object in a command's output.
func read(command string, output []byte) *reader {
	r := &reader{command: command}
	if len(output) > MaxOutput {
		r.fail("more than %d bytes of output", MaxOutput)
		return r
	}
	for _, begin := range jsonStarts(output) {
		d := json.NewDecoder(bytes.NewReader(output[begin:]))
		d.UseNumber()
		var fields map[string]any
		err := d.Decode(&fields)
		switch {
		case err == nil:
			r.fields = fields
			return r
		case errors.Is(err, io.ErrUnexpectedEOF):
			// The rest is part of the truncated object, and must not be taken for the
			// whole.
			r.fail("the JSON ends unexpectedly")
			return r
		}
	}
	if text := strings.Join(strings.Fields(string(output)), " "); text != "" {
		r.fail("no JSON object in %s", quoted(text))
	} else {
		r.fail("no output")
	}
	return r
}

// jsonStarts lists the offsets where the object may start: each brace at the start of a
// line, where nvme-cli puts it and where no inner object starts, or else the first brace.
func jsonStarts(output []byte) []int {
	var all []int
	for at := 0; at < len(output) && len(all) < maxStarts; {
		if output[at] == '{' {
			all = append(all, at)
		}
		next := bytes.IndexByte(output[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	if len(all) == 0 {
		if first := bytes.IndexByte(output, '{'); first >= 0 {
			all = append(all, first)
		}
	}
	return all
}

// fail records the first error.
func (r *reader) fail(format string, args ...any) {
	if r.fault != nil {
		return
	}
	message := fmt.Sprintf(format, args...)
	if said, ok := r.fields["error"].(string); ok {
		message += "; its error is " + quoted(said)
	}
	r.fault = &device.Fault{
		Class: device.Permanent, Code: device.CodeToolOutputInvalid,
		Message: fmt.Sprintf("nvme %s: %s", r.command, message),
		Remedy:  fmt.Sprintf("run nvme %s -o json by hand and see what it prints", r.command),
	}
}

// err returns the first error.
func (r *reader) err() error {
	if r.fault == nil {
		return nil
	}
	return r.fault
}

// required reads a field that must exist.
func (r *reader) required(key string) any {
	if r.fault != nil {
		return nil
	}
	v, ok := r.fields[key]
	if !ok || v == nil {
		r.fail("%s is missing", key)
	}
	return v
}

// uint reads a register of this many bits that must exist.
func (r *reader) uint(key string, bits int) uint64 {
	v := r.required(key)
	if r.fault != nil {
		return 0
	}
	return r.number(key, v, bits)
}

// optionalUint is uint for a register that older versions do not print. It is then 0.
func (r *reader) optionalUint(key string, bits int) uint64 {
	if v, ok := r.fields[key]; ok && v != nil && r.fault == nil {
		return r.number(key, v, bits)
	}
	return 0
}

// number reads a value as a register of this many bits.
func (r *reader) number(key string, v any, bits int) uint64 {
	n, err := numberOf(v, bits)
	if err != nil {
		r.fail("%s is %s: %s", key, describeValue(v), err)
	}
	return n
}

// counter reads a 128-bit counter. It is 0 if missing, and math.MaxUint64 if larger than 64
// bits.
func (r *reader) counter(key string) uint64 {
	v, ok := r.fields[key]
	if !ok || v == nil || r.fault != nil {
		return 0
	}
	n, err := numberOf(v, 64)
	switch {
	case errors.Is(err, errTooLarge):
		return math.MaxUint64
	case err != nil:
		r.fail("%s is %s: %s", key, describeValue(v), err)
	}
	return n
}

// text reads a string as one line, without the spaces and NULs that pad it. It is "" if
// missing.
func (r *reader) text(key string) string {
	v, ok := r.fields[key]
	if !ok || v == nil || r.fault != nil {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		r.fail("%s is %s: want text", key, describeValue(v))
	}
	return oneLine(strings.TrimFunc(s, func(c rune) bool { return c == 0 || unicode.IsSpace(c) }))
}

// oneLine makes a device's text safe for a log or terminal: it replaces control characters
// and invalid bytes by "?".
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == unicode.ReplacementChar {
			return '?'
		}
		return c
	}, text)
}

// device returns the object that contains key: this one, or the one inside whose only key is
// the device's name.
func (r *reader) device(key string) *reader {
	if r.fault != nil {
		return r
	}
	if _, ok := r.fields[key]; ok {
		return r
	}
	var found map[string]any
	for _, v := range r.fields {
		inner, ok := v.(map[string]any)
		if !ok {
			continue
		}
		if _, ok := inner[key]; !ok {
			continue
		}
		if found != nil {
			r.fail("it describes more than one device")
			return r
		}
		found = inner
	}
	if found == nil {
		r.fail("%s is missing", key)
		return r
	}
	return &reader{command: r.command, fields: found}
}

var (
	errNoNumber = errors.New("want a whole number")
	errTooLarge = errors.New("it is too large")
)

// numberOf reads a whole number of this many bits from each form that nvme-cli uses: a
// number, a string in decimal or hex, a float without a fraction (128-bit counters up to
// version 2.0), and for 32 bits a negative number, which is an unsigned one printed as
// signed (2.1 to 2.3).
func numberOf(v any, bits int) (uint64, error) {
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		return 0, errNoNumber
	}
	if len(text) > 64 {
		return 0, errNoNumber
	}
	limit := uint64(math.MaxUint64) >> (64 - bits)
	if hex, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		return parseUint(hex, 16, limit)
	}
	switch {
	case strings.HasPrefix(text, "-") && bits == 32:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return 0, errNoNumber
		}
		return uint64(uint32(n)), nil
	case strings.ContainsAny(text, ".eE"):
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f < 0 || f != math.Trunc(f) {
			return 0, errNoNumber
		}
		if f >= 1<<63 || uint64(f) > limit {
			return 0, errTooLarge
		}
		return uint64(f), nil
	}
	return parseUint(text, 10, limit)
}

func parseUint(text string, base int, limit uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, base, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errTooLarge
	case err != nil:
		return 0, errNoNumber
	case n > limit:
		return 0, errTooLarge
	}
	return n, nil
}

// describeValue writes a value for an error message.
func describeValue(v any) string {
	switch v := v.(type) {
	case json.Number:
		return truncate(v.String())
	case string:
		return quoted(v)
	case bool:
		return strconv.FormatBool(v)
	case map[string]any:
		return "an object"
	}
	return "a list"
}

func quoted(text string) string { return strconv.Quote(truncate(text)) }

// truncate shortens text to fit in one line.
func truncate(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
