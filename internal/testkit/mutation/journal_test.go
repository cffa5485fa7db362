package mutation

// journalMutations take out what a host's journal and the check of its answers must not
// lose.
var journalMutations = []mutation{
	{
		rule: "F2", name: "a durable file is flushed before it gets its name",
		file: "internal/atomicfile/atomicfile.go",
		old:  `errors.Join(fsync(temp), temp.Close())`,
		new:  `temp.Close()`,
		pkg:  "./internal/atomicfile", run: "TestAWriteIsOnStableStorageWhenItReturns",
	},
	{
		rule: "F2", name: "the folder of a durable file is flushed after it got its name",
		file: "internal/atomicfile/atomicfile.go",
		old:  `errors.Join(fsync(dir), dir.Close())`,
		new:  `dir.Close()`,
		pkg:  "./internal/atomicfile", run: "TestAWriteIsOnStableStorageWhenItReturns",
	},
	{
		rule: "F19", name: "a verify resets the drive before it reads",
		file: "internal/clean/steps/verify.go",
		old:  `if err := drive.Reset(ctx); err != nil {`,
		new:  `if err := error(nil); err != nil || drive == nil {`,
		pkg:  "./internal/clean/steps", run: "TestAVerifyResetsTheDriveBeforeItReads",
	},
	{
		rule: "F26", name: "a recorded result counts for the same work only",
		file: "internal/host/journal.go",
		old:  `case stored.Seq == want.Seq && !stored.sameWork(want):`,
		new:  `case false:`,
		pkg:  "./activities", run: "TestARecordedResultOfOtherWorkDoesNotCount",
	},
	{
		rule: "F26", name: "a clean is another after another binding",
		file: "activities/admit.go",
		old:  `fmt.Sprintf("%s g%d", a.in.Clean, a.in.Generation)`,
		new:  `a.in.Clean`,
		pkg:  "./activities", run: "TestARecordedResultOfOtherWorkDoesNotCount TestResumesOnlyWhatCountsTheSameBytes",
	},
	{
		rule: "F26", name: "a recorded result is not believed of other hardware",
		file: "activities/step.go",
		old:  `return result, a.inspectAgain(waitCtx, driver, fence)`,
		new:  `return result, nil`,
		pkg:  "./activities", run: "TestARecordedResultIsNotBelievedOfOtherHardware",
	},
	{
		rule: "F26", name: "an older entry never replaces a newer one",
		file: "internal/host/journal.go",
		old:  `case found && stored.Seq > e.Seq:`,
		new:  `case false:`,
		pkg:  "./internal/host", run: "TestAnOlderEntryNeverReplacesANewerOne",
	},
	{
		rule: "F26", name: "a superseded workflow takes over the host's numbers",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old: `		d.takeOver(err)
`,
		new: ``,
		pkg: "./workflows/lifecycle", run: "TestTheHostsNumbersAreTakenOver",
	},
	{
		rule: "F26", name: "a superseded workflow is unknown",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old:  `case f.Code == device.CodeInventoryGenerationAhead, f.Code == device.CodeSuperseded:`,
		new:  `case f.Code == device.CodeInventoryGenerationAhead:`,
		pkg:  "./workflows/lifecycle", run: "TestTheHostsNumbersAreTakenOver",
	},
	{
		rule: "F26", name: "a result of other work does not count",
		file: "workflows/lifecycle/cleaning/results.go",
		old:  `if got.Step == wanted && got.Clean == run.ID && got.Seq == seq {`,
		new:  `if got.Step == wanted {`,
		pkg:  "./workflows/lifecycle", run: "TestAResultOfOtherWorkDoesNotCount",
	},
	{
		rule: "F26", name: "a clean ends with a result of each planned step",
		file: "workflows/lifecycle/cleaning/results.go",
		old:  `if i >= len(run.Results) || run.Results[i].Step != planned.Step {`,
		new:  `if i >= len(run.Results) {`,
		pkg:  "./workflows/lifecycle/cleaning", run: "TestACleanEndsOnlyWithAResultOfEachPlannedStep",
	},
	{
		rule: "F26", name: "a recorded result counts for the same provider only",
		file: "activities/admit.go",
		old:  `if a.in.Provider != "" {`,
		new:  `if false {`,
		pkg:  "./activities", run: "TestARecordedResultOfOtherWorkDoesNotCount",
	},
}
