package guest

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Output is what a command in the guest came to.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// agent is this end of the line over which a guest takes commands.
type agent struct {
	line net.Conn

	mu      sync.Mutex
	last    int
	waiting map[int]chan Output
	broken  chan struct{} // closed when nothing more will be answered
}

// greeting is the number of the answer that comes by itself, when the guest is up.
const greeting = 0

func newAgent(line net.Conn) *agent {
	a := &agent{line: line, waiting: map[int]chan Output{}, broken: make(chan struct{})}
	a.waiting[greeting] = make(chan Output, 1)
	go a.listen()
	return a
}

// listen hands out answers until the line breaks.
func (a *agent) listen() {
	defer close(a.broken)
	lines := bufio.NewReader(a.line)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		id, out, err := answer(line)
		if err != nil {
			continue // whoever waits for it will say so
		}
		a.mu.Lock()
		if whom, ok := a.waiting[id]; ok {
			delete(a.waiting, id)
			whom <- out
		}
		a.mu.Unlock()
	}
}

// answer reads "number code o… e…", the last two in base64.
func answer(line string) (id int, out Output, err error) {
	var code, stdout, stderr string
	parts := strings.Fields(line)
	if len(parts) != 4 || parts[2][0] != 'o' || parts[3][0] != 'e' {
		return 0, out, fmt.Errorf("no answer: %q", line)
	}
	code, stdout, stderr = parts[1], parts[2][1:], parts[3][1:]
	id, err = strconv.Atoi(parts[0])
	if err != nil {
		return 0, out, err
	}
	if out.Code, err = strconv.Atoi(code); err != nil {
		return 0, out, err
	}
	said, errOut := base64.StdEncoding.DecodeString(stdout)
	complained, errErr := base64.StdEncoding.DecodeString(stderr)
	out.Stdout, out.Stderr = string(said), string(complained)
	return id, out, errors.Join(errOut, errErr)
}

// ask sends a script and gives where its answer will come.
func (a *agent) ask(script string) (chan Output, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	whom := make(chan Output, 1)
	a.waiting[a.last] = whom
	_, err := io.WriteString(a.line, fmt.Sprintf("%d %s\n", a.last, base64.StdEncoding.EncodeToString([]byte(script))))
	return whom, err
}

func (a *agent) greeted(ctx context.Context, ended <-chan struct{}) error {
	a.mu.Lock()
	whom, ok := a.waiting[greeting]
	a.mu.Unlock()
	if !ok {
		return nil // it was faster
	}
	select {
	case <-whom:
		return nil
	case <-ended:
		return errors.New("it ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *agent) close() { _ = a.line.Close() } // read to its end or not: it is over

// Run runs a script with the guest's shell and gives what it printed; an exit code
// other than 0 is an error too. One script runs at a time, in the order of calls; what
// is put into the background there must not hold its output.
func (g *Guest) Run(ctx context.Context, script string) (Output, error) {
	if g.agent == nil {
		return Output{}, errors.New("the guest was never started")
	}
	whom, err := g.agent.ask(script)
	if err != nil {
		return Output{}, fmt.Errorf("ask the guest: %w", err)
	}
	select {
	case out := <-whom:
		if out.Code != 0 {
			return out, fmt.Errorf("in the guest: %s: exit code %d: %s%s", script, out.Code, out.Stdout, out.Stderr)
		}
		return out, nil
	case <-g.agent.broken:
		return Output{}, fmt.Errorf("the guest ended before it answered: %s", script)
	case <-ctx.Done():
		return Output{}, fmt.Errorf("the guest has not answered: %s: %w", script, ctx.Err())
	}
}

// StopWorker ends the worker with a signal (TERM, KILL) and returns when it is gone.
func (g *Guest) StopWorker(ctx context.Context, signal string) error {
	_, err := g.Run(ctx, "kill -"+signal+" $(cat /run/worker.pid) && while [ -e /run/worker.pid ]; do usleep 20000; done")
	return err
}

// StartWorker starts a worker that has ended, and returns when it polls.
func (g *Guest) StartWorker(ctx context.Context) error {
	g.logged += int64(len(g.WorkerLog()))
	if _, err := g.Run(ctx, "touch /run/worker.start"); err != nil {
		return err
	}
	return g.WaitReady(ctx)
}
