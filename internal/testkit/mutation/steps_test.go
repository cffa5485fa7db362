package mutation

// stepsMutations take out what planning and the steps must not lose.
var stepsMutations = []mutation{
	{
		rule: "F2", name: "the device is flushed before a chunk is recorded",
		file: "internal/clean/steps/zero.go",
		old:  `if err := w.Device.Flush(ctx); err != nil {`,
		new:  `if err := error(nil); err != nil {`,
		pkg:  "./internal/clean/steps", run: "cites F2",
	},
	{
		rule: "F2", name: "a chunk is recorded after its flush",
		file: "internal/clean/steps/zero.go",
		old: `		if err := w.Device.Flush(ctx); err != nil {
			return err
		}
		offset += n
		if err := checkpoint(offset); err != nil {
			return err
		}
`,
		new: `		offset += n
		if err := checkpoint(offset); err != nil {
			return err
		}
		if err := w.Device.Flush(ctx); err != nil {
			return err
		}
`,
		pkg: "./internal/clean/steps", run: "TestZeroSurvivesACrashAtAnyMoment",
	},
	{
		rule: "F2", name: "an error of the journal ends the step",
		file: "internal/clean/steps/record.go",
		old: `	return w.Record(offset)
`,
		new: `	_ = w.Record(offset)
	return nil
`,
		pkg: "./internal/clean/steps", run: "TestARecordThatFailsEndsTheStepAtOnce",
	},
	{
		rule: "F2", name: "an error of the journal ends the write of the next chunk",
		file: "internal/clean/steps/record.go",
		old:  `				fail(err)`,
		new:  `				_ = fail`,
		pkg:  "./internal/clean/steps", run: "TestARecordThatFailsEndsTheStepAtOnce",
	},
	{
		rule: "F2", name: "two chunks are in flight at most",
		file: "internal/clean/steps/record.go",
		old: `		if err := wait(); err != nil {
			return err
		}
`,
		new: ``,
		pkg: "./internal/clean/steps", run: "TestZeroSurvivesACrashAtAnyMoment",
	},
	{
		rule: "F2", name: "no record outlives its step",
		file: "internal/clean/steps/record.go",
		old:  `		failed := wait()`,
		new:  `		failed := error(nil)`,
		pkg:  "./internal/clean/steps", run: "TestNoRecordOutlivesItsStep",
	},
	{
		rule: "F17", name: "an unknown namespace layout is consolidated before it is zeroed",
		file: "internal/clean/steps/namespaces.go",
		old:  `s.Operation.Overwrites() && s.Layout != device.LayoutWhole`,
		new:  `s.Operation.Overwrites() && s.Layout == device.LayoutSplit`,
		pkg:  "./internal/clean", run: "cites S2.53",
	},
	{
		rule: "F16", name: "an error of Write Zeroes is a fault",
		file: "internal/clean/steps/zero.go",
		old: `		write = drive.WriteZeroesAt
`,
		new: `		write = func(ctx context.Context, at, n int64) error {
			if drive.WriteZeroesAt(ctx, at, n) != nil {
				return w.Device.ZeroAt(ctx, at, n)
			}
			return nil
		}
`,
		pkg: "./internal/clean/steps", run: "cites F16",
	},
	{
		rule: "F17", name: "zeroing covers the whole drive",
		file: "internal/clean/steps/zero.go",
		old: `	if err := requireWholeDevice(ctx, w); err != nil {
		return Outcome{}, err
	}
	size, err := sizeOf(w)`,
		new: `	size, err := sizeOf(w)`,
		pkg: "./internal/clean/steps", run: "cites F17",
	},
	{
		rule: "F17", name: "any other namespace layout is consolidated",
		file: "internal/clean/steps/namespaces.go",
		old:  `if before != device.LayoutWhole {`,
		new:  `if before == device.LayoutNone {`,
		pkg:  "./internal/hardware/nvme", run: "TestNamespaces/two",
	},
	{
		rule: "F18", name: "only a sanitize of this clean counts",
		file: "internal/clean/steps/verify.go",
		old:  `if !recorded || !own.Proven || !own`,
		new:  `if !recorded || !own`,
		pkg:  "./internal/hardware/nvme", run: "TestAVerifyAloneProvesNothing",
	},
	{
		rule: "F18", name: "the sanitize log must show our command",
		file: "internal/clean/steps/sanitize.go",
		old:  `now.GlobalErased && now.Command == i.Command &&`,
		new:  `now.GlobalErased &&`,
		pkg:  "./internal/hardware/nvme", run: "TestAnotherSanitizeBetweenIntentAndCommand",
	},
	{
		rule: "F18", name: "the sanitize log must show that all data is erased",
		file: "internal/clean/steps/sanitize.go",
		old:  `now.GlobalErased && now.Command`,
		new:  `now.Command`,
		pkg:  "./internal/hardware/nvme", run: "TestSanitizeThatErasesNothingIsDetected",
	},
	{
		rule: "F18", name: "a log that showed erased data before proves nothing",
		file: "internal/clean/steps/sanitize.go",
		old:  `(!i.Before.GlobalErased || i.SawRunning)`,
		new:  `i.Command != 0`,
		pkg:  "./internal/hardware/nvme", run: "TestSanitizeThatErasesNothingIsDetected",
	},
	{
		rule: "F18", name: "a sanitize that the drive refused is not ours",
		file: "internal/clean/steps/sanitize.go",
		old:  `recorded, err = false, w.SaveEvidence(intentName, sanitizeIntent{})`,
		new:  `err = nil`,
		pkg:  "./internal/hardware/nvme", run: "TestAnotherSanitizeBetweenIntentAndCommand",
	},
	{
		rule: "F18", name: "the drive is still globally erased when it is verified",
		file: "internal/clean/steps/verify.go",
		old:  `case !now.GlobalErased:`,
		new:  `case false:`,
		pkg:  "./internal/hardware/nvme", run: "TestWritesAfterTheSanitizeAreDetected",
	},
	{
		rule: "F18", name: "the intent is recorded before the command",
		file: "internal/clean/steps/sanitize.go",
		old: `	if err := w.SaveEvidence(intentName, own); err != nil {
		return sanitizeIntent{}, err
	}
`,
		new: ``,
		pkg: "./internal/hardware/nvme", run: "TestCrashBetweenIntentAndCommand",
	},
	{
		rule: "F19", name: "no sampled block reads as it did before",
		file: "internal/clean/steps/evidence.go",
		old:  `case string(digest(now)) == string(block.Hash):`,
		new:  `case false:`,
		pkg:  "./internal/clean/steps", run: "TestATenantsBlocksMustChangeToo",
	},
	{
		rule: "F19", name: "nothing is planted outside of detached namespaces",
		file: "internal/clean/steps/sanitize.go",
		old:  `hidden, err := ensureNamespace(ctx, w, before)`,
		new:  `hidden, err := "", error(nil)`,
		pkg:  "./internal/hardware/nvme", run: "TestHiddenNamespacesAreSampled",
	},
	{
		rule: "F33", name: "a sanitize without planted data is followed by another",
		file: "internal/clean/steps/sanitize.go",
		old:  `if own.Planted.complete() {`,
		new:  `if true {`,
		pkg:  "./internal/clean/steps", run: "TestADriveThatErasesNothingIsFoundOut",
	},
	{
		rule: "F33", name: "no planted sector is there after the sanitize",
		file: "internal/clean/steps/planted.go",
		old:  `if bytes.Equal(now[i:i+sector], before[i:i+sector]) {`,
		new:  `if before == nil {`,
		pkg:  "./internal/clean/steps", run: "TestADriveThatErasesNothingIsFoundOut",
	},
	{
		rule: "F33", name: "a drive on which nothing could be planted is not proved",
		file: "internal/clean/steps/planted.go",
		old:  `return len(p.At) > 0 && p.Missing == ""`,
		new:  `return true`,
		pkg:  "./internal/clean/steps", run: "TestWithoutPlantedDataNothingIsProved",
	},
	{
		rule: "F33", name: "what was planted is read back",
		file: "internal/clean/steps/planted.go",
		old:  `case !bytes.Equal(block, p.block(at)):`,
		new:  `case false:`,
		pkg:  "./internal/clean/steps", run: "TestWithoutPlantedDataNothingIsProved",
	},
	{
		rule: "F33", name: "what was planted is flushed",
		file: "internal/clean/steps/planted.go",
		old:  `if err := w.Device.Flush(ctx); err != nil {`,
		new:  `if err := error(nil); err != nil {`,
		pkg:  "./internal/clean/steps", run: "TestASanitizedDriveIsCheckedAgain",
	},
	{
		rule: "F33", name: "each namespace has planted data at its own place",
		file: "internal/clean/steps/planted.go",
		old:  `from += size`,
		new:  `from += 0`,
		pkg:  "./internal/clean/steps", run: "TestADriveThatErasesNothingIsFoundOut",
	},
	{
		rule: "F33", name: "the data is planted before each sanitize",
		file: "internal/clean/steps/sanitize.go",
		old:  `if own.Planted, err = plant(ctx, w, writer); err != nil {`,
		new: `if len(own.Planted.At) > 0 {
	} else if own.Planted, err = plant(ctx, w, writer); err != nil {`,
		pkg: "./internal/clean/steps", run: "TestDataIsPlantedBeforeEachSanitize",
	},
	{
		rule: "F12", name: "a sanitize ends with a check of the drive",
		file: "internal/clean/steps/sanitize.go",
		old: `	if err := w.Device.Check(ctx); err != nil {
		return Outcome{}, err
	}
	security`,
		new: `	security`,
		pkg: "./internal/clean/steps", run: "TestASanitizedDriveIsCheckedAgain",
	},
	{
		rule: "F18", name: "the end of a quick sanitize is distinguished from an earlier one's",
		file: "internal/clean/steps/sanitize.go",
		old: `	if before, err = drive.Sanitize(ctx); err != nil {
		return sanitizeIntent{}, err
	}
`,
		new: ``,
		pkg: "./internal/hardware/nvme", run: "TestSanitizeTooQuickToBeSeenRunning",
	},
	{
		rule: "F18", name: "media verification ends also before zeroing",
		file: "internal/clean/steps/sanitize.go",
		old:  `if now.Verifying { // it ends`,
		new:  `if false { // it ends`,
		pkg:  "./internal/hardware/nvme", run: "TestNothingATenantLeavesBlocksAClean",
	},
	{
		rule: "F20", name: "a deferred check is made after the sanitize",
		file: "internal/clean/steps/sanitize.go",
		old:  `security, err := finishDeferredCheck(ctx, w)`,
		new:  `security, err := "", error(nil)`,
		pkg:  "./internal/hardware/nvme", run: "TestSanitizeDefersTheSecurityCheck",
	},
	{
		rule: "F17", name: "the layout is read after the last write of zero",
		file: "internal/clean/steps/zero.go",
		old: `	// the same device (F11, F17).
	if err := requireWholeDevice(ctx, w); err != nil {`,
		new: `	// the same device (F11, F17).
	if err := error(nil); err != nil {`,
		pkg: "./internal/hardware/nvme", run: "TestTheLayoutIsReadAfterTheLastWrite",
	},
	{
		rule: "F17", name: "the layout is read when a sanitize is verified",
		file: "internal/clean/steps/verify.go",
		old: `	if err := requireWholeDevice(ctx, w); err != nil {
		return Outcome{}, err
	}
	note`,
		new: `	note`,
		pkg: "./internal/hardware/nvme", run: "TestTheLayoutIsReadAfterTheLastWrite",
	},
	{
		rule: "F18", name: "zeroes wait for the end of a sanitize",
		file: "internal/clean/steps/zero.go",
		old: `	if err := requireNoSanitize(ctx, w); err != nil {
		return Outcome{}, err
	}
`,
		new: ``,
		pkg: "./internal/hardware/nvme", run: "TestZeroesWaitForATenantsSanitize",
	},
	{
		rule: "F18", name: "the check before zeroes waits for the end of a sanitize",
		file: "internal/clean/steps/checks.go",
		old:  `	if !w.Operation.Sanitizes() {`,
		new:  `	if false {`,
		pkg:  "./internal/hardware/nvme", run: "TestZeroesWaitForATenantsSanitize",
	},
	{
		rule: "F19", name: "every byte is compared",
		file: "internal/clean/steps/verify.go",
		old:  `case !bytes.Equal(b.data(), zeroes[:b.n]):`,
		new:  `case !bytes.Equal(b.data()[:1], zeroes[:1]):`,
		pkg:  "./internal/clean/steps", run: "cites F19",
	},
	{
		rule: "F19", name: "a block is compared once it was read",
		file: "internal/clean/steps/readahead.go",
		old: `			<-b.read
`,
		new: ``,
		pkg: "./internal/clean/steps", run: "TestTheFirstDirtyByteIsFoundWhateverIsReadFirst",
	},
	{
		rule: "F19", name: "no read begins behind one that failed",
		file: "internal/clean/steps/readahead.go",
		old:  `b.err == nil && !incomplete.isBelow(b.at) {`,
		new:  `b.err == nil {`,
		pkg:  "./internal/clean/steps", run: "TestAReadThatFailsAmongOthers",
	},
	{
		rule: "F19", name: "every block is read",
		file: "internal/clean/steps/verify.go",
		old:  `for at := int64(0); at < size; at += step {`,
		new:  `for at := int64(0); at < size; at += 2 * step {`,
		pkg:  "./internal/clean/steps", run: "cites F19",
	},
	{
		rule: "F19", name: "reading no byte proves nothing",
		file: "internal/clean/steps/steps.go",
		old:  `if size <= 0 {`,
		new:  `if size < 0 {`,
		pkg:  "./internal/clean/steps", run: "cites F19",
	},
}
