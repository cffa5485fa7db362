package nvmecli

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Health is the SMART / Health Information log page (02h).
type Health struct {
	// CriticalWarning bit 0: spare below threshold, 1: temperature, 2: reliability
	// degraded, 3: read only, 4: backup of volatile memory failed, 5: persistent memory
	// region unreliable.
	CriticalWarning uint8
	// AvailableSpare and SpareThreshold are percentages of the original spare capacity.
	AvailableSpare, SpareThreshold uint8
	// PercentUsed is the vendor's estimate of wear. It can exceed 100, up to 255.
	PercentUsed uint8
	// Kelvin is the composite temperature; 0 if not reported.
	Kelvin uint16
	// The following are 0 if not reported, and the largest number if larger than 64 bits.
	// DataUnitsRead and DataUnitsWritten count units of 1000 times 512 bytes.
	DataUnitsRead, DataUnitsWritten          uint64
	ReadCommands, WriteCommands, BusyMinutes uint64
	PowerCycles, PowerOnHours                uint64
	UnsafeShutdowns, MediaErrors, Errors     uint64
}

// ParseHealth reads the output of `nvme smart-log -o json`. Warning, spare, threshold and
// wear must be present, so that a worn device is not taken for a good one. Faults:
// tool_output_invalid.
func ParseHealth(output []byte) (Health, error) {
	r := read("smart-log", output)
	h := Health{
		AvailableSpare: uint8(r.uint("avail_spare", 8)), SpareThreshold: uint8(r.uint("spare_thresh", 8)),
		PercentUsed:   uint8(r.uint("percent_used", 8)),
		Kelvin:        uint16(r.optionalUint("temperature", 16)),
		DataUnitsRead: r.counter("data_units_read"), DataUnitsWritten: r.counter("data_units_written"),
		ReadCommands: r.counter("host_read_commands"), WriteCommands: r.counter("host_write_commands"),
		BusyMinutes: r.counter("controller_busy_time"), PowerCycles: r.counter("power_cycles"),
		PowerOnHours: r.counter("power_on_hours"), UnsafeShutdowns: r.counter("unsafe_shutdowns"),
		MediaErrors: r.counter("media_errors"), Errors: r.counter("num_err_log_entries"),
	}
	warning := r.required("critical_warning")
	if object, ok := warning.(map[string]any); ok {
		// 2.11 and 2.12 print the byte's bits, and beside them the whole value.
		if warning, ok = object["value"]; !ok {
			r.fail("critical_warning has no value")
		}
	}
	if r.fault == nil {
		h.CriticalWarning = uint8(r.number("critical_warning", warning, 8))
	}
	if err := r.err(); err != nil {
		return Health{}, err
	}
	return h, nil
}

// Firmware is the Firmware Slot Information log page (03h).
type Firmware struct {
	// Active is the slot that the running revision was loaded from: AFI bits 2:0.
	Active int
	// Next is the slot that the next reset activates: AFI bits 6:4; 0 if none is staged
	// (F20).
	Next int
	// Revisions is the firmware in each slot. The running revision is Controller.Firmware.
	Revisions map[int]string
}

const (
	afi  = "Active Firmware Slot (afi)"
	slot = "Firmware Rev Slot "
)

// ParseFirmware reads the output of `nvme fw-log -o json`. Faults: tool_output_invalid.
func ParseFirmware(output []byte) (Firmware, error) {
	r := read("fw-log", output).device(afi)
	info := r.uint(afi, 8)
	f := Firmware{Active: int(info & 7), Next: int(info >> 4 & 7), Revisions: map[int]string{}}
	for key, v := range r.fields {
		name, ok := strings.CutPrefix(key, slot)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > 7 || len(name) != 1 {
			r.fail("there is no slot %s", quoted(name))
			break
		}
		// "2314885530819505713 (1.0.....)": the number holds all eight bytes; in the
		// parentheses spaces became dots.
		number := v
		if text, ok := v.(string); ok {
			number, _, _ = strings.Cut(text, " ")
		}
		var raw [8]byte
		binary.LittleEndian.PutUint64(raw[:], r.number(key, number, 64))
		f.Revisions[n] = oneLine(strings.TrimRight(string(raw[:]), " \x00"))
	}
	if err := r.err(); err != nil {
		return Firmware{}, err
	}
	return f, nil
}
