package script

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"burnish/internal/host"
)

// Subcommand is the argument with which the worker's own binary runs as a supervisor.
const Subcommand = "script-supervisor"

// A supervisor is a process between the worker and a program. It holds the device and its
// fence until the program and all its children have ended, even if they close their inherited
// descriptors (as Python's subprocess and sudo do), and even if the worker dies (F1). The end
// of its standard input makes it stop the program. The worker's death closes that too, so
// the supervisor needs no death signal, which would not reach the program's children.

// launchRequest is the one line of input to a supervisor.
type launchRequest struct {
	Args []string `json:"args"` // the program's name, verb and address
	Env  []string `json:"env"`
	// Held is the number of descriptors, from 3 on, that the program inherits. The last one
	// is the program itself.
	Held int `json:"held"`
	// Credential is the user to run as, nil for the supervisor's own.
	Credential *syscall.Credential `json:"as,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL. Uninterruptible: neither is sent.
	Grace           time.Duration `json:"grace"`
	Uninterruptible bool          `json:"finish,omitempty"`
}

// exitReport is the supervisor's output when everything has ended.
type exitReport struct {
	// Failed is the error of os/exec, or empty. Status is the exit status, -1 after a
	// signal. StartErrno: the program could not be started.
	Failed     string        `json:"failed,omitempty"`
	StartErrno syscall.Errno `json:"start,omitempty"`
	Status     int           `json:"status"`
	// Stopped: the program was asked to stop.
	Stopped bool   `json:"stopped,omitempty"`
	Stdout  string `json:"stdout,omitempty"` // the last line of each
	Stderr  string `json:"stderr,omitempty"`
}

// RunSupervisor runs this process as a supervisor, with the request on its standard input.
func RunSupervisor() error {
	// A child's death signal is sent when the thread that started it ends.
	runtime.LockOSThread()
	// Signals to a process group or control group do not concern the supervisor: the worker
	// decides when to stop. They are caught and not ignored, because children inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	// Orphans become children of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var o launchRequest
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, input) // a broken pipe is an end too
	}()
	done, err := o.run(end)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}

// run runs the program and returns when it and all its children have ended.
func (o launchRequest) run(end <-chan struct{}) (exitReport, error) {
	cmd := &exec.Cmd{
		// By the child's own descriptor, so that an interpreter that opens it again gets the
		// sealed bytes too.
		Path: fmt.Sprintf("/proc/self/fd/%d", 2+o.Held), Args: o.Args, Env: o.Env, Dir: "/",
		SysProcAttr: host.ChildAttr(),
	}
	cmd.SysProcAttr.Credential = o.Credential
	for fd := range o.Held {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(3+fd), "held"))
	}
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		failed := exitReport{Failed: err.Error(), Status: -1}
		errors.As(err, &failed.StartErrno)
		return failed, nil
	}
	stopped, err := o.wait(cmd.Process.Pid, end)
	if err != nil {
		return exitReport{}, err
	}
	err = cmd.Wait()
	result := exitReport{Status: cmd.ProcessState.ExitCode(), Stopped: stopped, Stdout: stdout.lastLine(),
		Stderr: stderr.lastLine()}
	if err != nil {
		result.Failed = err.Error()
	}
	return result, nil
}

// wait waits until the program ends, stops it on request, and ends everything that it left
// running.
func (o launchRequest) wait(pid int, end <-chan struct{}) (stopped bool, err error) {
	if o.Uninterruptible {
		end = nil
	}
	// It stays a zombie until Wait, so that its number and its group's are not reused.
	exited := make(chan error, 1)
	go func() { exited <- waitExited(pid) }()
	select {
	case err = <-exited:
	case <-end:
		stopped = true
		if err := kill(-pid, unix.SIGTERM); err != nil {
			return stopped, err
		}
		grace := time.NewTimer(o.Grace)
		defer grace.Stop()
		select {
		case err = <-exited:
		case <-grace.C:
			if err := kill(-pid, unix.SIGKILL); err != nil {
				return stopped, err
			}
			err = <-exited
		}
	}
	if err != nil {
		return stopped, err
	}
	return stopped, killChildren(pid)
}

// waitExited returns when the child has ended, and leaves it a zombie.
func waitExited(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// killChildren kills all children of this process except one, also those that it inherits
// meanwhile, and returns when they have ended.
func killChildren(but int) error {
	for {
		all, err := children(but)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, pid := range all {
			if err := kill(pid, unix.SIGKILL); err != nil {
				return err
			}
			// A child may be blocked in I/O. It is waited for.
			for {
				if _, err = unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
					break
				}
			}
			if err != nil && !errors.Is(err, unix.ECHILD) {
				return err
			}
		}
	}
}

// children lists the children of this process except one.
func children(but int) (pids []int, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	for _, process := range all {
		is, err := process.Stat()
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it ended
		}
		if err != nil {
			return nil, err
		}
		if is.PPID == os.Getpid() && process.PID != but {
			pids = append(pids, process.PID)
		}
	}
	return pids, nil
}

func kill(who int, signal syscall.Signal) error {
	err := unix.Kill(who, signal)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return err
}

// tailSize is how much of a program's output is kept, and so the size of its longest answer.
const tailSize = 16 << 10

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write accepts everything.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*tailSize {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-tailSize:]...)
	}
	return len(p), nil
}

// lastLine is the last line that is not empty.
func (t *tail) lastLine() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
