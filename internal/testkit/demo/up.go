package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
)

// names are those of the processes that outlive this program, in the order of their end.
// Each has a file with its process ID in the site's folder.
var names = []string{"worker", "server"}

func pidFile(dir, name string) string { return filepath.Join(dir, name+".pid") }

// running gives the ID of the process in a PID file, 0 where it does not run any more.
func running(dir, name string) int {
	text, err := os.ReadFile(pidFile(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	must.Do(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must.Be(err == nil, "%s: %w", pidFile(dir, name), err)
	// Another program may have the ID by now.
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(command), "burnish-") {
		return 0
	}
	return pid
}

// anyRuns reports whether one of the processes runs.
func anyRuns(dir string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return running(dir, name) != 0 })
}

func goUp(ctx context.Context, programs site.Programs, dir string) {
	must.Be(!anyRuns(dir), "it is up already; make down ends it")
	// Temporal's usual ports, where both are free: `burnish` and `temporal` use them by default.
	ports, err := proc.FreePorts(7233, 8233)
	if err != nil {
		ports = must.Get(proc.FreePorts(0, 0))
	}
	d := newDemo(programs, dir, ports[0], ports[1])
	d.Server.Detached, d.worker.Detached = true, true
	err = must.Try(func() { d.start(ctx) })
	for name, p := range map[string]*proc.Process{"server": d.Server.Process, "worker": d.worker.Process} {
		if p.Alive() {
			err = errors.Join(err, os.WriteFile(pidFile(dir, name), []byte(strconv.Itoa(p.PID())), 0o600))
		}
	}
	if err != nil {
		must.Do(errors.Join(err, must.Try(func() { end(context.WithoutCancel(ctx), dir) })))
	}
	fmt.Printf(`
Up. In this shell:
  export TEMPORAL_ADDRESS=%s PATH=%s:$PATH
  burnish enroll d1 --host demo --driver fake --provide
  burnish list
Files below %s may be enrolled with --driver block --set path=…
make down ends it; devices and their history stay in %s.
`, d.Server.Address, filepath.Dir(programs.Burnish), d.Files, dir)
}

func goDown(ctx context.Context, dir string) {
	if !anyRuns(dir) {
		fmt.Println("Nothing is up.")
		return
	}
	end(ctx, dir)
	fmt.Println("Down.")
}

// end stops worker and server in order, and waits for both.
func end(ctx context.Context, dir string) {
	for _, name := range names {
		if pid := running(dir, name); pid != 0 {
			err := syscall.Kill(pid, syscall.SIGTERM)
			must.Be(err == nil, "end the %s: %w", name, err)
			must.Do(proc.Await(ctx, time.Minute, proc.PollEvery, "the "+name+" to end", func() (bool, string) {
				left := running(dir, name)
				return left == 0, fmt.Sprint(left)
			}))
		}
		must.Do(os.RemoveAll(pidFile(dir, name)))
	}
}
