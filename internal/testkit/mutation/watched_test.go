package mutation

// watchedMutations take out what looks after a device while it is offered.
var watchedMutations = []mutation{
	{
		rule: "F39", name: "a bind asks the host",
		file: "workflows/lifecycle/binding.go",
		old:  `	return d.OwnedByBurnish() && !d.discovery.SeenLately(ctx)`,
		new:  `	return false`,
		pkg:  "./workflows/lifecycle", run: "TestOtherHardwareIsNotBound",
	},
	{
		rule: "F39", name: "a burn after a look is recorded before its write",
		file: "workflows/lifecycle/binding.go",
		old:  `	if asks {`,
		new:  `	if asks && false {`,
		pkg:  "./workflows/lifecycle", run: "TestABurnIsRecordedBeforeItsWrite",
	},
	{
		rule: "F39", name: "an unbind waits for the look of its bind",
		file: "workflows/lifecycle/binding.go",
		old:  `		if err := workflow.Await(ctx, func() bool { return d.asking == 0 }); err != nil {`,
		new:  `		if err := error(nil); err != nil {`,
		pkg:  "./workflows/lifecycle", run: "TestUnbindDuringALook",
	},
	{
		rule: "F39", name: "a look is recent for five seconds",
		file: "workflows/lifecycle/discovery/discovery.go",
		old:  `const recentLook = 5 * time.Second`,
		new:  `const recentLook = 5 * time.Hour`,
		pkg:  "./workflows/lifecycle", run: "TestABindIsAnsweredAfterALook",
	},
	{
		rule: "F39", name: "a look from before an event does not count",
		file: "workflows/lifecycle/signals.go",
		old:  `	s.SeenAt, s.Intent.HardwareChanged = time.Time{}, true`,
		new:  `	s.Intent.HardwareChanged = true`,
		pkg:  "./workflows/lifecycle", run: "TestABindIsAnsweredAfterALook",
	},
	{
		rule: "F39", name: "the host looks at once when hardware changes",
		file: "workflows/lifecycle/lifecycle.go",
		old:  `	case d.looksAtOnce() && !d.looking:`,
		new:  `	case false:`,
		pkg:  "./workflows/lifecycle", run: "TestTheHostLooksWhenHardwareChanges",
	},
	{
		rule: "F39", name: "others' writes to an offered device have it cleaned",
		file: "internal/device/observations.go",
		old:  `	{looks, in(Available), given(written, of(notBurning), of(notInMaintenance)), ObservedUnused, nil,`,
		new:  `	{looks, in(Available), given(written, of(notBurning), of(notInMaintenance)), "", nil,`,
		pkg:  "./workflows/lifecycle", run: "TestAWrittenDeviceIsCleanedBeforeItIsBound",
	},
	{
		rule: "F39", name: "each look compares the change mark",
		file: "activities/discover.go",
		old:  `		written = r.WrittenByOthers(d.Mark) && !in.Accept`,
		new:  `		written = false`,
		pkg:  "./activities", run: "TestEachLookFindsAForeignWrite",
	},
	{
		rule: "F39", name: "a look takes no mark that is not Burnish's",
		file: "activities/discover.go",
		old:  `		if d.Mark != "" && (r.OwnMark() == "" || in.Accept) {`,
		new:  `		if d.Mark != "" {`,
		pkg:  "./activities", run: "TestEachLookFindsAForeignWrite",
	},
	{
		rule: "F39", name: "what Burnish writes is recorded as its own",
		file: "activities/work.go",
		old:  `	if err == nil && a.step.Writes {`,
		new:  `	if false {`,
		pkg:  "./activities", run: "TestEachLookFindsAForeignWrite TestAMarkThatACrashLostCostsOneClean",
	},
	{
		rule: "F39", name: "the kernel's events reach their devices",
		file: "activities/offered.go",
		old:  `		if part != "" && (part == r.Address || `,
		new:  `		if part != "" && (`,
		pkg:  "./activities", run: "TestEventsReachTheirDevices",
	},
	{
		rule: "F39", name: "lost events are about every device",
		file: "activities/offered.go",
		old: `			e = uevent.Event{}
		case err != nil:`,
		new: `			continue
		case err != nil:`,
		pkg: "./activities", run: "TestEventsReachTheirDevices",
	},
	{
		rule: "F39", name: "offered devices are compared",
		file: "activities/offered.go",
		old:  `		changed = append(changed, name)`,
		new:  `		_ = changed`,
		pkg:  "./activities", run: "TestComparisonFindsWhatChanged",
	},
	{
		rule: "F39", name: "a comparison looks for others' writes",
		file: "activities/offered.go",
		old:  `err == nil && r.WrittenByOthers(now.Mark) {`,
		new:  `err == nil && r.WrittenByOthers(r.OwnMark()) {`,
		pkg:  "./activities", run: "TestComparisonFindsWhatChanged",
	},
	{
		rule: "F39", name: "a loop shows the writes to its file",
		file: "internal/hardware/block/device.go",
		old:  `		if mark, err = changeMark(ctx, v.image.fd, v.image.path); err != nil {`,
		new:  `		if mark, err = changeMark(ctx, -1, v.image.path); err != nil {`,
		pkg:  "./internal/hardware/block", run: "TestEachChangeHasAnotherMark",
	},
}
