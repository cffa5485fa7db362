package steps

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
)

// This file holds the steps of whole servers, which their driver carries out. Each follows
// what an earlier attempt started, and a second run changes nothing that is right already.

// EraseDrives has a server's controllers erase each of its drives. The drives must be those
// that were enrolled. What a controller reports cannot be read back: the record says so.
func EraseDrives() Step {
	return Step{
		Step: clean.Step{
			Name: "erase_drives", Interface: "management", Phase: clean.Erase, Priority: 75, Version: 1,
			Applies: func(s clean.Subject) bool { return s.Operation == device.SecureErase }, Timeout: eraseDrivesBudget,
		},
		Writes: true,
		Run:    driverStep("erase_drives"),
	}
}

// VerifyFirmware compares the running firmware with what the firmware policy names.
func VerifyFirmware() Step {
	return Step{
		Step: clean.Step{
			Name: "verify_firmware", Interface: "firmware", Phase: clean.Restore, Priority: 45, Version: 1, Guards: true,
			Abortable: true,
			Applies:   supportedByDriver("verify_firmware"), Timeout: fixedBudget, FromPolicy: firmwareOf,
			Args: firmwareSchema, Combine: chooseComponent,
		},
		Run: driverStep("verify_firmware"),
	}
}

// BIOSReset sets the BIOS back to its defaults. It resets the server, and ends when the
// server has started and shows the defaults. A cancel does not interrupt it.
func BIOSReset() Step {
	return Step{
		Step: clean.Step{
			Name: "bios_reset", Interface: "bios", Phase: clean.Restore, Priority: 40, Version: 1,
			Applies: supportedByDriver("bios_reset"), Timeout: firmwareBudget,
		},
		Writes: true,
		Run:    driverStep("bios_reset"),
	}
}

// BIOSApply sets the BIOS attributes that the BIOS policy names. It resets the server, and
// ends when the server has started and shows them. A cancel does not interrupt it.
func BIOSApply() Step {
	return Step{
		Step: clean.Step{
			Name: "bios_apply", Interface: "bios", Phase: clean.Restore, Priority: 35, Version: 1,
			Applies: supportedByDriver("bios_apply"), Timeout: firmwareBudget, FromPolicy: biosOf,
			Args: clean.Schema{Open: "BIOS attributes, each with its value"},
		},
		Writes: true,
		Run:    driverStep("bios_apply"),
	}
}

// VerifyProperties compares what the server consists of with what was enrolled, or with the
// profile that the policy names for it (S3.5). It switches a server on that is off, and off
// again.
func VerifyProperties() Step {
	return Step{
		Step: clean.Step{
			Name: "verify_properties", Interface: "management", Phase: clean.Restore, Priority: 30, Version: 1, Abortable: true,
			Applies: supportedByDriver("verify_properties"), Timeout: firmwareBudget, FromPolicy: profileOf,
			Args: profileSchema,
		},
		Writes: true,
		Run:    driverStep("verify_properties"),
	}
}

// BootRestore has the server boot what it booted when it was enrolled. Like the two that follow it, it
// restarts the server where something differs, and they share the restart. A cancel does not interrupt it.
func BootRestore() Step { return restore("boot_restore", "bios", 38) }

// SecureBootRestore brings back Secure Boot: whether it is on, its mode and its keys.
func SecureBootRestore() Step { return restore("secure_boot_restore", "bios", 37) }

// TPMClear has the server's TPM cleared, after the drives, whose keys it may hold, were erased.
func TPMClear() Step { return restore("tpm_clear", "bios", 36) }

// BMCRestore takes away what a tenant has left on the server's BMC: accounts, keys, sessions,
// subscriptions, media; and sets its interfaces and protocols as they were enrolled.
func BMCRestore() Step { return restore("bmc_restore", "management", 32) }

// BMCReset sets the server's BMC back to its defaults. It is off until it has a priority; bmc_restore after it
// sets what it has changed as it was enrolled. A cancel does not interrupt it.
func BMCReset() Step {
	return Step{
		Step: clean.Step{
			Name: "bmc_reset", Interface: "management", Phase: clean.Restore, Priority: 0, Version: 1,
			Applies: supportedByDriver("bmc_reset"), Timeout: firmwareBudget,
		},
		Writes: true,
		Run:    driverStep("bmc_reset"),
	}
}

