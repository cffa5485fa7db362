package openstack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"burnish/internal/testkit/proc"
)

// A start of Placement or Keystone is mostly the import of Python's modules: two to three
// seconds of processor time (measured). One process of each kind imports them once for all
// tests of a package, and forks for each start.

// forkServer imports the module of its first argument, and forks for each line that it reads:
// the child has the files, the folder and the environment that the line names, and is
// the program with these arguments. Its server queues more connections than the 5 of wsgiref:
// with eight clients at once the kernel would let some retry after seconds, or time out.
const forkServer = `
import ctypes, importlib, json, os, runpy, signal, socketserver, sys, traceback
socketserver.TCPServer.request_queue_size = 128
importlib.import_module(sys.argv[1])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
parent = os.getpid()
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    try:
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # it ends with its parent
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.setpgid(0, 0)
        os.chdir(job["dir"])
        os.environ.clear()
        os.environ.update(job["env"])
        sys.argv = job["args"]
        runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)
`

// forker is one process of forkServer.
type forker struct {
	module string

	mu      sync.Mutex
	err     error
	jobs    io.WriteCloser
	answers *bufio.Reader
}

var (
	placementForker = &forker{module: "placement.wsgi"}
	keystoneForker  = &forker{module: "keystone.server.wsgi"}
)

// start starts a program; env are pairs "NAME=value", log is the file that it appends to.
func (f *forker) start(dir, log string, env, args []string) (*forked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs == nil && f.err == nil {
		f.err = f.begin()
	}
	if f.err != nil {
		return nil, f.err
	}
	pairs := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		pairs[name] = value
	}
	p := &forked{log: log}
	if info, err := os.Stat(log); err == nil {
		p.logStart = info.Size()
	}
	job := map[string]any{"dir": dir, "log": log, "env": pairs, "args": args}
	if err := json.NewEncoder(f.jobs).Encode(job); err != nil {
		return nil, fmt.Errorf("fork %s: %w", f.module, err)
	}
	if _, err := fmt.Fscanln(f.answers, &p.pid); err != nil {
		return nil, fmt.Errorf("fork %s: %w", f.module, err)
	}
	return p, nil
}

// begin starts the process, which ends with this one.
func (f *forker) begin() error {
	cmd := exec.Command(python, "-c", forkServer, f.module)
	cmd.Env = cleanEnvironment()
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close() // the process has its own copy
	cmd.Stdout = in
	if f.jobs, err = cmd.StdinPipe(); err != nil {
		return err
	}
	f.answers = bufio.NewReader(out)
	_, err = proc.Start(f.module, "/dev/stderr", cmd)
	return err
}

// forked is one program that a forker started.
type forked struct {
	pid      int
	log      string
	logStart int64 // the log's size before this program wrote to it
}

// alive says whether the program still runs. Its parent ignores SIGCHLD, so that no zombie
// stays of it.
func (p *forked) alive() bool { return syscall.Kill(p.pid, 0) == nil }

// kill is kill -9. It returns when the program has ended.
func (p *forked) kill() error {
	if p == nil {
		return nil
	}
	return proc.Await(context.Background(), time.Minute, time.Millisecond, "a program to end", func() (bool, string) {
		err := syscall.Kill(p.pid, syscall.SIGKILL)
		return errors.Is(err, syscall.ESRCH), fmt.Sprint(err)
	})
}

// tail is the end of what the program wrote.
func (p *forked) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	text = text[min(p.logStart, int64(len(text))):]
	return string(text[max(0, len(text)-3000):])
}
