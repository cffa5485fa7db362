package mutation

// inventoryMutations take out what reservations and the record of who has a device must not
// lose.
var inventoryMutations = []mutation{
	{
		rule: "F24", name: "a bind records its instance",
		file: "internal/inventory/rules.go",
		old:  `			tenant = &instance`,
		new:  `			tenant = nil`,
		pkg:  "./internal/inventory", run: "TestARecordThroughOneBinding",
	},
	{
		rule: "F24", name: "the record of another instance is not cleared",
		file: "internal/inventory/rules.go",
		old:  `	case v.Witness != device.WitnessBound, v.heldBy(h.Left) && v.Generation <= h.LeftGeneration:`,
		new:  `	case true:`,
		pkg:  "./internal/inventory", run: "TestARecordOfAnotherInstanceStays",
	},
	{
		rule: "F24", name: "a later binding of the same instance is not taken for the one that left",
		file: "internal/inventory/rules.go",
		old:  ` && v.Generation <= h.LeftGeneration:`,
		new:  `:`,
		pkg:  "./internal/inventory", run: "TestARecordOfAnotherInstanceStays",
	},
	{
		rule: "F24", name: "a bind takes only a write with its own record for its own",
		file: "internal/inventory/rules.go",
		old:  `(maybeOwnWrite || wrote != nil) && (instance == "" || v.heldBy(instance))`,
		new:  `maybeOwnWrite || wrote != nil`,
		pkg:  "./internal/inventory", run: "TestReserveForBindKnowsItsEarlierWriteByTheRecord",
	},
	{
		rule: "F24", name: "a bind is refused where another instance has the device",
		file: "internal/inventory/rules.go",
		old:  `case instance != "" && v.Witness == device.WitnessBound && !v.heldBy(instance):`,
		new:  `case false:`,
		pkg:  "./internal/inventory", run: "TestReserveForBindRefusesTheRecordOfAnotherInstance",
	},
	{
		rule: "F24", name: "the write that lowers keeps the record",
		file: "internal/inventory/rules.go",
		old:  `s.PutReserved(ctx, uuid, generation, 0, nil)`,
		new:  `s.PutReserved(ctx, uuid, generation, 0, new(string))`,
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
		old:  `	d.State.BurnedFor, in.Tenant = instance, &instance`,
		new:  `	d.State.BurnedFor = instance`,
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
