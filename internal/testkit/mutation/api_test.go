package mutation

// apiMutations let the HTTP API claim what has not happened, send what it refused, or show
// what its caller may not see.
var apiMutations = []mutation{
	{
		name: "202 says that the device accepted the clean",
		file: "internal/api/clean.go",
		old:  `	return c.result(c.Devices.Do(ctx, c.name, contract.VerbClean, input))`,
		new: `	result, _ := c.Devices.Do(ctx, c.name, contract.VerbClean, input)
	return c.result(result, nil)`,
		pkg: "./internal/api", run: "TestCleanRefused",
	},
	{
		name: "a request that may still be carried out is a 504",
		file: "internal/api/errors.go",
		old:  `		p.Code, p.Message = device.CodeTimeout, "the request was sent and not answered; "+mayStill`,
		new:  `		p.Code, p.Message = device.CodeUnreachable, "the request was not sent"`,
		pkg:  "./internal/api", run: "TestCleanRefused",
	},
	{
		name: "a request that the state refuses leaves no event",
		file: "workflows/lifecycle/dryrun.go",
		old: `	if err := u.validate(of, in); err != nil {
		return partsOf(of).Refusal(shownVerb(u.name, in), err)
	}`,
		new: ``,
		pkg: "./workflows/lifecycle", run: "TestCleanOverTheAPI",
	},
	{
		rule: "S2.76", name: "an error shows no details of a device",
		file: "internal/api/errors.go",
		old:  `	if !c.may(ruleDetail) {`,
		new:  `	if c.operation() == "" {`,
		pkg:  "./internal/api", run: "TestErrorsShowNoDetails",
	},
	{
		rule: "S2.76", name: "who ended a device's workflow is a detail",
		file: "internal/api/devices.go",
		old:  ` && c.may(ruleDetail):`,
		new:  `:`,
		pkg:  "./internal/api", run: "TestErrorsShowNoDetails/an_ended_device",
	},
	{
		name: "slashes more than a path needs do not avoid the version",
		file: "internal/api/server.go",
		old:  `strings.HasPrefix(strings.TrimLeft(r.URL.EscapedPath(), "/"), "v2/")`,
		new:  `strings.HasPrefix(r.URL.EscapedPath(), "/v2/")`,
		pkg:  "./internal/api", run: "TestMoreSlashesKeepTheVersion",
	},
	{
		name: "queues of others are not asked about",
		file: "internal/api/operator.go",
		old:  `c.segment != contract.Queue && (!ofHost || !queueHost.MatchString(host))`,
		new:  `c.segment != contract.Queue && !ofHost && !queueHost.MatchString(host)`,
		pkg:  "./internal/api", run: "TestQueuesOfOthersAreNotAskedAbout",
	},
	{
		name: "a request has one Content-Type",
		file: "internal/api/body.go",
		old:  `	contentType := strings.Join(c.r.Header.Values("Content-Type"), ", ")`,
		new:  `	contentType := c.r.Header.Get("Content-Type")`,
		pkg:  "./internal/api", run: "TestARequestHasOneContentType",
	},
	{
		name: "a device that is offered without a clean is not called clean",
		file: "workflows/lifecycle/status/remedy.go",
		old:  `		if d.NotSanitized {`,
		new:  `		if false {`,
		pkg:  "./workflows/lifecycle/status", run: "TestAnUnsanitizedDeviceIsNotCalledClean",
	},
	{
		name: "a host that does not know a step refuses the clean",
		file: "workflows/lifecycle/operations.go",
		old:  `		if f == nil || f.Code != device.CodeHostWorkerTooOld {`,
		new:  `		if f == nil || f.Code != device.CodeAborted {`,
		pkg:  "./workflows/lifecycle", run: "TestCleanOverTheAPI",
	},
	{
		name: "a request's key belongs to its caller",
		file: "internal/api/request.go",
		old:  `	parts := []string{c.who.ID, c.route.Operation, cmp.Or(c.name, c.instance), key}`,
		new:  `	parts := []string{"", c.route.Operation, c.name, key}`,
		pkg:  "./workflows/lifecycle", run: "TestARepeatedRequestIsCarriedOutOnce",
	},
	{
		name: "nothing is sent while Temporal is away",
		file: "internal/api/server.go",
		old:  `		if err := c.Ready(c.r.Context()); err != nil {`,
		new:  `		if err := c.Ready(c.r.Context()); err != nil && !c.changes() {`,
		pkg:  "./internal/api", run: "TestNothingIsSentWhileNotReady",
	},
	{
		name: "each operation needs its rule",
		file: "internal/api/server.go",
		old:  `		if !c.Policy.Allows(c.route.Rule, c.who) {`,
		new:  `		if !c.Policy.Allows(ruleGet, c.who) {`,
		pkg:  "./internal/api", run: "TestCleanRefused",
	},
	{
		name: "a viewer sees Cyborg's fields only",
		file: "internal/api/view.go",
		old:  `		return f.detail && !details || c.version.less(f.since)`,
		new:  `		return f.detail && !details && f.omitEmpty || c.version.less(f.since)`,
		pkg:  "./internal/api", run: "TestReadersSeeCyborgsFields",
	},
	{
		name: "an unexpected error shows none of its words",
		file: "internal/api/errors.go",
		old:  `		p.Code, p.Message, p.Remedy = device.CodeInternal, "an unexpected error", "see the log of the control worker"`,
		new:  `		p.Code, p.Message, p.Remedy = device.CodeInternal, err.Error(), "see the log of the control worker"`,
		pkg:  "./internal/api", run: "TestCleanRefused",
	},
	{
		name: "a body has no members but those of its operation",
		file: "internal/api/body.go",
		old:  `json.RejectUnknownMembers(true)`,
		new:  `json.RejectUnknownMembers(false)`,
		pkg:  "./internal/api", run: "TestBodies",
	},
	{
		name: "a body has its bound",
		file: "internal/api/body.go",
		old:  `const maxBody = 64 << 10`,
		new:  `const maxBody = 64 << 20`,
		pkg:  "./internal/api", run: "TestBodies",
	},
	{
		name: "a version that there is not is refused",
		file: "internal/api/version.go",
		old:  `		if !ok || found != "" && v != asked {`,
		new:  `		if !ok && len(words) == 0 || found != "" && v != asked {`,
		pkg:  "./internal/api", run: "TestVersions",
	},
}
