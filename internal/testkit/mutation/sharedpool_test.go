package mutation

// sharedPoolMutations take out what keeps Burnish off servers of a shared pool that others
// have.
var sharedPoolMutations = []mutation{
	{
		rule: "S4.18", name: "a server that others have is not cleaned",
		file: "internal/device/poolobservations.go",
		old:  `{ask(AskPoolClean), in(PendingCleaning, Cleaning), given(of(notReturn), byOthers), LostRace, nil,`,
		new:  `{ask(AskPoolClean), in(PendingCleaning, Cleaning), given(of(notReturn), byOthers), "", does(Proceed),`,
		pkg:  "./internal/device", run: "TestATakenServerIsNotCleaned",
	},
	{
		rule: "S4.18", name: "a clean asks who has the server first",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old:  `prepared := false`,
		new:  `prepared := true`,
		pkg:  "./workflows/lifecycle", run: "TestOthersTakeTheServerBetweenAnyTwoCalls",
	},
	{
		rule: "S4.9", name: "only the appliance's own answer ends the maintenance",
		file: "workflows/lifecycle/sharedpool.go",
		old:  `o := d.pool.Observe(device.AskPool, found, nil)`,
		new: `found.Ownership = device.PoolFree
	o := d.pool.Observe(device.AskPool, found, nil)`,
		pkg: "./workflows/lifecycle", run: "TestPollsOnlyGiveHints",
	},
	{
		rule: "S4.19", name: "the state says that a profile is requested before it is",
		file: "workflows/lifecycle/pool/pool.go",
		old:  `p.Update(func(s *contract.PoolState) { s.Applying, s.Tag = true, "" })`,
		new:  `p.Update(func(*contract.PoolState) {})`,
		pkg:  "./workflows/lifecycle", run: "TestASharedServerHasAProfileOnlyWhileItIsUsed",
	},
	{
		rule: "S4.21", name: "the profile is removed before the server is offered",
		file: "workflows/lifecycle/sharedpool.go",
		old:  `func (d *run) returnToPool(ctx workflow.Context) error {`,
		new: `func (d *run) returnToPool(ctx workflow.Context) error {
	if d.State.Name != "" {
		return d.reservation.ReturnToPool(ctx)
	}`,
		pkg: "./workflows/lifecycle", run: "TestASharedServerHasAProfileOnlyWhileItIsUsed",
	},
	{
		rule: "S4.28", name: "what others free is cleaned",
		file: "internal/device/table.go",
		old:  `PendingCleaning, then(markDirty, clearTaken, awaitManualCleanIfOff)},`,
		new:  `noChange, then(markDirty, clearTaken)},`,
		pkg:  "./workflows/lifecycle", run: "TestPollsOnlyGiveHints",
	},
	{
		rule: "S4.28", name: "what the operator provides is cleaned, because others may have used it",
		file: "workflows/lifecycle/operations.go",
		old:  `	d.doubtShared(ctx)`,
		new:  ``,
		pkg:  "./workflows/lifecycle", run: "TestAProvidedSharedServerIsCleaned",
	},
	{
		rule: "S4.10", name: "the operator's maintenance outlasts what others do",
		file: "internal/device/table.go",
		old:  `when(maintenanceTaken, notMaintained), PendingCleaning`,
		new:  `when(maintenanceTaken), PendingCleaning`,
		pkg:  "./internal/device", run: "TestRequirements",
	},
	{
		rule: "S4.13", name: "no override accepts what others may still write",
		file: "internal/device/table.go",
		old:  `{in(Error), Override, when(notTaken), Cleaning,`,
		new:  `{in(Error), Override, nil, Cleaning,`,
		pkg:  "./workflows/lifecycle", run: "TestAServerThatOthersTookIsNotOverridden",
	},
	{
		rule: "S4.13", name: "a bind of a server that others have is refused",
		file: "internal/device/poolobservations.go",
		old:  `{ask(AskPoolBind), in(Available), given(byOthers, of(claimed)), LostRace, nil,`,
		new:  `{ask(AskPoolBind), in(Available), given(byOthers, of(claimed)), "", does(Proceed),`,
		pkg:  "./workflows/lifecycle", run: "TestABindOfATakenServer",
	},
	{
		rule: "S4.13", name: "a server that others took during the bind is not bound",
		file: "workflows/lifecycle/reservation/observe.go",
		old:  `if then != nil && err == nil && d.observe(asked, found).Event == device.Burned {`,
		new:  `if then != nil && err != nil && d.observe(asked, found).Event == device.Burned {`,
		pkg:  "./workflows/lifecycle", run: "TestASharedServerHasAProfileOnlyWhileItIsUsed",
	},
	{
		rule: "S4.26", name: "the power of a server that others have is not changed",
		file: "workflows/lifecycle/sharedpool.go",
		old:  `case found.Ownership == device.PoolTaken:`,
		new:  `case found.Ownership == "":`,
		pkg:  "./workflows/lifecycle", run: "TestPowerOfASharedServer",
	},
	{
		rule: "S4.36", name: "a server that is pre-allocated is not asked about",
		file: "workflows/lifecycle/pool/pool.go",
		old:  `return pool != nil && pool.Dynamic`,
		new:  `return pool != nil`,
		pkg:  "./workflows/lifecycle", run: "TestAPreAllocatedServerIsNotAsked",
	},
	{
		rule: "S4.21", name: "a server with a profile is not forgotten",
		file: "workflows/lifecycle/operations.go",
		old:  `if p := d.State.Pool; p == nil || !p.Abandoned {`,
		new:  `if p := d.State.Pool; p == nil {`,
		pkg:  "./workflows/lifecycle", run: "TestARetiredServerLeavesNoProfile",
	},
	{
		rule: "S4.28", name: "a server that was changed since its return is not bound",
		file: "internal/device/poolobservations.go",
		old:  `{ask(AskPoolBind), in(Available), given(notOthers, poolChanged, of(claimed), of(notBurning)), ObservedUnused, nil,`,
		new:  `{ask(AskPoolBind), in(Available), given(notOthers, poolChanged, of(claimed), of(notBurning)), "", does(Proceed),`,
		pkg:  "./workflows/lifecycle", run: "TestAServerUsedBetweenTwoPollsIsCleaned",
	},
	{
		rule: "S4.28", name: "the appliance's tag of a returned server is recorded",
		file: "workflows/lifecycle/sharedpool.go",
		old: `		d.pool.Update(func(s *contract.PoolState) { s.Tag = found.Tag })
		return d.reservation.ReturnToPool(ctx)`,
		new: `		return d.reservation.ReturnToPool(ctx)`,
		pkg: "./workflows/lifecycle", run: "TestAServerUsedBetweenTwoPollsIsCleaned",
	},
	{
		rule: "S4.28", name: "a poll sees that a server was changed since its return",
		file: "activities/polls.go",
		old:  `pool.ChangedBy(server.Tag))`,
		new:  `pool.ChangedBy(pool.Tag))`,
		pkg:  "./activities", run: "TestAPollSignalsTheDevicesThatDiffer",
	},
}
