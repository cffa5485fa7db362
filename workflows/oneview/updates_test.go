package oneview_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/oneview"
)

// asked runs an appliance's workflow without polls, sends it one update, and gives the answer.
func asked(t *testing.T, do any, name, update string, in any) (answer any, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	env.RegisterWorkflowWithOptions(oneview.OneViewPoll, workflow.RegisterOptions{Name: contract.WorkflowOneView})
	env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow(update, "u1", &testsuite.TestUpdateCallback{
			OnReject:   func(refused error) { err = refused },
			OnAccept:   func() {},
			OnComplete: func(result any, failed error) { answer, err = result, failed },
		}, in)
	}, time.Second)
	env.RegisterDelayedCallback(env.CancelWorkflow, 10*time.Minute)
	env.ExecuteWorkflow(contract.WorkflowOneView, contract.OneViewInput{Appliance: "rack1"})
	require.True(t, env.IsWorkflowCompleted())
	return answer, err
}

// An operator asks who has a server: of this appliance, whatever the request names.
func TestAskWhoHasAServer(t *testing.T) {
	t.Parallel()
	request := contract.PoolRequest{Name: "node1", UUID: "u", Serial: "S",
		Pool: contract.Pool{Appliance: "rack9", Hardware: "/rest/server-hardware/1"}}
	var got contract.PoolRequest
	want := contract.PoolSnapshot{Ownership: device.PoolTaken, Profile: "/rest/server-profiles/1"}
	answer, err := asked(t, func(_ context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
		got = in
		return want, nil
	}, contract.ActivityReadPool, contract.UpdateReadPool, request)
	require.NoError(t, err)
	require.Equal(t, want, answer)
	request.Pool.Appliance = "rack1"
	require.Equal(t, request, got)
}

// A client waits: what fails is tried three times at most, and the client gets the fault.
func TestAskWhoHasAServerFails(t *testing.T) {
	t.Parallel()
	attempts := 0
	_, err := asked(t, func(context.Context, contract.PoolRequest) (contract.PoolSnapshot, error) {
		attempts++
		return contract.PoolSnapshot{},
			temporal.NewApplicationError("it does not answer", string(device.CodeApplianceUnreachable))
	}, contract.ActivityReadPool, contract.UpdateReadPool, contract.PoolRequest{Name: "node1"})
	require.ErrorContains(t, err, "it does not answer")
	require.Equal(t, 3, attempts)
}

func TestAskForServers(t *testing.T) {
	t.Parallel()
	var got contract.ServersInput
	want := contract.Servers{Servers: []contract.PoolServer{{Name: "a"}}, Next: 100}
	answer, err := asked(t, func(_ context.Context, in contract.ServersInput) (contract.Servers, error) {
		got = in
		return want, nil
	}, contract.ActivityFindServers, contract.UpdateServers, contract.ServersInput{Appliance: "rack9", Start: 5,
		Limit: 100, Filter: map[string]string{"name": "a*"}})
	require.NoError(t, err)
	require.Equal(t, want, answer)
	require.Equal(t,
		contract.ServersInput{Appliance: "rack1", Start: 5, Limit: 100, Filter: map[string]string{"name": "a*"}}, got)
}
