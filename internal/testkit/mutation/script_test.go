package mutation

// scriptMutations take out what the script driver must not lose.
var scriptMutations = []mutation{
	{
		rule: "F13", name: "a program with another checksum does not run",
		file: "internal/hardware/script/program.go",
		old:  `have != rule.SHA256`,
		new:  `have == ""`,
		pkg:  "./internal/hardware/script", run: "TestOnlyTheProgramInHostYAML",
	},
	{
		rule: "F11", name: "a program works on the enrolled device only",
		file: "internal/hardware/script/handle.go",
		old:  `field := h.enrolled.Differs(identity); field != ""`,
		new:  `field := h.enrolled.Differs(identity); field == "-"`,
		pkg:  "./internal/hardware/script", run: "TestOnlyTheEnrolledDevice",
	},
	{
		rule: "F12", name: "no program runs while the host uses the device",
		file: "internal/hardware/script/pcidevice.go",
		old:  `if flags&unix.IFF_UP != 0 {`,
		new:  `if flags&unix.IFF_UP == 1<<20 {`,
		pkg:  "./internal/hardware/script", run: "cites S0.13",
	},
	{
		rule: "F1", name: "the processes that a program starts hold the fence",
		file: "internal/hardware/script/run.go",
		old:  `if c.target.Fence != nil {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/script", run: "TestAVerbHoldsTheFenceAndTheDevice",
	},
	{
		rule: "F1", name: "no process that a program started outlives its verb",
		file: "internal/hardware/script/supervisor.go",
		old:  `return stopped, killChildren(pid)`,
		new:  `return stopped, nil`,
		pkg:  "./internal/hardware/script", run: "TestNoChildOutlivesItsVerb/detached",
	},
	{
		rule: "F22", name: "a program has succeeded only if it reports so",
		file: "internal/hardware/script/reply.go",
		old:  `if !answer.Done {`,
		new:  `if false {`,
		pkg:  "./internal/hardware/script", run: "cites F22",
	},
}
