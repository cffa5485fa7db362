package device

// Identity is what one physical device is known by, as the host saw it at
// enrollment (SAFETY F11, F14). Every destructive step compares it again, on the
// descriptor that it writes through. Sizes are bytes.
type Identity struct {
	Serial string `json:"serial,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	// Product is the PCI device's number, four hexadecimal digits.
	Product string `json:"product,omitempty"`
	// MAC is a NIC's own, in lower case, where it has one: what its guest sees, unless the
	// hypervisor gives it another.
	MAC      string `json:"mac,omitempty"`
	Model    string `json:"model,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	// Subsystem is the name of an NVMe device's subsystem (SUBNQN).
	Subsystem string `json:"subsystem,omitempty"`
	// Size is what a tenant can address when the device is in order, Capacity what the
	// whole device has, where it says so, and BlockSize that of its blocks.
	Size      int64 `json:"size"`
	Capacity  int64 `json:"capacity,omitempty"`
	BlockSize int64 `json:"block_size,omitempty"`
	// Given is the path as the operator wrote it, Path the one that it resolved to
	// at enrollment; only Path is ever opened.
	Given string `json:"given,omitempty"`
	Path  string `json:"path,omitempty"`
	// Device and Inode identify a regular file, also where a loop device shows it.
	// Of a disk Device is the number that it had when it was enrolled: the kernel gives
	// numbers as it finds disks, so that it proves nothing (measured: a partition table
	// on one drive renumbered the next).
	Device uint64 `json:"device,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	// Properties is what a server consisted of when it was enrolled: a Properties as JSON,
	// so that identities can be compared. A later discovery keeps it.
	Properties string `json:"properties,omitempty"`
}

// Differs names the first field in which other is another device, or "" where it
// is the same one. Firmware, MAC, BlockSize and Given may change on one device and do not
// count (a NIC's tools can write another MAC); a step compares Properties.
func (i Identity) Differs(other Identity) string {
	switch {
	case i.Serial != other.Serial:
		return "serial"
	case i.Vendor != other.Vendor:
		return "vendor"
	case i.Model != other.Model:
		return "model"
	case i.Product != other.Product:
		return "product"
	case i.Subsystem != other.Subsystem:
		return "subsystem"
	case i.Size != other.Size:
		return "size"
	case i.Capacity != other.Capacity:
		return "capacity"
	case i.Path != other.Path:
		return "path"
	case i.Device != other.Device && (i.Inode != 0 || other.Inode != 0):
		return "device"
	case i.Inode != other.Inode:
		return "inode"
	}
	return ""
}

// SameHardware says that other is the same hardware, in whatever slot. Without a serial
// that cannot be known.
func (i Identity) SameHardware(other Identity) bool {
	i.Path, i.Device, i.Inode = other.Path, other.Device, other.Inode
	return i.Serial != "" && i.Differs(other) == ""
}

// MismatchCode is the fault of a device that differs in a field which Differs named: with
// another serial it is other hardware (D10).
func MismatchCode(field string) Code {
	if field == "serial" {
		return CodeSerialMismatch
	}
	return CodeIdentityChanged
}

// Operation is the one way in which a device's data is erased, locked in at
// discovery (S2.26).
type Operation string

// The operations, in the order in which the policy auto prefers them (S2.16); Script, the
// operator's own program, is never the policy's to choose (S0.31).
const (
	CryptoErase Operation = "crypto_erase"
	BlockErase  Operation = "block_erase"
	WriteZeroes Operation = "write_zeroes"
	Shred       Operation = "shred"
	Script      Operation = "script"
	// SecureErase: a server's controllers erase its drives, over Redfish.
	SecureErase Operation = "secure_erase"
)
