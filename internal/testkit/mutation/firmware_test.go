package mutation

// firmwareMutations take out what an update of a drive's firmware must not lose.
var firmwareMutations = []mutation{
	{
		name: "at its target a drive gets no firmware",
		file: "internal/hardware/nvme/firmware.go",
		old: `	if r.c.id.Firmware == r.want.To {
		if resumed {`,
		new: `	if r.c.id.Firmware == "" {
		if resumed {`,
		pkg: "./internal/hardware/nvme", run: "TestFirmwareIsReflashed/at_its_target",
	},
	{
		name: "after a crash a commit is settled by reading, and not repeated",
		file: "internal/hardware/nvme/firmware.go",
		old:  `	case resumed && r.Stage == committing:`,
		new:  `	case resumed && r.Stage == "":`,
		pkg:  "./internal/hardware/nvme", run: "TestReflashSurvivesACrashAnywhere/record",
	},
	{
		name: "after a lost answer a commit is settled by reading, and not repeated",
		file: "internal/hardware/nvme/firmware.go",
		old: `	if err := r.settle(slots); err != nil {
		return err
	}
	if r.Stage == committed {`,
		new: `	if r.Stage == committed {`,
		pkg: "./internal/hardware/nvme", run: "TestReflashSurvivesACrashAnywhere/command.*0x10_after_true",
	},
	{
		name: "a commit that reading does not settle is not repeated",
		file: "internal/hardware/nvme/firmware.go",
		old:  `	case before != r.To && same(slots, r.Before):`,
		new:  `	case before != r.To || true:`,
		pkg:  "./internal/hardware/nvme", run: "TestReflashThatReadingDoesNotSettle/the_slot_had_it",
	},
	{
		name: "one clean sends at most two commits to a drive",
		file: "internal/hardware/nvme/firmware.go",
		old:  `	if r.Commits >= maxCommits {`,
		new:  `	if r.Commits > maxCommits {`,
		pkg:  "./internal/hardware/nvme", run: "TestReflashThatReadingDoesNotSettle/lost_every_time",
	},
	{
		name: "an image has the digest that the policy names",
		file: "internal/hardware/nvme/firmware.go",
		old:  `	if digest != r.want.digest {`,
		new:  `	if digest != r.want.digest && digest == r.want.digest {`,
		pkg:  "./internal/hardware/nvme", run: "TestFirmwareImageMustHaveThePolicysDigest/other_bytes",
	},
	{
		name: "the digest is that of the bytes that the drive gets",
		file: "internal/hardware/nvme/privileged/image.go",
		old:  `	if have != digest {`,
		new:  `	if have != digest && have == digest {`,
		pkg:  "./internal/hardware/nvme/privileged", run: "TestTheHelperChecksTheImage",
	},
	{
		name: "bytes that can still change are not sent",
		file: "internal/hardware/nvme/privileged/image.go",
		old:  `err != nil || seals&ImageSeals != ImageSeals {`,
		new:  `err != nil && seals&ImageSeals != ImageSeals {`,
		pkg:  "./internal/hardware/nvme/privileged", run: "TestTheHelperChecksTheImage",
	},
	{
		name: "a version that is not on the list is not replaced",
		file: "internal/hardware/nvme/firmware.go",
		old:  `	if !slices.Contains(r.want.From, running) {`,
		new:  `	if !slices.Contains(r.want.From, running) && running == "" {`,
		pkg:  "./internal/hardware/nvme", run: "TestFirmwareIsReflashed/runs_another_version",
	},
	{
		name: "the slot of the running firmware is not overwritten where another can be",
		file: "internal/hardware/nvme/firmware.go",
		old:  `			rank = 1`,
		new:  `			rank = 5`,
		pkg:  "./internal/hardware/nvme", run: "TestFirmwareIsReflashed/(activated|slot_1)",
	},
	{
		name: "a drive is not reset while something else is staged",
		file: "internal/hardware/nvme/firmwarereset.go",
		old:  `(slots.Next == 0 || slots.Revisions[slots.Next] == u.To)`,
		new:  `slots.Next >= 0`,
		pkg:  "./internal/hardware/nvme", run: "TestDriveIsNotResetWhileSomethingElseIsStaged",
	},
	{
		name: "a device's own erase policy comes first",
		file: "workflows/lifecycle/discovery/discovery.go",
		old:  `planner.Policy().NVMe.For(action, strategy).Resolve(can)`,
		new:  `planner.Policy().NVMe.For(action[:0], strategy[:0]).Resolve(can)`,
		pkg:  "./workflows/lifecycle", run: "TestADevicesOwnErasePolicyComesFirst",
	},
	{
		name: "a tag that resembles a criterion is refused",
		file: "internal/host/rulesfile.go",
		old:  `like := resembles(key); like != "" {`,
		new:  `like := resembles(key); like == "-" {`,
		pkg:  "./internal/host", run: "TestErasePolicyAndTagsAreKeysOfAnEntry",
	},
	{
		name: "the version that a step gave a device is enrolled with its result",
		file: "workflows/lifecycle/cleaning/results.go",
		old:  `	if result.Firmware != "" {`,
		new:  `	if result.Firmware == "-" {`,
		pkg:  "./workflows/lifecycle", run: "TestANewFirmwareVersionIsEnrolledBeforeTheDriveIsOffered",
	},
	{
		rule: "F20", name: "staged firmware is accepted only from Burnish itself",
		file: "internal/hardware/nvme/secure.go",
		old:  `next != "" && next == c.reflashed,`,
		new:  `next != "",`,
		pkg:  "./internal/hardware/nvme", run: "TestFirmwareIsReflashed/a_tenant",
	},
	{
		rule: "F20", name: "the host's record of a reflash ends with the next binding",
		file: "internal/host/record.go",
		old:  `if r.Serial != serial || r.Binding != binding {`,
		new:  `if r.Serial != serial {`,
		pkg:  "./activities", run: "TestReflashIsRecordedUntilTheNextBinding",
	},
}
