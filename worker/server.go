package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/config"
	"burnish/internal/host"
)

// serverCheckInterval is the pause between two checks that the server is still the one that
// the worker started with.
const serverCheckInterval = 30 * time.Second

// clusterTimeout bounds the request for the cluster's ID.
const clusterTimeout = 10 * time.Second

// serverGuard keeps a worker from acting for another server than that of its state directory
// (F25): such a server does not know who has the devices. The server behind an address can be
// replaced while a worker runs, for example by one with another database.
type serverGuard struct {
	temporal sdkclient.Client
	stateDir string
	server   host.Server
	// fatal ends the worker.
	fatal func(error)
}

// newServerGuard ties the state directory to the server, if this worker uses it.
func newServerGuard(ctx context.Context, settings config.Worker, temporal sdkclient.Client, namespace string,
	fatal func(error)) (*serverGuard, error) {
	g := &serverGuard{temporal: temporal, stateDir: settings.StateDir, server: host.Server{Namespace: namespace},
		fatal: fatal}
	var err error
	if g.server.Cluster, err = g.cluster(ctx); err != nil {
		return nil, err
	}
	if !settings.Role.Hosts() && settings.Inventory == placementKind {
		return g, nil // it keeps nothing in its state directory
	}
	return g, host.UseServer(settings.StateDir, g.server, settings.AcceptServer)
}

func (g *serverGuard) cluster(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	cluster, err := g.temporal.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	if err != nil {
		return "", fmt.Errorf("get the ID of the Temporal cluster: %w", err)
	}
	return cluster.GetClusterId(), nil
}

// check asks the server for its ID. Another one than at the start ends the worker.
func (g *serverGuard) check(ctx context.Context) error {
	cluster, err := g.cluster(ctx)
	if err != nil {
		return err
	}
	if cluster == g.server.Cluster {
		return nil
	}
	other := &host.OtherServerError{Dir: g.stateDir, Recorded: g.server,
		Here: host.Server{Cluster: cluster, Namespace: g.server.Namespace}}
	g.fatal(other)
	return other
}

// confirm is an attempt's heartbeat that the server answers. An answer counts only from the
// right server.
func (g *serverGuard) confirm(ctx context.Context, token []byte, details ...any) error {
	if err := g.check(ctx); err != nil {
		return err
	}
	return g.temporal.RecordActivityHeartbeat(ctx, token, details...)
}

// watch checks the server until ctx ends, or until it is another one. A server that does not
// answer is no other server, and the SDK reports it.
func (g *serverGuard) watch(ctx context.Context) error {
	for wait(ctx, serverCheckInterval) {
		if errors.As(g.check(ctx), new(*host.OtherServerError)) {
			return nil // the worker ends
		}
	}
	return ctx.Err()
}

// before has a task check the server first.
func (g *serverGuard) before(t task) task {
	do := t.do
	t.do = func(ctx context.Context) error {
		if err := g.check(ctx); err != nil {
			return err
		}
		return do(ctx)
	}
	return t
}
