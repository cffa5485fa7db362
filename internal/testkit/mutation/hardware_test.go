package mutation

// hardwareMutations take out what finds the records of some hardware under another name.
var hardwareMutations = []mutation{
	{
		rule: "F35", name: "an enrollment asks for every record of its hardware",
		file: "workflows/lifecycle/discovery/discovery.go",
		old:  `Serial: serial, Hardware: i.Hardware(),`,
		new:  `Serial: serial,`,
		pkg:  "./workflows/lifecycle", run: "TestHardwareThatIsRecordedElsewhereIsNotEnrolled",
	},
	{
		rule: "F35", name: "a clean asks for every record of its hardware",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old:  `	if d.interrupted(ctx, d.Discovery.CheckRecords(ctx, runCtx)) {`,
		new:  `	if d.interrupted(ctx, nil) {`,
		pkg:  "./workflows/lifecycle", run: "TestEachCleanAsksForOtherRecordsOfItsHardware",
	},
	{
		rule: "F35", name: "a clean of a device of Nova's asks the listing",
		file: "workflows/lifecycle/discovery/discovery.go",
		old: `	if !d.OwnedByBurnish() {
		serial = i.Serial
	}`,
		new: `	if d.State.Name == "" {
		serial = i.Serial
	}`,
		pkg: "./workflows/lifecycle", run: "TestACleanOfNovasDeviceAsksTheListing",
	},
	{
		rule: "F35", name: "the hardware of an imported device is asked for when it is seen",
		file: "workflows/lifecycle/discovery/discovery.go",
		old:  `	if f == nil && d.State.Intent.ConfirmSerial {`,
		new:  `	if f == nil && d.State.Name == "" {`,
		pkg:  "./workflows/lifecycle", run: "TestTheHardwareOfAnImportedDeviceIsAskedFor",
	},
	{
		rule: "F23", name: "an imported device is searched for in the listing before it is cleaned",
		file: "workflows/lifecycle/cleaning/cleaning.go",
		old:  `		if d.State.Intent.ConfirmSerial { //`,
		new:  `		if d.State.Name == "" { //`,
		pkg:  "./workflows/lifecycle", run: "TestTheHardwareOfAnImportedDeviceIsAskedFor",
	},
	{
		rule: "F35", name: "an instance that is recorded counts, whatever became of that device",
		file: "activities/hardware.go",
		old:  `	if r.Used > 0 || r.Witness == device.WitnessBound {`,
		new:  `	if r.Used > 0 {`,
		pkg:  "./workflows/lifecycle", run: "TestHardwareThatIsRecordedElsewhereIsNotEnrolled",
	},
	{
		rule: "F35", name: "hardware that nobody gave up is not enrolled again",
		file: "activities/hardware.go",
		old:  `	if found && last.Released() {`,
		new:  `	if !found || last.Released() {`,
		pkg:  "./workflows/lifecycle", run: "TestHardwareThatIsRecordedElsewhereIsNotEnrolled",
	},
	{
		rule: "F35", name: "a record that cannot be read is not no record",
		file: "internal/inventory/hardware.go",
		old:  `f.Code == device.CodeNoProvider {`,
		new:  `f.Code != device.CodeInventoryUnavailable {`,
		pkg:  "./internal/inventory", run: "TestARecordOfHardwareThatCannotBeReadIsAnError",
	},
	{
		rule: "F35", name: "the serial of an ended workflow is found",
		file: "workflows/client/list.go",
		old:  `ExecutionStatus IN ('Running', 'Terminated', 'Canceled', 'TimedOut', 'Failed')"`,
		new:  `ExecutionStatus IN ('Running')"`,
		pkg:  "./activities", run: "TestFindBySerial",
	},
	{
		rule: "F35", name: "the last run says whether a device was given up",
		file: "workflows/client/list.go",
		old:  `		case !there || last.Running || last.Released():`,
		new:  `		case !there || last.Running || last.Released() || last.Failed:`,
		pkg:  "./workflows/client", run: "TestFindBySerialFindsEndedWorkflows",
	},
	{
		rule: "F35", name: "a serial is one however it is written",
		file: "internal/device/hardware.go",
		old:  `	key := SerialKey(serial)`,
		new:  `	key := serial`,
		pkg:  "./internal/device", run: "TestHardwareIsTheSameUnderEveryName",
	},
	{
		rule: "F35", name: "a file is one wherever its file system is mounted",
		file: "internal/device/hardware.go",
		old:  `"ino-%x-", i.Device), "ino-", 1)`,
		new:  `"ino-%x-", i.Device), "ino-", 0)`,
		pkg:  "./internal/device", run: "TestHardwareIsTheSameUnderEveryName",
	},
	{
		rule: "F35", name: "hardware that is added to a provider takes none away",
		file: "internal/inventory/hardware.go",
		old:  `bool { return h == p.FormerHardware })`,
		new:  `bool { return true })`,
		pkg:  "./internal/inventory/file", run: "TestFileStore",
	},
	{
		rule: "F35", name: "the index of hardware is made again where it is lost",
		file: "internal/inventory/file/store.go",
		old:  `	if _, missing := os.Stat(s.index); missing != nil {`,
		new:  `	if _, missing := os.Stat(s.index); missing != nil && os.Mkdir(s.index, 0o700) != nil {`,
		pkg:  "./internal/inventory/file", run: "TestARecordOfHardwareIsNotOverlooked",
	},
	{
		rule: "F35", name: "a refused enrollment does not have the host forget a lost device",
		file: "workflows/lifecycle/enrollment.go",
		old:  `		if !d.discovery.KnownToHost {`,
		new:  `		if d.State.Name != "" {`,
		pkg:  "./workflows/lifecycle", run: "TestARefusedEnrollmentKeepsWhatTheHostKnew",
	},
	{
		rule: "F35", name: "a moved device is not held by its former name",
		file: "workflows/lifecycle/relocate.go",
		old:  `state.MovedFrom = "moved here from "+d.State.Name, d.State.Name`,
		new:  `state.MovedFrom = "moved here from "+d.State.Name, ""`,
		pkg:  "./workflows/lifecycle", run: "TestAMovedDeviceIsNotHeldByItsFormerName",
	},
}