// restore is a step that brings a server back to how it was set up when it was enrolled, or to the golden
// profile of the policy.
func restore(name, iface string, priority float64) Step {
	return Step{
		Step: clean.Step{
			Name: name, Interface: iface, Phase: clean.Restore, Priority: priority, Version: 1,
			Applies: supportedByDriver(name), Timeout: firmwareBudget, FromPolicy: setupOf, Args: setupSchema,
		},
		Writes: true,
		Run:    driverStep(name),
	}
}

// setupOf gives the golden profile that the server was enrolled with, and what must be covered; without
// either, the step restores what was enrolled.
func setupOf(p clean.Policy, s clean.Subject) (args any, ok bool) {
	given := device.RestoreArgs{Golden: s.Golden, Setup: p.Golden[s.Golden], Require: p.CoverageOf(s)}
	if given.Golden == "" && len(given.Require) == 0 {
		return nil, true
	}
	return given, true
}

var setupSchema = clean.Schema{Args: []clean.Arg{
	{Name: "golden", Kind: clean.KindText, From: clean.PolicyOnly, About: "the profile that the server was enrolled with"},
	{Name: "setup", Kind: clean.KindObject, From: clean.PolicyOnly, About: "the items of that profile"},
	{Name: "require", Kind: clean.KindList, From: clean.PolicyOnly, About: "items that must be covered"},
}}

// firmwareBudget is the budget of a step that restarts a server or writes its firmware:
// a start takes up to ten minutes, an update of a BMC longer.
func firmwareBudget(s clean.Subject) time.Duration {
	if s.Operation == device.Script {
		return fixedBudget(s)
	}
	return 4 * minBudget
}

// eraseDrivesBudget is that of overwriting the largest drive at the floor rate.
func eraseDrivesBudget(s clean.Subject) time.Duration {
	largest := s
	for _, drive := range s.Properties.Drives {
		largest.Size = max(largest.Size, drive.CapacityBytes)
	}
	return max(bySize(largest), twiceTheEstimate(s))
}

// firmwareOf gives the images of the firmware policy for the device. The operator's program
// brings its own.
func firmwareOf(p clean.Policy, s clean.Subject) (args any, ok bool) {
	if s.Operation == device.Script {
		return nil, true
	}
	images := p.FirmwareOf(s)
	return clean.FirmwareArgs{Components: images}, len(images) > 0
}

// firmwareSchema: an operator chooses among the images of the policy, and brings none.
var firmwareSchema = clean.Schema{Args: []clean.Arg{
	{Name: "components", Kind: clean.KindList, From: clean.PolicyOnly, About: "the images of the firmware policy"},
	{Name: "component", Kind: clean.KindText, From: clean.Choice, About: "this component alone, of those in the firmware policy"},
}}

// chooseComponent narrows the images of the policy to those of one component.
func chooseComponent(fromPolicy any, given map[string]any) (any, error) {
	all, ok := fromPolicy.(clean.FirmwareArgs)
	if !ok {
		return nil, errors.New("the firmware policy has no image for this device")
	}
	wanted, _ := given["component"].(string)
	var chosen clean.FirmwareArgs
	var known []string
	for _, image := range all.Components {
		known = append(known, image.Component)
		if strings.EqualFold(image.Component, wanted) {
			chosen.Components = append(chosen.Components, image)
		}
	}
	if len(chosen.Components) == 0 {
		return nil, fmt.Errorf("the firmware policy has no image for component %q of this device; it has one for %s", wanted,
			strings.Join(known, ", "))
	}
	return chosen, nil
}

var profileSchema = clean.Schema{Args: []clean.Arg{
	{Name: "cpus", Kind: clean.KindInteger, From: clean.PolicyOnly, About: "sockets in use"},
	{Name: "cores", Kind: clean.KindInteger, From: clean.PolicyOnly, About: "cores of all CPUs"},
	{Name: "memory_mib", Kind: clean.KindInteger, From: clean.PolicyOnly, About: "memory"},
	{Name: "drives", Kind: clean.KindList, From: clean.PolicyOnly, About: "drives"},
	{Name: "links", Kind: clean.KindList, From: clean.PolicyOnly, About: "PCIe links"},
}}

func biosOf(p clean.Policy, s clean.Subject) (args any, ok bool) {
	settings := p.BIOSOf(s)
	return settings, len(settings) > 0
}

// profileOf gives the profile of the policy; without one, the step compares with what was
// enrolled.
func profileOf(p clean.Policy, s clean.Subject) (args any, ok bool) {
	profile, ok := p.PropertiesOf(s)
	if !ok {
		return nil, true
	}
	return profile, true
}
