package nvmecli

import "burnish/internal/device"

// Controller is the output of `nvme id-ctrl`: the Identify Controller data structure (NVM
// Express Base Specification, Identify command, CNS 01h). Text is without padding, and
// empty if a version does not print it.
type Controller struct {
	Vendor    uint16 // VID, the PCI vendor
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
	// FNA bit 2 is crypto erase by format.
	FNA uint8
	// FirmwareSlots is FRMW.
	FirmwareSlots uint8
	// FirmwareUnit is FWUG, the unit of downloads in 4 KiB: 0 not reported, 0xff any.
	FirmwareUnit uint8
	// Namespaces is NN, the highest possible namespace number, not the number of
	// namespaces.
	Namespaces uint32
	// Capacity is TNVMCAP, Unallocated UNVMCAP, in bytes; 0 if not reported.
	Capacity, Unallocated uint64
}

// ParseController reads the output of `nvme id-ctrl -o json`. SANICAP, ONCS and OACS must be
// present, so that no capability is guessed. Faults: tool_output_invalid.
func ParseController(output []byte) (Controller, error) {
	r := read("id-ctrl", output)
	c := Controller{
		SANICAP: uint32(r.uint("sanicap", 32)), ONCS: uint16(r.uint("oncs", 16)), OACS: uint16(r.uint("oacs", 16)),
		Vendor: uint16(r.optionalUint("vid", 16)), ID: uint16(r.optionalUint("cntlid", 16)), CMIC: uint8(r.optionalUint("cmic", 8)),
		FNA: uint8(r.optionalUint("fna", 8)), FirmwareSlots: uint8(r.optionalUint("frmw", 8)), FirmwareUnit: uint8(r.optionalUint("fwug", 8)), Namespaces: uint32(r.optionalUint("nn", 32)),
		Serial: r.text("sn"), Model: r.text("mn"), Firmware: r.text("fr"), Subsystem: r.text("subnqn"),
		Capacity: r.optionalUint("tnvmcap", 64), Unallocated: r.optionalUint("unvmcap", 64),
	}
	if err := r.err(); err != nil {
		return Controller{}, err
	}
	return c, nil
}

// Capabilities are those for erasing, as the controller reports them (S2.11 to S2.14).
func (c Controller) Capabilities() device.Capabilities {
	return device.Capabilities{
		CryptoErase: c.SANICAP&(1<<0) != 0, BlockErase: c.SANICAP&(1<<1) != 0,
		WriteZeroes: c.ONCS&(1<<3) != 0, ManageNamespaces: c.OACS&(1<<3) != 0,
	}
}
