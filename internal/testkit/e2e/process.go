package e2e

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process is one program that a test starts, hurts and ends. It is ended by its own
// pid, at the latest when the test is over or the test binary is gone.
type Process struct {
	Name  string
	Began time.Time

	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error     // of Wait, once ended is closed
	gone  time.Time // when it ended, likewise
}

// launch starts the command with its output in the file log, behind what is there.
func launch(name, log string, cmd *exec.Cmd) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	// A group of its own: Ctrl-C reaches the tests first, which end it. Pdeathsig: it
	// does not outlive them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{Name: name, Began: time.Now(), cmd: cmd, log: log, ended: make(chan struct{})}
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		p.gone = time.Now()
		close(p.ended)
	}()
	return p, nil
}

// Alive says whether the process has not ended yet.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal; a process that has ended gets none.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err, "%v to %s", s, p.Name)
	}
}

// Kill is kill -9; it returns when the process is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	p.Ended(t, 10*time.Second)
}

// Freeze is SIGSTOP; Thaw lets it run again.
func (p *Process) Freeze(t testing.TB) { t.Helper(); p.Signal(t, syscall.SIGSTOP) }

// Thaw is SIGCONT.
func (p *Process) Thaw(t testing.TB) { t.Helper(); p.Signal(t, syscall.SIGCONT) }

// Ended waits for the end of the process and gives its exit code, -1 after a signal.
func (p *Process) Ended(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		require.FailNow(t, "still running", "%s has not ended within %s", p.Name, within)
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		require.NoError(t, p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Log is what the process has written so far.
func (p *Process) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	require.NoError(t, err)
	return string(text)
}

// tail gives the log's last lines, for a test that failed.
func (p *Process) tail(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
