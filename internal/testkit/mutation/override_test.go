package mutation

// overrideMutations take out what keeps one person, or a client of Temporal, from returning a
// device without a clean.
var overrideMutations = []mutation{
	{
		rule: "D2", name: "who requested an override does not approve it",
		file: "workflows/lifecycle/override.go",
		old:  `	case maybeOnePerson(in.Principal, p.RequestedAs):`,
		new:  `	case maybeOnePerson(in.Principal, p.ApprovedAs):`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideRefused/the_same_principal",
	},
	{
		rule: "D2", name: "two users of a unix socket may be one person",
		file: "workflows/lifecycle/override.go",
		old:  ` || strings.HasPrefix(a, peer) && strings.HasPrefix(b, peer)`,
		new:  ` || a == peer && b == peer`,
		pkg:  "./workflows/lifecycle", run: "TestUsersOfASocketAreOnePerson",
	},
	{
		rule: "D2", name: "the signature of an override is over the name that it records",
		file: "internal/api/approval/approval.go",
		old:  `c.Principal, c.By,`,
		new:  `c.Principal,`,
		pkg:  "./internal/api/approval", run: "TestSignatureIsOfEveryClaim",
	},
	{
		rule: "D2", name: "an override needs a signature",
		file: "workflows/lifecycle/override.go",
		old:  `	if !d.signatures.Verify(claims, in.Signature) {`,
		new:  `	if in.Signature != nil && !d.signatures.Verify(claims, in.Signature) {`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideRefused/no_signature",
	},
	{
		rule: "D2", name: "an override that has expired is refused",
		file: "workflows/lifecycle/override.go",
		old:  `	case left <= 0:`,
		new:  `	case left < -contract.MaxOverride:`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideRefused/a_request_that_has_expired",
	},
	{
		rule: "D2", name: "a request ends at its expiry",
		file: "workflows/lifecycle/lifecycle.go",
		old:  `	case d.pendingOverride() != nil && !d.overrideTimer:`,
		new:  `	case d.pendingOverride() != nil && d.overrideTimer:`,
		pkg:  "./workflows/lifecycle", run: "TestPendingOverrideEnds/expiry",
	},
	{
		rule: "D2", name: "a request ends when the device changes",
		file: "workflows/lifecycle/record/override.go",
		old: `	default:
		r.DropOverride()`,
		new: `	default:`,
		pkg: "./workflows/lifecycle", run: "TestPendingOverrideEnds/manage",
	},
	{
		rule: "D2", name: "an override's signature is of its device",
		file: "internal/api/approval/approval.go",
		old:  `"burnish override 1", c.Device, string(c.Act)`,
		new:  `"burnish override 1", string(c.Act)`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideRefused/another_device's_signature",
	},
	{
		rule: "D2", name: "the approval's signature is of the reason",
		file: "internal/api/approval/approval.go",
		old:  `c.ID, c.Reason, instant(c.ExpiresAt)`,
		new:  `c.ID, instant(c.ExpiresAt)`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideRefused/an_altered_reason",
	},
	{
		rule: "D2", name: "an override's signature counts until the next failed clean",
		file: "workflows/contract/override.go",
		old:  `	n := OverrideNumbers{Since: s.CreatedAt, Clean: s.Cleans, Binding: s.Device.Bindings}`,
		new:  `	n := OverrideNumbers{Since: s.CreatedAt}`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideNumbersFollowTheDevice",
	},
	{
		rule: "D2", name: "an override's signature counts for one request",
		file: "workflows/lifecycle/override.go",
		old: `	kept.Number++
`,
		new: ``,
		pkg: "./workflows/lifecycle", run: "TestDroppedOverrideIsNotRepeated",
	},
	{
		rule: "D2", name: "an override's signature counts for one life of the workflow",
		file: "workflows/contract/override.go",
		old:  `	n := OverrideNumbers{Since: s.CreatedAt, `,
		new:  `	n := OverrideNumbers{`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideNumbersFollowTheDevice",
	},
	{
		rule: "D2", name: "only the approval of an override returns the device",
		file: "workflows/lifecycle/override.go",
		old: `	if in.Approve != "" {
		approved := *kept.Pending`,
		new: `	if in.Approve != "" || kept.Pending != nil {
		approved := *kept.Pending`,
		pkg: "./workflows/lifecycle", run: "TestPendingOverrideEnds/another",
	},
	{
		rule: "D2", name: "the API signs an override for whom it has authenticated",
		file: "internal/api/override.go",
		old:  `Principal: c.who.ID, Caller`,
		new:  `Principal: in.Reason, Caller`,
		pkg:  "./internal/api", run: "TestOverrideIsSignedForItsCaller",
	},
	{
		rule: "F28", name: "two principals accept no data that came later",
		file: "internal/device/observe.go",
		old:  `(!d.NotSanitized || d.OneTimeUse)`,
		new:  `!d.NotSanitized`,
		pkg:  "./workflows/lifecycle", run: "TestOverrideAcceptsNoLaterData",
	},
}
