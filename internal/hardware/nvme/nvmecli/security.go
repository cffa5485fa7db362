package nvmecli

import (
	"bytes"
	"encoding/binary"
	"slices"
)

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

// ParseLevel0 reads a Level 0 Discovery answer, which Security Receive returns. A drive without the
// feature gives the zero Locking. Faults: tool_output_invalid.
func ParseLevel0(data []byte) (Locking, error) {
	const header, lockingFeature, blockSIDFeature = 48, 0x0002, 0x0402
	const what = "the Level 0 Discovery"
	var found Locking
	if len(data) < header {
		return Locking{}, invalid(what, "it has %d bytes", len(data))
	}
	// The length field does not count its own four bytes.
	length := uint64(binary.BigEndian.Uint32(data)) + 4
	if length < header || length > uint64(len(data)) {
		if len(bytes.Trim(data, "\x00")) == 0 { // this security protocol is not supported
			return Locking{}, nil
		}
		return Locking{}, invalid(what, "it says that it has %d bytes, and has %d", length, len(data))
	}
	for rest := data[header:length]; len(rest) > 0; {
		if len(rest) < 4 || len(rest) < 4+int(rest[3]) {
			return Locking{}, invalid(what, "a feature is cut short")
		}
		code, size := binary.BigEndian.Uint16(rest), int(rest[3])
		if (code == lockingFeature || code == blockSIDFeature) && size < 1 {
			return Locking{}, invalid(what, "the feature 0x%04x is empty", code)
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

// ParseHostMetadata reads one of the features 0x7d to 0x7f, and lists the types of its
// elements without duplicates (NVM Express Base Specification, Host Metadata). Faults: tool_output_invalid.
func ParseHostMetadata(data []byte) ([]uint8, error) {
	const header, descriptor = 2, 4
	const what = "host metadata"
	if len(data) < header {
		return nil, invalid(what, "it has %d bytes", len(data))
	}
	var types []uint8
	left := data[header:]
	for range data[0] {
		if len(left) < descriptor || len(left)-descriptor < int(binary.LittleEndian.Uint16(left[2:])) {
			return nil, invalid(what, "a metadata element is cut short")
		}
		types = append(types, left[0]&0x3f)
		left = left[descriptor+int(binary.LittleEndian.Uint16(left[2:])):]
	}
	slices.Sort(types)
	return slices.Compact(types), nil
}
