package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/config"
	"burnish/internal/nova"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// every is the tests' pause between reconciliations.
const every = time.Minute

// recorded is a cloud that records its requests.
func recorded(t *testing.T, hosts map[string]string) (*cloud, func() []contract.ReconcileRequest) {
	t.Helper()
	var requests []contract.ReconcileRequest
	temporal := mocks.NewClient(t)
	temporal.On("SignalWithStartWorkflow", mock.Anything, "placement/west", contract.SignalReconcileNow, mock.Anything,
		mock.Anything, contract.WorkflowInventoryReconcile, contract.InventoryReconcileInput{Cloud: "West", Interval: every}).
		Run(func(args mock.Arguments) {
			request, ok := args.Get(3).(contract.ReconcileRequest)
			require.True(t, ok)
			requests = append(requests, request)
		}).Return(sdkclient.WorkflowRun(nil), nil).Maybe()
	return &cloud{name: "West", every: every, hosts: hosts, temporal: client.New(temporal), moved: make(chan struct{}, 1)},
		func() []contract.ReconcileRequest { return requests }
}

// A batch of notifications requests one reconciliation of the hosts and instances that it
// names, with Burnish's names of hosts.
//
// S0.29
func TestABatchRequestsOneReconciliation(t *testing.T) {
	c, requests := recorded(t, map[string]string{"nova-1": "h1"})
	require.NoError(t, c.onNotifications(t.Context(), []nova.Event{
		{Type: "instance.delete.end", Instance: "i1", Hosts: []string{"nova-1", "h2"}},
		{Type: "instance.delete.end", Instance: "i1", Hosts: []string{"h2"}},
		{Type: "instance.create.end", Instance: "i2", Hosts: []string{"h1"}},
	}))
	require.Equal(t,
		[]contract.ReconcileRequest{{Source: "nova", Hosts: []string{"h1", "h2"}, Instances: []string{"i1", "i2"}}},
		requests())
	require.Empty(t, c.moved)
}

// Nova's notification of a move comes too early, so one more reconciliation follows.
func TestAMoveIsReconciledTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, requests := recorded(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.reconcileAfterMove(ctx) }()
		move := []nova.Event{{Type: "instance.live_migration_post.end", Instance: "i1", Hosts: []string{"h1"},
			AllHosts: true}}
		require.NoError(t, c.onNotifications(ctx, move))
		require.NoError(t, c.onNotifications(ctx, move))
		<-time.After(moveSettleTime - time.Millisecond) // by a clock that is the test's own
		synctest.Wait()
		require.Len(t, requests(), 2)
		<-time.After(2 * moveSettleTime)
		synctest.Wait()
		all := requests()
		require.LessOrEqual(t, len(all), 4)
		require.Equal(t, contract.ReconcileRequest{Source: "nova", Full: true}, all[2])
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// A control worker that starts requests a reconciliation, and sets the interval.
//
// S0.30
func TestAStartRequestsAReconciliation(t *testing.T) {
	c, requests := recorded(t, nil)
	tasks := cloudTasks(config.Worker{Inventory: "placement", Cloud: "West", SweepInterval: time.Minute}, c.temporal, nil)
	require.Len(t, tasks, 1, "no broker, no listener")
	require.NoError(t, tasks[0].do(t.Context()))
	interval := every
	require.Equal(t, []contract.ReconcileRequest{{Source: "worker start", Interval: &interval}}, requests())
	require.Len(t, cloudTasks(config.Worker{Inventory: "file", NovaBroker: "amqp://nova"}, c.temporal, nil), 1,
		"files are reconciled too, and Nova does not write them")
}

// Notifications from before the connection may be lost: all devices are reconciled.
//
// S0.30
func TestAConnectedListenerRequestsAReconciliation(t *testing.T) {
	c, requests := recorded(t, nil)
	require.NoError(t, c.onConnected(t.Context()))
	require.Equal(t, []contract.ReconcileRequest{{Source: "listening", Full: true}}, requests())
}
