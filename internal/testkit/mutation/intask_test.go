package mutation

// inTaskMutations take out what keeps a call of the inventory in a workflow task right although
// the task may be lost.
var inTaskMutations = []mutation{
	{
		rule: "F4", name: "a call in a task that is made again finds its own write",
		file: "workflows/lifecycle/reservation/reservation.go",
		old:  `	in.EarlierWrites = 1`,
		new:  `	in.EarlierWrites = 0`,
		pkg:  "./workflows/lifecycle", run: "TestATaskIsLostAfterItsCall",
	},
	{
		rule: "F5", name: "a lost return is raised again by the abort that comes in its place",
		file: "internal/device/reserve.go",
		old:  `was.State != Cleaning || was.NamedSteps`,
		new:  `was.State != Cleaning || next.State == Error`,
		pkg:  "./workflows/lifecycle", run: "TestAnAbortAfterALostReturnIsReserved",
	},
	{
		rule: "F5", name: "a lost answer of the write that lowers is read, in a task too",
		file: "workflows/lifecycle/reservation/reservation.go",
		old:  `activity == contract.ActivityUnreserve || f == nil`,
		new:  `f == nil`,
		pkg:  "./workflows/lifecycle", run: "cites F5",
	},
	{
		rule: "F29", name: "no task waits for an inventory that is known to be away",
		file: "workflows/lifecycle/reservation/reservation.go",
		old:  `d.Waits(contract.WaitInventory) || d.Waits(contract.WaitReturn)`,
		new:  `d.Waits(contract.WaitReturn)`,
		pkg:  "./workflows/lifecycle", run: "TestAnInventoryThatIsAwayHoldsUpNoTask",
	},
	{
		rule: "S0.4", name: "a bind of a provider that records no instance is no call in a task",
		file: "workflows/lifecycle/reservation/observe.go",
		old: `	if !d.OwnedByBurnish() {
		reserve = d.call`,
		new: `	if d.State.Name == "" {
		reserve = d.call`,
		pkg: "./workflows/lifecycle", run: "TestABindOfNovasProviderIsAnActivity",
	},
	{
		rule: "S3.32", name: "a step that lasts is shown in the listing",
		file: "workflows/lifecycle/lifecycle.go",
		old: `	if !changed() {
		d.PublishStep(ctx)`,
		new: `	if changed() {
		d.PublishStep(ctx)`,
		pkg: "./workflows/lifecycle", run: "TestTheListingShowsAStepThatLasts",
	},
}
