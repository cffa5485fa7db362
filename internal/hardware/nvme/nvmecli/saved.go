package nvmecli

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// ParseSaved reads what an operator saved of `nvme id-ctrl -o json`, with or without text
// before it: the serial, and the registers SANICAP, ONCS and OACS, which must be present, so
// that no capability is guessed. Faults: tool_output_invalid.
func ParseSaved(output []byte) (Controller, error) {
	const command = "nvme id-ctrl -o json"
	if len(output) > MaxOutput {
		return Controller{}, invalid(command, "more than %d bytes of output", MaxOutput)
	}
	var fields map[string]any
	// A warning may precede the object, whose brace is then the first of its line.
	for begin, at := 0, 0; at >= 0 && fields == nil; begin += at + 1 {
		d := json.NewDecoder(bytes.NewReader(output[begin:]))
		d.UseNumber()
		if d.Decode(&fields) != nil {
			fields = nil
		}
		at = bytes.IndexByte(output[begin:], '\n')
	}
	if fields == nil {
		return Controller{}, invalid(command, "no whole JSON object in %s", quoted(string(output)))
	}
	registers := map[string]uint64{}
	// In order: of several that are missing, the same is named every time.
	for _, register := range []struct {
		name string
		bits int
	}{{"sanicap", 32}, {"oncs", 16}, {"oacs", 16}} {
		name, bits := register.name, register.bits
		v, present := fields[name]
		n, isNumber := v.(json.Number)
		value, err := parseRegister(n.String(), bits)
		switch said, failed := fields["error"].(string); {
		case !present && failed:
			return Controller{}, invalid(command, "%s is missing; its error is %s", name, quoted(said))
		case !present || v == nil:
			return Controller{}, invalid(command, "%s is missing", name)
		case !isNumber || err != nil:
			return Controller{}, invalid(command, "%s is not a whole number of %d bits", name, bits)
		}
		registers[name] = value
	}
	serial, _ := fields["sn"].(string) // only shown
	return Controller{
		Serial:  oneLine(strings.TrimSpace(serial)),
		SANICAP: uint32(registers["sanicap"]), ONCS: uint16(registers["oncs"]), OACS: uint16(registers["oacs"]),
	}, nil
}

// parseRegister reads a register of this many bits. Versions 2.1 to 2.3 print one of 32 bits as
// a signed number.
func parseRegister(text string, bits int) (uint64, error) {
	if bits == 32 && strings.HasPrefix(text, "-") {
		n, err := strconv.ParseInt(text, 10, 32)
		return uint64(uint32(n)), err
	}
	return strconv.ParseUint(text, 10, bits)
}
