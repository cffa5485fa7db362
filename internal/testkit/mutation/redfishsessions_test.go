package mutation

// redfishSessionMutations take out what leaves no session open on a BMC, and others' alone.
var redfishSessionMutations = []mutation{
	{
		name: "a login is journaled before it is sent",
		file: "internal/hardware/redfish/held.go",
		old:  `	if err := r.body.intent(); err != nil {`,
		new:  `	if err := errors.Join(); err != nil {`,
		pkg:  "./internal/hardware/redfish", run: "TestALoginIsJournaledBeforeItIsSent",
	},
	{
		name: "the session of a lost login is known by its context",
		file: "internal/hardware/redfish/session_left.go",
		old:  `l.Context != "" && l.Context == one.Context })`,
		new:  `l.Context != "" && l.Context == one.Origin })`,
		pkg:  "./internal/hardware/redfish", run: "TestALoginWithoutAnAnswerLeavesNoSession",
	},
	{
		name: "a session that was made from another host is left",
		file: "internal/hardware/redfish/session_left.go",
		old:  `	if err != nil || here == nil || s.origin() != *here {`,
		new:  `	if err != nil || here == nil || !s.origin().IsValid() {`,
		pkg:  "./internal/hardware/redfish", run: "TestALoginWithoutAnAnswerLeavesNoSession",
	},
	{
		name: "a session that was made before the lost login is left",
		file: "internal/hardware/redfish/session_left.go",
		old:  `			!created.Before(l.Sent.Add(-2*time.Second)) && `,
		new:  `			!created.IsZero() && `,
		pkg:  "./internal/hardware/redfish", run: "TestALoginWithoutAnAnswerLeavesNoSession",
	},
	{
		name: "of more sessions than lost logins none is taken for ours",
		file: "internal/hardware/redfish/session_left.go",
		old:  ` && len(may) <= len(pending) {`,
		new:  ` && len(may) >= len(pending) {`,
		pkg:  "./internal/hardware/redfish", run: "TestMoreSessionsThanLostLoginsAreLeft",
	},
	{
		name: "the session of a lost login is looked for at the end of a step too",
		file: "internal/hardware/redfish/session.go",
		old:  `	if b.token == "" && b.unanswered {`,
		new:  `	if b.token != "" && b.unanswered {`,
		pkg:  "./internal/hardware/redfish", run: "TestALoginWithoutAnAnswerLeavesNoSession",
	},
	{
		name: "a lost logout is repeated",
		file: "internal/hardware/redfish/session.go",
		old:  `		if again, stop := waiting.next(ctx, 0); stop != nil || !again || !mayPass(err) {`,
		new:  `		if again, stop := waiting.next(ctx, 0); stop != nil || !again || mayPass(err) {`,
		pkg:  "./internal/hardware/redfish", run: "TestALostLogoutIsRepeated",
	},
}
