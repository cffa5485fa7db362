package steps

// All lists every step that this build knows.
func All() []Step {
	return []Step{
		SecurityCheck(),
		WearCheck(),
		Sanitize(),
		ConsolidateNamespaces(),
		Zero(),
		EraseDevice(),
		Verify(),
		FirmwareReflash(),
		PCIReset(),
	}
}
