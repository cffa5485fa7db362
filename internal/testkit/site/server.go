package site

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"burnish/internal/config"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// StartWithin bounds the start of a program. It is generous: a server is ready in less than a second on an
// idle machine, a cluster in ten.
const StartWithin = 3 * time.Minute

// Server is one burnish-devserver. Its fields are read at each Start.
type Server struct {
	Program string
	Dir     string // of its log, and of its database unless InMemory
	// Fast databases survive the end of the server, but no power failure.
	Fast, InMemory bool
	// Port 0 is any free one; the next Start uses it again. UIPort 0 means no Web UI.
	Port, UIPort int
	Detached     bool
	Env          []string

	// Address and Ready, the line that it printed, are set by Start.
	Address, Ready string
	*proc.Process
	// Processes are all so far, the newest last.
	Processes []*proc.Process
}

var readyLine = regexp.MustCompile(`(?m)^burnish-devserver ready: temporal ([0-9.]+:([0-9]+)),.*$`)

// Start starts the server, or starts it again after its end, and returns when it answers.
func (s *Server) Start(ctx context.Context) error {
	if s.Port == 0 {
		ports, err := proc.FreePorts(0)
		if err != nil {
			return err
		}
		s.Port = ports[0]
	}
	args := []string{"--ip", "127.0.0.1", "--port", strconv.Itoa(s.Port), "--ui-port", strconv.Itoa(s.UIPort)}
	if !s.InMemory {
		args = append(args, "--db", filepath.Join(s.Dir, "temporal.db"))
	}
	if s.Fast {
		args = append(args, "--unsafe-fast")
	}
	err := s.start(ctx, args)
	// It picks its internal ports before it listens: another process may have taken one since.
	for again := 0; err != nil && again < 3 && strings.Contains(err.Error(), "bind: address already in use"); again++ {
		err = s.start(ctx, args)
	}
	return err
}

func (s *Server) start(ctx context.Context, args []string) error {
	cmd := exec.Command(s.Program, args...)
	cmd.Env = append(os.Environ(), s.Env...)
	start := proc.Start
	if s.Detached {
		start = proc.StartDetached
	}
	p, err := start("the server", filepath.Join(s.Dir, "server.log"), cmd)
	if err != nil {
		return err
	}
	s.Process, s.Processes = p, append(s.Processes, p)
	if err := p.Await(ctx, StartWithin, readyLine.MatchString); err != nil {
		return err
	}
	found := readyLine.FindStringSubmatch(p.Log())
	s.Ready, s.Address = found[0], found[1]
	s.Port, err = strconv.Atoi(found[2])
	return err
}

// Dial gives a client that connects when it is first used, beside the server as workers are. The caller closes it.
func (s *Server) Dial(namespace string) (client.Client, error) {
	options := client.Options{HostPort: s.Address, Namespace: namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	config.ForWorkers(&options)
	return client.NewLazyClient(options)
}

// NewNamespace registers a namespace with Burnish's search attributes.
func (s *Server) NewNamespace(ctx context.Context, name string) error {
	c, err := s.Dial(name)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		return fmt.Errorf("register the namespace %s: %w", name, err)
	}
	if err := proc.Await(ctx, StartWithin, proc.PollEvery, "the namespace to accept search attributes",
		func() (bool, string) {
			_, err := c.OperatorService().AddSearchAttributes(ctx,
				&operatorservice.AddSearchAttributesRequest{Namespace: name, SearchAttributes: contract.Attributes()})
			return err == nil, fmt.Sprint(err)
		}); err != nil {
		return err
	}
	query := contract.AttrUpdated.GetName() + " IS NULL AND " + contract.AttrState.GetName() + " IS NULL"
	return proc.Await(ctx, StartWithin, proc.PollEvery, "the search attributes to be known", func() (bool, string) {
		_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: name, Query: query})
		return err == nil, fmt.Sprint(err)
	})
}
