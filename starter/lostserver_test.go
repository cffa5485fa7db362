package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"burnish/internal/device"
	"burnish/internal/testkit/frontend"
	"burnish/workflows/contract"
)

// changeMethods are the questions to Temporal that change something.
var changeMethods = []string{"UpdateWorkflowExecution", "ExecuteMultiOperation", "StartWorkflowExecution",
	"SignalWorkflowExecution", "SignalWithStartWorkflowExecution"}

// losing is a run of a command that loses its server.
type losing struct {
	args   []string
	moment string
	got    ran

	mu    sync.Mutex // the end of a connection orders nothing between server and test
	asked []string   // what arrived at the server
}

// name is that of the run's subtest.
func (l *losing) name() string { return l.moment + "/" + strings.Join(l.args, " ") }

// arrived are the questions that arrived at the server.
func (l *losing) arrived() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// changes says that a change arrived.
func (l *losing) changes() bool {
	return slices.ContainsFunc(l.arrived(), func(m string) bool { return slices.Contains(changeMethods, m) })
}

var errAway = errors.New("the server goes away")

// dialTo connects to an address as a command does, whose variables several runs change in turn.
func dialTo(t *testing.T, variables *sync.Mutex, address string) func(*app, context.Context) (deviceClient, error) {
	return func(a *app, ctx context.Context) (deviceClient, error) {
		variables.Lock()
		defer variables.Unlock()
		t.Setenv("TEMPORAL_ADDRESS", address)
		return a.connect(ctx)
	}
}

// noticed asks something, so that the connection knows that its server is away: what is written
// before that may be sent, as far as a client can tell.
func noticed(ctx context.Context, c deviceClient) {
	ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := c.LastPoll(ctx, contract.Queue); err != nil {
			return
		}
	}
}

// accepted is the answer to a change that a device has accepted; done: and carried out.
func accepted(t *testing.T, in any, done *contract.Result) *workflowservice.UpdateWorkflowExecutionResponse {
	asked, ok := in.(*workflowservice.UpdateWorkflowExecutionRequest)
	if !ok {
		return nil
	}
	answer := &workflowservice.UpdateWorkflowExecutionResponse{
		UpdateRef: &updatepb.UpdateRef{WorkflowExecution: asked.WorkflowExecution, UpdateId: asked.Request.Meta.UpdateId},
		Stage:     enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED,
	}
	if done != nil {
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(*done)
		if err != nil {
			t.Error(err)
		}
		answer.Stage = enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED
		answer.Outcome = &updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: payloads}}
	}
	return answer
}

// A server that goes away in the middle of a command is exit code 5, at each moment; that the
// change may still be carried out is said exactly where one arrived.
func TestEveryCommandLosesItsServer(t *testing.T) {
	withoutProfile(t)
	var variables sync.Mutex
	var group sync.WaitGroup
	var all []*losing
	for _, args := range askingServer(t) {
		for _, moment := range []string{"connected", "asked", "accepted"} {
			l := &losing{args: args, moment: moment}
			all = append(all, l)
			server := frontend.Start(t, nil, func(s *frontend.Server, _ string, in any) (any, error) {
				if answer := accepted(t, in, nil); answer != nil && moment == "accepted" {
					return answer, nil
				}
				s.Stop()
				return nil, errAway
			})
			connect := dialTo(t, &variables, server.Address)
			group.Go(func() {
				l.got = askWith(t, func(a *app, ctx context.Context) (deviceClient, error) {
					c, err := connect(a, ctx)
					if moment == "connected" {
						server.Stop()
						noticed(ctx, c)
					}
					return c, err
				}, append(slices.Clone(args), "--timeout", "2s"))
				l.mu.Lock()
				defer l.mu.Unlock()
				l.asked = server.Asked()
			})
		}
	}
	group.Wait()
	arrived := map[string]int{}
	for _, l := range all {
		t.Run(l.name(), func(t *testing.T) {
			t.Log(l.arrived(), l.got.errors)
			require.Equal(t, exitUnreachable, l.got.code, "%s: %+v", l.arrived(), l.got)
			isAccepted := l.moment == "accepted" && slices.Contains(l.arrived(), "PollWorkflowExecutionUpdate")
			require.Equal(t, l.changes() && !isAccepted, strings.Contains(l.got.errors, mayStill), "%s: %+v", l.arrived(), l.got)
			require.Equal(t, isAccepted, strings.Contains(l.got.errors, "accepted, and is still carried out"), "%s: %+v",
				l.arrived(), l.got)
			if l.moment == "connected" {
				require.Empty(t, l.arrived())
			} else {
				require.NotEmpty(t, l.arrived(), "%s: %+v", l.arrived(), l.got)
			}
		})
		if l.changes() {
			arrived[l.moment]++
		}
	}
	require.Greater(t, arrived["asked"], 10, "changes arrive")
}

// Over the API it is the same.
func TestEveryCommandLosesTheAPI(t *testing.T) {
	var group sync.WaitGroup
	var all []*losing
	for _, args := range askingServer(t) {
		if args[0] == "upgrade" { // which the API does not serve
			continue
		}
		for _, moment := range []string{"connected", "asked"} {
			l := &losing{args: args, moment: moment}
			all = append(all, l)
			var server *httptest.Server
			server = httptest.NewServer(versioned(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				what := "read"
				if r.Header.Get("Idempotency-Key") != "" {
					what = changeMethods[0]
				}
				l.mu.Lock()
				l.asked = append(l.asked, what)
				l.mu.Unlock()
				_ = server.Listener.Close()
				panic(http.ErrAbortHandler) // the connection is lost
			}))
			t.Cleanup(server.Close)
			group.Go(func() {
				l.got = askWith(t, func(a *app, ctx context.Context) (deviceClient, error) {
					c, err := a.connect(ctx)
					if moment == "connected" {
						server.Close()
						noticed(ctx, c)
					}
					return c, err
				}, append(slices.Clone(args), "--timeout", "5s", "--api", server.URL))
			})
		}
	}
	group.Wait()
	arrived := 0
	for _, l := range all {
		t.Run(l.name(), func(t *testing.T) {
			t.Log(l.arrived(), l.got.errors)
			require.Equal(t, exitUnreachable, l.got.code, "%s: %+v", l.arrived(), l.got)
			require.Equal(t, l.changes(), strings.Contains(l.got.errors, mayStill), "%s: %+v", l.arrived(), l.got)
			require.Equal(t, l.moment == "asked", len(l.arrived()) > 0, "%s: %+v", l.arrived(), l.got)
		})
		if l.changes() {
			arrived++
		}
	}
	require.Greater(t, arrived, 10, "changes arrive")
}

// A wait whose server goes away says so, also where the end of --timeout is how it is noticed.
func TestAWaitLosesItsServer(t *testing.T) {
	withoutProfile(t)
	var variables sync.Mutex
	server := frontend.Start(t, nil, func(s *frontend.Server, method string, in any) (any, error) {
		if answer := accepted(t, in,
			&contract.Result{Device: contract.DeviceStatus{Name: "d1", DeviceState: device.Cleaning}}); answer != nil {
			return answer, nil
		}
		if method == "DescribeWorkflowExecution" {
			s.Stop()
		}
		return nil, errAway
	})
	got := askWith(t, dialTo(t, &variables, server.Address), []string{"clean", "d1", "--wait", "--timeout", "3s"})
	require.Contains(t, server.Asked(), "DescribeWorkflowExecution", "%+v", got)
	require.Equal(t, exitUnreachable, got.code, "%+v", got)
	require.Contains(t, got.errors, "Temporal stopped answering")
	require.NotContains(t, got.errors, mayStill)
}
