package steps

import "burnish/internal/clean"

// All lists every step that this build knows. It is the only list: the planner, the
// activities and the host's worker take their steps from it.
func All() List {
	return List{
		SecurityCheck(),
		WearCheck(),
		Sanitize(),
		ConsolidateNamespaces(),
		Zero(),
		EraseDevice(),
		EraseDrives(),
		Verify(),
		FirmwareReflash(),
		VerifyFirmware(),
		BIOSReset(),
		BootRestore(),
		SecureBootRestore(),
		TPMClear(),
		BIOSApply(),
		BMCRestore(),
		VerifyProperties(),
		BMCReset(),
		PCIReset(),
	}
}

// List is a list of steps.
type List []Step

// Planning gives what the planner needs of each step.
func (l List) Planning() []clean.Step {
	planning := make([]clean.Step, len(l))
	for i, step := range l {
		planning[i] = step.Step
	}
	return planning
}

// Versions gives the version of each step by its name: what a host reports that knows
// all of them.
func (l List) Versions() map[string]int {
	versions := make(map[string]int, len(l))
	for _, step := range l {
		versions[step.Name] = step.Version
	}
	return versions
}
