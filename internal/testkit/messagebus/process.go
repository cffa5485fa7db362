package messagebus

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a program with all that it started, in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	// how it ended, readable once ended is closed
	exit error
}

// start runs a program whose output is appended to a file.
func start(output string, environment []string, name string, args ...string) (*process, error) {
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.exit = errors.Join(cmd.Wait(), file.Close())
	}()
	return p, nil
}

// wait says whether the process ended within d.
func (p *process) endedWithin(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// signal reaches every process of the group.
func (p *process) signal(s syscall.Signal) error {
	if p == nil {
		return errors.New("it does not run")
	}
	return syscall.Kill(-p.cmd.Process.Pid, s)
}

// kill ends the group, and returns once none of it is left. No process is no error.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	// Again and again: one that was just being forked may have missed the first.
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) && p.endedWithin(0) {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("processes of %s are still there", p.cmd.Path)
}
