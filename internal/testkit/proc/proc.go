// Package proc starts every program that tests, the demo and the bench run beside
// themselves, and waits for what these programs do. It does not know the testing
// package: each function returns its error.
//
//	p, err := proc.Start("worker", filepath.Join(dir, "worker.log"), exec.Command(program))
//	err = p.Await(ctx, time.Minute, func(log string) bool { return strings.Contains(log, "started") })
//	err = p.Kill()               // kill -9, also Freeze, Thaw, Signal, Stop, KillGroup
//	result, err := proc.Run(exec.CommandContext(ctx, "burnish", "list"))
//	ports, err := proc.FreePorts(0, 0)
//	err = proc.Await(ctx, time.Minute, proc.PollEvery, "the device to be clean", condition)
//
// A process is always addressed by its own ID. It ends with the program that started
// it, except for one that was started by [StartDetached].
package proc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one running program. All methods may be called from any goroutine.
type Process struct {
	Name    string
	Started time.Time

	cmd      *exec.Cmd
	log      string
	logStart int64 // the log's size before this process wrote to it
	done     chan struct{}
	err      error     // the result of cmd.Wait, once done is closed
	ended    time.Time // likewise
}

// Start starts cmd and appends its standard error to the file log, and its standard
// output too unless cmd.Stdout is set. Name stands in error messages.
func Start(name, log string, cmd *exec.Cmd) (*Process, error) {
	// Ctrl-C goes to the parent's process group only, so that the parent ends its children
	// in order; and no child outlives the parent.
	return start(name, log, cmd, &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL})
}

// StartDetached is Start for a process that outlives this one.
func StartDetached(name, log string, cmd *exec.Cmd) (*Process, error) {
	return start(name, log, cmd, &syscall.SysProcAttr{Setsid: true})
}

func start(name, log string, cmd *exec.Cmd, attr *syscall.SysProcAttr) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own copy
	info, err := out.Stat()
	if err != nil {
		return nil, err
	}
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr, cmd.SysProcAttr = out, attr
	p := &Process{Name: name, Started: time.Now(), cmd: cmd, log: log, logStart: info.Size(), done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		p.ended = time.Now()
		close(p.done)
	}()
	return p, nil
}

// PID is the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process still runs. A nil process does not.
func (p *Process) Alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Ended is when the process ended; zero while it runs.
func (p *Process) Ended() time.Time {
	if p.Alive() {
		return time.Time{}
	}
	return p.ended
}

// Signal sends a signal. It does nothing to a process that has ended.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s: %w", s, p.Name, err)
	}
	return nil
}

// killWithin bounds how long the kernel takes to end a process.
const killWithin = time.Minute

// Kill is kill -9. It returns when the process has ended. It does nothing to a nil process.
func (p *Process) Kill() error {
	if p == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_, err := p.Wait(killWithin)
	return err
}

// KillGroup is kill -9 of the process and of every process that it started and that
// stayed in its process group. It returns when none is left.
func (p *Process) KillGroup() error {
	if p == nil {
		return nil
	}
	// Again and again: a process that was being forked may have missed the signal.
	return Await(context.Background(), killWithin, 10*time.Millisecond, "the processes of "+p.Name+" to end",
		func() (bool, string) {
			err := syscall.Kill(-p.PID(), syscall.SIGKILL)
			return errors.Is(err, syscall.ESRCH) && !p.Alive(), fmt.Sprint(err)
		})
}

// Freeze is SIGSTOP. It returns when every thread of the process has stopped.
func (p *Process) Freeze() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return Await(context.Background(), killWithin, 100*time.Microsecond, p.Name+" to stop", func() (bool, string) {
		return p.stopped()
	})
}

// stopped reports whether every thread is in the state T.
func (p *Process) stopped() (bool, string) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
	if err != nil || len(threads) == 0 {
		return false, fmt.Sprintf("it has no threads: %v", err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		// The second field is the program's name, in parentheses; the state follows.
		if state := string(text[strings.LastIndexByte(string(text), ')')+1:]); err != nil || !strings.HasPrefix(state, " T") {
			return false, fmt.Sprintf("%s: %s %v", thread, state, err)
		}
	}
	return true, ""
}

