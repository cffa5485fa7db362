package mutation

// accessMutations let callers of the HTTP API do what they may not.
var accessMutations = []mutation{
	{
		name: "a change needs the role admin",
		file: "internal/api/access/policy.go",
		old:  `	admins  = "role:admin"`,
		new:  `	admins  = "role:admin or role:reader"`,
		pkg:  "./internal/api/access", run: "TestByDefaultReadersReadAndAdminsAct",
	},
	{
		name: "a token in a query is none",
		file: "internal/api/access/token.go",
		old:  `	tokens := slices.Clone(r.Header.Values("X-Auth-Token"))`,
		new:  `	tokens := append(r.URL.Query()["token"], r.Header.Values("X-Auth-Token")...)`,
		pkg:  "./internal/api/access", run: "TestATokenIsTakenFromTwoHeadersAndNowhereElse",
	},
	{
		name: "a caller's claim of roles is not believed",
		file: "internal/api/access/gate.go",
		old:  `		RecordOf(r.Context()).Principal = who`,
		new: `		who.Roles = append(who.Roles, r.Header.Values("X-Roles")...)
		RecordOf(r.Context()).Principal = who`,
		pkg: "./internal/api/access", run: "TestATokenIsTakenFromTwoHeadersAndNowhereElse",
	},
	{
		name: "two different tokens are refused",
		file: "internal/api/access/token.go",
		old:  `	case len(tokens) > 1:`,
		new:  `	case len(tokens) > 9:`,
		pkg:  "./internal/api/access", run: "TestATokenIsTakenFromTwoHeadersAndNowhereElse",
	},
	{
		name: "the API answers only to its own names",
		file: "internal/api/access/origin.go",
		old:  `	if !g.ownHost(r) {`,
		new:  `	if r.Host == "" {`,
		pkg:  "./internal/api/access", run: "TestOnlyTheAPIsOwnNamesReachIt",
	},
	{
		name: "a page of another origin is refused",
		file: "internal/api/access/origin.go",
		old:  `		if !ownOrigin(r, origin) {`,
		new:  `		if origin == "null" {`,
		pkg:  "./internal/api/access", run: "TestPagesOfOtherSitesAreRefused",
	},
	{
		name: "a token file that others may read is refused",
		file: "internal/host/secrets.go",
		old: `	return readTrusted(name, uint32(os.Geteuid()), largestRules, true)
}`,
		new: `	return readTrusted(name, uint32(os.Geteuid()), largestRules, false)
}`,
		pkg: "./internal/api/access", run: "TestATokenFileForOthersIsRefused",
	},
	{
		name: "a token file that is not valid any more lets nobody in",
		file: "internal/api/access/tokenfile.go",
		old:  `	f.seen, f.err = state, err`,
		new:  `	f.seen, f.err = state, before`,
		pkg:  "./internal/api/access", run: "TestAChangedTokenFileCountsAtOnce",
	},
	{
		name: "an answer of Keystone counts for ten seconds",
		file: "internal/api/access/keystone.go",
		old:  `ok := k.good[hash]; ok && k.now().Before(a.until)`,
		new:  `ok := k.good[hash]; ok && k.now().Before(a.until.AddDate(1, 0, 0))`,
		pkg:  "./internal/api/access", run: "TestARevokedTokenIsRefusedWithinTenSeconds",
	},
	{
		name: "an answer of Keystone counts from its question",
		file: "internal/api/access/keystone.go",
		old:  `	until := asked.Add(cacheTime)`,
		new:  `	until := k.now().Add(cacheTime)`,
		pkg:  "./internal/api/access", run: "TestASlowAnswerCountsFromItsQuestion",
	},
	{
		name: "the socket is for its owner alone",
		file: "internal/api/access/unixsocket.go",
		old:  `unix.Fchmod(int(fd), 0o600)`,
		new:  `unix.Fchmod(int(fd), 0o666)`,
		pkg:  "./internal/api/access", run: "TestTheSocketIsForItsOwnerAlone",
	},
	{
		name: "a socket where something answers is not replaced",
		file: "internal/api/access/unixsocket.go",
		old:  `	if err == nil {`,
		new:  `	if err == nil && ctx.Err() != nil {`,
		pkg:  "./internal/api/access", run: "TestAStaleSocketIsReplaced",
	},
	{
		name: "only root and the socket's owner are admins without a token",
		file: "internal/api/access/peer.go",
		old:  `	if p.uid == 0 || p.uid == p.owner {`,
		new:  `	if p.uid < 65534 {`,
		pkg:  "./internal/api/access", run: "TestOnlyRootAndTheOwnerOfTheSocketAreAdmins",
	},
	{
		name: "a proxy's user is not its client",
		file: "internal/api/access/gate.go",
		old:  `ok && !forwarded(r) {`,
		new:  `ok {`,
		pkg:  "./internal/api/access", run: "TestTheSocketIsForItsOwnerAlone",
	},
	{
		name: "a caller's changes are limited",
		file: "internal/api/access/gate.go",
		old:  `change && !g.changes.take(who.ID) {`,
		new:  `change && who.ID == "" {`,
		pkg:  "./internal/api/access", run: "TestChangesAreLimitedForEachCaller",
	},
	{
		name: "requests without a valid token are limited",
		file: "internal/api/access/gate.go",
		old:  `f.Code == device.CodeNotAuthenticated && !g.failures.take(addressOf(r)) {`,
		new:  `f.Code == "never" && !g.failures.take(addressOf(r)) {`,
		pkg:  "./internal/api/access", run: "TestRequestsWithoutATokenAreLimited",
	},
	{
		name: "each route asks the policy",
		file: "internal/api/server.go",
		old:  `		if !c.Policy.Allows(c.route.Rule, c.who) {`,
		new:  `		if c.route.Rule == "never" {`,
		pkg:  "./internal/api", run: "TestAStolenTokenOfAViewerChangesNothing",
	},
	{
		name: "each request passes the guards",
		file: "internal/api/server.go",
		old:  `	if err := s.Guards.Check(r); err != nil {`,
		new:  `	if err := s.Guards.Check(r); err != nil && r.Host == "" {`,
		pkg:  "./internal/api", run: "TestAStolenTokenOfAViewerChangesNothing",
	},
}
