package mutation

// runbookMutations take out what a runbook and the arguments of a step must not get around.
var runbookMutations = []mutation{
	{
		rule: "F7", name: "a runbook's erase is followed by its verify",
		file: "internal/clean/runbook.go",
		old:  `	if !has[Verify] {`,
		new:  `	if !has[Verify] && !has[Erase] {`,
		pkg:  "./internal/config", run: "TestMistakesInThePolicysLists/no_verify",
	},
	{
		rule: "F7", name: "nothing stands between a runbook's erase and its verify",
		file: "internal/clean/runbook.go",
		old:  `if last-first+1 != len(block) {`,
		new:  `if last-first+1 < len(block) {`,
		pkg:  "./internal/config", run: "TestMistakesInThePolicysLists/a_step_in_between",
	},
	{
		rule: "F7", name: "a full clean by a runbook erases as the device needs it",
		file: "internal/clean/runbook.go",
		old:  `slices.Equal(have[i:i+len(wanted)], wanted)`,
		new:  `len(wanted) > 0`,
		pkg:  "./internal/clean", run: "TestAFullCleanByARunbookErasesAndVerifies",
	},
	{
		rule: "F7", name: "a clean by hand never makes a dirty device available",
		file: "internal/device/table.go",
		old:  `{in(Cleaning), StepsDone, when(notReturn, named), Manageable, then(stepsOver)},`,
		new:  `{in(Cleaning), StepsDone, when(notReturn, named), noChange, then(stepsOver, sanitize)},`,
		pkg:  "./workflows/lifecycle", run: "TestARunbookByHandNeverClearsDirty",
	},
	{
		rule: "F7", name: "a runbook by hand is a manual clean",
		file: "workflows/contract/contract.go",
		old:  `return len(in.Steps) > 0 || in.Runbook != ""`,
		new:  `return len(in.Steps) > 0`,
		pkg:  "./workflows/lifecycle", run: "TestARunbookByHandNeverClearsDirty",
	},
	{
		rule: "F20", name: "a runbook looks for what a tenant left before it changes the device",
		file: "internal/clean/runbook.go",
		old:  `		case changed != "":`,
		new:  `		case changed == "-":`,
		pkg:  "./internal/config", run: "TestMistakesInThePolicysLists/a_check_after_the_change",
	},
	{
		name: "a device that two runbooks match is cleaned by neither",
		file: "internal/clean/runbook.go",
		old:  `		if chosen != nil {`,
		new:  `		if chosen == &book {`,
		pkg:  "./workflows/lifecycle", run: "TestTwoRunbooksForOneDevice",
	},
	{
		name: "a hold stops the clean",
		file: "workflows/lifecycle/cleaning/pause.go",
		old:  `return run.ReleasedBy != ""`,
		new:  `return run.StepAt.Before(workflow.Now(ctx))`,
		pkg:  "./workflows/lifecycle", run: "TestAHoldStopsTheClean",
	},
	{
		name: "a hold never reaches a host",
		file: "internal/clean/runbook.go",
		old:  `	return slices.ContainsFunc(workflowSteps, func(s Step) bool { return s.Name == step })`,
		new:  `	return step == StepWait`,
		pkg:  "./workflows/lifecycle", run: "TestAHoldStopsTheClean",
	},
	{
		name: "an operator brings no firmware",
		file: "internal/clean/args.go",
		old:  `return a.From != PolicyOnly`,
		new:  `return a.Name != ""`,
		pkg:  "./internal/clean/steps", run: "TestTheFirmwareIsThePolicys",
	},
	{
		name: "arguments that do not fit the policy are refused without a trace",
		file: "workflows/lifecycle/updates.go",
		old:  `already[operations, contract.CleanInput], operations.validatePlan}`,
		new:  `already[operations, contract.CleanInput], nil}`,
		pkg:  "./workflows/lifecycle", run: "TestArgumentsThatDoNotFit",
	},
	{
		name: "the host checks the arguments of a step again",
		file: "activities/step.go",
		old:  `err := a.step.Args.CheckRecorded(a.in.Args); err != nil`,
		new:  `err := a.step.Args.CheckRecorded(nil); err != nil`,
		pkg:  "./activities", run: "TestArgumentsAreCheckedOnTheHost",
	},
}
