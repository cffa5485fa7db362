package mutation

// oneHoldMutations take out what makes a proof hold under one hold, and every way to hold count.
var oneHoldMutations = []mutation{
	{
		rule: "F37", name: "a step that only reads begins at the first byte in each attempt",
		file: "activities/admit.go",
		old:  `redone, offset = redone+offset, 0`,
		new:  `redone += offset`,
		pkg:  "./activities", run: "TestAVerifyProvesOnlyWhatItReadUnderOneHold",
	},
	{
		rule: "F37", name: "a verify passes over nothing that an earlier attempt has read",
		file: "internal/clean/steps/verify.go",
		old:  `for at := int64(0); at < size; at += step {`,
		new:  `for at := int64(0) + 64<<20; at < size; at += step {`,
		pkg:  "./internal/clean/steps", run: "TestAVerifyNeverResumes",
	},
	{
		rule: "F37", name: "a verify that was done and not reported is done again",
		file: "internal/host/journal.go",
		old:  `stored.Seq == want.Seq && stored.Done && !want.Reads:`,
		new:  `stored.Seq == want.Seq && stored.Done:`,
		pkg:  "./activities", run: "TestAVerifyProvesOnlyWhatItReadUnderOneHold",
	},
	{
		rule: "F37", name: "no step follows one that only reads",
		file: "activities/follow.go",
		old:  `a.in.Next == nil || !a.step.Writes {`,
		new:  `a.in.Next == nil {`,
		pkg:  "./activities", run: "TestAStepFollowsInTheActivity",
	},
	{
		rule: "F37", name: "the drive is asked once more after the last read of its evidence",
		file: "internal/clean/steps/verify.go",
		old: `	// Once more: what was written meanwhile, the reads may have missed (F37).
	if err := own.requireLast(ctx, drive); err != nil {`,
		new: `	if err := error(nil); err != nil {`,
		pkg: "./internal/clean/steps", run: "TestAVerifyOfASanitizeHoldsToItsEnd",
	},
	{
		rule: "F40", name: "a mapping counts as a descriptor does",
		file: "internal/hardware/users.go",
		old:  `		if a.mapped {`,
		new:  `		if a.mapped && dir == "" {`,
		pkg:  "./internal/hardware", run: "TestEveryWayToHoldIsFound TestMapsAreReadWithoutTheirLinks",
	},
	{
		rule: "F40", name: "a mapping that can become writable counts",
		file: "internal/hardware/users.go",
		old:  `query.flags |= shared`,
		new:  `query.flags |= shared | 1<<1`,
		pkg:  "./internal/hardware", run: "TestEveryWayToHoldIsFound",
	},
	{
		rule: "F40", name: "a registered file counts",
		file: "internal/hardware/users.go",
		old:  `case stat.Mode&unix.S_IFMT == 0 && s.registered(dir, each.Name()):`,
		new:  `case false:`,
		pkg:  "./internal/hardware", run: "TestEveryWayToHoldIsFound",
	},
	{
		rule: "F40", name: "a thread's own descriptors count",
		file: "internal/hardware/users.go",
		old:  `tid != pid && !(same(pid, tid, kcmpFiles) && same(pid, tid, kcmpVM))`,
		new:  `tid < 0`,
		pkg:  "./internal/hardware", run: "TestEveryWayToHoldIsFound",
	},
	{
		rule: "F40", name: "a mapped device is refused",
		file: "internal/hardware/block/claim.go",
		old:  `return "", hardware.Busy("%q is %s for writing by %s", path, found.How, found)`,
		new:  `return unseen, nil`,
		pkg:  "./internal/hardware/block", run: "TestRefusedAndNothingIsWritten/loop/mapped_for_writing",
	},
	{
		rule: "F40", name: "nodes for commands count",
		file: "internal/hardware/block/device.go",
		old:  `return slices.Contains(passing, number)`,
		new:  `return false`,
		pkg:  "./internal/hardware/block", run: "TestAnOpenNodeForCommandsIsAUse",
	},
	{
		rule: "F40", name: "a process that reaches a PCI device past its driver is refused",
		file: "internal/hardware/script/pcidevice.go",
		old:  `c.notSeen = unseen; found != nil {`,
		new:  `c.notSeen = unseen; false {`,
		pkg:  "./internal/hardware/script", run: "TestUnsupportedDevicesAreRefused",
	},
	{
		rule: "F40", name: "the record says what was not seen",
		file: "activities/work.go",
		old:  `unseen != "" {`,
		new:  `unseen == "none" {`,
		pkg:  "./activities", run: "TestTheRecordSaysWhatWasNotSeen",
	},
	{
		rule: "F40", name: "another process namespace is not taken for seen",
		file: "internal/hardware/users.go",
		old:  `err == nil && space != firstNamespace {`,
		new:  `err == nil && space == "" {`,
		pkg:  "./internal/hardware", run: "TestWhatIsNotSeen",
	},
}
