package device

import (
	"encoding/json"
	"fmt"
)

// Properties are what a server consists of (S3.5). A zero field is unknown or, in a profile,
// not compared.
type Properties struct {
	// CPUs counts the sockets in use, Cores those of all CPUs together.
	CPUs      int     `json:"cpus,omitempty"`
	Cores     int     `json:"cores,omitempty"`
	MemoryMiB int64   `json:"memory_mib,omitempty"`
	Drives    []Drive `json:"drives,omitempty"`
	Links     []Link  `json:"links,omitempty"`
	// Facts are what the driver pci found of a PCI device, each under a name.
	Facts map[string]string `json:"facts,omitempty" yaml:"-"`
	// Setup is how the server was set up; a profile of properties has none.
	Setup Setup `json:"setup,omitempty" yaml:"-"`
}

// Drive is one drive of a server. Serial has no blanks around it.
type Drive struct {
	Serial        string `json:"serial,omitempty" yaml:"-"`
	Model         string `json:"model,omitempty"`
	CapacityBytes int64  `json:"capacity_bytes,omitempty"`
	Protocol      string `json:"protocol,omitempty"`
}

// Link is one PCIe device of a server: how many lanes it has, and of which generation
// ("Gen4").
type Link struct {
	Name  string `json:"name"`
	Width int    `json:"width,omitempty"`
	Speed string `json:"speed,omitempty"`
}

// Text gives the properties in the form of Identity.Properties.
func (p Properties) Text() (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// ParseProperties reads Identity.Properties; "" gives the zero Properties.
func ParseProperties(text string) (Properties, error) {
	var p Properties
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Properties{}, fmt.Errorf("the recorded properties are unreadable: %w", err)
	}
	return p, nil
}
