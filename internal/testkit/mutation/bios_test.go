package mutation

// biosMutations take out what a change of a server's BIOS, and the comparison of what the server
// consists of, must not lose.
var biosMutations = []mutation{
	{
		name: "the BIOS is read back only when no BIOS job is left",
		file: "internal/hardware/redfish/biosstep.go",
		old: `		if len(b.state.jobs) == 0 {
			return nil`,
		new: `		if b.state != nil {
			return nil`,
		pkg: "./internal/hardware/redfish", run: "TestBIOSIsReadBackWhenNoJobIsLeft",
	},
	{
		name: "a step of the BIOS waits for the end of POST",
		file: "internal/hardware/redfish/biosstep.go",
		old:  `		if err := b.waitForStart(ctx, before); err != nil {`,
		new:  `		if err := ctx.Err(); before != nil && err != nil {`,
		pkg:  "./internal/hardware/redfish", run: "TestBIOSResetSaysWhatItHasCompared",
	},
	{
		name: "that an iLO has found its drives is not the end of POST",
		file: "internal/hardware/redfish/biosstep.go",
		old:  `	return hpe == nil || hpe.PostState != "InPostDiscoveryComplete"`,
		new:  `	return hpe == nil || hpe.PostState != ""`,
		pkg:  "./internal/hardware/redfish", run: "TestBIOSWaitsWhereTheEndOfPOSTIsNotShown",
	},
	{
		name: "BIOS settings are sent with their apply time",
		file: "internal/hardware/redfish/biosdecide.go",
		old: `		"@Redfish.SettingsApplyTime": map[string]any{"@odata.type": "#Settings.v1_3_0.PreferredApplyTime", "ApplyTime": "OnReset"},
`,
		new: ``,
		pkg: "./internal/hardware/redfish", run: "TestBIOSApplyAlwaysSendsTheApplyTime",
	},
	{
		name: "all wanted BIOS settings are sent, also what the BIOS shows already",
		file: "internal/hardware/redfish/biosdecide.go",
		old: `	all := maps.Clone(wanted)
`,
		new: `	all := maps.Clone(wanted)
	maps.DeleteFunc(all, func(name string, v any) bool { return sameValue(s.bios.Attributes[name], v) })
`,
		pkg: "./internal/hardware/redfish", run: "TestBIOSApplyHoldsThroughAPendingReset",
	},
	{
		name: "a reset of the BIOS is compared with the registry's defaults",
		file: "internal/hardware/redfish/biosvalues.go",
		old:  `		if !sameValue(current[name], want) {`,
		new:  `		if !sameValue(want, want) {`,
		pkg:  "./internal/hardware/redfish", run: "TestBIOSResetIsNoSuccessByItsAnswer",
	},
	{
		name: "BIOS settings are compared with the registry before they are sent",
		file: "internal/hardware/redfish/biosvalues.go",
		old:  `	return v, entry.checkValue(v)`,
		new:  `	return v, nil`,
		pkg:  "./internal/hardware/redfish", run: "TestBIOSApplyRefusesBeforeItSends",
	},
	{
		rule: "F20", name: "what a tenant wants of the BIOS is removed before its reset",
		file: "internal/hardware/redfish/biosdecide.go",
		old: `	if m, ok := s.removal(refused); ok {
		return m, nil
	}
	target :=`,
		new: `	target :=`,
		pkg: "./internal/hardware/redfish", run: "TestBIOSResetRemovesWhatATenantWants",
	},
	{
		name: "what is pending already is taken back before it is asked for",
		file: "internal/hardware/redfish/biosdecide.go",
		old: `	if m, ok := s.removal(refused); ok {
		return m, nil
	}
	if s.settingsBIOS.Actions.Oem.ClearPending.Target != "" && len(pending) > 0 {`,
		new: `	if len(pending) < 0 {`,
		pkg: "./internal/hardware/redfish", run: "TestBIOSApplyOfWhatIsPendingAlready",
	},
	{
		rule: "F20", name: "another's BIOS job is not taken for ours",
		file: "internal/hardware/redfish/biosdecide.go",
		old:  `		if s.jobsAreOurs(wanted) {`,
		new:  `		if wanted != nil {`,
		pkg:  "./internal/hardware/redfish", run: "TestBIOSApplyDoesNotCarryOutWhatATenantWants",
	},
	{
		name: "the BIOS is reset once more after another's settings came into force with the defaults",
		file: "internal/hardware/redfish/biosstep.go",
		old:  `	case len(differ) > 0 && b.rec.Stale && !b.rec.Again:`,
		new:  `	case len(differ) < 0:`,
		pkg:  "./internal/hardware/redfish", run: "TestBIOSResetIsAskedForAgainAfterAnothersJob",
	},
	{
		name: "a server that a step of the BIOS has found off is off in the end",
		file: "internal/hardware/redfish/biosstep.go",
		old:  `	if b.rec.FoundOff {`,
		new:  `	if false {`,
		pkg:  "./internal/hardware/redfish", run: "TestBIOSResetIsInterruptedEverywhere/off",
	},
	{
		name: "a difference in what a server consists of is a fault",
		file: "internal/hardware/redfish/properties.go",
		old:  `	if differ := propertiesDiffer(want, is); len(differ) > 0 {`,
		new:  `	if differ := propertiesDiffer(want, is); len(differ) < 0 {`,
		pkg:  "./internal/hardware/redfish", run: "TestADifferenceInPropertiesIsAFault",
	},
}
