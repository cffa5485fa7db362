package mutation

// mutations are at most two for each rule that docs/safety.md marks with (M): those that break it most
// directly, at the lowest layer that has it.
var mutations = []mutation{
	{
		rule: "F1", name: "the fence is a lock that other processes see",
		file: "internal/atomicfile/lock.go",
		old:  `return flock(fd, unix.LOCK_EX|unix.LOCK_NB)`,
		new:  `return error(nil)`,
		pkg:  "./internal/host", test: "TestOrphanKeepsTheFenceOfItsKilledWorker",
	},
	{
		rule: "F1", name: "the fence is checked before each chunk",
		file: "activities/resume.go",
		old: `func (a *attempt) mayGoOn(ctx, workCtx context.Context, fence *host.Fence) error {
	if err := fence.Held(); err != nil {`,
		new: `func (a *attempt) mayGoOn(ctx, workCtx context.Context, fence *host.Fence) error {
	if err := error(nil); err != nil {`,
		pkg: "./activities", test: "TestLostFenceStopsTheStep",
	},
	{
		rule: "F2", name: "the device is flushed before a chunk is recorded",
		file: "internal/clean/steps/zero.go",
		old:  `if err := w.Device.Flush(ctx); err != nil {`,
		new:  `if err := error(nil); err != nil {`,
		pkg:  "./internal/clean/steps", test: "TestZeroFlushesEachChunkBeforeItCounts",
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
		pkg: "./internal/clean/steps", test: "TestZeroFlushesEachChunkBeforeItCounts",
	},
	{
		rule: "F3", name: "lost contact to the server is never reported as canceled",
		file: "activities/step.go",
		old:  `return retryNow(device.CodeServerUnreachable, "contact to the server was lost")`,
		new:  `return temporal.NewCanceledError()`,
		pkg:  "./activities", test: "TestLostContactFinishesItsChunk",
	},
	{
		rule: "F4", name: "a device in use is not cleaned",
		file: "internal/lifecycle/cleaning.go",
		old:  `if !d.observe(j.Asked, found, nil).Needs(device.Proceed) {`,
		new:  `if false {`,
		pkg:  "./internal/lifecycle", test: "TestReservedBeforeAnyStep",
	},
	{
		rule: "F4", name: "a clean reserves the device first",
		file: "internal/lifecycle/cleaning.go",
		old:  `	d.reserve(j, d.cleared(d.request()), How{InTask: true})`,
		new:  `	d.read(j, d.cleared(d.request()), How{InTask: true})`,
		pkg:  "./internal/lifecycle", test: "TestReservedBeforeAnyStep",
	},
	{
		rule: "F5", name: "reserved is lowered only with the recorded generation",
		file: "internal/device/facts.go",
		old:  `(inUse.holds(d, s) || otherProvider.holds(d, s) || s.Inventory.Generation != s.Known.Generation)`,
		new:  `(inUse.holds(d, s) || otherProvider.holds(d, s))`,
		pkg:  "./internal/lifecycle", test: "TestReservationChangedIsCleanedAgain",
	},
	{
		rule: "F5", name: "a write that lowers reserved is not retried blindly",
		file: "workflows/calls/options.go",
		old:  `summary), temporal.RetryPolicy{MaximumAttempts: 1}`,
		new:  `summary), temporal.RetryPolicy{MaximumAttempts: 3}`,
		pkg:  "./workflows/lifecycle", test: "TestLateUnreserveHasNoEffect",
	},
	{
		rule: "F6", name: "only its own instance ends a binding",
		file: "internal/device/table.go",
		old:  `return d.Binding != nil && SameTenant(d.Binding.Instance, e.Instance)`,
		new:  `return d.Binding != nil`,
		pkg:  "./internal/device", test: "TestProofs/unbind_ends",
	},
	{
		rule: "F6", name: "a hint from before the binding is dropped",
		file: "internal/lifecycle/signals.go",
		old:  `if err != nil || at.Before(d.BoundAt) {`,
		new:  `if err != nil || at.IsZero() {`,
		pkg:  "./internal/lifecycle", test: "TestOldHintsAreDropped",
	},
	{
		rule: "F7", name: "named steps never clear the dirty flag",
		file: "internal/device/table.go",
		old:  `CleanDone, when(notReturn, fullPlan)`,
		new:  `CleanDone, when(notReturn)`,
		pkg:  "./internal/device", test: "TestProofs/named_steps_clear_nothing",
	},
	{
		rule: "F7", name: "the start of a bind sets the dirty flag",
		file: "internal/device/table.go",
		old:  `d.Dirty, d.Claim.Burning = true, true`,
		new:  `d.Claim.Burning = true`,
		pkg:  "./internal/device", test: "TestProofs/a_device_that_was_used",
	},
	{
		rule: "F8", name: "an attempt starts with what earlier ones left of the budget",
		file: "activities/work.go",
		old:  `remaining := a.in.Budget - a.used`,
		new:  `remaining := a.in.Budget`,
		pkg:  "./activities", test: "TestBudgetIsRunningTime",
	},
	{
		rule: "F9", name: "a cancel waits for the step",
		file: "workflows/calls/options.go",
		old:  `WaitForCancellation:    true`,
		new:  `WaitForCancellation:    false`,
		pkg:  "./workflows/lifecycle", test: "TestAbortInEachPhase",
	},
	{
		rule: "F9", name: "an abort of a clean that waits to begin again is not lost",
		file: "internal/lifecycle/cleaning.go",
		old:  `d.Device.BeingCleaned() && d.Clean == nil {`,
		new:  `d.Device.State == device.PendingCleaning && d.Clean == nil {`,
		pkg:  "./internal/lifecycle", test: "TestAbortWhileACleanWaitsToBeginAgain",
	},
	{
		rule: "F10", name: "the numbers in the host's record count",
		file: "internal/lifecycle/signals.go",
		old:  `r.Seq > d.Seq || r.Binding`,
		new:  `false || r.Binding`,
		pkg:  "./internal/lifecycle", test: "TestHostIsAhead",
	},
	{
		rule: "F11", name: "each write first checks that the device is still the opened one",
		file: "internal/hardware/block/target.go",
		old:  `	if seq != d.info.seq {`,
		new:  `	if seq < 0 {`,
		pkg:  "./internal/hardware/block", test: "TestDeviceIsCheckedBeforeEveryWrite",
	},
	{
		rule: "F11", name: "the drive is the enrolled one before and after each command",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `if field := enrolled.Differs(identity); field != "" {`,
		new:  `if field := enrolled.Differs(identity); field == "-" {`,
		pkg:  "./internal/hardware/nvme", test: "TestAnotherDriveInTheSlot",
	},
	{
		rule: "F12", name: "the descriptor that writes holds the exclusive claim",
		file: "internal/hardware/block/claim.go",
		old:  `openNoFollow(path, flags|unix.O_EXCL)`,
		new:  `openNoFollow(path, flags)`,
		pkg:  "./internal/hardware/block", test: "TestOpenDeviceIsClaimedUntilClose",
	},
	{
		rule: "F12", name: "the NVMe helper needs the disks opened exclusively",
		file: "internal/hardware/nvme/privileged/server.go",
		old: `	return hardware.Busy("the caller has not opened %s exclusively", node)
`,
		new: `	return nil
`,
		pkg: "./internal/hardware/nvme/privileged", test: "TestDiskMustBeOpenedExclusively",
	},
	{
		rule: "F13", name: "no PCI device without a matching entry",
		file: "internal/host/rules.go",
		old:  `	case !matches:`,
		new:  `	case !matches && false:`,
		pkg:  "./internal/host", test: "TestNoPCIDeviceWithoutASpec",
	},
	{
		rule: "F13", name: "the host's rules are checked before each command",
		file: "internal/hardware/nvme/handle.go",
		old:  `if err := h.c.host.Allow(h.c.pci); err != nil {`,
		new:  `if err := error(nil); err != nil {`,
		pkg:  "./internal/hardware/nvme", test: "TestDriveThatIsNotAllowed",
	},
	{
		rule: "F14", name: "a file on a file system that writes elsewhere is refused",
		file: "internal/hardware/block/filesystem.go",
		old:  `if uint32(known.magic) == uint32(stat.Type) {`,
		new:  `if true {`,
		pkg:  "./internal/hardware/block", test: "TestFileSystemsThatAreNotListedAreRefusedByMagic",
	},
	{
		rule: "F14", name: "the resolved path is opened without following links",
		file: "internal/hardware/block/block.go",
		old:  `Resolve: unix.RESOLVE_NO_SYMLINKS`,
		new:  `Resolve: 0`,
		pkg:  "./internal/hardware/block", test: "TestOpenFollowsNoLink",
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
		pkg: "./internal/clean/steps", test: "TestAnErrorOfWriteZeroesIsFinal",
	},
	{
		rule: "F16", name: "no device is asked to zero itself",
		file: "internal/hardware/block/system.go",
		old:  `unix.Pwrite,`,
		new:  `func(fd int, p []byte, at int64) (int, error) { return len(p), unix.Fallocate(fd, 0x11, at, int64(len(p))) },`,
		pkg:  "./internal/hardware/block", test: "TestNoTenantDataStaysBehindALoop",
	},
	{
		rule: "F17", name: "zeroing covers the whole drive",
		file: "internal/clean/steps/zero.go",
		old: `	if err := requireWholeDevice(ctx, w); err != nil {
		return Outcome{}, err
	}
	size, err := sizeOf(w)`,
		new: `	size, err := sizeOf(w)`,
		pkg: "./internal/clean/steps", test: "TestAnIncompleteNamespaceIsNeitherZeroedNorVerified",
	},
	{
		rule: "F17", name: "any other namespace layout is consolidated",
		file: "internal/clean/steps/namespaces.go",
		old:  `if before != device.LayoutWhole {`,
		new:  `if before == device.LayoutNone {`,
		pkg:  "./internal/hardware/nvme", test: "TestNamespaces/two",
	},
	{
		rule: "F18", name: "the sanitize log must show our command",
		file: "internal/clean/steps/sanitize.go",
		old:  `now.GlobalErased && now.Command == i.Command &&`,
		new:  `now.GlobalErased &&`,
		pkg:  "./internal/hardware/nvme", test: "TestAnotherSanitizeBetweenIntentAndCommand",
	},
	{
		rule: "F18", name: "the sanitize log must show that all data is erased",
		file: "internal/clean/steps/sanitize.go",
		old:  `now.GlobalErased && now.Command`,
		new:  `now.Command`,
		pkg:  "./internal/hardware/nvme", test: "TestSanitizeThatErasesNothingIsDetected",
	},
	{
		rule: "F19", name: "every byte is compared",
		file: "internal/clean/steps/verify.go",
		old:  `case !bytes.Equal(b.data(), zeroes[:b.n]):`,
		new:  `case !bytes.Equal(b.data()[:1], zeroes[:1]):`,
		pkg:  "./internal/clean/steps", test: "TestOneDirtyByteIsFound",
	},
	{
		rule: "F19", name: "every block is read",
		file: "internal/clean/steps/verify.go",
		old:  `for at := int64(0); at < size; at += step {`,
		new:  `for at := int64(0); at < size; at += 2 * step {`,
		pkg:  "./internal/clean/steps", test: "TestFullVerifyReadsEveryByteOnce",
	},
	{
		rule: "F20", name: "a drive with Opal ownership needs the operator",
		file: "internal/hardware/nvme/secure.go",
		old:  `if found.Enabled || found.Locked || found.ShadowMBR || found.Owned {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme", test: "TestSecurityCheckFindsWhatTenantsLeave",
	},
	{
		rule: "F20", name: "staged firmware is found before any reset",
		file: "internal/hardware/nvme/secure.go",
		old:  `case slots.Next == 0, next`,
		new:  `case slots.Next >= 0, next`,
		pkg:  "./internal/hardware/nvme", test: "TestSecurityCheckFindsWhatTenantsLeave",
	},
	{
		rule: "F21", name: "a drive is not taken from a running guest",
		file: "internal/hardware/nvme/privileged/rebind.go",
		old: `	err = hardware.CheckVFIOFree(l.Dev, dev.Driver, dev.IOMMUGroup, "the drive at "+dev.Address, l.OpenGroup)
	if err != nil {
		return err
	}
`,
		new: ``,
		pkg: "./internal/hardware/nvme", test: "TestDriveOfAGuestIsNotTaken",
	},
	{
		rule: "F22", name: "a program has succeeded only if it reports so",
		file: "internal/hardware/script/reply.go",
		old:  `if !answer.Done {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/script", test: "TestOnlyDoneTrueIsSuccess",
	},
	{
		rule: "F23", name: "a serial seen in a second slot is not returned",
		file: "internal/lifecycle/offer.go",
		old:  `	case d.Intent.DuplicateAt != "":`,
		new:  `	case false:`,
		pkg:  "./internal/lifecycle", test: "TestDuplicateSerialTakesTheDeviceOutOfTheOffer",
	},
	{
		rule: "F23", name: "a serial is searched for again once its device is listed",
		file: "internal/lifecycle/discovery.go",
		old: `		d.Intent.ConfirmSerial = true
`,
		new: ``,
		pkg: "./internal/lifecycle", test: "TestDuplicateSerialEnrolledAtTheSameMoment",
	},
	{
		rule: "F24", name: "a bind records its instance",
		file: "internal/inventory/rules.go",
		old:  `reserveAll(ctx, s, uuid, v, record)`,
		new:  `reserveAll(ctx, s, uuid, v, nil)`,
		pkg:  "./internal/inventory", test: "TestARecordThroughOneBinding",
	},
	{
		rule: "F24", name: "an unknown device without a record is not cleaned",
		file: "internal/device/observations.go",
		old:  `given(unused, of(unbound), noHold, recordedFree), ObservedUnused`,
		new:  `given(unused, of(unbound), noHold), ObservedUnused`,
		pkg:  "./internal/lifecycle", test: "TestWithoutARecordTheOperatorDecides",
	},
	{
		rule: "F25", name: "a state directory of another server is refused",
		file: "internal/host/server.go",
		old:  `case found && accepted != server.String():`,
		new:  `case false:`,
		pkg:  "./internal/host", test: "TestAStateDirectoryBelongsToOneServer",
	},
	{
		rule: "F25", name: "a worker ends when its server is another one",
		file: "worker/server.go",
		old: `	g.fatal(other)
`,
		new: ``,
		pkg: "./worker", test: "TestAWorkerServesOnlyTheServerOfItsStateDirectory",
	},
	{
		rule: "F26", name: "a recorded result counts for the same work only",
		file: "internal/host/journal.go",
		old:  `case stored.Seq == want.Seq && !stored.sameWork(want):`,
		new:  `case false:`,
		pkg:  "./activities", test: "TestARecordedResultOfOtherWorkDoesNotCount",
	},
	{
		rule: "F26", name: "a clean ends with a result of each planned step",
		file: "internal/lifecycle/steps.go",
		old:  `if i >= len(run.Results) || run.Results[i].Step != planned.Step {`,
		new:  `if i >= len(run.Results) {`,
		pkg:  "./internal/lifecycle", test: "TestACleanEndsOnlyWithAResultOfEachPlannedStep",
	},
	{
		rule: "F27", name: "the host looks before the reservation is lowered",
		file: "internal/lifecycle/offer.go",
		old:  `if d.Device.Unseen || d.now.Sub(j.SeenAt) > maxLookAge {`,
		new:  `if d.Device.Unseen = false; false {`,
		pkg:  "./internal/lifecycle", test: "TestReturnedWithoutACleanOnlyIfSeen",
	},
	{
		rule: "F27", name: "a device that left the offer clean is provided only if its host saw it",
		file: "internal/device/table.go",
		old:  `{in(Manageable), Provide, when(clean, seen), Cleaning, then(startReturn)},`,
		new:  `{in(Manageable), Provide, when(clean), Cleaning, then(startReturn, markSeen)},`,
		pkg:  "./internal/device", test: "TestProofs/look_end_unseen",
	},
	{
		rule: "F28", name: "a generation of Nova's that nothing explains is a use",
		file: "internal/device/observe.go",
		old:  `ours := d.Owner != OwnerNova || d.State == Available`,
		new:  `ours := d.Owner != OwnerNova || d.State == Available && d.InMaintenance()`,
		pkg:  "./internal/device", test: "TestAvailableDevicesDetectForeignWrites",
	},
	{
		rule: "F28", name: "a read that failed explains no generation",
		file: "internal/lifecycle/inventory.go",
		old:  `d.GenerationUncertain || !j.Reads`,
		new:  `true`,
		pkg:  "./internal/lifecycle", test: "TestListedGenerationAfterAFailedRead",
	},
	{
		rule: "F30", name: "an unknown device that is retired is reserved",
		file: "internal/device/reserve.go",
		old:  `|| mayBeLowered(was, next) || holdUnrecorded(was, next)`,
		new:  `|| was.State != Unknown && (mayBeLowered(was, next) || holdUnrecorded(was, next))`,
		pkg:  "./internal/lifecycle", test: "TestRetiredIsReserved",
	},
	{
		rule: "F30", name: "unbind looks at a burn of its own instance",
		file: "internal/lifecycle/binding.go",
		old:  `if j.Claimed = d.claimedFor(in.Instance); j.Claimed {`,
		new:  `if false {`,
		pkg:  "./internal/lifecycle", test: "TestUnbindDuringItsOwnBurn",
	},
	{
		rule: "F31", name: "a binding is not ended without its instance",
		file: "internal/lifecycle/operations.go",
		old: `if err := d.nameTenant(in.Instance); err != nil {
		return err
	}
	if in.Lost {`,
		new: `if in.Lost {`,
		pkg: "./internal/lifecycle", test: "TestRetireNamesTheTenant",
	},
	{
		rule: "F31", name: "manage and retire ask whom the inventory records",
		file: "internal/lifecycle/operations.go",
		old:  `		err = nameInstance(namedIn(j.In), has)`,
		new:  `		_ = has`,
		pkg:  "./internal/lifecycle", test: "TestManageAndRetireNameTheRecordedTenant",
	},
	{
		rule: "F32", name: "the right to write ends with time",
		file: "activities/lease.go",
		old:  `if l.asked && now-l.acknowledged <= timeout/3 {`,
		new:  `if l.asked {`,
		pkg:  "./activities", test: "TestTheRightToWriteEndsWithTime",
	},
	{
		rule: "F32", name: "the driver block asks before each write",
		file: "internal/hardware/block/handle.go",
		old:  `if err := hardware.MayWrite(ctx); err != nil {`,
		new:  `if err := ctx.Err(); err != nil {`,
		pkg:  "./internal/hardware/block", test: "TestSuite/here/lease_is_asked_before_each_write",
	},
	{
		rule: "F33", name: "no planted sector is there after the sanitize",
		file: "internal/clean/steps/planted.go",
		old:  `if bytes.Equal(now[i:i+sector], before[i:i+sector]) {`,
		new:  `if before == nil {`,
		pkg:  "./internal/clean/steps", test: "TestADriveThatErasesNothingIsFoundOut",
	},
	{
		rule: "F33", name: "a drive on which nothing could be planted is not proved",
		file: "internal/clean/steps/planted.go",
		old:  `return len(p.At) > 0 && p.Missing == ""`,
		new:  `return true`,
		pkg:  "./internal/clean/steps", test: "TestWithoutPlantedDataNothingIsProved",
	},
	{
		rule: "F34", name: "a server that others may have used since its profile was removed is not returned",
		file: "internal/device/poolobservations.go",
		old:  `poolFree, poolChanged, of(not(notSanitized, "sanitized"))), ReservationChanged, nil,`,
		new:  `poolFree, poolChanged, of(not(notSanitized, "sanitized"))), "", does(Proceed),`,
		pkg:  "./internal/lifecycle", test: "TestAServerThatOthersUseWhileItIsReturnedIsCleaned",
	},
	{
		rule: "F34", name: "the removal is the last that happened to a server that counts as unused",
		file: "internal/oneview/unchanged.go",
		old:  `changed.IsZero() || changed.After(c.removed)`,
		new:  `changed.IsZero()`,
		pkg:  "./internal/oneview", test: "TestAServerThatOthersUseWhileItIsReleasedIsNotTakenForUnused",
	},
	{
		rule: "F35", name: "an enrollment asks for every record of its hardware",
		file: "internal/lifecycle/discovery.go",
		old:  `Serial: serial, Hardware: of.Hardware()`,
		new:  `Serial: serial`,
		pkg:  "./internal/lifecycle", test: "TestHardwareThatIsRecordedElsewhereIsNotEnrolled",
	},
	{
		rule: "F35", name: "a clean asks for every record of its hardware",
		file: "internal/lifecycle/cleaning.go",
		old:  `	d.findOthers(j, i, serial, d.MovedFrom, How{What: "records of the hardware of " + d.Name})`,
		new:  `	d.findOthers(j, device.Identity{}, serial, d.MovedFrom, How{What: "records of the hardware of " + d.Name})`,
		pkg:  "./internal/lifecycle", test: "TestEachCleanAsksForOtherRecordsOfItsHardware",
	},
	{
		rule: "F36", name: "a bind that was granted is confirmed by the record",
		file: "internal/lifecycle/binding.go",
		old:  `{ d.confirm(j, phGrantAgain) }`,
		new:  `{ d.grantedAgain(j, Outcome{}) }`,
		pkg:  "./internal/lifecycle", test: "TestPutBackToBeforeTheBind",
	},
	{
		rule: "F36", name: "a later binding of the same instance is another one",
		file: "internal/device/facts.go",
		old:  ` && i.Bindings <= d.Binding.Number:`,
		new:  `:`,
		pkg:  "./internal/lifecycle", test: "TestALaterBindingOfTheSameInstance",
	},
	{
		rule: "F37", name: "a verify passes over nothing that an earlier attempt has read",
		file: "internal/clean/steps/verify.go",
		old:  `for at := int64(0); at < size; at += step {`,
		new:  `for at := int64(0) + 64<<20; at < size; at += step {`,
		pkg:  "./internal/clean/steps", test: "TestAVerifyNeverResumes",
	},
	{
		rule: "F37", name: "a step that only reads begins at the first byte in each attempt",
		file: "activities/admit.go",
		old:  `redone, offset = redone+offset, 0`,
		new:  `redone += offset`,
		pkg:  "./activities", test: "TestAVerifyProvesOnlyWhatItReadUnderOneHold",
	},
	{
		rule: "F38", name: "that a device has no workflow does not say that it is not bound",
		file: "activities/instance.go",
		old:  `return s.unboundByRecord(ctx, name, instance)`,
		new:  `return contract.Refuse(noSuchDevice())`,
		pkg:  "./activities", test: "TestUnbindOfADeviceWithoutAWorkflowIsAnsweredByTheRecord",
	},
	{
		rule: "F38", name: "without a record nothing says that a device is not bound",
		file: "activities/instance.go",
		old:  `	case holder.User() == device.UnknownConsumer:`,
		new:  `	case holder.User() == device.UnknownConsumer && name == "":`,
		pkg:  "./activities", test: "TestUnbindOfADeviceWithoutAWorkflowIsAnsweredByTheRecord",
	},
	{
		rule: "F39", name: "offered devices are compared",
		file: "activities/offered.go",
		old:  `		changed = append(changed, name)`,
		new:  `		_ = changed`,
		pkg:  "./activities", test: "TestComparisonFindsWhatChanged",
	},
	{
		rule: "F39", name: "a look from before the start of the host's worker does not count",
		file: "internal/lifecycle/signals.go",
		old:  `	if h.Started {`,
		new:  `	if h.Started && h.Numbers {`,
		pkg:  "./internal/lifecycle", test: "TestABindIsAnsweredAfterALook",
	},
	{
		rule: "F40", name: "a node for commands counts however it was opened",
		file: "internal/hardware/users.go",
		old:  `		return flags&unix.O_PATH == 0, err`,
		new:  `		return flags&unix.O_ACCMODE != unix.O_RDONLY, err`,
		pkg:  "./internal/hardware/block", test: "TestAnOpenNodeForCommandsIsAUse",
	},
	{
		rule: "F40", name: "a mapping counts as a descriptor does",
		file: "internal/hardware/users.go",
		old:  `		if a.mapped {`,
		new:  `		if a.mapped && dir == "" {`,
		pkg:  "./internal/hardware", test: "TestEveryWayToHoldIsFound",
	},
	{
		rule: "F42", name: "a claim whose burn was carried out is granted",
		file: "internal/device/table.go",
		old:  `if claim != nil && e.Recorded && SameTenant(e.Instance, claim.Instance) {`,
		new:  `if false {`,
		pkg:  "./internal/device", test: "TestRequirements",
	},
	{
		rule: "F42", name: "a burn that was refused is given back",
		file: "workflows/instance/acquire.go",
		old: `		i.unbind(tried)
		return nil, err`,
		new: `		i.settled(tried)
		return nil, err`,
		pkg: "./workflows/instance", test: "TestRefusedBurnIsGivenBack",
	},
	{
		rule: "F43", name: "what an operator holds is not cleaned by itself",
		file: "internal/device/table.go",
		old:  `{in(Manageable, Error), Invalidated, when(held), noChange, then(invalidate)},`,
		new:  `{in(Manageable, Error), Invalidated, when(held), Unknown, then(invalidate)},`,
		pkg:  "./internal/device", test: "TestProofs/operator_holds",
	},
	{
		rule: "F43", name: "what the record says that an operator holds comes back as the operator's",
		file: "internal/device/table.go",
		old:  `ObservedHeld, when(unbound), Manageable,`,
		new:  `ObservedHeld, when(unbound), PendingCleaning,`,
		pkg:  "./internal/device", test: "TestRequirements",
	},
	{
		rule: "F44", name: "a statement counts under its own reservation",
		file: "internal/proof/gate.go",
		old:  `case s.Reservation != of.number:`,
		new:  `case false:`,
		pkg:  "./internal/proof", test: "TestADeviceIsOfferedWithTheStatementsOfItsHost",
	},
	{
		rule: "F44", name: "nothing is offered before it is proved",
		file: "activities/control.go",
		old:  `if err := c.Gate.MayOffer(in.Name, id, in.Generation, in.Receipt, in.Statements); err != nil {`,
		new:  `if err := c.Gate.MayOffer(in.Name, id, in.Generation, in.Receipt, in.Statements); err != nil && false {`,
		pkg:  "./internal/lifecycle", test: "TestWhatIsNotProvedIsAnOperators",
	},
}
