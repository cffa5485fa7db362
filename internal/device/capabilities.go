package device

// Capabilities is what a device can do about the data on it, as its own controller
// says. The zero value can do nothing by itself: it can only be written over. A bit
// may lie (a controller that advertises namespace management may refuse it), so a
// capability is never a proof that something was done.
type Capabilities struct {
	// CryptoErase: SANICAP bit 0, the sanitize operation crypto erase (S2.11).
	CryptoErase bool `json:"crypto_erase,omitempty"`
	// BlockErase: SANICAP bit 1, the sanitize operation block erase (S2.12).
	BlockErase bool `json:"block_erase,omitempty"`
	// WriteZeroes: ONCS bit 3, the command Write Zeroes (S2.13).
	WriteZeroes bool `json:"write_zeroes,omitempty"`
	// ManageNamespaces: OACS bit 3, namespaces can be deleted and created (S2.14).
	ManageNamespaces bool `json:"manage_namespaces,omitempty"`
}

// The traits of NVMe devices, as os-traits names them.
const (
	TraitCryptoErase = "HW_NVME_CES"
	TraitBlockErase  = "HW_NVME_BES"
	TraitWriteZeroes = "HW_NVME_WZS"
)

// Traits gives the traits of what the device can do, whatever the policy makes of it
// (S2.15), in the order CES, BES, WZS; namespace management has none (S2.14). It is
// empty, not nil, where there are none.
func (c Capabilities) Traits() []string {
	traits := []string{}
	for _, t := range []struct {
		has  bool
		name string
	}{{c.CryptoErase, TraitCryptoErase}, {c.BlockErase, TraitBlockErase}, {c.WriteZeroes, TraitWriteZeroes}} {
		if t.has {
			traits = append(traits, t.name)
		}
	}
	return traits
}

// Supports says whether a device with these capabilities can be erased by o. Every
// device can be written over (S2.24).
func (c Capabilities) Supports(o Operation) bool {
	switch o {
	case CryptoErase:
		return c.CryptoErase
	case BlockErase:
		return c.BlockErase
	case WriteZeroes:
		return c.WriteZeroes
	case Shred:
		return true
	}
	return false
}

// Layout says how a device is cut into namespaces, as far as it is known.
type Layout string

// The layouts.
const (
	// LayoutUnknown: the host has not looked, or a tenant may have changed it since.
	LayoutUnknown Layout = ""
	// LayoutNone: there is no namespace.
	LayoutNone Layout = "none"
	// LayoutWhole: one namespace of the NVM command set has the whole device, in the
	// enrolled LBA format, and none is allocated beside it (SAFETY F17).
	LayoutWhole Layout = "whole"
	// LayoutSplit: anything else.
	LayoutSplit Layout = "split"
)

// Sanitizes says that the controller erases the device by itself, all of it, whatever
// its namespaces are.
func (o Operation) Sanitizes() bool { return o == CryptoErase || o == BlockErase }

// Overwrites says that the device is erased by zeroes over what a host can address.
func (o Operation) Overwrites() bool { return o == WriteZeroes || o == Shred }

// WearLimits say from when on a device is worn out and goes to no tenant any more
// (S0.32). The zero value are the device's own limits: 100 percent of its life, and
// its own threshold for spare capacity.
type WearLimits struct {
	// PercentUsed is the most of its life that may be used, in percent.
	PercentUsed int `json:"percent_used,omitempty"`
	// Spare is the least spare capacity, in percent.
	Spare int `json:"avail_spare,omitempty"`
}
