package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/grpc"

	"burnish/internal/config"
	"burnish/internal/host"
)

// changing is a server whose database may be replaced by another one.
type changing struct {
	workflowservice.WorkflowServiceClient
	id  string
	err error
}

func (c *changing) GetClusterInfo(context.Context, *workflowservice.GetClusterInfoRequest,
	...grpc.CallOption) (*workflowservice.GetClusterInfoResponse, error) {
	return &workflowservice.GetClusterInfoResponse{ClusterId: c.id}, c.err
}

// guarded is a guard of a state directory at a server, and what ended its worker.
func guarded(t *testing.T, settings config.Worker,
	server *changing) (g *serverGuard, heartbeats *int, ended *[]error, err error) {
	t.Helper()
	c := &mocks.Client{}
	c.On("WorkflowService", mock.Anything).Return(server)
	heartbeats, ended = new(int), &[]error{}
	c.On("RecordActivityHeartbeat", mock.Anything, mock.Anything, mock.Anything).
		Run(func(mock.Arguments) { *heartbeats++ }).Return(nil)
	g, err = newServerGuard(t.Context(), settings, c, "n1", func(err error) { *ended = append(*ended, err) })
	return g, heartbeats, ended, err
}

// F25
func TestAWorkerServesOnlyTheServerOfItsStateDirectory(t *testing.T) {
	w := settings(t)
	server := &changing{id: "c1"}
	g, heartbeats, ended, err := guarded(t, w, server)
	require.NoError(t, err)
	require.NoError(t, g.confirm(t.Context(), []byte("token"), 1))
	require.Equal(t, 1, *heartbeats)

	// A server that does not answer is no other server.
	server.err = errors.New("connection refused")
	require.ErrorContains(t, g.check(t.Context()), "connection refused")
	require.Error(t, g.confirm(t.Context(), []byte("token"), 1))
	require.Empty(t, *ended)

	// Its database is replaced while the worker runs.
	server.id, server.err = "c2", nil
	require.ErrorAs(t, g.confirm(t.Context(), []byte("token"), 1), new(*host.OtherServerError))
	require.Equal(t, 1, *heartbeats, "an answer of another server counts")
	require.Len(t, *ended, 1, "the worker goes on")
	require.ErrorAs(t, (*ended)[0], new(*host.OtherServerError))
	called := false
	report := g.before(task{"reporting", nil, func(context.Context) error { called = true; return nil }})
	require.Error(t, report.do(t.Context()))
	require.False(t, called, "it reports its devices to another server")

	// So does the next start, until an operator accepts the server.
	_, _, _, err = guarded(t, w, server)
	require.ErrorContains(t, err, "cluster c1, namespace n1")
	require.ErrorContains(t, err, "BURNISH_ACCEPT_SERVER=c2/n1")
	w.AcceptServer = "c2/n1"
	_, _, _, err = guarded(t, w, server)
	require.NoError(t, err)
	w.AcceptServer = ""
	_, _, _, err = guarded(t, w, server)
	require.NoError(t, err)
}

// A control worker with Placement keeps nothing in its state directory.
//
// F25
func TestOnlyAWorkerThatUsesItsStateDirectoryTiesIt(t *testing.T) {
	w := settings(t)
	w.Role, w.Inventory = config.RoleControl, placementKind
	_, _, _, err := guarded(t, w, &changing{id: "c1"})
	require.NoError(t, err)
	_, found, err := host.RecordedServer(w.StateDir)
	require.NoError(t, err)
	require.False(t, found)
	w.Inventory = "file"
	_, _, _, err = guarded(t, w, &changing{id: "c1"})
	require.NoError(t, err)
	server, found, err := host.RecordedServer(w.StateDir)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, host.Server{Cluster: "c1", Namespace: "n1"}, server)
}
