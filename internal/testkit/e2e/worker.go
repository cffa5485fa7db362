package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Worker is one burnish-worker, which may be started again and again with the same
// state directory.
type Worker struct {
	*Process
	// Role, Host, StateDir and Env (BURNISH_…=…) are read at each start; Address is
	// where it finds the server.
	Role, Host, StateDir, Address string
	Env                           []string

	site *Site
	log  string
}

// Worker makes a worker of the site that is not started yet.
func (s *Site) Worker(t testing.TB, role string, env ...string) *Worker {
	t.Helper()
	w := &Worker{
		Role: role, Host: s.Host, StateDir: s.State, Address: s.Server.Address, Env: env, site: s,
		log: filepath.Join(s.Dir, fmt.Sprintf("worker-%s-%d.log", role, hosts.Add(1))),
	}
	t.Cleanup(func() {
		if w.Process != nil && w.Alive() {
			w.Kill(t)
		}
		if t.Failed() && w.Process != nil {
			t.Logf("%s worker of %s, its last lines:\n%s", w.Role, w.Host, w.tail(40))
		}
	})
	return w
}

// Run is Worker, started.
func (s *Site) Run(t testing.TB, role string, env ...string) *Worker {
	t.Helper()
	w := s.Worker(t, role, env...)
	w.Start(t)
	return w
}

// Launch starts the process and does not wait for what becomes of it.
func (w *Worker) Launch(t testing.TB) {
	t.Helper()
	cmd := exec.Command(w.site.programs.Worker)
	cmd.Env = append(w.site.environment(w.Address),
		"BURNISH_ROLE="+w.Role, "BURNISH_HOST="+w.Host, "BURNISH_STATE_DIR="+w.StateDir,
		"BURNISH_HOST_FILE="+w.site.Rules())
	cmd.Env = append(cmd.Env, w.Env...)
	var err error
	w.Process, err = launch("worker of "+w.Host, w.log, cmd)
	require.NoError(t, err)
	if w.Role != "host" {
		w.site.controls = append(w.site.controls, w.Process)
	}
}

// Start starts the worker, or starts it again, and returns when it polls.
func (w *Worker) Start(t testing.TB) {
	t.Helper()
	before := 0
	if text, err := os.ReadFile(w.log); err == nil {
		before = len(text)
	}
	w.Launch(t)
	await(t, startWithin, 2*time.Millisecond, "the worker to start", func() (bool, string) {
		text := w.Log(t)[before:]
		require.True(t, w.Alive(), "the worker ended: %s", text)
		return strings.Contains(text, "worker started"), text
	})
}

// Stop is the orderly end; it gives the exit code.
func (w *Worker) Stop(t testing.TB, within time.Duration) int {
	t.Helper()
	w.Signal(t, syscall.SIGTERM)
	return w.Ended(t, within)
}
