package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"burnish/internal/testkit/testlog"
	"burnish/workflows/contract"
)

// Server is one Temporal server with a database file of its own. A restart uses the
// same file and the same port.
type Server struct {
	Address string

	program, dir string
	fast         bool
	process      *Process
	processes    []*Process // all so far
}

// startWithin is generous: a server is ready in less than a second where nothing
// else runs.
const startWithin = 60 * time.Second

// NewServer names a server that keeps everything in dir; fast means that it need not
// survive a power cut, only its own end.
func NewServer(program, dir string, fast bool) *Server {
	return &Server{program: program, dir: dir, fast: fast}
}

var readyLine = regexp.MustCompile(`(?m)^burnish-devserver ready: temporal ([0-9.]+:([0-9]+)),`)

// Start starts the server, or starts it again, and returns when it answers.
func (s *Server) Start() error {
	port := "0"
	if s.Address != "" {
		port = s.Address[len("127.0.0.1:"):]
	}
	args := []string{"--ip", "127.0.0.1", "--port", port, "--ui-port", "0", "--db", filepath.Join(s.dir, "temporal.db")}
	if s.fast {
		args = append(args, "--unsafe-fast")
	}
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	var out testlog.Log
	cmd.Stdout = &out
	process, err := launch("server", filepath.Join(s.dir, "server.log"), cmd)
	if err != nil {
		return err
	}
	s.process, s.processes = process, append(s.processes, process)
	deadline := time.Now().Add(startWithin)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if found := readyLine.FindStringSubmatch(out.String()); found != nil {
			s.Address = found[1]
			return nil
		}
		select {
		case <-process.ended:
			return fmt.Errorf("the server ended: %s", process.tail(5))
		case <-tick.C:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server is not ready within %s: %s", startWithin, process.tail(5))
		}
	}
}

// Kill is kill -9.
func (s *Server) Kill(t testing.TB) { t.Helper(); s.process.Kill(t) }

// Stop ends the server in order, or else by force.
func (s *Server) Stop() {
	_ = s.process.cmd.Process.Signal(syscall.SIGTERM) // it may have ended before
	select {
	case <-s.process.ended:
	case <-time.After(20 * time.Second):
		_ = s.process.cmd.Process.Kill()
		<-s.process.ended
	}
}

// namespaces counts those that tests made.
var namespaces atomic.Int64

// Namespace makes a namespace with Burnish's search attributes: a world of its own
// for one test.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	name := fmt.Sprintf("e2e-%d", namespaces.Add(1))
	c := s.dial(t, name)
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	Await(t, startWithin, "the namespace to take its search attributes", func() (bool, string) {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: name, SearchAttributes: contract.Attributes()})
		return err == nil, fmt.Sprint(err)
	})
	Await(t, startWithin, "the search attributes to be known", func() (bool, string) {
		_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: name, Query: contract.AttrUpdated.GetName() + " IS NULL AND " + contract.AttrState.GetName() + " IS NULL",
		})
		return err == nil, fmt.Sprint(err)
	})
	return name
}

// dial connects a client for the length of the test.
func (s *Server) dial(t testing.TB, namespace string) client.Client {
	t.Helper()
	c, err := client.NewLazyClient(client.Options{HostPort: s.Address, Namespace: namespace, Logger: silent{}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// silent is a Temporal logger that says nothing.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
