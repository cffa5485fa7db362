package nvmecli

import (
	"math"
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
	// CDW10 is SCDW10, command dword 10 of the sanitize that the status describes.
	CDW10 uint32
	// The controller's estimate of each operation's duration, or NoEstimate.
	BlockErase, CryptoErase time.Duration
	// State is SANS, the sanitize state. 5 is media verification, which must be left before
	// anything else.
	State uint8
}

// ParseSanitizeLog reads the Sanitize Status log page. A status that the specification does
// not define is a fault. Faults: tool_output_invalid.
func ParseSanitizeLog(data []byte) (SanitizeLog, error) {
	p, err := pageOf("the sanitize status log", data, LogSize)
	if err != nil {
		return SanitizeLog{}, err
	}
	const status, globalErased, state = 7, 1 << 8, 7
	l := SanitizeLog{
		Progress: p.u16(0), Status: SanitizeStatus(p.u16(2) & status), GlobalErased: p.u16(2)&globalErased != 0,
		CDW10: p.u32(4), BlockErase: p.estimate(12), CryptoErase: p.estimate(16), State: p[36] & state,
	}
	if l.Status > SanitizeDoneNoDealloc {
		return SanitizeLog{}, invalid("the sanitize status log", "status %d is not defined", l.Status)
	}
	return l, nil
}

// estimate reads a time in seconds. All bits set is NoEstimate.
func (p page) estimate(at int) time.Duration {
	if p.u32(at) == math.MaxUint32 {
		return NoEstimate
	}
	return time.Duration(p.u32(at)) * time.Second
}
