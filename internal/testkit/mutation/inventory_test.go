package mutation

// inventoryMutations take out what reservations and the record of who has a device must not
// lose.
var inventoryMutations = []mutation{
	{
		rule: "F24", name: "a bind records its instance",
		file: "internal/inventory/rules.go",
		old:  `reserveAll(ctx, s, uuid, v, record)`,
		new:  `reserveAll(ctx, s, uuid, v, nil)`,
		pkg:  "./internal/inventory", run: "TestARecordThroughOneBinding",
	},
	{
		rule: "F24", name: "the record of another instance is not cleared",
		file: "internal/inventory/rules.go",
		old:  `!(v.HeldBy(h.Left) && v.Generation <= h.LeftGeneration) {`,
		new:  `h.LeftGeneration < 0 {`,
		pkg:  "./internal/inventory", run: "TestARecordOfAnotherInstanceStays",
	},
	{
		rule: "F24", name: "a later binding of the same instance is not taken for the one that left",
		file: "internal/inventory/rules.go",
		old:  `!(v.HeldBy(h.Left) && v.Generation <= h.LeftGeneration) {`,
		new:  `!v.HeldBy(h.Left) {`,
		pkg:  "./internal/inventory", run: "TestARecordOfAnotherInstanceStays",
	},
	{
		rule: "F24", name: "a bind takes only a write with its own record for its own",
		file: "internal/inventory/rules.go",
		old:  `(maybeOwnWrite || wrote != nil) && (record == nil || v.HeldBy(record.Tenant))`,
		new:  `maybeOwnWrite || wrote != nil`,
		pkg:  "./internal/inventory", run: "TestReserveForBindKnowsItsEarlierWriteByTheRecord",
	},
	{
		rule: "F24", name: "a bind is refused where another instance has the device",
		file: "internal/inventory/rules.go",
		old:  `case record != nil && v.Witness == device.WitnessBound && !v.HeldBy(record.Tenant):`,
		new:  `case false:`,
		pkg:  "./internal/inventory", run: "TestReserveForBindRefusesTheRecordOfAnotherInstance",
	},
	{
		rule: "F24", name: "the write that lowers keeps the record",
		file: "internal/inventory/rules.go",
		old:  `s.PutReserved(ctx, uuid, generation, 0, nil)`,
		new:  `s.PutReserved(ctx, uuid, generation, 0, &device.Record{Witness: device.WitnessFree})`,
		pkg:  "./internal/inventory", run: "TestUnreserveKeepsTheRecord",
	},
	{
		rule: "F24", name: "a new provider records nothing",
		file: "internal/inventory/file/store.go",
		old: `				Total: 1, Reserved: 1,
			}`,
		new: `				Total: 1, Reserved: 1, Tenant: new(string),
			}`,
		pkg: "./internal/inventory/file", run: "TestFileStore/ARecordOfTheTenant",
	},
	{
		rule: "F24", name: "a bind names its instance to the inventory",
		file: "workflows/lifecycle/reservation/observe.go",
		old:  `in.Record = instance, d.recordOf(instance)`,
		new:  `in.Record = instance, d.recordOf("")`,
		pkg:  "./workflows/lifecycle", run: "TestTheProviderRecordsWhoHasTheDevice",
	},
	{
		rule: "F24", name: "the first write of a clean says that no instance has the device",
		file: "workflows/lifecycle/reservation/reservation.go",
		old:  `contract.ActivityEnsureReserved, d.cleared(d.request()))`,
		new:  `contract.ActivityEnsureReserved, d.request())`,
		pkg:  "./workflows/lifecycle", run: "TestTheProviderRecordsWhoHasTheDevice",
	},
	{
		rule: "F24", name: "the record of a burn that failed is cleared",
		file: "workflows/contract/state.go",
		old:  `	if s.BurnedFor != "" {`,
		new:  `	if false {`,
		pkg:  "./workflows/lifecycle", run: "TestTheRecordOfABurnThatFailedIsCleared",
	},
	{
		rule: "F5", name: "only a provider with total 1 is offered",
		file: "internal/inventory/file/store.go",
		old:  `if reserved < r.Total && r.Total != 1 {`,
		new:  `if false {`,
		pkg:  "./internal/inventory/file", run: "TestOnlyATotalOfOneIsLowered",
	},
}
