package mutation

// leaseMutations take out the end of an attempt's right to write.
var leaseMutations = []mutation{
	{
		rule: "F32", name: "the right to write ends with time",
		file: "activities/lease.go",
		old:  `if l.asked && now-l.acknowledged <= timeout/3 {`,
		new:  `if l.asked {`,
		pkg:  "./activities", run: "TestTheRightToWriteEndsWithTime",
	},
	{
		rule: "F32", name: "an answer counts from its question on",
		file: "activities/lease.go",
		old:  `if answered-now <= timeout/3 {`,
		new:  `if true {`,
		pkg:  "./activities", run: "TestTheRightToWriteEndsWithTime",
	},
	{
		rule: "F32", name: "a step's writes have the attempt's right to write",
		file: "activities/work.go",
		old:  `a.step.Run(hardware.WithLease(workCtx, a.lease.check), &steps.Work{`,
		new:  `a.step.Run(workCtx, &steps.Work{`,
		pkg:  "./activities", run: "TestTheRightToWriteEndsWithTime",
	},
	{
		rule: "F32", name: "the driver block asks before each write",
		file: "internal/hardware/block/handle.go",
		old:  `if err := hardware.MayWrite(ctx); err != nil {`,
		new:  `if err := ctx.Err(); err != nil {`,
		pkg:  "./internal/hardware/block", run: "TestSuite/here/lease_is_asked_before_each_write",
	},
	{
		rule: "F32", name: "the driver fake asks before each write",
		file: "internal/hardware/fake/handle.go",
		old:  `if err := hardware.MayWrite(ctx); err != nil {`,
		new:  `if err := ctx.Err(); err != nil {`,
		pkg:  "./internal/hardware/fake", run: "TestSuite/lease_is_asked_before_each_write",
	},
	{
		rule: "F32", name: "a command that changes a drive is asked for",
		file: "internal/hardware/nvme/handle.go",
		old:  `if err := hardware.MayWrite(ctx); err != nil {`,
		new:  `if err := ctx.Err(); err != nil {`,
		pkg:  "./internal/hardware/nvme", run: "TestNothingIsWrittenWithoutTheRightTo",
	},
	{
		rule: "F32", name: "one request for zeroes by the drive is small",
		file: "internal/hardware/block/disk.go",
		old:  `some := min(n, hardware.MaxWrite)`,
		new:  `some := n`,
		pkg:  "./internal/hardware/nvme", run: "TestNothingIsWrittenWithoutTheRightTo",
	},
	{
		rule: "F32", name: "a program that changes a device is asked for",
		file: "internal/hardware/script/run.go",
		old:  `if err := hardware.MayWrite(ctx); err != nil {`,
		new:  `if err := ctx.Err(); err != nil {`,
		pkg:  "./internal/hardware/script", run: "TestNoProgramStartsWithoutTheRightToWrite",
	},
	{
		rule: "F32", name: "a shared server is changed under the lease",
		file: "internal/oneview/profile.go",
		old:  `	if err := hardware.MayWrite(ctx); err != nil {`,
		new:  `	if err := hardware.MayWrite(ctx); err != nil && ctx.Err() != nil {`,
		pkg:  "./internal/oneview", run: "TestNoChangeWithoutTheLease",
	},
	{
		rule: "F32", name: "the lease of a shared server's change is the attempt's",
		file: "activities/pool.go",
		old:  `do(hardware.WithLease(ctx, lease.check), func`,
		new:  `do(hardware.WithLease(ctx, func(context.Context) error { _ = lease; return nil }), func`,
		pkg:  "./activities", run: "TestAServersProfileIsChangedUnderTheLease",
	},
}
