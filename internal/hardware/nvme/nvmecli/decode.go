// Package nvmecli reads what nvme-cli prints: the JSON of its commands, its version,
// and the status in its error text. It runs nothing and knows nothing of a host, so
// that a client may read a file that an operator saved.
//
// Every version prints its own form: a number may be a string, a float or negative, a
// register may be an object, a warning may stand before the JSON. What is read is told
// in one form, and what cannot be read is a fault with the code tool_output_invalid, never a
// zero: a capability or a status that is missing is not one that is absent.
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

// MaxOutput is how many bytes of a command's output are read; what nvme-cli prints of
// one device is a few KiB.
const MaxOutput = 1 << 20

// maxStarts bounds how many lines that look like the beginning of JSON are tried.
const maxStarts = 16

// reader reads the fields of one object. The first thing that is wrong is kept, and
// everything read after it is zero.
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
			// What stands behind it is a part of the object that was cut short, and must
			// not be taken for the whole.
			r.fail("the JSON is cut short")
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

// jsonStarts gives the offsets at which the object may begin: each brace at the start of
// a line, where nvme-cli puts it and where no inner object is; where there is none,
// the first brace.
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

// fail keeps the first thing that is wrong.
func (r *reader) fail(format string, args ...any) {
	if r.fault != nil {
		return
	}
	message := fmt.Sprintf(format, args...)
	if said, ok := r.fields["error"].(string); ok {
		message += "; it says " + quoted(said)
	}
	r.fault = &device.Fault{
		Class: device.Permanent, Code: device.CodeToolOutputInvalid,
		Message: fmt.Sprintf("nvme %s: %s", r.command, message),
		Remedy:  fmt.Sprintf("run nvme %s -o json by hand and see what it prints", r.command),
	}
}

// err gives what was wrong, nil where nothing was.
func (r *reader) err() error {
	if r.fault == nil {
		return nil
	}
	return r.fault
}

// required gives a field that must be there.
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

// uint reads a register of so many bits that must be there.
func (r *reader) uint(key string, bits int) uint64 {
	v := r.required(key)
	if r.fault != nil {
		return 0
	}
	return r.number(key, v, bits)
}

// optionalUint reads a register that older versions do not print; 0 where it is missing.
func (r *reader) optionalUint(key string, bits int) uint64 {
	if v, ok := r.fields[key]; ok && v != nil && r.fault == nil {
		return r.number(key, v, bits)
	}
	return 0
}

// number reads a value as a register of so many bits.
func (r *reader) number(key string, v any, bits int) uint64 {
	n, err := numberOf(v, bits)
	if err != nil {
		r.fail("%s is %s: %s", key, describeValue(v), err)
	}
	return n
}

// counter reads a 128-bit counter; 0 where it is missing, and one that is larger than
// 64 bits is the largest there is.
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

// text reads a string for one line, without the spaces and NULs that fill it up; "" where
// it is missing.
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

// oneLine gives a device's own words for a log or a terminal: what is no character, or
// moves the cursor, is "?".
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == unicode.ReplacementChar {
			return '?'
		}
		return c
	}, text)
}

// device gives the object inside the one whose only key is the device's name; the
// object itself where the key stands in it.
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
			r.fail("it speaks of more than one device")
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

// numberOf reads a whole number of so many bits from any of the forms that nvme-cli
// has for one: a number, a string with one in decimal or hex, a float without
// a fraction (128-bit counters up to 2.0), and for 32 bits a negative number, which is
// an unsigned one printed as signed (2.1 to 2.3).
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

// describeValue gives a value as it may stand in one line.
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

// truncate cuts what is too long for a line.
func truncate(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
