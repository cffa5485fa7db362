package contract

import (
	"encoding/json"
	"fmt"
	"strings"

	"burnish/internal/device"
)

// BoardInfo is what Cyborg's std_board_info says of a device: in JSON a string, which
// contains an object (S2.81).
type BoardInfo struct {
	// ProductID is the PCI device's number, or a server's SKU, PCIAddress where it is; "" for
	// other hardware. Both are always written.
	ProductID  string `json:"product_id,omitempty"`
	PCIAddress string `json:"pci_address,omitempty"`
	// Operation is the erase operation that was chosen for the device (S2.106).
	Operation device.Operation `json:"operation,omitempty"`
}

// boardObject is BoardInfo as an object.
type boardObject BoardInfo

// MarshalJSON writes the string, with the spaces that Python's json.dumps writes.
func (b BoardInfo) MarshalJSON() ([]byte, error) {
	var members []string
	for _, m := range [][2]string{{"product_id", b.ProductID}, {"pci_address", b.PCIAddress},
		{"operation", string(b.Operation)}} {
		if m[1] == "" && m[0] == "operation" {
			continue
		}
		value, err := json.Marshal(m[1])
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", m[0], err)
		}
		members = append(members, fmt.Sprintf("%q: %s", m[0], value))
	}
	return json.Marshal("{" + strings.Join(members, ", ") + "}")
}

// UnmarshalJSON reads the string.
func (b *BoardInfo) UnmarshalJSON(text []byte) error {
	var inner string
	err := json.Unmarshal(text, &inner)
	if err == nil {
		err = json.Unmarshal([]byte(inner), (*boardObject)(b))
	}
	if err != nil {
		return fmt.Errorf("std_board_info: %w", err)
	}
	return nil
}
