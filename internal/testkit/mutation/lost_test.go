package mutation

// lostMutations take out what protects a device whose workflow was lost or put back.
var lostMutations = []mutation{
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
		old:  `if schema > contract.Schema {`,
		new:  `if schema > contract.Schema && subject == "" {`,
		pkg:  "./workflows/lifecycle", run: "TestState_OfANewerSchemaWaits",
	},
}
