package mutation

// instanceDeviceMutations guess what a device did, or take from an instance what it has.
var instanceDeviceMutations = []mutation{
	{
		name: "a device that did not answer has not refused",
		file: "activities/instance.go",
		old:  `		if !definite {`,
		new:  `		if !definite && d.Name == "" {`,
		pkg:  "./activities", run: "TestDevicesWithoutAnAnswerAreAskedAgain",
	},
	{
		name: "each attempt asks a device by the same ID",
		file: "activities/instance.go",
		old:  `client.WithRequest(ctx, in.ID+"/"+verb)`,
		new:  `client.WithRequest(ctx, in.ID+"/"+verb+time.Now().String())`,
		pkg:  "./activities", run: "TestDevicesWithoutAnAnswerAreAskedAgain",
	},
	{
		name: "a device of which it is not known who has it is not unbound",
		file: "activities/instance.go",
		old:  `case ok && refusal.State == device.Unknown:`,
		new:  `case ok && refusal.State == device.Absent:`,
		pkg:  "./activities", run: "TestUnbindWaitsUntilItIsKnownWhoHasTheDevice",
	},
	{
		rule: "F42", name: "a device whose run ended has not refused its burn",
		file: "workflows/client/client.go",
		old:  `	case ok && refusal.Fault.Code == completedWorkflow:`,
		new:  `	case ok && refusal.Fault.Code == completedWorkflow && ctx == nil:`,
		pkg:  "./activities", run: "TestDeviceWhoseRunEndedIsAskedAgain",
	},
	{
		name: "an instance shows which device does not answer",
		file: "workflows/client/instance.go",
		old:  `failure != "" {`,
		new:  `failure == "" {`,
		pkg:  "./workflows/client", run: "TestInstanceShowsWhatItsActWaitsFor",
	},
	{
		name: "the address of a living instance is not taken over",
		file: "workflows/client/address.go",
		old:  `		if living {`,
		new:  `		if living && l.run == "" {`,
		pkg:  "./activities", run: "TestAddressesAreLeasedAllOrNone",
	},
	{
		name: "addresses are leased all or none",
		file: "activities/instance.go",
		old:  `		if err := s.ReturnAddresses(ctx, in); err != nil {`,
		new:  `		if err := s.ReturnAddresses(ctx, contract.AddressesCall{}); err != nil {`,
		pkg:  "./activities", run: "TestAddressesAreLeasedAllOrNone",
	},
	{
		name: "picked devices are on one host",
		file: "activities/pick.go",
		old:  `			hosts[c.status.Hostname] = append(hosts[c.status.Hostname], c)`,
		new:  `			hosts[""] = append(hosts[""], c)`,
		pkg:  "./activities", run: "TestPickedDevicesFit",
	},
	{
		name: "an instance is signaled that a device left it",
		file: "workflows/lifecycle/record/left.go",
		old:  `	if was == nil || !was.Managed || e.ByInstance`,
		new:  `	if was == nil || !was.Managed || e.Kind == device.Unbind`,
		pkg:  "./workflows/lifecycle", run: "TestInstanceIsSignaledThatADeviceLeftIt",
	},
	{
		name: "a binding that is replaced by another is signaled",
		file: "workflows/lifecycle/record/left.go",
		old:  `now != nil && now.Number == was.Number {`,
		new:  `now != nil {`,
		pkg:  "./workflows/lifecycle", run: "TestInstanceIsSignaledThatADeviceLeftIt",
	},
	{
		name: "a run waits for its signal to an instance",
		file: "workflows/lifecycle/lifecycle.go",
		old:  `d.cleaning.Sending() || d.Notifying(ctx) || `,
		new:  `d.cleaning.Sending() || `,
		pkg:  "./workflows/lifecycle", run: "TestRunWaitsForTheSignalToItsInstance",
	},
	{
		name: "a claim of another request stays",
		file: "workflows/lifecycle/binding.go",
		old:  `in.Request != "" && c.Request != in.Request`,
		new:  `in.Request != "" && c.Request == in.Deadline`,
		pkg:  "./workflows/lifecycle", run: "TestUnclaimEndsTheClaimOfItsRequest",
	},
}
