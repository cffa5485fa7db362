package device

import "slices"

// Model is what a policy knows of one model of PCI devices, and the kernel cannot tell: where
// its memory is, and how it may be reset.
type Model struct {
	// ID is vendor:device, four hexadecimal digits each in lower case.
	ID     string    `json:"model"`
	Memory Memory    `json:"memory"`
	Reset  ResetRule `json:"reset,omitzero"`
}

// Memory is where a PCI device keeps what a tenant writes. One of Size, Script and None is set.
type Memory struct {
	// BAR and Size: it is that region of the device, and this large.
	BAR  int   `json:"bar,omitempty"`
	Size int64 `json:"size,omitempty"`
	// Script is the operator's program that erases and verifies it.
	Script string `json:"script,omitempty"`
	// None: the device keeps nothing of a tenant's that a reset and its settings do not cover.
	None bool `json:"none,omitempty"`
}

// ResetRule says which way of a reset a model needs, or must never have.
type ResetRule struct {
	Require string   `json:"require,omitempty"`
	Forbid  []string `json:"forbid,omitempty"`
}

// Allows says whether the device may be reset in this way.
func (r ResetRule) Allows(way string) bool {
	return (r.Require == "" || r.Require == way) && !slices.Contains(r.Forbid, way)
}

// ResetWays are the ways to reset a PCI device, the strongest first: those after flr are in the
// order in which Linux tries them.
func ResetWays() []string {
	return []string{"slot", "bus", "flr", "device_specific", "acpi", "af_flr", "pm", "cxl_bus"}
}
