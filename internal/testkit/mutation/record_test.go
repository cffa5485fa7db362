package mutation

// recordMutations: the record outside Temporal holds more than the tenant, and memories lose to it.
var recordMutations = []mutation{
	{
		rule: "F36", name: "a bind that was granted is confirmed by the record",
		file: "workflows/lifecycle/binding.go",
		old: `	if err := d.confirm(ctx); err != nil {
		return contract.Result{}, err
	}
	number, ours, ended`,
		new: `	number, ours, ended`,
		pkg: "./workflows/lifecycle", run: "TestAFormerTenantIsNotBoundAlready",
	},
	{
		rule: "F36", name: "an unbind that is refused asks the record first",
		file: "workflows/lifecycle/updates.go",
		old:  `	case contract.VerbUnbind.Update(), contract.VerbRebuild.Update():`,
		new:  `	case contract.VerbRebuild.Update():`,
		pkg:  "./workflows/lifecycle", run: "TestATenantThatIsForgottenUnbinds",
	},
	{
		rule: "F36", name: "a later binding of the same instance is another one",
		file: "internal/device/facts.go",
		old:  ` && i.Bindings <= d.Binding.Number:`,
		new:  `:`,
		pkg:  "./workflows/lifecycle", run: "TestALaterBindingOfTheSameInstance",
	},
	{
		rule: "F36", name: "a host compares its numbers in each round",
		file: "activities/recovery.go",
		old:  `record.Binding <= published.Bindings && record.Clean <= published.Cleans`,
		new:  `true`,
		pkg:  "./activities", run: "TestRecoverLost",
	},
	{
		rule: "F42", name: "a claim whose burn was carried out is granted",
		file: "internal/device/table.go",
		old:  `if claim != nil && e.Recorded && SameTenant(e.Instance, claim.Instance) {`,
		new:  `if false {`,
		pkg:  "./workflows/lifecycle", run: "TestABurnThatWasLostWithItsTask",
	},
	{
		rule: "F42", name: "a bind that was lost with its task is that of its instance's next request",
		file: "workflows/lifecycle/binding.go",
		old:  `	if bound && b.Observed && d.OwnedByBurnish() {`,
		new:  `	if false {`,
		pkg:  "./workflows/lifecycle", run: "TestABindThatWasLostWithItsTask",
	},
	{
		rule: "F43", name: "what an operator holds is not cleaned by itself",
		file: "internal/device/table.go",
		old:  `{in(Manageable, Error), Invalidated, when(held), noChange, then(invalidate)},`,
		new:  `{in(Manageable, Error), Invalidated, when(held), Unknown, then(invalidate)},`,
		pkg:  "./workflows/lifecycle", run: "TestALostCleanLeavesTheDeviceToItsOperator",
	},
	{
		rule: "F43", name: "the record says that an operator holds the device",
		file: "workflows/lifecycle/reservation/reservation.go",
		old:  `	r.Hold, r.Bindings, r.Cleans = d.State.Device.Hold(),`,
		new:  `	r.Hold, r.Bindings, r.Cleans = device.HoldNone,`,
		pkg:  "./workflows/lifecycle", run: "TestAHoldOutlivesTheWorkflow",
	},
}
