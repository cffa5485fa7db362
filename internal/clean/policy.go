package clean

import (
	"maps"
	"path"
	"slices"
	"strings"

	"burnish/internal/device"
)

// PolicyLists are the parts of a policy that are for some devices only. A plan takes from
// them what is for its device.
type PolicyLists struct {
	// BIOS gives attributes to set (bios_apply). Where several entries match a device, a
	// later one replaces the same attribute of an earlier one.
	BIOS []BIOSPolicy `json:"bios,omitempty"`
	// Firmware is the only firmware that may be written (firmware_reflash). Of several
	// entries for one component the first that matches counts.
	Firmware []FirmwarePolicy `json:"firmware,omitempty"`
	// Models are the models of PCI devices that may be cleaned, for the driver pci.
	Models []device.Model `json:"models,omitempty"`
	// Properties are profiles that servers must have (verify_properties); the first that
	// matches counts.
	Properties []PropertiesPolicy `json:"properties,omitempty"`
	// Golden are profiles of how servers are set up, by name; a server is enrolled with one.
	Golden map[string]device.Setup `json:"golden,omitempty"`
	// Coverage are items that servers' BMCs must offer.
	Coverage []CoveragePolicy `json:"require_covered,omitempty"`
	// Runbooks are in the order of their names. A device that two of them match has no plan.
	Runbooks []Runbook `json:"runbooks,omitempty"`
}

// Match chooses devices. Each field is a pattern with * and ?, in either case of letters;
// an empty one matches every device.
type Match struct {
	Type   string `json:"type,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
	Trait  string `json:"trait,omitempty"`
}

// BIOSPolicy is one entry of the BIOS policy. A value is text, a number or a boolean.
type BIOSPolicy struct {
	Match
	Settings map[string]any `json:"settings"`
}

// FirmwarePolicy is one entry of the firmware policy: the image that takes a component of
// these models from one of the versions to another.
type FirmwarePolicy struct {
	Match
	FirmwareImage
}

// FirmwareImage is one image. Component names what it is for, as the device's firmware
// inventory does, and may be empty where a device has only one. Image is a file on the
// device's host, SHA256 its digest in hexadecimal digits.
type FirmwareImage struct {
	Component string   `json:"component,omitempty"`
	From      []string `json:"from"`
	To        string   `json:"to"`
	Image     string   `json:"image"`
	SHA256    string   `json:"sha256"`
	// Rewrite is RewriteAlways where the image is written although its version runs already.
	Rewrite string `json:"rewrite,omitempty"`
}

// RewriteAlways is the only value of Rewrite.
const RewriteAlways = "always"

// FirmwareArgs are the arguments of firmware_reflash and verify_firmware.
type FirmwareArgs struct {
	Components []FirmwareImage `json:"components"`
}

// PropertiesPolicy is one profile. A zero field is not compared.
type PropertiesPolicy struct {
	Match
	Profile device.Properties `json:"profile"`
}

// CoveragePolicy names items of a device.Setup that must be covered on these servers.
type CoveragePolicy struct {
	Match
	Items []string `json:"items"`
}

// Matches says that the entry is for the device.
func (m Match) Matches(s Subject) bool {
	return matches(m.Type, s.Type) && matches(m.Vendor, s.Vendor) && matches(m.Model, s.Model) &&
		(m.Trait == "" || slices.ContainsFunc(s.Traits, func(trait string) bool { return matches(m.Trait, trait) }))
}

// Validate refuses a pattern that can never be matched with.
func (m Match) Validate() error {
	for _, pattern := range []string{m.Type, m.Vendor, m.Model, m.Trait} {
		if _, err := path.Match(pattern, ""); err != nil {
			return err
		}
	}
	return nil
}

// matches: a slash in a model is an ordinary character.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }
	ok, err := path.Match(plain(pattern), plain(text))
	return ok && err == nil
}

// BIOSOf gives the attributes that the policy sets on the device.
func (p PolicyLists) BIOSOf(s Subject) map[string]any {
	settings := map[string]any{}
	for _, entry := range p.BIOS {
		if entry.Matches(s) {
			maps.Copy(settings, entry.Settings)
		}
	}
	return settings
}

// FirmwareOf gives the images that the policy has for the device, at most one a component.
func (p PolicyLists) FirmwareOf(s Subject) []FirmwareImage {
	var images []FirmwareImage
	for _, entry := range p.Firmware {
		if entry.Matches(s) &&
			!slices.ContainsFunc(images, func(i FirmwareImage) bool { return i.Component == entry.Component }) {
			images = append(images, entry.FirmwareImage)
		}
	}
	return images
}

// PropertiesOf gives the profile that the device must have, and whether there is one.
func (p PolicyLists) PropertiesOf(s Subject) (device.Properties, bool) {
	for _, entry := range p.Properties {
		if entry.Matches(s) {
			return entry.Profile, true
		}
	}
	return device.Properties{}, false
}

// CoverageOf gives the items that must be covered on the device.
func (p PolicyLists) CoverageOf(s Subject) (items []string) {
	for _, entry := range p.Coverage {
		if entry.Matches(s) {
			items = append(items, entry.Items...)
		}
	}
	return items
}

// WithoutLists is the policy as a plan records it: what its lists have for the device stands
// in the steps' arguments.
func (p Policy) WithoutLists() Policy {
	p.PolicyLists = PolicyLists{}
	return p
}
