// Package nvmecli is nvme-cli as Burnish uses it: the command line that sends a command, its
// version, the status in its error text, and the data structures that a controller returns
// (NVM Express Base Specification). It runs nothing and does not touch the host.
//
// What cannot be decoded is the fault tool_output_invalid and never a zero: a missing register
// does not mean that the drive lacks the capability.
package nvmecli

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"burnish/internal/device"
)

// MaxOutput is the largest output, in bytes, that is parsed. nvme-cli prints only a few KiB
// about one device.
const MaxOutput = 64 << 10

// invalid is the fault of what a drive or nvme-cli says, and no version of the specification means.
func invalid(what, format string, args ...any) *device.Fault {
	return &device.Fault{
		Class: device.Permanent, Code: device.CodeToolOutputInvalid,
		Message: what + ": " + fmt.Sprintf(format, args...),
		Remedy:  "read it with nvme-cli by hand, and compare it with the specification",
	}
}

// page is a data structure that a controller returned, in little endian.
type page []byte

// pageOf requires a structure's whole length.
func pageOf(name string, data []byte, size int) (page, error) {
	if len(data) != size {
		return nil, invalid(name, "it has %d bytes instead of %d", len(data), size)
	}
	return page(data), nil
}

func (p page) u16(at int) uint16 { return binary.LittleEndian.Uint16(p[at:]) }
func (p page) u32(at int) uint32 { return binary.LittleEndian.Uint32(p[at:]) }
func (p page) u64(at int) uint64 { return binary.LittleEndian.Uint64(p[at:]) }

// counter reads a counter of 128 bits. It is math.MaxUint64 if larger than 64 bits.
func (p page) counter(at int) uint64 {
	if p.u64(at+8) != 0 {
		return math.MaxUint64
	}
	return p.u64(at)
}

// text reads text as one line, without the spaces and NULs that pad it.
func (p page) text(at, size int) string {
	padding := func(c rune) bool { return c == 0 || unicode.IsSpace(c) }
	return oneLine(strings.TrimFunc(string(p[at:at+size]), padding))
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

// quoted is the start of a text, in one line.
func quoted(text string) string {
	const most = 60
	text = oneLine(strings.Join(strings.Fields(text), " "))
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strconv.Quote(text)
}
