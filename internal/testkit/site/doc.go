// Package site is one installation of Burnish on this machine, as an operator has it: a
// Temporal server, workers, a state directory with the inventory, a host.yaml, files that
// stand for disks. Tests, the demo and the bench run Burnish through it. It does not know
// the testing package: each function returns its error, and who starts something ends it.
//
//	programs, err := site.Build(dir, root)                  // or site.Programs{…} of `make build`
//	server := &site.Server{Program: programs.Server, Dir: dir}
//	err = server.Start(ctx)                                 // again after Kill: same port, same database
//	s, err := site.New(programs, server, site.DefaultNamespace, "host1", dir)
//	w := s.Worker("all", "BURNISH_MAX_CLEANS_PER_HOST=4")
//	err = w.Start(ctx)                                      // w.Kill, w.Stop, w.Freeze: see package proc
//	out, err := s.Burnish(ctx, "list")                      // Result with the exit code; s.Must fails on it
//	v, err := s.Show(ctx, "d1")
//	v, err = s.AwaitDevice(ctx, "d1", time.Minute, "to be clean", func(v contract.DeviceStatus) bool { return !v.Dirty })
package site
