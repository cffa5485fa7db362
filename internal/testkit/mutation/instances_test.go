package mutation

// instanceMutations take out what makes an instance get all of its devices or none, and what
// keeps a guest's document from showing a device that another instance may have.
var instanceMutations = []mutation{
	{
		rule: "S0.6", name: "the claims of a bind that loses one are given back",
		file: "workflows/instance/acquire.go",
		old: `	if err != nil {
		i.unclaim(request, granted)
		return nil, lost, err
	}`,
		new: `	if err != nil {
		return nil, lost, err
	}`,
		pkg: "./workflows/instance", run: "TestBindThatLosesARaceHoldsAndCleansNothing",
	},
	{
		rule: "S0.6", name: "an instance burns nothing unless it has claimed all",
		file: "workflows/instance/acquire.go",
		old: `		if err == nil {
			err = refusal(choices[n].Name, outcome.Fault)
		}
	}
	if err == nil && i.Now()`,
		new: `	}
	if err == nil && i.Now()`,
		pkg: "./workflows/instance", run: "TestBindThatLosesARaceHoldsAndCleansNothing",
	},
	{
		name: "claims that are about to end are not burned",
		file: "workflows/instance/acquire.go",
		old:  `i.Now().After(deadline.Add(-burnWithin))`,
		new:  `i.Now().After(deadline)`,
		pkg:  "./workflows/instance", run: "TestClaimsThatCameTooLateAreNotBurned",
	},
	{
		rule: "S0.6", name: "a bind that fails unbinds what it has bound",
		file: "workflows/instance/acquire.go",
		old: `		i.unbind(tried)
`,
		new: `		i.unbind(tried[:0])
`,
		pkg: "./workflows/instance", run: "TestBindThatFailsToBurnUnbindsWhatItBound",
	},
	{
		rule: "S0.6", name: "a burn without an answer is asked again",
		file: "workflows/instance/acquire.go",
		old: `		outcomes, err = i.ask(activity, call)
		return err
`,
		new: `		if outcomes, err = i.ask(activity, call); activity == contract.ActivityBurnDevices {
			return nil
		}
		return err
`,
		pkg: "./workflows/instance", run: "TestBurnWithoutAnswerIsAskedAgain",
	},
	{
		name: "a device that is lost is not picked again",
		file: "workflows/instance/acquire.go",
		old: `		lost = append(lost, refused...)
`,
		new: `		lost = append(lost, refused[1:]...)
`,
		pkg: "./workflows/instance", run: "TestBindByRequestPicksAgain",
	},
	{
		rule: "S1.36", name: "a detached device leaves the document before it is unbound",
		file: "workflows/instance/acts.go",
		old: `	if outcomes = append(outcomes, i.unbind(leaving)...); len(outcomes) == 1 {
		i.detached = outcomes[0].Status
	}`,
		new: `	after := i.Devices
	i.Devices = append(slices.Clone(after), leaving...)
	if outcomes = append(outcomes, i.unbind(leaving)...); len(outcomes) == 1 {
		i.detached = outcomes[0].Status
	}
	i.Devices = after`,
		pkg: "./workflows/instance", run: "TestDocumentIsGoneBeforeAnythingIsGivenBack",
	},
	{
		name: "addresses are returned once the document is gone",
		file: "workflows/instance/acts.go",
		old: `		i.Phase = contract.InstanceReleasing
		i.returnAddresses()
		leaving :=`,
		new: `		i.returnAddresses()
		i.Phase = contract.InstanceReleasing
		leaving :=`,
		pkg: "./workflows/instance", run: "TestDocumentIsGoneBeforeAnythingIsGivenBack",
	},
	{
		rule: "S1.3", name: "a tag is one device's of a type",
		file: "workflows/instance/acts.go",
		old:  `other != "" && d.Tag != ""`,
		new:  `other == d.Name && d.Tag != ""`,
		pkg:  "./workflows/instance", run: "TestTagIsUniqueAlsoAtOnce",
	},
	{
		rule: "S1.4", name: "a disk and a NIC may have one tag",
		file: "workflows/instance/acts.go",
		old:  `		r := role{tagging.TypeOf(d.Type), d.Tag}`,
		new:  `		r := role{tagging.TypeOf(""), d.Tag}`,
		pkg:  "./workflows/instance", run: "TestTagIsUniqueAlsoAtOnce",
	},
	{
		name: "a second bind of other devices is refused",
		file: "workflows/instance/acts.go",
		old:  `		if n := i.index(c.Name); n < 0 || i.Devices[n].Tag != c.Tag {`,
		new:  `		if n := i.index(c.Name); n < 0 {`,
		pkg:  "./workflows/instance", run: "TestBindAgain",
	},
	{
		name: "all devices of an instance are on one host",
		file: "workflows/instance/acts.go",
		old:  `		if d.Type != contract.TypeNode && d.Host != host {`,
		new:  `		if d.Type != contract.TypeNode && d.Host != host && d.Host == "" {`,
		pkg:  "./workflows/instance", run: "TestRefusedOnArrival",
	},
	{
		name: "only the binding that ended leaves the instance",
		file: "workflows/instance/acts.go",
		old: `contract.DeviceLeft{Device: d.Name, Binding: d.Binding})
	}`,
		new: `contract.DeviceLeft{Device: d.Name, Binding: d.Binding}) ||
			slices.ContainsFunc(i.left, func(l contract.DeviceLeft) bool { return l.Device == d.Name })
	}`,
		pkg: "./workflows/instance", run: "TestDeviceThatLeft",
	},
	{
		rule: "S0.24", name: "only marked devices are live-migrated",
		file: "workflows/instance/moves.go",
		old:  `		if !d.LiveMigratable {`,
		new:  `		if !d.LiveMigratable && d.Name == "" {`,
		pkg:  "./workflows/instance", run: "TestLiveMigrateNeedsMarkedDevices",
	},
	{
		rule: "S0.21", name: "confirm cleans the source",
		file: "workflows/instance/moves.go",
		old: `	source := i.Move.Source
	i.Move, i.Phase = nil, contract.InstanceActive`,
		new: `	source := i.Devices
	i.Move, i.Phase = nil, contract.InstanceActive`,
		pkg: "./workflows/instance", run: "TestMigrateAndConfirm",
	},
	{
		rule: "S0.22", name: "revert cleans the destination",
		file: "workflows/instance/moves.go",
		old: `	destination := i.Devices
`,
		new: `	destination := i.Move.Source
`,
		pkg: "./workflows/instance", run: "TestMigrateAndRevert",
	},
	{
		rule: "S0.19", name: "an evacuation unbinds the source, not the destination",
		file: "workflows/instance/moves.go",
		old: `	source := i.Devices
	i.Devices = devices
`,
		new: `	source := devices
	i.Devices = devices
`,
		pkg: "./workflows/instance", run: "TestEvacuate",
	},
	{
		name: "an act of an instance that is repeated in a later run does nothing",
		file: "workflows/instance/updates.go",
		old:  `			if before, seen := r.log().Find(id); seen {`,
		new:  `			if before, seen := r.log().Find(id); seen && before.Refusal != nil {`,
		pkg:  "./workflows/instance", run: "TestRepeatedAlsoAfterContinueAsNew",
	},
	{
		name: "the acts of an instance wait for one another",
		file: "workflows/instance/instance.go",
		old:  `return r.serving == turn && !r.ending`,
		new:  `return r.serving <= turn && !r.ending`,
		pkg:  "./workflows/instance", run: "TestActsWaitForOneAnother TestTagIsUniqueAlsoAtOnce",
	},
	{
		name: "an instance continues as new between two acts only",
		file: "workflows/instance/instance.go",
		old:  `	if !workflow.AllHandlersFinished(ctx) || r.busy() ||`,
		new:  `	if r.ending ||`,
		pkg:  "./workflows/instance", run: "TestContinueAsNewWaitsForTheAct",
	},
	{
		name: "a guest's address is returned by its own instance",
		file: "workflows/instance/address.go",
		old:  `		if by.Instance == in.Instance {`,
		new:  `		if by.Instance != "" {`,
		pkg:  "./workflows/instance", run: "TestGuestAddress",
	},
	{
		name: "a request that was granted binds nothing more",
		file: "workflows/instance/acts.go",
		old:  `	_, before := i.log().Find(grantedID + request)`,
		new:  `	_, before := i.log().Find(grantedID + request + "?")`,
		pkg:  "./workflows/instance", run: "TestRequestIsGrantedOnce",
	},
	{
		name: "a device that left while others were burned is not shown",
		file: "workflows/instance/moves.go",
		old:  `	i.dropLeft() // what was bound`,
		new:  `	// what was bound`,
		pkg:  "./workflows/instance", run: "TestDeviceThatLeftDuringAnEvacuation",
	},
	{
		name: "a release of an instance whose workflow was lost frees what says it is bound to it",
		file: "workflows/client/instance.go",
		old:  `slices.Concat(last.Unsettled, bound)`,
		new:  `slices.Concat(last.Unsettled, bound[:0])`,
		pkg:  "./workflows/client", run: "TestALostInstanceIsReleased",
	},
	{
		name: "a release that is sent again while the first is under way is released already",
		file: "workflows/instance/updates.go",
		old: `	if i.Phase == contract.InstanceReleased {
		return nil
	}`,
		new: `	if i.Phase == contract.InstanceReleased {
		return errNoDevices()
	}`,
		pkg: "./workflows/instance", run: "TestActsWaitForOneAnother",
	},
}
