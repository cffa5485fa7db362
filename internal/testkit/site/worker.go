package site

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"burnish/internal/testkit/proc"
)

// Worker is one burnish-worker, which may be started again and again with the same state
// directory. Its fields are read at each start.
type Worker struct {
	*proc.Process // the newest; nil before the first start
	// Address is where the worker finds the server; Env are further variables.
	Role, Host, StateDir, Address string
	Env                           []string
	LogFile                       string
	Detached                      bool
	// Program is another build than the site's; "": the site's.
	Program string

	site *Site
}

// Worker is a worker of the site's host that is not started yet.
func (s *Site) Worker(role string, env ...string) *Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers++
	return &Worker{
		Role: role, Host: s.Host, StateDir: s.State, Address: s.Server.Address, Env: env, site: s,
		LogFile: filepath.Join(s.Dir, fmt.Sprintf("worker-%d.log", s.workers)),
	}
}

// FakeDevice is a simulated device of the worker's host; see Site.FakeDevice.
func (w *Worker) FakeDevice(name string, size int64, set ...string) Device {
	d := w.site.FakeDevice(name, size, set...)
	d.Path = filepath.Join(w.StateDir, "fake", name, "contents")
	return d
}

// Launch starts the process and returns at once.
func (w *Worker) Launch() error {
	cmd := exec.Command(cmp.Or(w.Program, w.site.Programs.Worker))
	cmd.Env = append(w.site.environment(w.Address),
		"BURNISH_ROLE="+w.Role, "BURNISH_HOST="+w.Host, "BURNISH_STATE_DIR="+w.StateDir,
		"BURNISH_HOST_FILE="+w.site.HostFile())
	cmd.Env = append(cmd.Env, w.Env...)
	start := proc.Start
	if w.Detached {
		start = proc.StartDetached
	}
	p, err := start("the "+w.Role+" worker of "+w.Host, w.LogFile, cmd)
	if err != nil {
		return err
	}
	w.Process = p
	if w.Role != "host" {
		w.site.mu.Lock()
		defer w.site.mu.Unlock()
		w.site.controls = append(w.site.controls, p)
	}
	return nil
}

// Start starts the worker, or starts it again after its end, and returns when it polls.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.Launch(); err != nil {
		return err
	}
	return w.Await(ctx, StartWithin, func(log string) bool { return strings.Contains(log, "worker started") })
}
