// Package planning says what a planner must know of a device. The device's workflow and the
// clients take it from here, so that both plan alike.
package planning

import (
	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Subject is the planner's input for an enrolled device, as its host last discovered it. The
// layout stays unknown: a tenant may have changed it since.
func Subject(e contract.Enrollment, found contract.DiscoveryResult) clean.Subject {
	in := clean.Subject{
		Name: e.Name, Type: e.Type, Operation: found.Operation,
		Vendor: found.Identity.Vendor, Model: found.Identity.Model, Traits: Traits(e, found),
		Size: found.Identity.Size, HostSteps: found.Steps,
		Estimate: found.Estimates[found.Operation], SupportedSteps: found.SupportedSteps,
		Priorities: found.Priorities,
		Golden:     e.Settings[device.SettingGolden], Labels: e.Labels,
	}
	if p, err := device.ParseProperties(found.Identity.Properties); err == nil {
		in.Properties = p // the driver refuses unreadable ones
	}
	if can := found.Capabilities; can != nil {
		in.NVMe, in.Capabilities = true, *can
	}
	return in
}

// Traits are the traits that Burnish reports of the device.
func Traits(e contract.Enrollment, found contract.DiscoveryResult) []string {
	traits := []string{"OWNER_CYBORG"} // D12
	if can := found.Capabilities; can != nil {
		traits = append(traits, can.Traits()...) // S2.15
	}
	if e.OneTimeUse {
		traits = append(traits, "HW_PCI_ONE_TIME_USE")
	}
	return traits
}
