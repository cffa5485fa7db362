package mutation

// remoteMutations take out what keeps the command line's token to itself, and each of its
// changes to one.
var remoteMutations = []mutation{
	{
		name: "a token does not follow a redirection",
		file: "internal/api/remote/remote.go",
		old:  `return http.ErrUseLastResponse },`,
		new:  `return nil },`,
		pkg:  "./internal/api/remote", run: "TestTokens",
	},
	{
		name: "a token is not sent unencrypted to another machine",
		file: "internal/api/remote/remote.go",
		old:  `	if c.token != nil && c.base.Scheme == "http" &&`,
		new:  `	if c.token == nil && c.base.Scheme == "http" &&`,
		pkg:  "./internal/api/remote", run: "TestAddresses",
	},
	{
		name: "OpenStack's token is not sent to a unix socket",
		file: "internal/api/remote/token.go",
		old:  `		case token == "", name != config.VarAPIToken && isUnix:`,
		new:  `		case token == "":`,
		pkg:  "./internal/api/remote", run: "TestUnixSocket",
	},
	{
		name: "a change is repeated under its key",
		file: "internal/api/remote/transport.go",
		old:  `		q.Header.Set("Idempotency-Key", r.key)`,
		new:  `		q.Header.Set("Idempotency-Key", uuid.NewString())`,
		pkg:  "./internal/api/remote", run: "TestALostConnectionIsTriedOnceMore",
	},
	{
		name: "a change whose connection was lost may still be carried out",
		file: "internal/api/remote/errors.go",
		old:  `	if r.key != "" && r.sent {`,
		new:  `	if r.key != "" && r.sent && ended != nil {`,
		pkg:  "./internal/api/remote", run: "TestAConnectionThatStaysLost",
	},
	{
		name: "operators' reads are not for readers",
		file: "internal/api/operator.go",
		old:  `Summary: summary, Rule: ruleDetail, In: in, Out: out,`,
		new:  `Summary: summary, Rule: ruleGet, In: in, Out: out,`,
		pkg:  "./internal/api", run: "TestOperatorsReadsNeedDetails",
	},
	{
		name: "a device's settings are in no answer",
		file: "internal/api/operator.go",
		old:  `	found.Record = nil`,
		new:  `	found.Note = ""`,
		pkg:  "./internal/api", run: "TestADiscoveryHasNoRecord",
	},
	{
		name: "what is no API gets no token",
		file: "internal/api/remote/remote.go",
		old:  `	bare.token = nil`,
		new:  `	bare.address = ""`,
		pkg:  "./internal/api/remote", run: "TestNothingListens",
	},
	{
		name: "a hidden field is not shown as no",
		file: "internal/api/remote/reads.go",
		old:  `	if v.Name != "" {`,
		new:  `	if v.UUID != "" {`,
		pkg:  "./internal/api/remote", run: "TestHiddenFields",
	},
}
