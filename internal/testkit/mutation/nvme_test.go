package mutation

// nvmeMutations take out what the NVMe driver and its privileged helper must not lose.
var nvmeMutations = []mutation{
	{
		rule: "F17", name: "a list of namespaces that may be incomplete is not accepted",
		file: "internal/hardware/nvme/nvmecli/namespace.go",
		old:  `if len(list) >= maxListed {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme/nvmecli", run: "cites F17",
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
		old:  `if serial == "" || got != serial {`,
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
		rule: "F18", name: "a sanitize log without a status is not accepted",
		file: "internal/hardware/nvme/nvmecli/sanitize.go",
		old: `	if !found {
`,
		new: `	if false {
`,
		pkg: "./internal/hardware/nvme/nvmecli", run: "cites F18",
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
		pkg:  "./internal/hardware/nvme", run: "cites F16",
	},
	{
		rule: "F17", name: "the namespaces add up to the enrolled size",
		file: "internal/hardware/nvme/namespaces.go",
		old:  `if sum <= 0 || sum != h.enrolled.Size || sum != h.Size() {`,
		new:  `if sum < 0 {`,
		pkg:  "./internal/hardware/nvme", run: "cites S2.57",
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
		old:  `if found.Enabled || found.Locked || found.ShadowMBR {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/nvme", run: "cites F20",
	},
	{
		rule: "F20", name: "staged firmware is found before any reset",
		file: "internal/hardware/nvme/secure.go",
		old:  `if slots.Next != 0 && slots.Next != slots.Active {`,
		new:  `if false {`,
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
