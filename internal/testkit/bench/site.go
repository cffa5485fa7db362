package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startWithin bounds the start of each process.
const startWithin = time.Minute

// process is one child of this program. It ends with it.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
}

// launch starts a command with its errors in a log of its own.
func launch(name, dir string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, cmd: cmd, log: filepath.Join(dir, name+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	// A group of its own: Ctrl-C reaches this program alone, which ends the others;
	// and none outlives it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// failed gives an error with the last line of the process's log.
func (p *process) failed(err error) error {
	text, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return fmt.Errorf("%s: %w", p.name, errors.Join(err, readErr))
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s: %w: %s", p.name, err, lines[len(lines)-1])
}

// cpu is the processor time that the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name, in parentheses.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, tick = 11, 12, time.Second / 100
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", p.cmd.Process.Pid, len(fields))
	}
	u, err := strconv.Atoi(fields[user])
	s, err2 := strconv.Atoi(fields[system])
	return time.Duration(u+s) * tick, errors.Join(err, err2)
}

// end stops the process in order and waits for it.
func (p *process) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return p.failed(err)
	}
	return nil
}

// server is a burnish-devserver.
type server struct {
	*process
	address string
}

var readyLine = regexp.MustCompile(`^burnish-devserver ready: temporal (\S+),`)

// startServer starts a server with a database of its own in dir, or, with no dir for
// it, in memory. Its logs go to logs.
func startServer(program, dir, logs string) (*server, error) {
	args := []string{"--port", "0", "--ui-port", "0"}
	if dir != "" {
		args = append(args, "--db", filepath.Join(dir, "temporal.db"))
	}
	cmd := exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := launch("server", logs, cmd)
	if err != nil {
		return nil, err
	}
	line, err := firstLine(out)
	if err != nil {
		return nil, errors.Join(p.failed(err), cmd.Process.Kill(), ignoreExit(cmd.Wait()))
	}
	found := readyLine.FindStringSubmatch(line)
	if found == nil {
		return nil, errors.Join(p.failed(fmt.Errorf("it says %q", line)), cmd.Process.Kill(), ignoreExit(cmd.Wait()))
	}
	return &server{process: p, address: found[1]}, nil
}

// firstLine waits for a line, but not for ever.
func firstLine(out io.Reader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		answered <- answer{line, err}
	}()
	select {
	case a := <-answered:
		return a.line, a.err
	case <-time.After(startWithin):
		return "", fmt.Errorf("not ready within %s", startWithin)
	}
}

func ignoreExit(err error) error {
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return err
}

// workers is a worker process: this same program, started for a task.
type workers struct {
	*process
	in     io.WriteCloser
	memory chan memory
	ready  chan error
	ended  chan struct{} // closed when its reports have ended

	mu       sync.Mutex
	released map[string]chan struct{} // by workflow ID
}

// startWorkers starts a worker process and waits until it polls.
func startWorkers(name, logs string, t task) (*workers, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, workerCommand, "-task", string(text))
	w := &workers{
		memory: make(chan memory, 1), ready: make(chan error, 1), ended: make(chan struct{}),
		released: map[string]chan struct{}{},
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if w.process, err = launch("worker-"+name, logs, cmd); err != nil {
		return nil, err
	}
	go w.read(out)
	select {
	case err = <-w.ready:
	case <-w.ended:
		err = errors.New("it ended")
	case <-time.After(startWithin):
		err = fmt.Errorf("not ready within %s", startWithin)
	}
	if err != nil {
		return nil, errors.Join(w.failed(err), w.end())
	}
	return w, nil
}

// read takes the worker's reports until they end.
func (w *workers) read(out io.Reader) {
	defer close(w.ended)
	for reports := json.NewDecoder(out); ; {
		var r report
		if err := reports.Decode(&r); err != nil {
			return
		}
		switch {
		case r.Error != "":
			w.ready <- errors.New(r.Error)
		case r.Ready:
			w.ready <- nil
		case r.Memory != nil:
			w.memory <- *r.Memory
		default:
			select {
			case w.release(r.Released) <- struct{}{}:
			default: // nobody waits: an enrolment's
			}
		}
	}
}

// release gives the channel on which a device's next return is told.
func (w *workers) release(id string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.released[id] == nil {
		w.released[id] = make(chan struct{}, 1)
	}
	return w.released[id]
}

// measure asks the worker for its memory; swept: after its garbage was collected.
func (w *workers) measure(ctx context.Context, swept bool) (memory, error) {
	if _, err := fmt.Fprintln(w.in, swept); err != nil {
		return memory{}, w.failed(err)
	}
	select {
	case m := <-w.memory:
		return m, nil
	case <-w.ended:
		return memory{}, w.failed(errors.New("it ended"))
	case <-ctx.Done():
		return memory{}, ctx.Err()
	}
}

// end closes the worker's stdin, which is what it ends at, and waits for it.
func (w *workers) end() error {
	if err := w.in.Close(); err != nil {
		return err
	}
	<-w.ended
	if err := w.cmd.Wait(); err != nil {
		return w.failed(err)
	}
	return nil
}
