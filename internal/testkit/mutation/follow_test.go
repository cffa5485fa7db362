package mutation

// followMutations take out what keeps two steps right that share an activity.
var followMutations = []mutation{
	{
		rule: "F1", name: "a step that writes has an activity of its own",
		file: "activities/follow.go",
		old:  `i < 0 || a.Steps[i].Writes`,
		new:  `i < 0`,
		pkg:  "./activities", run: "TestAStepFollowsInTheActivity",
	},
	{
		rule: "F2", name: "an attempt after a kill finds that the step before the last one is done",
		file: "internal/host/journal.go",
		old:  `case stored.finishedBefore(want):`,
		new:  `case stored.finishedBefore(want) && want.Seq < 0:`,
		pkg:  "./activities", run: "TestAnAttemptAfterAKillInAStepThatFollows",
	},
	{
		rule: "F26", name: "a step that was done just before counts for the same hardware only",
		file: "internal/host/journal.go",
		old: `b.Step == want.Step &&
		e.Serial == want.Serial && e.Size == want.Size`,
		new: `b.Step == want.Step`,
		pkg: "./activities", run: "TestAnAttemptAfterAKillInAStepThatFollows",
	},
	{
		rule: "F26", name: "a verification that fails in the activity of the step before it fails the clean",
		file: "activities/follow.go",
		old:  `	return &contract.NextResult{Refusal: &refusal}`,
		new:  `	return nil`,
		pkg:  "./activities", run: "TestAStepThatFollowsFails",
	},
	{
		rule: "F26", name: "the workflow believes no other result of a step that follows",
		file: "workflows/lifecycle/cleaning/results.go",
		old:  `d.ended(ctx, run, run.Seq+1, result, err)`,
		new:  `d.ended(ctx, run, result.Seq, result, err)`,
		pkg:  "./workflows/lifecycle", run: "TestAResultThatFollowsIsCompared",
	},
	{
		rule: "F26", name: "the number of a step that may follow is not used again",
		file: "workflows/lifecycle/cleaning/plan.go",
		old:  `		d.State.Seq++ // used`,
		new:  `		d.State.Seq += 0 // used`,
		pkg:  "./workflows/lifecycle", run: "TestAStepThatTakesLongerHasItsOwnActivity",
	},
}
