package clean

import (
	"fmt"
	"slices"
	"time"

	"burnish/internal/device"
)

// The names of the steps (CONTRACTS, Steps).
const (
	StepSecurityCheck         = "security_check"
	StepWearCheck             = "wear_check"
	StepSanitize              = "sanitize"
	StepConsolidateNamespaces = "consolidate_namespaces"
	StepZero                  = "zero"
	StepEraseDevice           = "erase_device"
	StepVerify                = "verify"
	StepFirmwareReflash       = "firmware_reflash"
	StepPCIReset              = "pci_reset"
)

// Catalog describes every step that a plan may hold: the one place where a step's
// interface, phase, priority and use are said. internal/clean/steps joins a run function
// to each.
func Catalog() []Step {
	return []Step{
		{
			Name: StepSecurityCheck, Interface: "management", Phase: Prepare, Priority: 100, Version: 1, Abortable: true,
			Applies: isNVMe, Timeout: atLeast,
		},
		{
			Name: StepWearCheck, Interface: "management", Phase: Prepare, Priority: 95, Version: 1, Abortable: true,
			Applies: isNVMe, Timeout: atLeast,
		},
		{
			// A sanitize cannot be stopped once it runs; ending the step only stops
			// watching it, and the next clean follows it (S2.54).
			Name: StepSanitize, Interface: "deploy", Phase: Erase, Priority: 90, Version: 1, Abortable: true,
			Applies: func(s Subject) bool { return s.Operation.Sanitizes() }, Timeout: atTwiceItsEstimate,
		},
		{
			Name: StepConsolidateNamespaces, Interface: "deploy", Phase: Erase, Priority: 80, Version: 1, Abortable: true,
			Applies: consolidates, Timeout: atLeast,
		},
		{
			Name: StepZero, Interface: "deploy", Phase: Erase, Priority: 70, Version: 1, Abortable: true,
			Applies: func(s Subject) bool { return s.Operation.Overwrites() }, Timeout: atFloorRate,
		},
		{
			Name: StepEraseDevice, Interface: "vendor", Phase: Erase, Priority: 75, Version: 1, Abortable: true,
			Applies: func(s Subject) bool { return s.Operation == device.Script }, Timeout: atTwiceItsEstimate,
		},
		{
			Name: StepVerify, Interface: "deploy", Phase: Verify, Priority: 60, Version: 1, Abortable: true,
			Applies: func(s Subject) bool { return s.Operation != "" }, Timeout: verifyTime,
		},
		{
			// What is half written, or off its bus, must not be left so: this step and the
			// next go on when they are cancelled, and the clean's end waits for them.
			Name: StepFirmwareReflash, Interface: "firmware", Phase: Restore, Priority: 50, Version: 1, Abortable: false,
			Applies: offers(StepFirmwareReflash), Timeout: atLeast,
		},
		{
			Name: StepPCIReset, Interface: "power", Phase: Restore, Priority: 0, Version: 1, Abortable: false,
			Applies: offers(StepPCIReset), Timeout: atLeast,
		},
	}
}

// Describe gives the catalog's step of this name. A name that is not in the catalog
// gives a step that applies to nothing, which the tests of whoever asks must see.
func Describe(name string) Step {
	for _, step := range Catalog() {
		if step.Name == name {
			return step
		}
	}
	return Step{Name: name, Applies: func(Subject) bool { return false }, Timeout: atLeast}
}

// Versions gives the version of each step, by name: what a host knows that knows
// them all.
func Versions(steps []Step) map[string]int {
	versions := make(map[string]int, len(steps))
	for _, step := range steps {
		versions[step.Name] = step.Version
	}
	return versions
}

// isNVMe says that an NVMe controller can be asked.
func isNVMe(s Subject) bool { return s.NVMe }

// offers says that the device's driver has a way of its own to do the step.
func offers(step string) func(Subject) bool {
	return func(s Subject) bool { return slices.Contains(s.Offers, step) }
}

// consolidates says whether the namespaces may have to be put in order, and can be.
// Zeroes reach only what lies in a namespace: anything but one whole one is cut anew
// before it is zeroed (S2.57, SAFETY F17), and a layout that nobody knows may be
// anything. A sanitize reaches everything whatever the layout is, but where it leaves
// no namespace one is made.
func consolidates(s Subject) bool {
	if !s.Capabilities.ManageNamespaces {
		return false
	}
	if s.Operation.Sanitizes() {
		return s.Layout == device.LayoutNone || s.Layout == device.LayoutUnknown
	}
	return s.Operation.Overwrites() && s.Layout != device.LayoutWhole
}

// leastTime is what every step has at least (D5).
const leastTime = 900 * time.Second

func atLeast(Subject) time.Duration { return leastTime }

// atTwiceItsEstimate is the budget of an erase that the device does by itself: 900 s, or
// twice what it says that this takes where that is longer (D5).
func atTwiceItsEstimate(s Subject) time.Duration { return max(leastTime, 2*s.Estimate) }

// atFloorRate is the budget of a step that deals with the whole device: 900 s, or
// what 20 MB/s need where that is longer (D5).
func atFloorRate(s Subject) time.Duration {
	const floor = 20_000_000
	return max(leastTime, time.Duration(s.Size/floor)*time.Second)
}

// verifyTime is the budget of a verify: what reads the device has time by its size, a
// program by its own estimate.
func verifyTime(s Subject) time.Duration {
	if s.Operation == device.Script {
		return atTwiceItsEstimate(s)
	}
	return atFloorRate(s)
}

// Erasure is how one device will be erased: the policy's one operation and the steps
// of a full clean.
type Erasure struct {
	Operation device.Operation
	Steps     []Planned
}

// Erasure resolves the policy's operation for the device and plans its full clean:
// what is locked in at discovery. Faults: those of ErasePolicy.Resolve and of Full,
// and no_erase_path for a device without a namespace that can make none (SAFETY F17).
func (p *Planner) Erasure(policy ErasePolicy, s Subject) (Erasure, *device.Fault) {
	operation, fault := policy.Resolve(s.Capabilities)
	if fault != nil {
		return Erasure{}, fault
	}
	if s.Layout == device.LayoutNone && !s.Capabilities.ManageNamespaces {
		return Erasure{}, &device.Fault{
			Class: device.NeedsOperator, Code: device.CodeNoErasePath,
			Message: fmt.Sprintf("%s: the device has no namespace and cannot make one (OACS bit 3)", operation),
			Remedy:  "make one namespace of the full size with the vendor's tool, or retire the device",
		}
	}
	s.Operation = operation
	steps, fault := p.Full(s)
	if fault != nil {
		return Erasure{}, fault
	}
	return Erasure{Operation: operation, Steps: steps}, nil
}