// Thaw is SIGCONT.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// Wait waits for the end of the process and returns its exit code, -1 after a signal.
func (p *Process) Wait(within time.Duration) (int, error) {
	select {
	case <-p.done:
	case <-time.After(within):
		return 0, fmt.Errorf("%s has not ended within %s", p.Name, within)
	}
	if exit := new(exec.ExitError); p.err != nil && !errors.As(p.err, &exit) {
		return 0, fmt.Errorf("%s: %w", p.Name, p.err)
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

// stopWithin bounds an orderly end.
const stopWithin = time.Minute

// Stop is StopBy with SIGTERM.
func (p *Process) Stop() error { return p.StopBy(syscall.SIGTERM) }

// StopBy sends the signal that ends the process in order. An exit code other than 0 is an error, and so is
// a process that has to be killed after a minute. StopBy does nothing to a process that had ended before, or
// is nil.
func (p *Process) StopBy(s syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := p.Signal(s); err != nil {
		return err
	}
	code, err := p.Wait(stopWithin)
	if err != nil {
		return errors.Join(err, p.Kill())
	}
	if code != 0 {
		return fmt.Errorf("%s ended with exit code %d: %s", p.Name, code, p.Tail())
	}
	return nil
}

// Log is what this process has written so far. It does not include what an earlier
// process wrote to the same file.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[min(p.logStart, int64(len(text))):])
}

// Tail is the end of Log, for an error message.
func (p *Process) Tail() string {
	const length = 4000
	text := strings.TrimSpace(p.Log())
	return text[max(0, len(text)-length):]
}

// Await waits until Log satisfies ready. A process that ends earlier is an error.
func (p *Process) Await(ctx context.Context, within time.Duration, ready func(log string) bool) error {
	return p.AwaitReady(ctx, within, 5*time.Millisecond, func() bool { return ready(p.Log()) })
}

// AwaitReady polls until the process is ready. One that ends earlier is an error.
func (p *Process) AwaitReady(ctx context.Context, within, every time.Duration, ready func() bool) error {
	is := false
	err := Await(ctx, within, every, p.Name+" to be ready", func() (bool, string) {
		alive := p.Alive() // asked first: the last thing that it did may have made it ready
		is = ready()
		return is || !alive, ""
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", err, p.Tail())
	case !is:
		return fmt.Errorf("%s ended: %s", p.Name, p.Tail())
	}
	return nil
}

// Result is the outcome of a program that ran to its end.
type Result struct {
	Args           []string // the program's name first
	Stdout, Stderr string
	Code           int
}

// String shows the call as in a terminal.
func (r Result) String() string {
	return fmt.Sprintf("$ %s\n%s%s(exit %d)", strings.Join(r.Args, " "), r.Stdout, r.Stderr, r.Code)
}

// Run runs a program to its end. An exit code other than 0 is no error here; see [Result.Err].
func Run(cmd *exec.Cmd) (Result, error) {
	r := Result{Args: append([]string{filepath.Base(cmd.Path)}, cmd.Args[1:]...)}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		err = nil
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w: %s", strings.Join(r.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	r.Stdout, r.Stderr, r.Code = stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	return r, nil
}

// Succeed is Run of a program whose exit code has to be 0.
func Succeed(cmd *exec.Cmd) (Result, error) {
	r, err := Run(cmd)
	return r, errors.Join(err, r.Err())
}

// Err is the program's complaint as an error, nil where the exit code is 0.
func (r Result) Err() error {
	if r.Code == 0 {
		return nil
	}
	return fmt.Errorf("%s: exit code %d: %s", strings.Join(r.Args, " "), r.Code, strings.TrimSpace(r.Stdout+r.Stderr))
}

// Ports that stand for any come from below those that the kernel gives to whoever asks for a
// free one, and to outgoing connections, and below those of a server's own parts.
const (
	firstPort    = 10000
	lastPort     = 19999
	portAttempts = 200
)

// FreePorts finds one TCP port of the loopback for each that is wanted; 0 stands for any. Such a
// port is given to no one else who calls FreePorts while this process runs: what listens there
// may be killed and started again, however long that takes.
func FreePorts(wanted ...int) ([]int, error) {
	ports := make([]int, len(wanted))
	for i, port := range wanted {
		l, err := listen(port)
		if port == 0 {
			l, err = listenAnywhere()
		}
		if err != nil {
			return nil, err
		}
		defer l.Close() // until then no other call is given the same port
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// claims are the ports that this process was given, each with the name in the kernel that
// says so to other processes.
var claims struct {
	sync.Mutex
	held []net.Listener
}

// listenAnywhere listens on a port that no one else has or is given.
func listenAnywhere() (l net.Listener, err error) {
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		var claim net.Listener
		if claim, err = net.Listen("unix", fmt.Sprintf("@burnish-test-port-%d", port)); err != nil {
			continue
		}
		if l, err = listen(port); err != nil {
			err = errors.Join(err, claim.Close())
			continue
		}
		claims.Lock()
		defer claims.Unlock()
		claims.held = append(claims.held, claim)
		return l, nil
	}
	return nil, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, err)
}

// FreeAddress is a free port's address, as that of FreePorts.
func FreeAddress() (string, error) {
	ports, err := FreePorts(0)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), nil
}
