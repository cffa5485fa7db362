package mutation

// lifecycleMutations take out what the workflows and their state table must not lose.
var lifecycleMutations = []mutation{
	{
		rule: "F4", name: "a device in use is not cleaned",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old:  `if !d.Reservation.Allows(asked, found) {`,
		new:  `if _ = asked; false {`,
		pkg:  "./workflows/lifecycle", run: "cites F4",
	},
	{
		rule: "F4", name: "a clean reserves the device first",
		file: "workflows/lifecycle/reservation/reservation.go",
		old:  `calls.WithInventory(opts, "reserve "+d.State.Name), contract.ActivityEnsureReserved,`,
		new:  `calls.WithInventory(opts, "reserve "+d.State.Name), contract.ActivityReadReservation,`,
		pkg:  "./workflows/lifecycle", run: "cites F4",
	},
	{
		rule: "F4", name: "a clean stops when a read shows that its reservation is gone",
		file: "internal/device/observations.go",
		old:  `does(EnsureReserved, RestartClean),`,
		new:  `todo(reserveIt),`,
		pkg:  "./workflows/lifecycle", run: "TestACleanStopsWhenItsReservationIsGone TestACleanBeginsAgainWithItsReservation",
	},
	{
		rule: "F9", name: "an abort of a clean that waits to begin again is not lost",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old:  `s.Device.BeingCleaned() && d.stop`,
		new:  `s.Device.State == device.PendingCleaning && d.stop`,
		pkg:  "./workflows/lifecycle", run: "TestAbortWhileACleanWaitsToBeginAgain",
	},
	{
		rule: "F5", name: "reserved is lowered only with the recorded generation",
		file: "internal/device/facts.go",
		old:  `(otherProvider.holds(d, s) || s.Inventory.Generation != s.Known.Generation)`,
		new:  `otherProvider.holds(d, s)`,
		pkg:  "./workflows/lifecycle", run: "TestReservationChangedIsCleanedAgain",
	},
	{
		rule: "F5", name: "a write that lowers reserved is not retried blindly",
		file: "workflows/calls/options.go",
		old:  `summary), temporal.RetryPolicy{MaximumAttempts: 1}`,
		new:  `summary), temporal.RetryPolicy{MaximumAttempts: 3}`,
		pkg:  "./workflows/lifecycle", run: "cites F5",
	},
	{
		rule: "F5", name: "the end of the clean is recorded before reserved is lowered",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old: `		d.ApplyOrReport(ctx, device.Event{Kind: device.CleanDone})
`,
		new: `		_ = workflow.ExecuteActivity(calls.NoRetry(ctx, "too early"), contract.ActivityUnreserve, contract.ReservationRequest{
			UUID: d.State.UUID, Name: d.State.Name, Owner: d.State.Enrollment.Owner, Generation: run.Generation, Provider: run.Provider,
		}).Get(ctx, nil)
		d.ApplyOrReport(ctx, device.Event{Kind: device.CleanDone})
`,
		pkg: "./workflows/lifecycle", run: "TestReturningIsRecordedBeforeTheWrite",
	},
	{
		rule: "F6", name: "only its own instance ends a binding",
		file: "internal/device/table.go",
		old:  `return d.Binding != nil && SameTenant(d.Binding.Instance, e.Instance)`,
		new:  `return d.Binding != nil`,
		pkg:  "./workflows/lifecycle", run: "cites F6",
	},
	{
		rule: "F6", name: "a hint from before the binding is dropped",
		file: "workflows/lifecycle/signals.go",
		old:  `if err != nil || at.Before(s.BoundAt) {`,
		new:  `if err != nil || at.IsZero() {`,
		pkg:  "./workflows/lifecycle", run: "cites F6",
	},
	{
		rule: "F5", name: "a re-created provider is not the one that was lowered",
		file: "internal/device/facts.go",
		old:  `otherProvider = fact{"", func(_ Device, s Snapshot) bool { return s.Inventory.Provider != s.Known.Provider }}`,
		new:  `otherProvider = fact{"", func(Device, Snapshot) bool { return false }}`,
		pkg:  "./workflows/lifecycle", run: "TestProviderRecreatedBeforeUnreserve TestProviderRecreatedDuringAClean TestProviderRecreatedWhileKeptClean",
	},
	{
		rule: "F5", name: "a device held clean is compared by provider at each read",
		file: "internal/device/facts.go",
		old:  `s.Known.KeepsClean(d) && s.Inventory.Provider != s.Known.Provider`,
		new:  `s.Known.KeepsClean(d) && s.Inventory.Provider == "-"`,
		pkg:  "./workflows/lifecycle", run: "TestProviderRecreatedBeforeUnreserve TestProviderRecreatedDuringAClean TestProviderRecreatedWhileKeptClean",
	},
	{
		rule: "F5", name: "a device held clean is compared by generation",
		file: "internal/device/observe.go",
		old:  `(!k.Uncertain || d.Allocatable()) || k.KeepsClean(d)`,
		new:  `(!k.Uncertain || d.Allocatable())`,
		pkg:  "./workflows/lifecycle", run: "TestUsedBetweenTheImportAndTheReturn",
	},
	{
		rule: "F5", name: "reserving a device held clean notices who had it",
		file: "workflows/lifecycle/reservation/observe.go",
		old: `		if !asked.Known.KeepsClean(d.State.Device) {
			in.Expect = nil
		}
`,
		new: `		in.Expect = nil
`,
		pkg: "./workflows/lifecycle", run: "TestUsedBetweenTheReturnAndMaintenance TestUsedDuringMaintenanceIsCleaned",
	},
	{
		rule: "D8", name: "a missing provider ends the import",
		file: "internal/device/observations.go",
		old:  `does(EndImport, RetryLater)`,
		new:  `does(RetryLater)`,
		pkg:  "./workflows/lifecycle", run: "cites D8",
	},
	{
		rule: "D8", name: "an import accepts its own provider only",
		file: "internal/device/observations.go",
		old:  `return s.Inventory.Provider == s.Imported }`,
		new:  `return s.Inventory.Used == 0 }`,
		pkg:  "./workflows/lifecycle", run: "cites D8",
	},
	{
		rule: "F29", name: "a clean that begins again and again is paused",
		file: "workflows/lifecycle/waits.go",
		old:  `!d.State.Device.BeingCleaned()`,
		new:  `d.State.Device.State != device.PendingCleaning`,
		pkg:  "./workflows/lifecycle", run: "TestACleanThatBeginsAgainIsPaused",
	},
	{
		rule: "D8", name: "an import accepts the provider that was listed",
		file: "workflows/lifecycle/enrollment.go",
		old:  `cmp.Or(listed, found.Provider)`,
		new:  `cmp.Or(found.Provider, listed)`,
		pkg:  "./workflows/lifecycle", run: "cites D8",
	},
	{
		rule: "F4", name: "the instance found at the read also had it at the reservation",
		file: "workflows/lifecycle/reservation/pool.go",
		old: `		if err := d.refuseUsed(d.Conclude(ctx, asked, found, err), err); err != nil {
			return err
		}
		in.Expect`,
		new: `		if asked.Refused || err != nil {
			return err
		}
		in.Expect`,
		pkg: "./workflows/lifecycle", run: "TestReleasedBetweenTheReadAndTheReservation",
	},
	{
		rule: "S0.15", name: "a device that is allocated and not reserved is reserved",
		file: "internal/device/facts.go",
		old:  `return open.holds(d, s) || tenantMissing.holds(d, s)`,
		new:  `return tenantMissing.holds(d, s)`,
		pkg:  "./workflows/lifecycle", run: "cites S0.15",
	},
	{
		rule: "S2.40", name: "a retired device is reserved",
		file: "workflows/lifecycle/operations.go",
		old:  `d.State.Intent.EnsureReserved || reserve`,
		new:  `d.State.Intent.EnsureReserved || reserve && false`,
		pkg:  "./workflows/lifecycle", run: "TestRetiredIsReserved",
	},
	{
		rule: "D9", name: "a bind notices a re-created provider",
		file: "internal/device/observations.go",
		old:  `given(of(burning), answered, sameOne), Burned`,
		new:  `given(of(burning), answered), Burned`,
		pkg:  "./workflows/lifecycle", run: "TestBindAfterProviderRecreated",
	},
	{
		rule: "D9", name: "a claim does not hide a re-created provider",
		file: "internal/device/observe.go",
		old:  `	if readAgain {`,
		new:  `	if readAgain && k.Uncertain {`,
		pkg:  "./workflows/lifecycle", run: "TestBindAfterProviderRecreated",
	},
	{
		name: "no continue-as-new while a reconciliation runs",
		file: "workflows/reconcile/reconcile.go",
		old:  `return p.reconcilingAll+p.reconcilingSome+p.timers == 0`,
		new:  `return p.reconcilingSome+p.timers == 0`,
		pkg:  "./workflows/reconcile", run: "TestContinueAsNewKeepsTheTimer TestContinueAsNewLosesNothing",
	},
	{
		rule: "F7", name: "named steps never clear the dirty flag",
		file: "internal/device/table.go",
		old:  `CleanDone, when(notReturn, fullPlan)`,
		new:  `CleanDone, when(notReturn)`,
		pkg:  "./internal/device", run: "TestRequirements TestProofs",
	},
	{
		rule: "F7", name: "the start of a bind sets the dirty flag",
		file: "internal/device/table.go",
		old:  `d.Dirty, d.Claim.Burning = true, true`,
		new:  `d.Claim.Burning = true`,
		pkg:  "./internal/device", run: "TestRequirements TestProofs",
	},
	{
		rule: "F9", name: "a cancel waits for the step",
		file: "workflows/calls/options.go",
		old:  `WaitForCancellation:    true`,
		new:  `WaitForCancellation:    false`,
		pkg:  "./workflows/lifecycle", run: "cites F9",
	},
	{
		rule: "F10", name: "the numbers in the host's record count",
		file: "workflows/lifecycle/signals.go",
		old:  `r.Seq > s.Seq || r.Binding`,
		new:  `false || r.Binding`,
		pkg:  "./workflows/lifecycle", run: "TestBindFindsANewerInventory TestInvalidatedKeepsTheInstance TestRepeatedHintInvalidatesOnce TestHostIsAhead TestInventoryGenerationIsAhead TestReservingReadDuringAClean TestNumbersNeverGoBack TestRunBeforeTheEnrollmentIsIgnored TestUnknownWaitsForItsInventory",
	},
	{
		rule: "D4", name: "a drive that no policy matches counts as cleanable",
		file: "workflows/lifecycle/discovery/discovery.go",
		old:  `found.Operation != "" || found.Capabilities != nil`,
		new:  `found.Operation != ""`,
		pkg:  "./workflows/lifecycle", run: "TestADriveWithoutAnOperationIsNeverReturnedUncleaned",
	},
	{
		rule: "S2.28", name: "a new policy changes no device that is in use",
		file: "workflows/lifecycle/discovery/discovery.go",
		old:  `s != device.Absent && s != device.Available && s != device.Error && locked != ""`,
		new:  `s == device.Absent && locked == "-"`,
		pkg:  "./workflows/lifecycle", run: "cites S2.28",
	},
	{
		rule: "F23", name: "a serial seen in a second slot is not returned",
		file: "workflows/lifecycle/reservation/pool.go",
		old:  `if s.Intent.DuplicateAt != "" {`,
		new:  `if false {`,
		pkg:  "./workflows/lifecycle", run: "cites F23",
	},
	{
		rule: "F23", name: "a serial is searched for again once its device is listed",
		file: "workflows/lifecycle/discovery/discovery.go",
		old: `		s.Intent.ConfirmSerial = true
`,
		new: ``,
		pkg: "./workflows/lifecycle", run: "TestDuplicateSerialEnrolledAtTheSameMoment",
	},
	{
		rule: "F23", name: "that search counts only once the device itself is listed",
		file: "activities/hardware.go",
		old:  `in.Listed && !found.Listed:`,
		new:  `in.Listed && !found.Listed && false:`,
		pkg:  "./activities", run: "TestFindBySerial",
	},
	{
		rule: "F23", name: "an unreachable host clears no duplicate",
		file: "internal/device/facts.go",
		old:  `return s.Duplicate }}`,
		new:  `return s.Duplicate && s.Host == HostSame }}`,
		pkg:  "./workflows/lifecycle", run: "cites F23",
	},
	{
		name: "no continue-as-new while a signal is unread",
		file: "workflows/lifecycle/lifecycle.go",
		old:  `case d.signals.HasPending():`,
		new:  `case d.signals.HasPending() && !d.canEndRun(ctx):`,
		pkg:  "./workflows/lifecycle", run: "TestContinueAsNew_SignalInItsTask TestContinueAsNew_HintInItsTask",
	},
	{
		name: "no continue-as-new while a handler runs",
		file: "workflows/lifecycle/lifecycle.go",
		old:  `!workflow.AllHandlersFinished(ctx) || `,
		new:  ``,
		pkg:  "./workflows/lifecycle", run: "TestContinueAsNew_NotWhileAnythingRuns",
	},
	{
		rule: "F29", name: "a wait that lasts calls the operator",
		file: "workflows/lifecycle/lifecycle.go",
		old:  `case !d.NextCall().IsZero() && !d.callTimer:`,
		new:  `case d.callTimer && !d.callTimer:`,
		pkg:  "./workflows/lifecycle", run: "TestWaitsShowTheirCause",
	},
	{
		rule: "F29", name: "a wait ends with its cause",
		file: "workflows/lifecycle/record/waits.go",
		old: `		r.EndWait(ctx, waitsFor)
	}
	return err`,
		new: `	}
	return err`,
		pkg: "./workflows/lifecycle", run: "TestWaitsShowTheirCause",
	},
	{
		rule: "F29", name: "a call whose attempts fail is reported to its workflow",
		file: "activities/waits.go",
		old:  `f != nil && WorthReporting(info.Attempt) {`,
		new:  `f != nil && info.Attempt < 1 {`,
		pkg:  "./activities", run: "TestFailedCallsAreReported",
	},
	{
		rule: "F29", name: "a step without progress is reported to its workflow",
		file: "activities/stepwaits.go",
		old:  `stalled := w.tellAfter > 0 && now.Sub(w.quiet) >= w.tellAfter`,
		new:  `stalled := w.tellAfter < 0`,
		pkg:  "./activities", run: "TestAStepWithoutProgressIsReported",
	},
	{
		rule: "F29", name: "a clean waits for a provider that Nova re-creates",
		file: "internal/device/observations.go",
		old:  `given(of(notReturn), missing, ownedByNova), "", does(RetryLater),`,
		new:  `given(of(notReturn), missing, ownedByNova), CleanFailed, nil,`,
		pkg:  "./workflows/lifecycle", run: "TestCleanWaitsForItsProvider",
	},
	{
		rule: "F5", name: "cleans that a foreign writer repeats have pauses",
		file: "workflows/lifecycle/reservation/observe.go",
		old: `		d.CountForeignWrite(ctx)
	}
`,
		new: `	}
`,
		pkg: "./workflows/lifecycle", run: "TestForeignWritesArePaused",
	},
}
