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

// losing is a run of a command that loses its server, with what arrived there.
type losing struct {
	args   []string
	moment string
	got    ran
	asked  []string
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

// loseAll has each command lose its server at each of the moments, all at once. prepare gives the
// run of one; nil: it is not for this server. The exit code is 5, and that the change may still be
// carried out is said exactly where one arrived.
func loseAll(t *testing.T, moments []string, prepare func(l *losing) func() ran) {
	var group sync.WaitGroup
	var all []*losing
	for _, args := range askingServer(t) {
		for _, moment := range moments {
			l := &losing{args: args, moment: moment}
			if run := prepare(l); run != nil {
				all = append(all, l)
				group.Go(func() { l.got = run() })
			}
		}
	}
	group.Wait()
	changed := 0
	for _, l := range all {
		t.Run(l.moment+"/"+strings.Join(l.args, " "), func(t *testing.T) {
			t.Log(l.asked, l.got.errors)
			require.Equal(t, exitUnreachable, l.got.code, "%s: %+v", l.asked, l.got)
			changes := slices.ContainsFunc(l.asked, func(m string) bool { return slices.Contains(changeMethods, m) })
			isAccepted := l.moment == "accepted" && slices.Contains(l.asked, "PollWorkflowExecutionUpdate")
			require.Equal(t, changes && !isAccepted, strings.Contains(l.got.errors, mayStill), "%s: %+v", l.asked, l.got)
			require.Equal(t, isAccepted, strings.Contains(l.got.errors, "accepted, and is still carried out"), "%s: %+v",
				l.asked, l.got)
			require.Equal(t, l.moment != "connected", len(l.asked) > 0, "%s: %+v", l.asked, l.got)
			if changes && l.moment == "asked" {
				changed++
			}
		})
	}
	require.Greater(t, changed, 10, "changes arrive")
}

func TestEveryCommandLosesItsServer(t *testing.T) {
	withoutProfile(t)
	var variables sync.Mutex
	loseAll(t, []string{"connected", "asked", "accepted"}, func(l *losing) func() ran {
		server := frontend.Start(t, nil, func(s *frontend.Server, _ string, in any) (any, error) {
			if answer := accepted(t, in, nil); answer != nil && l.moment == "accepted" {
				return answer, nil
			}
			s.Stop()
			return nil, errAway
		})
		connect := dialTo(t, &variables, server.Address)
		return func() ran {
			defer func() { l.asked = server.Asked() }()
			return askWith(t, func(a *app, ctx context.Context) (deviceClient, error) {
				c, err := connect(a, ctx)
				if l.moment == "connected" {
					server.Stop()
					noticed(ctx, c)
				}
				return c, err
			}, append(slices.Clone(l.args), "--timeout", "2s"))
		}
	})
}

// Over the API it is the same.
func TestEveryCommandLosesTheAPI(t *testing.T) {
	loseAll(t, []string{"connected", "asked"}, func(l *losing) func() ran {
		if l.args[0] == "upgrade" { // which the API does not serve
			return nil
		}
		var server *httptest.Server
		var mu sync.Mutex // the end of a connection orders nothing between server and test
		var asked []string
		server = httptest.NewServer(versioned(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			what := "read"
			if r.Header.Get("Idempotency-Key") != "" {
				what = changeMethods[0]
			}
			mu.Lock()
			asked = append(asked, what)
			mu.Unlock()
			_ = server.Listener.Close()
			panic(http.ErrAbortHandler) // the connection is lost
		}))
		t.Cleanup(server.Close)
		return func() ran {
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				l.asked = asked
			}()
			return askWith(t, func(a *app, ctx context.Context) (deviceClient, error) {
				c, err := a.connect(ctx)
				if l.moment == "connected" {
					server.Close()
					noticed(ctx, c)
				}
				return c, err
			}, append(slices.Clone(l.args), "--timeout", "5s", "--api", server.URL))
		}
	})
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
