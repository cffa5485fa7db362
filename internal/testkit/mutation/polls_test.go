package mutation

// pollMutations take out what keeps the polls of a shared pool from doing harm.
var pollMutations = []mutation{
	{
		rule: "S4.36", name: "a pre-allocated device is never signaled by a poll",
		file: "activities/polls.go",
		old:  `case pool == nil || !pool.Dynamic || pool.Appliance`,
		new:  `case pool == nil || pool.Appliance`,
		pkg:  "./activities", run: "TestAPollTouchesOnlyDynamicDevices",
	},
	{
		rule: "S4.17", name: "a poll signals no unchanged device",
		file: "activities/polls.go",
		old:  `!o.Needs(device.RequestRecheck) {`,
		new:  `o.Needs(device.RequestRecheck) && false {`,
		pkg:  "./activities", run: "TestAPollSignalsTheDevicesThatDiffer",
	},
	{
		rule: "S4.10", name: "a poll ends no maintenance for another reason",
		file: "activities/polls.go",
		old: `	case pool.Taken:
		d.Maintenance`,
		new: `	case true:
		d.Maintenance`,
		pkg: "./activities", run: "TestAPollSignalsTheDevicesThatDiffer",
	},
	{
		rule: "S4.16", name: "one device's error does not stop the round",
		file: "activities/polls.go",
		old:  `	if err := poll.compare(ctx, page.Servers); err != nil {`,
		new:  `	if err := poll.compare(ctx, page.Servers); err != nil || poll.out.Counts.Failed > 0 {`,
		pkg:  "./activities", run: "TestOneDevicesErrorDoesNotStopThePage",
	},
	{
		name: "a poll signals no device whose server has another URI",
		file: "activities/polls.go",
		old:  `if pool.Hardware != server.URI {`,
		new:  `if pool.Hardware == "" {`,
		pkg:  "./activities", run: "TestOneDevicesErrorDoesNotStopThePage",
	},
	{
		name: "a page that was not read changes nothing",
		file: "activities/polls.go",
		old: `	if err != nil {
		return contract.PollPageResult{}, err
	}
	poll.out.Next,`,
		new: `	_ = err
	poll.out.Next,`,
		pkg: "./activities", run: "TestAPageThatCannotBeRead",
	},
	{
		name: "a round with a page that was not read is not a good one",
		file: "workflows/oneview/oneview.go",
		old:  `	case r.Unread == 0:`,
		new:  `	case r.Unread < 9:`,
		pkg:  "./workflows/oneview", run: "TestAPageThatIsNotRead",
	},
	{
		rule: "S4.15", name: "an interval of 0 turns the polls off",
		file: "workflows/oneview/oneview.go",
		old:  `off := in.Interval != nil && s.Interval == 0;`,
		new:  `off := in.Interval != nil && s.Interval < 0;`,
		pkg:  "./workflows/oneview", run: "TestIntervalZeroIsOff",
	},
	{
		rule: "S4.15", name: "a worker that starts ends no round that was asked for",
		file: "workflows/oneview/oneview.go",
		old:  `	case before > 0:`,
		new:  `	case before >= 0:`,
		pkg:  "./workflows/oneview", run: "TestAWorkersStartEndsNoRoundThatWasAskedFor",
	},
}
