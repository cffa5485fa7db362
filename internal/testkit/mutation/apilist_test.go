package mutation

// listMutations make a list of the HTTP API leave out devices, repeat them, or show what its
// caller may not see.
var listMutations = []mutation{
	{
		name: "a device that continues as new is in the fleet",
		file: "workflows/client/fleet.go",
		old:  `AND (ExecutionStatus = 'Running' OR CloseTime > %s)"`,
		new:  `AND (ExecutionStatus = 'Running' OR CloseTime < %s)"`,
		pkg:  "./workflows/client", run: "TestTheFleetHasADeviceThatContinuesAsNewOnce",
	},
	{
		name: "an ended run gives no old state",
		file: "workflows/client/list.go",
		old:  `e.Started.After(before.Started)`,
		new:  `e.Started.Before(before.Started)`,
		pkg:  "./workflows/client", run: "TestAnEndedRunGivesNoOldState",
	},
	{
		name: "an unknown marker is refused",
		file: "internal/api/list.go",
		old:  `	case !found:`,
		new:  `	case !found && c.who.ID == "":`,
		pkg:  "./internal/api", run: "TestListRefusesWhatItDoesNotKnow",
	},
	{
		name: "a query that cannot be read is refused",
		file: "internal/api/routes.go",
		old:  `	given, err := url.ParseQuery(c.r.URL.RawQuery)`,
		new: `	given, _ := url.ParseQuery(c.r.URL.RawQuery)
	var err error`,
		pkg: "./internal/api", run: "TestListRefusesWhatItDoesNotKnow",
	},
	{
		name: "a reader learns no hidden field by a filter or an order",
		file: "internal/api/listquery.go",
		old:  `	case f.detail && !c.may(ruleDetail):`,
		new:  `	case f.detail && !c.may(ruleList):`,
		pkg:  "./internal/api", run: "TestReadersUseCyborgsFieldsOnly",
	},
}
