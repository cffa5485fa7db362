package mutation

// offerMutations take out what keeps hardware from being offered unseen or in use.
var offerMutations = []mutation{
	{
		rule: "F27", name: "the host looks before the reservation is lowered",
		file: "workflows/lifecycle/reservation/pool.go",
		old:  `if !d.State.Device.Unseen && workflow.Now(ctx).Sub(*at) <= maxLookAge {`,
		new:  `if d.State.Device.Unseen = false; true {`,
		pkg:  "./workflows/lifecycle", run: "TestReturnedWithoutACleanOnlyIfSeen TestALateReturnLooksAgain",
	},
	{
		rule: "F27", name: "a device that left the pool clean is provided only if its host saw it",
		file: "internal/device/table.go",
		old:  `{in(Manageable), Provide, when(clean, seen), Cleaning, then(startReturn)},`,
		new:  `{in(Manageable), Provide, when(clean), Cleaning, then(startReturn, markSeen)},`,
		pkg:  "./internal/device", run: "TestRequirements TestProofs",
	},
	{
		rule: "F27", name: "provide asks the host",
		file: "workflows/lifecycle/operations.go",
		old:  `if f, _ := d.discovery.BeforeOffer(ctx); f != nil && f.Code != device.CodeForeignWrite {`,
		new: `var f *device.Fault
		if d.State.Device.Unseen = false; f != nil {`,
		pkg: "./workflows/lifecycle", run: "TestSwappedHardwareIsNotOffered",
	},
	{
		rule: "F27", name: "the end of maintenance asks the host",
		file: "workflows/lifecycle/reservation/pool.go",
		old:  `if f, _ := d.discovery.BeforeOffer(ctx); f != nil {`,
		new: `var f *device.Fault
		if d.State.Device.Unseen = false; f != nil {`,
		pkg: "./workflows/lifecycle", run: "TestSwappedHardwareIsNotOffered",
	},
	{
		rule: "F27", name: "a failed look takes the device out of the pool",
		file: "internal/device/observations.go",
		old:  `given(lookFailed, of(notBurning), of(notInMaintenance)), LookFailed, nil,`,
		new:  `given(lookFailed, of(notBurning), of(notInMaintenance)), "", nil,`,
		pkg:  "./workflows/lifecycle", run: "TestAFailedLookTakesTheDeviceOutOfThePool",
	},
	{
		rule: "F27", name: "a moved device is dirty",
		file: "workflows/lifecycle/relocate.go",
		old:  `state.Device.Dirty, state.Device.Unseen = true, true`,
		new:  `state.Device.Unseen = false`,
		pkg:  "./workflows/lifecycle", run: "TestAMovedDeviceIsDirty",
	},
	{
		rule: "F28", name: "a generation of Nova's that nothing explains is a use",
		file: "internal/device/observe.go",
		old:  `ours := d.Owner != OwnerNova || d.State == Available`,
		new:  `ours := d.Owner != OwnerNova || d.State == Available && d.InMaintenance()`,
		pkg:  "./workflows/lifecycle", run: "TestUsedAndFreedBetweenTwoReads",
	},
	{
		rule: "F28", name: "a read that failed explains no generation",
		file: "workflows/lifecycle/reservation/reservation.go",
		old:  `d.State.GenerationUncertain || activity != contract.ActivityReadReservation`,
		new:  `true`,
		pkg:  "./workflows/lifecycle", run: "TestListedGenerationAfterAFailedRead",
	},
	{
		rule: "F28", name: "a use after our own write is no part of it",
		file: "internal/device/facts.go",
		old:  `(s.Inventory.Used > 0 || s.Inventory.Generation <= s.Known.Generation+1)`,
		new:  `true`,
		pkg:  "./workflows/lifecycle", run: "TestUsedAfterALostAnswer",
	},
	{
		rule: "F30", name: "a device that left its return is reserved again",
		file: "internal/device/observations.go",
		old:  `given(isNot(missing, "not for a missing provider")), "", todo(reserveIt),`,
		new:  `given(isNot(missing, "not for a missing provider")), "", nil,`,
		pkg:  "./workflows/lifecycle", run: "TestRetiredDuringTheReturnIsReserved",
	},
	{
		rule: "F30", name: "unbind looks at a burn of its own instance",
		file: "workflows/lifecycle/binding.go",
		old:  `claimed := d.claimedFor(in.Instance)`,
		new:  `claimed := false`,
		pkg:  "./workflows/lifecycle", run: "TestUnbindDuringItsOwnBurn TestUnbindEndsAClaim",
	},
	{
		rule: "F31", name: "a binding is not ended without its instance",
		file: "workflows/lifecycle/operations.go",
		old:  `if err := d.checkTenant(contract.VerbRetire.Update(), in); err != nil {`,
		new:  `if err := d.checkTenant(contract.VerbRetire.Update(), in); false {`,
		pkg:  "./workflows/lifecycle", run: "TestRetireNamesTheTenant",
	},
	{
		rule: "F31", name: "manage and retire ask whom the inventory records",
		file: "workflows/lifecycle/bindingguard.go",
		old:  `if err := d.checkRecorded(ctx, verb, named); err != nil {`,
		new:  `if err := d.checkRecorded(ctx, verb, named); false {`,
		pkg:  "./workflows/lifecycle", run: "TestManageAndRetireNameTheRecordedTenant",
	},
	{
		rule: "F31", name: "the inventory's record of an instance is not destroyed without naming it",
		file: "workflows/lifecycle/bindingguard.go",
		old: `	return d.nameInstance(verb, named, has)
}

// withdraw`,
		new: `	return d.nameInstance(verb, has, has)
}

// withdraw`,
		pkg: "./workflows/lifecycle", run: "TestRetireNamesTheTenant TestReplaceAndMoveNameTheRecordedTenant",
	},
	{
		rule: "F28", name: "a device is clean only with the provider that its clean reserved",
		file: "workflows/lifecycle/reservation/pool.go",
		old:  `			s.Generation, s.Provider = generation, provider`,
		new:  `			_, _ = generation, provider`,
		pkg:  "./workflows/lifecycle", run: "TestProviderRecreatedDuringACleanInMaintenance",
	},
}
