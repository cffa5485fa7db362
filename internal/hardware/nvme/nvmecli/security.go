package nvmecli

import (
	"bytes"
	"encoding/binary"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// ParseControllerList reads the output of `nvme list-ctrl -o json`: the IDs of the
// subsystem's controllers. A full list is a fault. Faults: tool_output_invalid.
func ParseControllerList(output []byte) ([]uint16, error) {
	const most = 2047
	r := read("list-ctrl", output)
	list, ok := r.required("ctrl_list").([]any)
	if !ok {
		r.fail("ctrl_list is not a list")
	}
	if len(list) >= most {
		r.fail("it lists %d controllers, and there may be more", len(list))
	}
	ids := make([]uint16, 0, len(list))
	for _, item := range list {
		if r.fault != nil {
			break
		}
		if fields, ok := item.(map[string]any); ok {
			item = fields["ctrl_id"]
		}
		ids = append(ids, uint16(r.number("ctrl_id", item, 16)))
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return ids, nil
}

// Locking is what a Level 0 Discovery says about locks: the Locking feature (TCG Storage
// Architecture Core Specification, feature 0002h) and the SID value state (TCG Storage Feature
// Set: Block SID Authentication, feature 0402h).
type Locking struct {
	// Supported: the drive can be locked. Enabled: locking was activated, and the drive has
	// an owner. Locked: a range cannot be read or written now. ShadowMBR: at start the
	// drive shows other content than its own.
	Supported, Enabled, Locked, ShadowMBR bool
	// Owned: the drive reports that its owner's password (SID) is no longer the one that it
	// was made with: somebody has taken ownership, and can lock it. OwnerKnown: the drive
	// reports that at all.
	Owned, OwnerKnown bool
}

// ParseLevel0 reads a Level 0 Discovery answer, as `nvme security-recv --raw-binary` prints
// it. A drive without the feature gives the zero Locking. Faults: tool_output_invalid.
func ParseLevel0(output []byte) (Locking, error) {
	const header, lockingFeature, blockSIDFeature = 48, 0x0002, 0x0402
	var found Locking
	r := &reader{command: "security-recv"}
	if len(output) < header {
		r.fail("%d bytes are not a Level 0 Discovery", len(output))
		return Locking{}, r.err()
	}
	// The length field does not count its own four bytes.
	length := uint64(binary.BigEndian.Uint32(output)) + 4
	if length < header || length > uint64(len(output)) {
		if len(bytes.Trim(output, "\x00")) == 0 { // this security protocol is not supported
			return Locking{}, nil
		}
		r.fail("a Level 0 Discovery of %d bytes in %d", length, len(output))
		return Locking{}, r.err()
	}
	for rest := output[header:length]; len(rest) > 0; {
		if len(rest) < 4 || len(rest) < 4+int(rest[3]) {
			r.fail("a feature is cut short")
			return Locking{}, r.err()
		}
		code, size := binary.BigEndian.Uint16(rest), int(rest[3])
		if (code == lockingFeature || code == blockSIDFeature) && size < 1 {
			r.fail("the feature 0x%04x is empty", code)
			return Locking{}, r.err()
		}
		switch code {
		case lockingFeature:
			flags := rest[4]
			const supported, enabled, locked, mbrEnabled = 1 << 0, 1 << 1, 1 << 2, 1 << 4
			found.Supported, found.Enabled = flags&supported != 0, flags&enabled != 0
			found.Locked, found.ShadowMBR = flags&locked != 0, flags&mbrEnabled != 0
		case blockSIDFeature:
			const differs = 1 << 0
			found.OwnerKnown, found.Owned = true, rest[4]&differs != 0
		}
		rest = rest[4+size:]
	}
	return found, nil
}

// ParseHostMetadata reads one of the features 0x7d to 0x7f, as `nvme get-feature
// --raw-binary` prints it, and lists the types of its elements without duplicates (NVMe Base
// Specification, Host Metadata). Faults: tool_output_invalid.
func ParseHostMetadata(output []byte) ([]uint8, error) {
	const header, descriptor = 2, 4
	r := &reader{command: "get-feature"}
	if len(output) < header {
		r.fail("%d bytes are not host metadata", len(output))
		return nil, r.err()
	}
	var types []uint8
	left := output[header:]
	for range output[0] {
		if len(left) < descriptor || len(left)-descriptor < int(binary.LittleEndian.Uint16(left[2:])) {
			r.fail("a metadata element is cut short")
			return nil, r.err()
		}
		types = append(types, left[0]&0x3f)
		left = left[descriptor+int(binary.LittleEndian.Uint16(left[2:])):]
	}
	slices.Sort(types)
	return slices.Compact(types), nil
}

var featureValue = regexp.MustCompile(`(?i)value:\s*(0x[0-9a-f]{1,8}|[0-9]{1,10})\s*$`)

// ParseFeature reads the value from the first line that `nvme get-feature` prints. Faults:
// tool_output_invalid.
func ParseFeature(output []byte) (uint32, error) {
	r := &reader{command: "get-feature"}
	if len(output) > MaxOutput {
		r.fail("more than %d bytes of output", MaxOutput)
		return 0, r.err()
	}
	line := firstLine.Find(output)
	found := featureValue.FindSubmatch(line)
	if found == nil {
		r.fail("no value in %s", quoted(string(line)))
		return 0, r.err()
	}
	n, err := strconv.ParseUint(string(found[1]), 0, 64)
	if err != nil || n > math.MaxUint32 {
		r.fail("%s is not a valid value", quoted(string(found[1])))
		return 0, r.err()
	}
	return uint32(n), nil
}

var firstLine = regexp.MustCompile(`(?m)^.*\S.*$`)
