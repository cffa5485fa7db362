package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
)

// names are those of the processes that outlive this program, in the order of their end.
// Each has a file with its process ID in the site's folder.
var names = []string{"worker", "server"}

func pidFile(dir, name string) string { return filepath.Join(dir, name+".pid") }

// running gives the ID of the process in a PID file, 0 where it does not run any more.
func running(dir, name string) (int, error) {
	text, err := os.ReadFile(pidFile(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", pidFile(dir, name), err)
	}
	// Another program may have the ID by now.
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(command), "burnish-") {
		return 0, nil
	}
	return pid, nil
}

func goUp(ctx context.Context, programs site.Programs, dir string) error {
	for _, name := range names {
		if pid, err := running(dir, name); err != nil || pid != 0 {
			return errors.Join(err, errors.New("it is up already; make down ends it"))
		}
	}
	// Temporal's usual ports, where both are free: `burnish` and `temporal` use them by default.
	ports, err := proc.FreePorts(7233, 8233)
	if err != nil {
		ports, err = proc.FreePorts(0, 0)
	}
	if err != nil {
		return err
	}
	d, err := newDemo(programs, dir, ports[0], ports[1])
	if err != nil {
		return err
	}
	d.Server.Detached, d.worker.Detached = true, true
	err = d.start(ctx)
	for name, p := range map[string]*proc.Process{"server": d.Server.Process, "worker": d.worker.Process} {
		if p.Alive() {
			err = errors.Join(err, os.WriteFile(pidFile(dir, name), []byte(strconv.Itoa(p.PID())), 0o600))
		}
	}
	if err != nil {
		return errors.Join(err, end(context.WithoutCancel(ctx), dir))
	}
	fmt.Printf(`
Up. In this shell:
  export TEMPORAL_ADDRESS=%s PATH=%s:$PATH
  burnish enroll d1 --host demo --driver fake --provide
  burnish list
Files below %s may be enrolled with --driver block --set path=…
make down ends it; devices and their history stay in %s.
`, d.Server.Address, filepath.Dir(programs.Burnish), d.Files, dir)
	return nil
}

func goDown(ctx context.Context, dir string) error {
	up := false
	for _, name := range names {
		pid, err := running(dir, name)
		if err != nil {
			return err
		}
		up = up || pid != 0
	}
	if !up {
		fmt.Println("Nothing is up.")
		return nil
	}
	if err := end(ctx, dir); err != nil {
		return err
	}
	fmt.Println("Down.")
	return nil
}

// end stops worker and server in order, and waits for both.
func end(ctx context.Context, dir string) error {
	for _, name := range names {
		pid, err := running(dir, name)
		if err != nil {
			return err
		}
		if pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				return fmt.Errorf("end the %s: %w", name, err)
			}
			if err := proc.Await(ctx, time.Minute, proc.PollEvery, "the "+name+" to end", func() (bool, string) {
				left, err := running(dir, name)
				return left == 0 && err == nil, fmt.Sprint(left, err)
			}); err != nil {
				return err
			}
		}
		if err := os.Remove(pidFile(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
