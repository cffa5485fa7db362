package mutation

// lostMutations take out what protects a device whose workflow was lost or put back.
var lostMutations = []mutation{
	{
		rule: "F24", name: "an unknown device without a record is not cleaned",
		file: "internal/device/observations.go",
		old:  `given(unused, of(unbound), noHold, recordedFree), ObservedUnused`,
		new:  `given(unused, of(unbound), noHold), ObservedUnused`,
		pkg:  "./workflows/lifecycle", run: "TestRecovery_EnrolledAgainByHand",
	},
	{
		rule: "F24", name: "a recorded instance has the device, whatever the workflow remembers",
		file: "internal/device/facts.go",
		old:  `allOf("in use", answered, anyOf("", allocatedBy, recordedUse))`,
		new:  `allOf("in use", answered, anyOf("", allocatedBy))`,
		pkg:  "./workflows/lifecycle", run: "TestPutBackToBeforeTheBind",
	},
	{
		rule: "F24", name: "the record of a later bind ends the binding of an older memory",
		file: "internal/device/table.go",
		old:  `d.Owner == OwnerSelf && !e.Recorded:`,
		new:  `d.Owner == OwnerSelf:`,
		pkg:  "./workflows/lifecycle", run: "TestPutBackToBeforeTheBind",
	},
	{
		rule: "F24", name: "an unknown device believes its record and not the instance that it remembers as gone",
		file: "internal/device/facts.go",
		old:  `case d.State == Unknown || !i.HeldBy(k.Left):`,
		new:  `case !i.HeldBy(k.Left):`,
		pkg:  "./internal/device", run: "TestObservationLaws",
	},
	{
		rule: "F24", name: "a bound device is recorded again",
		file: "internal/device/observations.go",
		old:  `boundHere, notExposed, tenantMissing), "", todo(reserveIt),`,
		new:  `boundHere, notExposed, tenantMissing), "", nil,`,
		pkg:  "./workflows/lifecycle", run: "TestTheRecordOfABoundDeviceIsWrittenAgain",
	},
	{
		rule: "F25", name: "a run that ended earlier does not end a younger binding",
		file: "internal/device/table.go",
		old:  `return d.Binding != nil && e.BoundSince }`,
		new:  `return d.Binding != nil && e.BoundSince && d.State == Absent }`,
		pkg:  "./workflows/lifecycle", run: "TestInvalidatedKeepsTheInstance",
	},
	{
		rule: "F25", name: "a recall reads failed runs",
		file: "workflows/client/list.go",
		old:  `'TimedOut', 'Failed', 'Completed')`,
		new:  `'TimedOut', 'Completed')`,
		pkg:  "./activities", run: "TestFindPreviousRun",
	},
	{
		rule: "F25", name: "a state of a newer schema does not end its workflow",
		file: "workflows/calls/schema.go",
		old:  `if schema > known {`,
		new:  `if schema > contract.Schema && subject == "" {`,
		pkg:  "./workflows/lifecycle", run: "TestState_OfANewerSchemaWaits",
	},
	{
		rule: "F25", name: "a host that was away reads what it must forget",
		file: "activities/recovery.go",
		old:  `	if err := r.forgetLeft(ctx, h); err != nil {`,
		new:  `	if err := ctx.Err(); err != nil {`,
		pkg:  "./activities", run: "TestHostStartForgetsWhatWasLeft",
	},
	{
		rule: "F25", name: "a device that is forgotten while its host is away leaves its name",
		file: "workflows/lifecycle/discovery/discovery.go",
		old: `	err := workflow.ExecuteActivity(opts, contract.ActivityForget, in).Get(opts, nil)
	if err == nil {`,
		new: `	err := workflow.ExecuteActivity(opts, contract.ActivityForget, in).Get(opts, nil)
	if err == nil || e.Name != "" {`,
		pkg: "./workflows/lifecycle", run: "TestForgottenWhileItsHostIsAway",
	},
	{
		rule: "F24", name: "a host brings back a device without a workflow",
		file: "activities/recovery.go",
		old: `		if record.Forgotten {
			return nil
		}
		if published`,
		new: `		if record.Forgotten || record.Seq > 0 {
			return nil
		}
		if published`,
		pkg: "./activities", run: "TestRecoverLost",
	},
	{
		rule: "F24", name: "the record of a later clean ends a binding that an older history has",
		file: "internal/device/observations.go",
		old:  `of(bound), recordedEnd, noHold), BindingEnded, nil,`,
		new:  `of(bound), recordedEnd, noHold), ObservedUnused, nil,`,
		pkg:  "./internal/testkit/explorer", run: "TestExploreEverything",
	},
	{
		rule: "F28", name: "a use that ends right after a lowering is not lost",
		file: "internal/device/observations.go",
		old:  `given(of(returning), lowered, inUse), ObservedInUse, todo(reserveOpen),`,
		new:  `given(of(returning), lowered, inUse), Returned, does(ReadAgain),`,
		pkg:  "./internal/testkit/explorer", run: "TestExploreEverything",
	},
	{
		rule: "F24", name: "what a retired device's provider records stays unexplained",
		file: "internal/device/observe.go",
		old:  `if d.State == Retired && d.Owner != OwnerNova && i.Witness`,
		new:  `if false && i.Witness`,
		pkg:  "./internal/device", run: "TestTheRecordOfARetiredDeviceStaysUnexplained",
	},
	{
		rule: "F24", name: "a lost history leaves it open whose profile is on a shared server",
		file: "workflows/lifecycle/record/record.go",
		old:  `		doubted.Applying = true`,
		new:  `		doubted.Applying = s.Pool != nil && s.Pool.Applying`,
		pkg:  "./workflows/lifecycle", run: "TestPutBackToBeforeTheProfileWasApplied TestARecoveredTenantsServerKeepsItsProfile",
	},
	{
		rule: "F24", name: "the profile of a tenant whose server's history was lost is recorded again",
		file: "workflows/lifecycle/sharedpool.go",
		old:  `		return d.pool.Applying()`,
		new:  `		return false`,
		pkg:  "./workflows/lifecycle", run: "TestARecoveredTenantsServerKeepsItsProfile",
	},
	{
		rule: "F24", name: "the host's record has the pool of a server, which is asked after its workflow was lost",
		file: "activities/discover.go",
		old:  `OneTimeUse: r.OneTimeUse, Pool: (*contract.Pool)(r.Pool),`,
		new:  `OneTimeUse: r.OneTimeUse,`,
		pkg:  "./activities", run: "TestDiscoverRecordsTheDeviceAndReportsIt",
	},
	{
		rule: "F24", name: "a device's pool is written to its host's record",
		file: "activities/discover.go",
		old:  `	r.Pool = (*host.Pool)(e.Pool)`,
		new:  ``,
		pkg:  "./activities", run: "TestDiscoverRecordsTheDeviceAndReportsIt",
	},
	{
		rule: "F13", name: "a device is not enrolled again without its pool, or with another server of it",
		file: "activities/discover.go",
		old:  `	case serverInPool(r.Pool) != serverInPool((*host.Pool)(e.Pool)):`,
		new:  `	case e.Name == "" && serverInPool(r.Pool) != serverInPool((*host.Pool)(e.Pool)):`,
		pkg:  "./activities", run: "TestReenrollmentAsAnotherDeviceIsRefused",
	},
	{
		rule: "F30", name: "an unknown device that is retired is reserved",
		file: "internal/device/reserve.go",
		old:  `|| mayBeLowered(was, next) || holdUnrecorded(was, next)`,
		new:  `|| was.State != Unknown && (mayBeLowered(was, next) || holdUnrecorded(was, next))`,
		pkg:  "./workflows/lifecycle", run: "TestRetiredWhileUnknownIsReserved",
	},
}
