package mutation

// stateDirMutations take out what ties a state directory to one server.
var stateDirMutations = []mutation{
	{
		rule: "F25", name: "a state directory of another server is refused",
		file: "internal/host/server.go",
		old:  `case found && accepted != server.String():`,
		new:  `case false:`,
		pkg:  "./internal/host", run: "TestAStateDirectoryBelongsToOneServer",
	},
	{
		rule: "F25", name: "a worker ties its state directory to its server",
		file: "worker/server.go",
		old:  `return g, host.UseServer(settings.StateDir, g.server, settings.AcceptServer)`,
		new:  `return g, nil`,
		pkg:  "./worker", run: "TestAWorkerServesOnlyTheServerOfItsStateDirectory",
	},
	{
		rule: "F25", name: "an answer of another server does not count",
		file: "worker/server.go",
		old: `	if err := g.check(ctx); err != nil {
		return err
	}
	return g.temporal`,
		new: `	return g.temporal`,
		pkg: "./worker", run: "TestAWorkerServesOnlyTheServerOfItsStateDirectory",
	},
	{
		rule: "F25", name: "a worker ends when its server is another one",
		file: "worker/server.go",
		old: `	g.fatal(other)
`,
		new: ``,
		pkg: "./worker", run: "TestAWorkerServesOnlyTheServerOfItsStateDirectory",
	},
}
