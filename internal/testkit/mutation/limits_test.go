package mutation

// limitsMutations take out what keeps a fleet within its limits, and what keeps the power of
// a device from being changed at the wrong time.
var limitsMutations = []mutation{
	{
		rule: "S3.38", name: "a clean keeps its slot over all its steps",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old:  `	defer d.giveBack(ctx, run)`,
		new:  `	d.giveBack(ctx, run)`,
		pkg:  "./workflows/lifecycle", run: "TestACleanKeepsItsSlotOverAllItsSteps",
	},
	{
		rule: "S3.38", name: "a clean keeps its slot on the host between its steps",
		file: "activities/work.go",
		old:  `if a.entry.Slot {`,
		new:  `if !a.entry.Slot {`,
		pkg:  "./activities", run: "TestACleanKeepsItsSlotOnTheHost",
	},
	{
		rule: "S3.38", name: "an open breaker holds the cleans that wait",
		file: "workflows/limits/queue.go",
		old:  `if b := &q.Breakers[i]; b.Open && b.Model == s.Model && slices.Contains(s.Steps, b.Step) {`,
		new:  `if b := &q.Breakers[i]; b.Open && b.Model == "" && slices.Contains(s.Steps, b.Step) {`,
		pkg:  "./workflows/limits", run: "TestTheBreakerHoldsTheOthersOfTheModel",
	},
	{
		rule: "S3.38", name: "an open breaker holds the step of a clean that runs",
		file: "workflows/lifecycle/cleaning/slot.go",
		old:  `	if !held(run, run.Next) {`,
		new:  `	if held(run, run.Next) {`,
		pkg:  "./workflows/lifecycle", run: "TestTheBreakerHolds",
	},
	{
		rule: "S3.38", name: "new firmware goes to one device first",
		file: "workflows/limits/queue.go",
		old:  `if first, ok := used.canaries[s.Model+"\n"+firmware]; ok {`,
		new:  `if first, ok := used.canaries[s.Model]; ok {`,
		pkg:  "./workflows/limits", run: "TestNewFirmwareGoesToOneDeviceFirst",
	},
	{
		rule: "S3.38", name: "a floor of free devices holds",
		file: "workflows/limits/queue.go",
		old:  `|| q.MayTake > 0 {`,
		new:  `|| q.MayTake >= 0 {`,
		pkg:  "./workflows/limits", run: "TestAFloorOfFreeCapacityHolds",
	},
	{
		rule: "S3.38", name: "the slot of a lost holder comes back",
		file: "workflows/limits/checks.go",
		old:  `for _, name := range found.Lost {`,
		new:  `for _, name := range found.Lost[:0] {`,
		pkg:  "./workflows/limits", run: "TestALostHoldersSlotComesBack",
	},
	{
		rule: "S3.28", name: "the power is not changed while a device is cleaned",
		file: "internal/device/table.go",
		old:  `{in(Manageable, Available, Allocated, Error, Retired), Power,`,
		new:  `{in(Manageable, Available, Allocated, Error, Retired, PendingCleaning, Cleaning), Power,`,
		pkg:  "./workflows/lifecycle", run: "TestPowerByState",
	},
	{
		rule: "S3.28", name: "a late change of the power is refused by the host",
		file: "activities/power.go",
		old:  `if found && (record.Seq > in.Seq ||`,
		new:  `if found && (`,
		pkg:  "./activities", run: "TestPowerOfADeviceThatTheHostKnowsBetter",
	},
	{
		rule: "S3.28", name: "a reset is sent once",
		file: "workflows/lifecycle/power.go",
		old:  `action == powerReset)`,
		new:  `action == powerOff)`,
		pkg:  "./workflows/lifecycle", run: "TestAResetIsSentOnce",
	},
}
