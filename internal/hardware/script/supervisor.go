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
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/host"
)

// Subcommand is the one argument with which the worker's own binary is a keeper.
const Subcommand = "script-supervisor"

// A keeper stands between a worker and a program. It holds the device and its fence until
// the program and everything that it started have ended, whatever of its descriptors they
// close (Python's subprocess closes all, and so does sudo) and whether or not the worker
// lives (F1). It is told to end by the end of its standard input, which the
// worker's death is, too: that is why it has no death signal of its own, which would
// leave the program's children alone.

// launchRequest is what a keeper is told, in one line.
type launchRequest struct {
	Args []string `json:"args"` // the program's name, verb and address
	Env  []string `json:"env"`
	// Held is how many descriptors from 3 on go to the program; the last is the program.
	Held int `json:"held"`
	// Credential is the user to run it as, nil the keeper's own.
	Credential *syscall.Credential `json:"as,omitempty"`
	// Grace is how long it may take to end when it is told to. Finish: it is not told.
	Grace           time.Duration `json:"grace"`
	Uninterruptible bool          `json:"finish,omitempty"`
}

// exitReport is what a keeper says when everything has ended.
type exitReport struct {
	// Failed says why the program did not end well, in the words of os/exec; Status is its
	// exit status, -1 where a signal ended it. Start: it could not be started.
	Failed     string        `json:"failed,omitempty"`
	StartErrno syscall.Errno `json:"start,omitempty"`
	Status     int           `json:"status"`
	// Stopped: it was told to end.
	Stopped bool   `json:"stopped,omitempty"`
	Stdout  string `json:"stdout,omitempty"` // the last line of each
	Stderr  string `json:"stderr,omitempty"`
}

// RunSupervisor is this process as a keeper: it carries out the order on its standard input.
func RunSupervisor() error {
	// A program's death signal comes when the thread that started it ends.
	runtime.LockOSThread()
	// Signals for a group or a control group are the worker's business: it says when to
	// end. Not ignored, for a program would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	// Whoever loses their parent becomes a child of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	var o launchRequest
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, input) // also a broken pipe is an end
	}()
	done, err := o.run(end)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}

// run runs the program and returns when nothing of it runs any more.
func (o launchRequest) run(end <-chan struct{}) (exitReport, error) {
	cmd := &exec.Cmd{
		// The child's own descriptor: also an interpreter, which opens it again, gets the
		// sealed bytes.
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
	made := exitReport{Status: cmd.ProcessState.ExitCode(), Stopped: stopped, Stdout: stdout.lastLine(), Stderr: stderr.lastLine()}
	if err != nil {
		made.Failed = err.Error()
	}
	return made, nil
}

// wait waits for the program's end, tells it to end where that is wanted, and ends
// everything that it left behind.
func (o launchRequest) wait(pid int, end <-chan struct{}) (stopped bool, err error) {
	if o.Uninterruptible {
		end = nil
	}
	// It stays a zombie until Wait, so that its number, and its group's, is no other's.
	exited := make(chan error, 1)
	go func() { exited <- waitExited(pid) }()
	select {
	case err = <-exited:
	case <-end:
		stopped = true
		if err := kill(-pid, unix.SIGTERM); err != nil {
			return stopped, err
		}
		patience := time.NewTimer(o.Grace)
		defer patience.Stop()
		select {
		case err = <-exited:
		case <-patience.C:
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

// waitExited returns when the child has ended, and leaves it to be waited for.
func waitExited(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// killChildren kills every child of this process but one, and who becomes one by that,
// and returns when there is none.
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
			// One that does not end, in the midst of its I/O, is waited for.
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

// children lists those of this process but one.
func children(but int) (pids []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	self := strconv.Itoa(os.Getpid())
	for _, file := range all {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it ended
		}
		if err != nil {
			return nil, err
		}
		// The name may hold anything, also a parenthesis.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(fields) > 1 && fields[1] == self && pid != but {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func kill(who int, signal syscall.Signal) error {
	err := unix.Kill(who, signal)
	if errors.Is(err, unix.ESRCH) {
		return nil // nobody is left
	}
	return err
}

// tailSize is how much is kept of what a program prints, and its longest answer.
const tailSize = 16 << 10

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write takes everything.
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
