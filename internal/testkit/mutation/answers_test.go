package mutation

// answerMutations take "not found" for "no", a refusal for "without effect", or forget what was promised.
var answerMutations = []mutation{
	{
		rule: "F38", name: "that a device has no workflow does not say that it is not bound",
		file: "activities/instance.go",
		old:  `err = s.unboundByRecord(ctx, d.Name, in.Instance)`,
		new:  `err = contract.Refuse(noSuchDevice())`,
		pkg:  "./activities", run: "TestUnbindOfADeviceWithoutAWorkflowIsAnsweredByTheRecord",
	},
	{
		rule: "F38", name: "a device whose run has just begun does not say that it is not bound",
		file: "activities/instance.go",
		old:  `case client.NotFound(err), ok && refusal.Fault.Code == device.CodeNotFound: // or its run has just begun`,
		new:  `case client.NotFound(err):`,
		pkg:  "./activities", run: "TestUnbindOfADeviceWithoutAWorkflowIsAnsweredByTheRecord",
	},
	{
		rule: "F38", name: "a device that the inventory records for an instance is waited for",
		file: "activities/instance.go",
		old:  `	case device.SameTenant(holder.User(), instance):`,
		new:  `	case device.SameTenant(holder.User(), instance) && name == "":`,
		pkg:  "./activities", run: "TestUnbindOfADeviceWithoutAWorkflowIsAnsweredByTheRecord",
	},
	{
		rule: "F38", name: "without a record nothing says that a device is not bound",
		file: "activities/instance.go",
		old:  `	case holder.User() == device.UnknownConsumer:`,
		new:  `	case holder.User() == device.UnknownConsumer && name == "":`,
		pkg:  "./activities", run: "TestUnbindOfADeviceWithoutAWorkflowIsAnsweredByTheRecord",
	},
	{
		rule: "F38", name: "an instance whose workflow does not run has what its last run had",
		file: "workflows/client/instance.go",
		old:  `	case state == nil:`,
		new:  `	case state == nil || unknown == nil:`,
		pkg:  "./workflows/client", run: "TestALostInstanceIsReleased",
	},
	{
		rule: "F38", name: "a device whose workflow ended is its instance's still",
		file: "workflows/client/instance.go",
		old:  `		if found && !e.Forgotten && v.InstanceUUID`,
		new:  `		if found && e.Running && v.InstanceUUID`,
		pkg:  "./workflows/client", run: "TestALostInstanceIsReleased",
	},
	{
		rule: "F38", name: "a listing that lags behind is not believed",
		file: "workflows/client/instance.go",
		old: `				v = now
`,
		new: `				v.Binding = now.Binding
`,
		pkg: "./workflows/client", run: "TestALostInstanceIsReleased",
	},
	{
		rule: "F38", name: "a device that the instance does not know is asked before it is refused",
		file: "workflows/instance/acts.go",
		old: `	outcomes := i.unbind(unknown)
	for n, outcome := range outcomes {
		if outcome.Fault != nil {
			return errNotHeld(unknown[n].Name)
		}
	}`,
		new: `	var outcomes []contract.DeviceOutcome
	for n := range unknown {
		return errNotHeld(unknown[n].Name)
	}`,
		pkg: "./workflows/instance", run: "TestDetachAsksADeviceThatTheInstanceDoesNotKnow",
	},
	{
		rule: "F38", name: "a device that comes back by a record asks its instance",
		file: "workflows/lifecycle/record/record.go",
		old:  `		s.Intent.AskInstance = e.Kind != device.Burned &&`,
		new:  `		s.Intent.AskInstance = e.Kind == device.Burned &&`,
		pkg:  "./workflows/lifecycle", run: "TestDeviceThatComesBackAsksItsInstance",
	},
	{
		rule: "F38", name: "the operator is told of an instance that has left its device",
		file: "workflows/lifecycle/asked.go",
		old:  `	if answer.Left && d.State.Fault == nil {`,
		new:  `	if answer.Left && d.State.Fault != nil {`,
		pkg:  "./workflows/lifecycle", run: "TestDeviceThatComesBackAsksItsInstance",
	},
	{
		rule: "F38", name: "a released instance says that it has left a device",
		file: "activities/instance.go",
		old:  `v.Phase == contract.InstanceReleased || v.Doing == ""`,
		new:  `v.Phase != contract.InstanceReleased && v.Doing == ""`,
		pkg:  "./activities", run: "TestInstanceIsAskedForADevice",
	},
	{
		rule: "F38", name: "a run that has ended does not say that its device is bound already",
		file: "workflows/client/attach.go",
		old:  `	case !found || !e.Running:`,
		new:  `	case !found || !e.Running && name == "":`,
		pkg:  "./workflows/client", run: "TestOnlyADeviceItselfIsBoundAlready",
	},
	{
		rule: "F38", name: "the address of a terminated instance is not taken over",
		file: "workflows/client/address.go",
		old:  `GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, err`,
		new:  `GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, err`,
		pkg:  "./activities", run: "TestAddressesAreLeasedAllOrNone",
	},
	{
		rule: "F42", name: "a burn that was refused is given back",
		file: "workflows/instance/acquire.go",
		old: `		i.unbind(tried)
		return nil, err`,
		new: `		i.settled(tried)
		return nil, err`,
		pkg: "./workflows/instance", run: "TestRefusedBurnIsGivenBack",
	},
	{
		rule: "F42", name: "devices that are burned are remembered",
		file: "workflows/instance/acquire.go",
		old: `	i.unsettle(tried)
`,
		new: ``,
		pkg: "./workflows/instance", run: "TestDevicesThatHaveNotAnsweredAreRemembered",
	},
	{
		rule: "F42", name: "a release asks the devices that name the instance",
		file: "workflows/instance/acts.go",
		old: `	i.unbind(found)
`,
		new: `	i.unbind(found[:0])
`,
		pkg: "./workflows/instance", run: "TestReleaseAsksTheDevicesThatNameTheInstance",
	},
	{
		rule: "F42", name: "what an act was about to get or to give back is released with a lost instance",
		file: "workflows/client/instance.go",
		old:  `slices.Concat(last.Unsettled, bound)`,
		new:  `slices.Concat(last.Unsettled[:0], bound)`,
		pkg:  "./workflows/client", run: "TestALostInstanceIsReleased",
	},
	{
		rule: "F42", name: "a request whose workflow ends meanwhile may be carried out",
		file: "workflows/client/client.go",
		old:  `	if NotFound(err) && c.endedSince(ctx, name, began) {`,
		new:  `	if NotFound(err) && c.endedSince(ctx, name, began.Add(time.Hour)) {`,
		pkg:  "./workflows/client", run: "TestRequestWhoseWorkflowEndsMayBeCarriedOut",
	},
	{
		rule: "F41", name: "a device knows a request after many others",
		file: "workflows/lifecycle/binding.go",
		old:  `ended || d.State.Requests.Has(in.Instance, in.Request)`,
		new:  `ended`,
		pkg:  "./workflows/lifecycle", run: "TestRequestGetsNoSecondBindingAfterManyOthers",
	},
	{
		rule: "F41", name: "an instance knows a granted request after many updates",
		file: "workflows/instance/acts.go",
		old:  `before || i.Granted.Has(i.UUID, request)`,
		new:  `before`,
		pkg:  "./workflows/instance", run: "TestGrantedRequestIsKnownAfterManyUpdates",
	},
	{
		rule: "F41", name: "a repeated request displaces no other",
		file: "workflows/contract/requests.go",
		old:  `if request == "" || l.Has(instance, request) {`,
		new:  `if request == "" {`,
		pkg:  "./workflows/contract", run: "TestLastRequestsAreKnown",
	},
}
