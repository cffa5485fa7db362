package nvmecli

import "burnish/internal/device"

// Controller is the Identify Controller data structure (NVM Express Base Specification,
// Identify command, CNS 01h). Text is without padding.
type Controller struct {
	Serial    string // SN
	Model     string // MN
	Firmware  string // FR: the running revision
	Subsystem string // SUBNQN
	// ID is CNTLID, needed to attach a namespace.
	ID uint16
	// CMIC bit 1: the subsystem may have a second controller (F12).
	CMIC uint8
	// OACS bit 1 is format, bit 2 firmware, bit 3 namespace management.
	OACS uint16
	// ONCS bit 3 is Write Zeroes.
	ONCS uint16
	// SANICAP bit 0 is crypto erase, bit 1 block erase, bit 2 overwrite.
	SANICAP uint32
	// FirmwareSlots is FRMW.
	FirmwareSlots uint8
	// FirmwareUnit is FWUG, the unit of downloads in 4 KiB: 0 not reported, 0xff any.
	FirmwareUnit uint8
	// Capacity is TNVMCAP, Unallocated UNVMCAP, in bytes; 0 if not reported, and the largest
	// number if larger than 64 bits.
	Capacity, Unallocated uint64
}

// IdentifySize is the size of each of Identify's data structures, in bytes.
const IdentifySize = 4096

// ParseController reads Identify Controller. Faults: tool_output_invalid.
func ParseController(data []byte) (Controller, error) {
	p, err := pageOf("Identify Controller", data, IdentifySize)
	if err != nil {
		return Controller{}, err
	}
	return Controller{
		Serial: p.text(4, 20), Model: p.text(24, 40), Firmware: p.text(64, 8),
		CMIC: p[76], ID: p.u16(78),
		OACS: p.u16(256), FirmwareSlots: p[260], Capacity: p.counter(280), Unallocated: p.counter(296),
		FirmwareUnit: p[319], SANICAP: p.u32(328),
		ONCS: p.u16(520), Subsystem: p.text(768, 256),
	}, nil
}

// Capabilities are those for erasing, as the controller reports them (S2.11 to S2.14).
func (c Controller) Capabilities() device.Capabilities {
	return device.Capabilities{
		CryptoErase: c.SANICAP&(1<<0) != 0, BlockErase: c.SANICAP&(1<<1) != 0,
		WriteZeroes: c.ONCS&(1<<3) != 0, ManageNamespaces: c.OACS&(1<<3) != 0,
	}
}

// ParseControllerList reads a list of the subsystem's controllers, their IDs. A full list is a
// fault. Faults: tool_output_invalid.
func ParseControllerList(data []byte) ([]uint16, error) {
	p, err := pageOf("the list of controllers", data, IdentifySize)
	if err != nil {
		return nil, err
	}
	const size, most = 2, 2047
	count := int(p.u16(0))
	if count >= most {
		return nil, invalid("the list of controllers", "it has %d controllers, and there may be more", count)
	}
	ids := make([]uint16, 0, count)
	for i := range count {
		ids = append(ids, p.u16(size+size*i))
	}
	return ids, nil
}
