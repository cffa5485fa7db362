package guest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Output is the outcome of a command in the guest.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// agent is this end of the line over which a guest takes commands.
type agent struct {
	mu     sync.Mutex
	line   net.Conn
	in     *bufio.Reader
	number int // of the latest command; 0 is the answer that a guest sends when it is up
}

func newAgent(line net.Conn) *agent { return &agent{line: line, in: bufio.NewReader(line)} }

// bounded gives a function that ends reads and writes of the line with ctx, until it is called.
func (a *agent) bounded(ctx context.Context) (end func(), err error) {
	// An earlier command may have ended with its context.
	if err := a.line.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = a.line.SetDeadline(time.Now()) // the line is closed otherwise
	})
	return func() {
		if !stop() {
			<-set
		}
	}, nil
}

// answer waits for the answer to the latest command.
func (a *agent) answer(ctx context.Context) (Output, error) {
	end, err := a.bounded(ctx)
	if err != nil {
		return Output{}, err
	}
	defer end()
	for {
		text, err := a.in.ReadString('\n')
		if err != nil {
			return Output{}, cmp.Or(context.Cause(ctx), errors.New("the guest ended"))
		}
		// A line of another form is the kernel's; an older number belongs to a command that
		// the caller no longer waits for.
		if number, out, err := parseAnswer(text); err == nil && number == a.number {
			return out, nil
		}
	}
}

// parseAnswer reads "number code o… e…", the last two in base64.
func parseAnswer(line string) (number int, out Output, err error) {
	parts := strings.Fields(line)
	if len(parts) != 4 || parts[2][0] != 'o' || parts[3][0] != 'e' {
		return 0, out, fmt.Errorf("not an answer: %q", line)
	}
	number, err = strconv.Atoi(parts[0])
	code, codeErr := strconv.Atoi(parts[1])
	stdout, outErr := base64.StdEncoding.DecodeString(parts[2][1:])
	stderr, errErr := base64.StdEncoding.DecodeString(parts[3][1:])
	return number, Output{string(stdout), string(stderr), code}, errors.Join(err, codeErr, outErr, errErr)
}

// run sends a script and waits for its answer.
func (a *agent) run(ctx context.Context, script string) (Output, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	encoded := base64.StdEncoding.EncodeToString([]byte(script))
	if err := a.send(ctx, fmt.Sprintf("%d %s\n", a.number, encoded)); err != nil {
		return Output{}, err
	}
	return a.answer(ctx)
}

// send writes a line, which a guest that reads nothing does not take.
func (a *agent) send(ctx context.Context, text string) error {
	end, err := a.bounded(ctx)
	if err != nil {
		return err
	}
	defer end()
	if _, err := io.WriteString(a.line, text); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// runWithin bounds a script in a guest.
const runWithin = 10 * time.Minute

// Run runs a script with the guest's shell and gives what it printed; an exit code
// other than 0 is an error too. One script runs at a time, for 10 minutes at most. A
// background process of the script must not keep its output open.
func (g *Guest) Run(ctx context.Context, script string) (Output, error) {
	if g.agent == nil {
		return Output{}, errors.New("the guest was never started")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("no answer within %s", runWithin))
	defer cancel()
	out, err := g.agent.run(ctx, script)
	if err != nil {
		return out, fmt.Errorf("in the guest: %s: %w", script, err)
	}
	if out.Code != 0 {
		return out, fmt.Errorf("in the guest: %s: exit code %d: %s%s", script, out.Code, out.Stdout, out.Stderr)
	}
	return out, nil
}
