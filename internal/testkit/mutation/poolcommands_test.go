package mutation

// poolCommandMutations take out what keeps the command line from a wrong word about a shared
// pool.
var poolCommandMutations = []mutation{
	{
		name: "a server that others have fails its validation",
		file: "starter/validate.go",
		old:  `	if found.Ownership != device.PoolTaken {`,
		new:  `	if found.Ownership != "never" {`,
		pkg:  "./starter", run: "TestValidateAsksThePool",
	},
	{
		name: "a server that others have may be made manageable",
		file: "starter/validate.go",
		old:  `	case v.DeviceState == device.Error && v.Pool.LostRace:`,
		new:  `	case v.DeviceState == device.Error && !v.Pool.LostRace:`,
		pkg:  "./starter", run: "TestValidateAsksThePool",
	},
	{
		name: "the pool of a pre-allocated device is not asked",
		file: "starter/validate.go",
		old:  `	if !v.Pool.Dynamic {`,
		new:  `	if !v.Pool.Dynamic && ctx == nil {`,
		pkg:  "./starter", run: "TestValidateDoesNotAskForAPreallocatedDevice",
	},
	{
		name: "without dynamic_allocation a device is pre-allocated",
		file: "starter/pool.go",
		old:  `	if text := e.set[contract.PoolDynamic]; given(contract.PoolDynamic) {`,
		new:  `	if text := "true"; !given(contract.PoolDynamic) || e.set[contract.PoolDynamic] != "" {`,
		pkg:  "./starter", run: "TestEnrollWithAPool",
	},
	{
		name: "a dry run of the migration sends nothing",
		file: "starter/oneview_migrate.go",
		old:  `	if dryRun {`,
		new:  `	if dryRun && ctx == nil {`,
		pkg:  "./starter", run: "TestMigrateDryRun",
	},
	{
		name: "a migration that stopped halfway goes on",
		file: "starter/oneview_migrate.go",
		old:  `func migrated(p contract.StatusPool) bool { return p.Dynamic && !p.Migrating }`,
		new:  `func migrated(p contract.StatusPool) bool { return p.Dynamic }`,
		pkg:  "./starter", run: "TestMigrateGoesOn",
	},
	{
		name: "a server that is enrolled is not enrolled again",
		file: "activities/poolservers.go",
		old:  `		if enrolled[hardware.SerialKey(server.Serial)] {`,
		new:  `		if enrolled["never"] {`,
		pkg:  "./activities", run: "TestServersThatAreNotEnrolled",
	},
}
