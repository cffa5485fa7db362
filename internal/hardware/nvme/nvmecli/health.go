package nvmecli

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
	// PowerOnHours is the largest number if larger than 64 bits.
	PowerOnHours uint64
}

// LogSize is the size of the log pages that are read, in bytes.
const LogSize = 512

// ParseHealth reads the SMART / Health Information log page. Faults: tool_output_invalid.
func ParseHealth(data []byte) (Health, error) {
	p, err := pageOf("the SMART log", data, LogSize)
	if err != nil {
		return Health{}, err
	}
	return Health{
		CriticalWarning: p[0], AvailableSpare: p[3], SpareThreshold: p[4], PercentUsed: p[5],
		PowerOnHours: p.counter(128),
	}, nil
}

// Firmware is the Firmware Slot Information log page (03h).
type Firmware struct {
	// Active is the slot that the running revision was loaded from: AFI bits 2:0.
	Active int
	// Next is the slot that the next reset activates: AFI bits 6:4; 0 if none is staged
	// (F20).
	Next int
	// Revisions is the firmware in each slot that has some. The running revision is
	// Controller.Firmware.
	Revisions map[int]string
}

// ParseFirmware reads the Firmware Slot Information log page. Faults: tool_output_invalid.
func ParseFirmware(data []byte) (Firmware, error) {
	p, err := pageOf("the firmware slot log", data, LogSize)
	if err != nil {
		return Firmware{}, err
	}
	f := Firmware{Active: int(p[0] & 7), Next: int(p[0] >> 4 & 7), Revisions: map[int]string{}}
	const slots, width = 7, 8
	for slot := 1; slot <= slots; slot++ {
		if revision := p.text(width*slot, width); revision != "" {
			f.Revisions[slot] = revision
		}
	}
	return f, nil
}
