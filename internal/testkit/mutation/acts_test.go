package mutation

// actMutations lose who did what, or carry a request out twice.
var actMutations = []mutation{
	{
		name: "an accepted act is kept",
		file: "workflows/updates/updates.go",
		old:  `	l.keep(ctx)(l.Acts.With(a))`,
		new:  `	l.keep(ctx)(l.Acts.Without(a.Request))`,
		pkg:  "./workflows/lifecycle", run: "TestActsAreKept",
	},
	{
		name: "what has nothing to change displaces no act",
		file: "workflows/lifecycle/updates.go",
		old:  `} else if unchanged(out) {`,
		new:  `} else if unchanged(out) && id == "" {`,
		pkg:  "./workflows/lifecycle", run: "TestActsAreThoseThatChangedSomething",
	},
	{
		name: "an act that failed does not stand as done",
		file: "workflows/updates/updates.go",
		old:  `	l.keep(ctx)(l.Acts.Failed(request, code))`,
		new:  `	l.keep(ctx)(l.Acts.Failed(request, ""))`,
		pkg:  "./workflows/lifecycle", run: "TestActsThatFailedSayWhy",
	},
	{
		name: "the acts of a device are bounded in number",
		file: "workflows/contract/act.go",
		old:  `last(KeptActs, KeptActsSize).compressed`,
		new:  `last(10*KeptActs, KeptActsSize).compressed`,
		pkg:  "./workflows/lifecycle", run: "TestActsAreBounded",
	},
	{
		name: "the texts of the acts are bounded",
		file: "workflows/contract/act.go",
		old:  `	if len(text) <= limit {`,
		new:  `	if len(text) <= 50*limit {`,
		pkg:  "./workflows/lifecycle", run: "TestActsAreBounded",
	},
	{
		name: "a key stands for one body",
		file: "workflows/contract/act.go",
		old:  `return okA && okB && keyA == keyB && bodyA != bodyB`,
		new:  `return okA && okB && keyA != keyB && bodyA == bodyB`,
		pkg:  "./workflows/lifecycle", run: "TestARequestKeyStandsForOneBody",
	},
	{
		name: "an update that is repeated in a later run does nothing",
		file: "workflows/contract/recent.go",
		old:  `		found := bytes.HasPrefix(u.packed, packed)`,
		new:  `		found := bytes.HasPrefix(u.packed, packed) && u.packed[len(packed)] != 0 // has a refusal`,
		pkg:  "./workflows/lifecycle", run: "TestActsAreThoseThatChangedSomething",
	},
	{
		name: "an enrollment is remembered by its request",
		file: "workflows/lifecycle/record/record.go",
		old:  `	recent, acts := r.State.Recent, r.State.Acts`,
		new:  `	recent, acts := r.State.Recent[:0], r.State.Acts`,
		pkg:  "./workflows/lifecycle", run: "TestRepeated_EnrollmentProvidesOnce",
	},
	{
		name: "the sender's request is the update's ID",
		file: "workflows/client/client.go",
		old:  `	id, ok := ctx.Value(requestKey{}).(string)`,
		new:  `	id, ok := "", ctx.Value(requestKey{}) == "none"`,
		pkg:  "./workflows/client", run: "TestUpdateIDsAreUnique",
	},
}
