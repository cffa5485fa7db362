package mutation

// nvmeMutations take out what the NVMe driver and its privileged helper must not lose.
var nvmeMutations = []mutation{
	{
		rule: "F17", name: "a list of namespaces that may be incomplete is not accepted",
		file: "internal/hardware/nvme/nvmecli/namespace.go",
		old: `			return nil, invalid("the list of namespaces", "it has %d namespaces, and there may be more", len(ids))
`,
		new: `			return ids, nil
`,
		pkg: "./internal/hardware/nvme/nvmecli", run: "cites F17",
	},
	{
		rule: "F17", name: "a block size of zero is a fault",
		file: "internal/hardware/nvme/nvmecli/namespace.go",
		old:  `case size == 0:`,
		new: `case size == 0:
		return 0, nil`,
		pkg: "./internal/hardware/nvme/nvmecli", run: "cites F17",
	},
	{
		rule: "F1", name: "the NVMe helper changes nothing without the fence",
		file: "internal/hardware/nvme/privileged/server.go",
		old:  `atomicfile.TryLock(int(held.Fence.Fd())); err != nil {`,
		new:  `atomicfile.TryLock(int(held.Fence.Fd())); err != nil && false {`,
		pkg:  "./internal/hardware/nvme/privileged", run: "TestTheHelperChangesNothingUnguarded",
	},
	{
		rule: "F11", name: "the NVMe helper changes only the drive with the given serial",
		file: "internal/hardware/nvme/privileged/local.go",
		old:  `if serial == "" || hardware.CanonicalSerial(got) != serial {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme/privileged", run: "TestTheHelperChangesNothingUnguarded",
	},
	{
		rule: "F12", name: "the NVMe helper needs every disk of the drive",
		file: "internal/hardware/nvme/privileged/server.go",
		old:  `if !given[number] {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme/privileged", run: "cites F12",
	},
	{
		rule: "F12", name: "the NVMe helper needs the disks opened exclusively",
		file: "internal/hardware/nvme/privileged/server.go",
		old: `	return hardware.Busy("the caller has not opened %s exclusively", node)
`,
		new: `	return nil
`,
		pkg: "./internal/hardware/nvme/privileged", run: "cites F12",
	},
	{
		rule: "F18", name: "an unknown sanitize status is not accepted",
		file: "internal/hardware/nvme/nvmecli/sanitize.go",
		old:  `if l.Status > SanitizeDoneNoDealloc {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme/nvmecli", run: "cites F18",
	},
	{
		rule: "F11", name: "the drive is the enrolled one before and after each command",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `if field := enrolled.Differs(identity); field != "" {`,
		new:  `if field := enrolled.Differs(identity); field == "-" {`,
		pkg:  "./internal/hardware/nvme", run: "TestAnotherDriveInTheSlot",
	},
	{
		rule: "F12", name: "a drive with a second controller is refused",
		file: "internal/hardware/nvme/controller.go",
		old:  `if id != c.id.ID {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme", run: "cites F12",
	},
	{
		rule: "F13", name: "the host's rules are checked before each command",
		file: "internal/hardware/nvme/handle.go",
		old:  `if err := h.c.checkAllowed(h.c.pci); err != nil {`,
		new:  `if err := error(nil); err != nil {`,
		pkg:  "./internal/hardware/nvme", run: "cites F13",
	},
	{
		rule: "F16", name: "Write Zeroes is used only where the drive reports it",
		file: "internal/hardware/nvme/handle.go",
		old:  `if !h.c.id.Capabilities().WriteZeroes {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme", run: "TestWriteZeroesOnlyWhereTheDriveHasIt",
	},
	{
		rule: "F17", name: "the namespaces add up to the enrolled size",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `if sum <= 0 || sum != h.enrolled.Size || sum != h.Size() {`,
		new:  `if sum < 0 {`,
		pkg:  "./internal/hardware/nvme", run: "TestWithoutNamespaceManagement",
	},
	{
		rule: "F20", name: "write protection ends also while a sanitize delays the check",
		file: "internal/hardware/nvme/secure.go",
		old:  `if _, also := h.unprotect(ctx, mayGoOn); also != nil {`,
		new:  `if also := error(nil); also != nil {`,
		pkg:  "./internal/hardware/nvme", run: "TestNothingATenantLeavesBlocksAClean",
	},
	{
		rule: "F20", name: "write protection of a detached namespace ends",
		file: "internal/hardware/nvme/secure.go",
		old:  `if !slices.Contains(now.active, nsid) { // features`,
		new:  `if false { // features`,
		pkg:  "./internal/hardware/nvme", run: "TestNothingATenantLeavesBlocksAClean",
	},
	{
		rule: "F20", name: "a drive with Opal ownership needs the operator",
		file: "internal/hardware/nvme/secure.go",
		old:  `if found.Enabled || found.Locked || found.ShadowMBR || found.Owned {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme", run: "cites F20",
	},
	{
		rule: "F20", name: "staged firmware is found before any reset",
		file: "internal/hardware/nvme/secure.go",
		old:  `case slots.Next == 0, next`,
		new:  `case slots.Next >= 0, next`,
		pkg:  "./internal/hardware/nvme", run: "cites F20",
	},
	{
		rule: "F20", name: "nothing resets a drive with foreign firmware",
		file: "internal/hardware/nvme/health.go",
		old: `	if err := h.c.checkFirmware(ctx, h.enrolled); err != nil {
		return err
	}
`,
		new: ``,
		pkg: "./internal/hardware/nvme", run: "cites F20",
	},
	{
		rule: "F20", name: "host metadata of a tenant is deleted",
		file: "internal/hardware/nvme/secure.go",
		old: `if len(types) > 0 {
			return 0, hardware.Refused(`,
		new: `if false {
			return 0, hardware.Refused(`,
		pkg: "./internal/hardware/nvme", run: "TestHostMetadataIsDeleted",
	},
	{
		rule: "F20", name: "write protection set by a tenant ends",
		file: "internal/hardware/nvme/secure.go",
		old:  `ended, err := h.unprotect(ctx, mayGoOn)`,
		new:  `ended, err := 0, error(nil)`,
		pkg:  "./internal/hardware/nvme", run: "TestWriteProtectionIsEnded TestWriteProtectionThatCannotBeEnded",
	},
	{
		rule: "F11", name: "identity is read again after each command",
		file: "internal/hardware/nvme/handle.go",
		old: `		return err
	}
	return h.c.verifyIdentity(ctx, h.enrolled)
}

// heldFiles`,
		new: `		return err
	}
	return nil
}

// heldFiles`,
		pkg: "./internal/hardware/nvme", run: "TestIdentityIsReadAgainAfterACommand",
	},
	{
		rule: "F12", name: "a disk that appeared since the drive was opened is noticed",
		file: "internal/hardware/nvme/handle.go",
		old: `		if !h.holds(s.Node) {
			return hardware.Busy(`,
		new: `		if false {
			return hardware.Busy(`,
		pkg: "./internal/hardware/nvme", run: "TestADiskThatAppearsIsNoticed",
	},
	{
		rule: "F12", name: "a failed check while a drive is opened releases its disks",
		file: "internal/hardware/nvme/handle.go",
		old: `			err = errors.Join(err, h.release())
			h.c.closeAndJoin`,
		new: `			h.c.closeAndJoin`,
		pkg: "./internal/hardware/nvme", run: "TestAFailedCheckReleasesTheDrive",
	},
	{
		rule: "F11", name: "the node is that of the address",
		file: "internal/hardware/nvme/privileged/local.go",
		old:  `		if got != want {`,
		new:  `		if false {`,
		pkg:  "./internal/hardware/nvme", run: "TestANodeOfAnotherControllerIsNotUsed",
	},
	{
		rule: "F11", name: "reads compare the serial",
		file: "internal/hardware/nvme/controller.go",
		old:  `} else if hardware.CanonicalSerial(serial) != c.id.Serial {`,
		new:  `} else if false {`,
		pkg:  "./internal/hardware/nvme", run: "TestReadsCompareTheSerial",
	},
	{
		rule: "F17", name: "a format with metadata is consolidated",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `format.BlockSize != identity.BlockSize || format.Metadata != 0 {`,
		new:  `format.BlockSize != identity.BlockSize {`,
		pkg:  "./internal/hardware/nvme", run: "TestNamespaces/whole,_metadata",
	},
	{
		rule: "F17", name: "a format with metadata is not zeroed",
		file: "internal/hardware/nvme/namespaces.go",
		old: `		case format.Metadata != 0:
`,
		new: `		case false:
`,
		pkg: "./internal/hardware/nvme", run: "TestWithoutNamespaceManagement",
	},
	{
		rule: "F17", name: "another command set is consolidated",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `n.commandSet[n.allocated[0]] != nvmecli.NVMCommandSet || bytes`,
		new:  `bytes`,
		pkg:  "./internal/hardware/nvme", run: "TestNamespaces/zoned",
	},
	{
		rule: "F17", name: "another command set is not zeroed",
		file: "internal/hardware/nvme/namespaces.go",
		old: `		case now.commandSet[nsid] != nvmecli.NVMCommandSet:
`,
		new: `		case false:
`,
		pkg: "./internal/hardware/nvme", run: "TestWithoutNamespaceManagement",
	},
	{
		rule: "F17", name: "what is left after deleting all namespaces is looked at",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `	if len(after.allocated) > 0 {`,
		new:  `	if false {`,
		pkg:  "./internal/hardware/nvme", run: "TestWhatIsLeftAfterDeletingIsLookedAt",
	},
	{
		rule: "F15", name: "a first enrollment looks for signatures on an NVMe drive",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `errors.Join(disk.RefuseSignatures(t), disk.Close())`,
		new:  `errors.Join(disk.Close())`,
		pkg:  "./internal/hardware/nvme", run: "TestSignatureIsRefusedUntilAccepted",
	},
	{
		rule: "F15", name: "a first enrollment refuses a namespace that cannot be read",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `if !readable && !t.Accepts(hiddenNamespace) {`,
		new:  `if !readable && false {`,
		pkg:  "./internal/hardware/nvme", run: "TestHiddenNamespaceIsRefusedUntilAccepted",
	},
	{
		rule: "F16", name: "Write Zeroes is not used where the kernel writes the zeroes itself",
		file: "internal/hardware/block/disk.go",
		old:  `; err != nil || most == 0 {`,
		new:  `; err != nil || most == 1 {`,
		pkg:  "./internal/hardware/nvme", run: "TestWriteZeroesOnlyWhereTheDriveHasIt",
	},
	{
		rule: "F20", name: "a drive that somebody owns and has not locked needs the operator",
		file: "internal/hardware/nvme/secure.go",
		old:  `found.ShadowMBR || found.Owned {`,
		new:  `found.ShadowMBR {`,
		pkg:  "./internal/hardware/nvme", run: "TestSecurityCheckFindsWhatTenantsLeave",
	},
	{
		rule: "F20", name: "staged firmware that a sanitize finds has a fault of its own",
		file: "internal/hardware/nvme/failure.go",
		old:  `	case nvmecli.StatusNeedsReset, nvmecli`,
		new:  `	case nvmecli`,
		pkg:  "./internal/hardware/nvme", run: "TestStagedFirmwareFoundByASanitize",
	},
	{
		rule: "F23", name: "a serial with blanks has one form",
		file: "internal/hardware/nvme/controller.go",
		old:  `if c.id.Serial = hardware.CanonicalSerial(c.id.Serial); c.id.Serial`,
		new:  `if c.id.Serial`,
		pkg:  "./internal/hardware/nvme", run: "TestASerialWithBlanksHasOneForm",
	},
	{
		rule: "F12", name: "the NVMe helper looks at mounts",
		file: "internal/hardware/nvme/privileged/inuse.go",
		old:  `len(fields) > point && numbers[fields[number]] {`,
		new:  `len(fields) > point && false {`,
		pkg:  "./internal/hardware/nvme/privileged", run: "TestWhatIsInUseIsNotErased",
	},
	{
		rule: "F12", name: "the NVMe helper looks at swap",
		file: "internal/hardware/nvme/privileged/inuse.go",
		old:  `unix.S_IFBLK && numbers[deviceNumber(stat)] {`,
		new:  `unix.S_IFBLK && false {`,
		pkg:  "./internal/hardware/nvme/privileged", run: "TestWhatIsInUseIsNotErased",
	},
	{
		rule: "F21", name: "a drive is not taken from a running guest",
		file: "internal/hardware/nvme/privileged/rebind.go",
		old: `	if err := l.checkVFIOFree(dev); err != nil {
		return err
	}
`,
		new: ``,
		pkg: "./internal/hardware/nvme", run: "cites F21",
	},
}
