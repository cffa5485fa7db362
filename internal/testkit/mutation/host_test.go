package mutation

// hostMutations take out what activities, host and inventory must not lose.
var hostMutations = []mutation{
	{
		rule: "F1", name: "the fence is a lock that other processes see",
		file: "internal/atomicfile/lock.go",
		old:  `return flock(fd, unix.LOCK_EX|unix.LOCK_NB)`,
		new:  `return error(nil)`,
		pkg:  "./internal/host", run: "cites F1",
	},
	{
		rule: "F1", name: "an attempt that a later one replaced does not touch the device",
		file: "activities/admit.go",
		old:  `case verdict.Fault != nil:`,
		new:  `case false:`,
		pkg:  "./activities", run: "cites F1",
	},
	{
		rule: "F1", name: "the fence is checked before each chunk",
		file: "activities/resume.go",
		old: `func (a *attempt) mayGoOn(ctx, workCtx context.Context, fence *host.Fence) error {
	if err := fence.Held(); err != nil {`,
		new: `func (a *attempt) mayGoOn(ctx, workCtx context.Context, fence *host.Fence) error {
	if err := error(nil); err != nil {`,
		pkg: "./activities", run: "cites F1",
	},
	{
		rule: "F1", name: "what was written without the fence is not recorded",
		file: "activities/resume.go",
		old: `func (a *attempt) recordOffset(fence *host.Fence, offset int64) error {
	if err := fence.Held(); err != nil {`,
		new: `func (a *attempt) recordOffset(fence *host.Fence, offset int64) error {
	if err := error(nil); err != nil {`,
		pkg: "./activities", run: "cites F1",
	},
	{
		rule: "F3", name: "lost contact to the server is never reported as canceled",
		file: "activities/step.go",
		old:  `return retryNow(device.CodeServerUnreachable, "contact to the server was lost")`,
		new:  `return temporal.NewCanceledError()`,
		pkg:  "./activities", run: "cites F3",
	},
	{
		rule: "F4", name: "an allocation between the read and the write is noticed",
		file: "internal/inventory/rules.go",
		old:  `if st.Generation != u.Generation {`,
		new:  `if false {`,
		pkg:  "./internal/inventory", run: "TestReadIsOfOneMoment",
	},
	{
		rule: "F5", name: "reserved is lowered at the provider that was read",
		file: "activities/control.go",
		old: `		id = in.Provider
`,
		new: `		p, _ := c.Store.(inventory.NovaProviders).Find(ctx, in.Name)
		id = p.UUID
`,
		pkg: "./workflows/lifecycle", run: "TestProviderRecreatedBeforeUnreserve TestProviderRecreatedDuringAClean TestProviderRecreatedWhileKeptClean",
	},
	{
		rule: "F5", name: "a device held clean is compared by provider before the write",
		file: "activities/control.go",
		old:  `if in.Provider != "" && p.UUID != in.Provider {`,
		new:  `if false {`,
		pkg:  "./workflows/lifecycle", run: "TestProviderRecreatedBeforeUnreserve TestProviderRecreatedDuringAClean TestProviderRecreatedWhileKeptClean",
	},
	{
		rule: "F6", name: "a reconciliation sends the time at which it read",
		file: "activities/reconcile.go",
		old:  `, ObservedAt: w.startedAt.Format(time.RFC3339Nano)}`,
		new:  `}`,
		pkg:  "./activities", run: "TestOnlyThoseThatDifferAreHinted",
	},
	{
		rule: "S0.30", name: "a reconciliation reads providers of enrolled devices only",
		file: "activities/reconcile.go",
		old:  `enrolled := func(name string) bool { _, ok := w.devices[name]; return ok }`,
		new:  `enrolled := func(name string) bool { return true }`,
		pkg:  "./activities", run: "TestUnenrolledProvidersAreOnlyCounted",
	},
	{
		rule: "S0.30", name: "nothing is asked about a provider that is not wanted",
		file: "internal/inventory/placement/lister.go",
		old:  `case wanted != nil && !wanted(d.name):`,
		new:  `case false:`,
		pkg:  "./internal/inventory/placement", run: "TestRequestsOfAReconciliation",
	},
	{
		rule: "F6", name: "a missing provider is reported once",
		file: "activities/reconcile.go",
		old: `		if !slices.Contains(w.missingBefore, name) {
`,
		new: `		{
`,
		pkg: "./activities", run: "TestAMissingProviderIsHintedOnce",
	},
	{
		rule: "S0.17", name: "Nova's provider is not deleted",
		file: "activities/control.go",
		old: `	if in.Owner == device.OwnerNova {
		return device.Inventory{}, nil
	}
`,
		new: ``,
		pkg: "./workflows/lifecycle", run: "TestForgetKeepsNovasProvider",
	},
	{
		rule: "F13", name: "a fake device is refused in a real inventory",
		file: "activities/control.go",
		old:  `if c.Real && in.Driver == "fake" {`,
		new:  `if false {`,
		pkg:  "./workflows/lifecycle", run: "TestFakeDeviceIsRefusedInARealInventory",
	},
	{
		rule: "F8", name: "an attempt starts with what earlier ones left of the budget",
		file: "activities/work.go",
		old:  `remaining := a.in.Budget - a.used`,
		new:  `remaining := a.in.Budget`,
		pkg:  "./activities", run: "cites F8",
	},
	{
		rule: "F13", name: "no PCI device without a matching entry",
		file: "internal/host/rules.go",
		old:  `	case !matches:`,
		new:  `	case !matches && false:`,
		pkg:  "./internal/host", run: "cites F13",
	},
	{
		rule: "F13", name: "all criteria of an entry must hold",
		file: "internal/pci/spec.go",
		old:  `(s.product == wildcard || s.product == d.Product) &&`,
		new:  `(s.product == wildcard || s.product == d.Product) ||`,
		pkg:  "./internal/pci", run: "cites S2.7",
	},
}
